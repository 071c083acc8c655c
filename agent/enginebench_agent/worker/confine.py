"""Confines this process before an engine is imported: its network, which cores it runs on, how many threads libraries
start.
"""

import contextlib
import ctypes
import os
import signal
from pathlib import Path

from enginebench_agent.cgroup import cpu_quota_cores
from enginebench_agent.cores import physical_cores, usable_cores
from enginebench_plugins.spec import UnsupportedSettingsError

_PR_SET_PDEATHSIG = 1
CLONE_NEWUSER = 0x1000_0000
_CLONE_NEWNET = 0x4000_0000
PROC_SELF = Path("/proc/self")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def die_with_parent() -> None:
    """Ask the kernel to kill this process when the thread that started it ends. Does nothing outside Linux."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def leave_network() -> str:
    """Move this process into a network of its own that leads nowhere; returns why that cannot be, "" where it can.

    Only for a process with a single thread. Without the right to do so it takes a namespace of users along; files,
    devices, processors and the counters of the kernel stay the same.
    """
    return ask_kernel("unshare", _CLONE_NEWNET) and give_up_rights(_CLONE_NEWNET)


def give_up_rights(besides: int = 0) -> str:
    """Move this process into a namespace of users, where it stays who it is, without rights outside.

    `besides` are flags of other namespaces to move into. Returns why that cannot be, "" where it can.
    """
    user, group = os.getuid(), os.getgid()
    if refusal := ask_kernel("unshare", CLONE_NEWUSER | besides):
        return refusal
    for file, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with contextlib.suppress(OSError):  # then it is nobody by name, with the same rights
            (PROC_SELF / file).write_text(text)
    return ""


def ask_kernel(name: str, *arguments: int) -> str:
    """Call a function of the C library that concerns namespaces; returns why it failed, "" where it did not."""
    function = getattr(ctypes.CDLL(None, use_errno=True), name, None)
    if function is None:
        return "this system has no namespaces"
    if function(*arguments) != 0:
        return f"the kernel refuses a namespace ({os.strerror(ctypes.get_errno()).lower()})"
    return ""


def confine_to_cores(cores: int, root: Path = Path("/")) -> tuple[int, ...]:
    """Bind this process and all its future threads to `cores` physical cores; returns the logical processors.

    One logical processor of each core: two hyper-threads on one core are not two cores. Also limits the thread pools
    that read the environment when they are loaded, NumPy's among them. `root` is the root of /proc and /sys.
    Raises `UnsupportedSettingsError` when there are fewer cores, when the control group's quota grants less processor
    time, or for none.
    """
    available = physical_cores(os.sched_getaffinity(0), root)
    _refuse_too_many(cores, len(available), cpu_quota_cores(root))
    os.sched_setaffinity(0, available[:cores])
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, str(cores)))
    return tuple(sorted(available[:cores]))


def _refuse_too_many(cores: int, available: int, quota_cores: float | None) -> None:
    if not 1 <= cores <= available:
        raise UnsupportedSettingsError(
            f"The configuration asks for {cores} physical cores; this process may use {available}."
        )
    if cores > (usable := usable_cores(available, quota_cores)):
        raise UnsupportedSettingsError(
            f"The configuration asks for {cores} physical cores; the control group's quota grants this process the "
            f"time of {quota_cores:.3g}, so it would be held back again and again. Ask for {usable} or raise the quota."
        )
