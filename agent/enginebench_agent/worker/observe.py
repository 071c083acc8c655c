"""What the kernel saw this process do: threads that worked, processor time, peak memory, instruction sets."""

import os
import time
from collections.abc import Mapping
from pathlib import Path

PROC_SELF = Path("/proc/self")
CPUINFO = Path("/proc/cpuinfo")

WORKING_SHARE = 0.05
"""A thread counts as working when it used this share of the busiest thread's processor time."""

# From the widest down, as /proc/cpuinfo spells them on x86-64 ("flags") and on ARM ("Features").
_INSTRUCTION_SETS = ("amx_tile", "avx512f", "avx2", "avx", "sse4_2", "sve2", "sve", "asimd", "neon")


def thread_times_ns(proc: Path = PROC_SELF) -> dict[int, int] | None:
    """Processor time of every live thread, in nanoseconds, by thread id; None where the kernel does not tell."""
    times: dict[int, int] = {}
    for task in (proc / "task").iterdir() if (proc / "task").is_dir() else ():
        try:
            times[int(task.name)] = int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):  # the thread ended meanwhile, or no such statistic
            continue
    return times or None


def working_threads(before: Mapping[int, int] | None, after: Mapping[int, int] | None) -> int | None:
    """How many threads did the work between two readings of `thread_times_ns`; None where there is no reading."""
    if before is None or after is None:
        return None
    used = [total - before.get(thread, 0) for thread, total in after.items()]
    busiest = max(used)
    return sum(time_ns >= WORKING_SHARE * busiest for time_ns in used) if busiest > 0 else None


def process_cpu_time_ns() -> int:
    """Processor time of this process so far, all its threads, in nanoseconds."""
    return time.process_time_ns()


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


def widest_instruction_set(cpuinfo: Path = CPUINFO) -> str | None:
    """The widest instruction set of the first processor, such as "avx2"; None where the kernel does not tell."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    flags = next((line.split() for line in lines if line.startswith(("flags", "Features"))), [])
    return next((name for name in _INSTRUCTION_SETS if name in flags), None)
