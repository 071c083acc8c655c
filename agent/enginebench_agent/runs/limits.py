"""What one child may take of the machine and see of it, imposed from outside, and how much memory it holds.

From outside, because code between fork and exec (`preexec_fn`) is not safe in a process that serves gRPC, and because
an engine cannot leave out what it does not do itself. The interpreter is still starting when the limits take effect.
"""

import contextlib
import os
import resource
import shutil
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from enginebench_agent.data_folder import DataFolder
from enginebench_agent.sizes import shown_size
from enginebench_proto.v1.measurement_pb2 import Phase


@dataclass(frozen=True)
class Sandbox:
    """The program `bwrap`, the folders of secrets that no child may look into, and where engines keep their caches."""

    program: Path
    hidden: tuple[Path, ...]
    caches: Path

    def hiding(self, folder: Path) -> "Sandbox":
        """The same with one more folder hidden."""
        return replace(self, hidden=(*self.hidden, folder))

    def words(self) -> list[str]:
        """The same on a worker's command line."""
        hiding = [word for folder in self.hidden for word in ("--hide", str(folder.absolute()))]
        return ["--sandbox", str(self.program), "--caches", str(self.caches.absolute()), *hiding]


def find_sandbox(folder: DataFolder) -> Sandbox | None:
    """What the children of the agent in this data folder are shut in with, None without `bwrap` on PATH.

    The home of a controller is hidden where a variable names one: its keys and results may lie beside the data folder.
    """
    if (program := shutil.which("bwrap")) is None:
        return None
    home = os.environ.get("ENGINEBENCH_HOME")
    return Sandbox(Path(program), (folder.root, *([Path(home)] if home else [])), folder.caches)


CPU_GRACE_SECONDS = 5
"""After SIGXCPU, which a process may ignore, so much processor time is left until SIGKILL."""

RESERVED_BYTES = 1024**3
"""Private memory that a process may reserve beyond what it may hold: stacks of threads and pools that it never fills.
Whoever does fill them is found by `resident`; this bound is for the one allocation that would take all at once."""

FIRST_TO_GO = "1000"
"""The highest score: where memory runs out all the same, the kernel takes the child and not the agent."""


@dataclass(frozen=True)
class ChildLimits:
    """Bounds of one child; None is no bound.

    `memory_bytes` bounds what it holds and not its address space, of which engines and GPU drivers reserve far more.
    `network`: whether it may stay in the machine's network. `sandbox`: what it is shut in with.
    The sentences are ends of one, and "" without a bound.
    """

    memory_bytes: int | None = None
    file_bytes: int | None = None
    cpu_seconds: int | None = None
    network: bool = False
    sandbox: Sandbox | None = None

    def within(self, seconds: float) -> "ChildLimits":
        """These limits for a child that may live so long: without a bound of its own, all processors all the time."""
        return replace(self, cpu_seconds=self.cpu_seconds or ceil(seconds * (os.cpu_count() or 1)))

    @property
    def memory_sentence(self) -> str:
        """How much memory it may hold, and where to raise that."""
        return "" if self.memory_bytes is None else _allowed(shown_size(self.memory_bytes), "max_memory_bytes")

    @property
    def file_sentence(self) -> str:
        """How large a file of it may be, and where to raise that."""
        return "" if self.file_bytes is None else _allowed(shown_size(self.file_bytes), "max_file_bytes")

    @property
    def cpu_sentence(self) -> str:
        """How much processor time it has, and where to raise that."""
        return "" if self.cpu_seconds is None else _allowed(f"{self.cpu_seconds} s", "max_cpu_seconds")


NO_LIMITS = ChildLimits()


def impose(pid: int, limits: ChildLimits) -> None:
    """Bind a process of ours, and all it will start, to its limits. Harmless when it is gone.

    None can be raised again by it, unless it is root's. None costs time within an inference: the kernel compares a
    number where memory is mapped, a file grows, or a tick of processor time is accounted anyway.
    """
    with contextlib.suppress(ProcessLookupError):
        _limit(pid, resource.RLIMIT_CORE, 0, 0)  # it would hold the model and its inputs
        if limits.memory_bytes is not None:
            data_bytes = limits.memory_bytes + RESERVED_BYTES
            _limit(pid, resource.RLIMIT_DATA, data_bytes, data_bytes)
        if limits.file_bytes is not None:
            _limit(pid, resource.RLIMIT_FSIZE, limits.file_bytes, limits.file_bytes)
        if limits.cpu_seconds is not None:
            _limit(pid, resource.RLIMIT_CPU, limits.cpu_seconds, limits.cpu_seconds + CPU_GRACE_SECONDS)
    with contextlib.suppress(OSError):  # gone, or a kernel without it
        Path(f"/proc/{pid}/oom_score_adj").write_text(FIRST_TO_GO)


def _limit(pid: int, kind: int, soft: int, hard: int) -> None:
    _, highest = resource.prlimit(pid, kind)
    if highest != resource.RLIM_INFINITY:  # nobody but root may raise what the agent itself was given
        soft, hard = min(soft, highest), min(hard, highest)
    resource.prlimit(pid, kind, (soft, hard))


def imposed() -> ChildLimits:
    """The limits of this very process, read back by a child; never the processor's, which end it without a word."""
    data_bytes, _ = resource.getrlimit(resource.RLIMIT_DATA)
    file_bytes, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    return ChildLimits(
        memory_bytes=None if data_bytes == resource.RLIM_INFINITY else data_bytes - RESERVED_BYTES,
        file_bytes=None if file_bytes == resource.RLIM_INFINITY else file_bytes,
    )


def _allowed(how_much: str, key: str) -> str:
    return f": the agent allows it {how_much} ({key} in its agent.toml)"


SAMPLE_SECONDS = 0.1
TIMED_PHASE = "steady_state"
TIMED_SAMPLE_SECONDS = 0.5
"""Every reading takes a processor from the inferences that are being timed, and this phase's peak the kernel keeps."""

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class ResidentSet:
    """The highest resident set of a process seen in each phase. `proc` stands for /proc.

    `max_bytes` bounds what it holds, swapped out or not, pages of mapped files left out: those go when others need
    room. `sleep` waits so many seconds, or longer while the process rests and cannot grow.
    """

    def __init__(
        self,
        pid: int,
        sleep: Callable[[float], Awaitable[None]],
        proc: Path = Path("/proc"),
        max_bytes: int | None = None,
    ) -> None:
        self._proc = proc
        self._sleep = sleep
        self._phase = ""
        self._max_bytes = max_bytes
        self._has_swap = _has_swap(proc / "swaps")
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
        if self._max_bytes is None or (resident_bytes <= self._max_bytes and not self._has_swap):
            return True
        return _held_bytes(self._status_file) <= self._max_bytes

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


def _has_swap(file: Path) -> bool:
    """Whether the machine may put memory elsewhere: the first line of /proc/swaps is a heading."""
    try:
        return len(file.read_text().splitlines()) > 1
    except OSError:
        return False


_HELD = ("RssAnon", "RssShmem", "VmSwap")


def _held_bytes(status_file: Path) -> int:
    """Private memory, swapped out or not, and shared memory that is no file's; 0 where the kernel does not tell."""
    try:
        fields = dict(line.split(":", 1) for line in status_file.read_text().splitlines())
        return sum(int(fields[name].split()[0]) * 1024 for name in _HELD if name in fields)
    except (OSError, ValueError):
        return 0
