"""What the kernel saw this process do: threads that worked, processor time, peak memory."""

import contextlib
import os
import resource
import time
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

PROC_SELF = Path("/proc/self")

WORKING_SHARE = 0.05
"""A thread counts as working when it used this share of the busiest thread's processor time."""


def thread_times_ns(proc: Path = PROC_SELF) -> dict[int, int] | None:
    """Processor time of every live thread, of what this process started too, in nanoseconds, by thread id.

    None where the kernel does not tell.
    """
    times: dict[int, int] = {}
    for task in tasks(proc):
        try:
            times[int(task.name)] = int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):  # the thread ended meanwhile, or no such statistic
            continue
    return times or None


def working_threads(
    before: Mapping[int, int] | None, after: Mapping[int, int] | None, ours: Collection[int] = ()
) -> int | None:
    """How many threads did the work between two readings of `thread_times_ns`; None where there is no reading.

    Those that are `ours` hand the work out and count times, unless nobody else did it.
    """
    if before is None or after is None:
        return None
    used = {thread: total - before.get(thread, 0) for thread, total in after.items()}
    least = WORKING_SHARE * max(used.values())
    worked = {thread for thread, time_ns in used.items() if time_ns >= least > 0}
    return len(worked.difference(ours) or worked) or None


def process_cpu_time_ns() -> int:
    """Processor time so far of this process, all its threads, and of what it started, in nanoseconds.

    An engine may compute in processes of its own; of those, one that left its parent is not found.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended_ns = round((ended.ru_utime + ended.ru_stime) * 1e9)
    return time.process_time_ns() + ended_ns + sum(map(_cpu_time_ns, _descendants()))


def tasks(proc: Path = PROC_SELF) -> Iterator[Path]:
    """The folders in /proc of every thread of this process and of what it started."""
    started = [Path(f"/proc/{pid}") for pid in _descendants()] if proc == PROC_SELF else []
    for process in (proc, *started):
        with contextlib.suppress(OSError):  # it ended meanwhile
            yield from (process / "task").iterdir()


def threads(pid: int) -> list[str]:
    """The numbers of a process's threads, its first one's first; none of one that is gone."""
    try:
        return os.listdir(f"/proc/{pid}/task")  # noqa: PTH208  # at each turn: a third of the time
    except OSError:
        return []


def children(pid: int) -> Iterator[int]:
    """Its child processes, by the thread that started each; none where the kernel does not list them."""
    for thread in threads(pid):
        with contextlib.suppress(OSError):
            yield from map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())


def _descendants() -> Iterator[int]:
    try:  # half a microsecond: most engines start nobody
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except (AttributeError, ChildProcessError):
        return
    pids = list(children(os.getpid()))
    for pid in pids:
        yield pid
        pids += children(pid)


def _cpu_time_ns(pid: int) -> int:
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)  # clock_getcpuclockid(3), which Python does not have
    except OSError:  # it is gone
        return 0


def written_bytes() -> int | None:
    """What this process, and what it started and still lives, wrote to storage; None where the kernel does not tell.

    Files in memory (tmpfs) do not count: no flash wears by them.
    """
    found = [_written_bytes(process) for process in (PROC_SELF, *(Path(f"/proc/{pid}") for pid in _descendants()))]
    return None if found[0] is None else sum(one or 0 for one in found)


def _written_bytes(process: Path) -> int | None:
    try:
        told = dict(line.split(": ") for line in (process / "io").read_text().splitlines())
        return int(told["write_bytes"])
    except (OSError, ValueError, KeyError):  # proc(5): a kernel without the accounting of tasks' input and output
        return None


def reset_peak_rss(proc: Path = PROC_SELF) -> bool:
    """Let the kernel count the peak of the resident set anew; False where it does not allow that."""
    try:
        (proc / "clear_refs").write_text("5")  # proc(5): resets VmHWM to the current resident set
    except OSError:
        return False
    return True


def peak_rss_bytes(proc: Path = PROC_SELF) -> int | None:
    """Highest resident set since the last reset, in bytes; None where the kernel does not tell."""
    try:
        lines = (proc / "status").read_text().splitlines()
    except OSError:
        return None
    peaks = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
    return int(peaks[0]) * 1024 if peaks else None


def affinity() -> tuple[int, ...]:
    """Logical processors this process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))
