"""How much memory a child holds, seen from outside: the peak of each phase, and whether it is more than it may."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from enginebench_proto.v1.measurement_pb2 import Phase

SAMPLE_SECONDS = 0.1
TIMED_PHASE = "steady_state"
TIMED_SAMPLE_SECONDS = 0.5
"""Every reading takes a processor from the inferences that are being timed, and this phase's peak the kernel keeps."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ResidentSet:
    """The highest resident set of a process seen in each phase. `proc` stands for /proc.

    `max_bytes` bounds what it holds, pages of mapped files left out: those go when others need room. `sleep` waits so
    many seconds, or longer while the process rests and cannot grow.
    """

    def __init__(
        self,
        pid: int,
        proc: Path = Path("/proc"),
        max_bytes: int | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._proc = proc
        self._sleep = sleep
        self._phase = ""
        self._max_bytes = max_bytes
        self._peaks: defaultdict[str, int] = defaultdict(int)
        self.follow(pid)

    def follow(self, pid: int) -> None:
        """Read this process from now on."""
        # statm, not status: one line without a lock on the child's address space, some 10 µs a reading.
        self._file = self._proc / str(pid) / "statm"
        self._status_file = self._proc / str(pid) / "status"

    def enter(self, phase: str) -> None:
        """A phase begins, and what the process holds now is of both."""
        self.sample()
        self._phase = phase
        self.sample()

    def sample(self) -> bool:
        """Take a reading, none of a process that is gone; returns whether it holds no more than it may."""
        if (resident_bytes := _resident_bytes(self._file)) is None:
            return True
        self._peaks[self._phase] = max(self._peaks[self._phase], resident_bytes)
        if self._max_bytes is None or resident_bytes <= self._max_bytes:
            return True
        return (_without_files_bytes(self._status_file) or 0) <= self._max_bytes

    async def sample_until_exceeded(self) -> None:
        """Take a reading every `SAMPLE_SECONDS`, while inferences are timed every `TIMED_SAMPLE_SECONDS`.

        Returns when the process holds more than it may.
        """
        while self.sample():
            await self._sleep(TIMED_SAMPLE_SECONDS if self._phase == TIMED_PHASE else SAMPLE_SECONDS)

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


def _without_files_bytes(status_file: Path) -> int | None:
    """Private memory and shared memory that is no file's."""
    try:
        fields = dict(line.split(":", 1) for line in status_file.read_text().splitlines())
        return sum(int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssShmem"))
    except (OSError, KeyError, ValueError):
        return None
