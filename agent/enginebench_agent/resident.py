"""How much memory a child held in each of its phases, seen from outside, for kernels that let no child tell it."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from enginebench_proto.v1.measurement_pb2 import Phase

SAMPLE_SECONDS = 0.1

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ResidentSet:
    """The highest resident set of a process seen in each phase. `proc` stands for /proc."""

    def __init__(self, pid: int, proc: Path = Path("/proc")) -> None:
        # statm, not status: one line without a lock on the child's address space, some 10 µs a reading.
        self._file = proc / str(pid) / "statm"
        self._phase = ""
        self._peaks: defaultdict[str, int] = defaultdict(int)

    def enter(self, phase: str) -> None:
        """A phase begins, and what the process holds now is of both."""
        self.sample()
        self._phase = phase
        self.sample()

    def sample(self) -> None:
        """Take a reading; none of a process that is gone."""
        if (resident_bytes := _resident_bytes(self._file)) is not None:
            self._peaks[self._phase] = max(self._peaks[self._phase], resident_bytes)

    async def sample_forever(self) -> None:
        """Take a reading every `SAMPLE_SECONDS` until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    def fill(self, phases: Iterable[Phase]) -> None:
        """Tell the peak of each phase that does not know its own."""
        for phase in phases:
            if not phase.HasField("peak_rss_bytes") and phase.name in self._peaks:
                phase.peak_rss_bytes = self._peaks[phase.name]


def _resident_bytes(file: Path) -> int | None:
    try:
        return int(file.read_text().split()[1]) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return None
