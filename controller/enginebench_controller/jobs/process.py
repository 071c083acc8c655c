"""Which process carries a job out, told apart from any other that has its number later."""

from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_GONE = ("Z", "X")


@dataclass(frozen=True)
class ProcessIdentity:
    """A process by its number, the clock tick since boot at which it started, and the boot that is counted from."""

    pid: int
    started_ticks: int
    boot_id: str

    @property
    def is_alive(self) -> bool:
        """Whether this very process still runs; one that only waits to be reaped does not."""
        return identify(self.pid) == self


def identify(pid: int) -> ProcessIdentity | None:
    """The process that has this number now; None where none runs."""
    try:
        status = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        boot_id = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
    except OSError:
        return None
    # proc_pid_stat(5): the name stands in brackets and may hold anything; field 3 is the state, field 22 the start.
    state, *fields = status.rpartition(")")[2].split()
    return None if state in _GONE else ProcessIdentity(pid, int(fields[18]), boot_id)
