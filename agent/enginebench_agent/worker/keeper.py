"""Keeps the process that an engine lives in: whatever that starts, and however it goes, nothing of it is left.

A process that leaves its session, and whose parent ends, belongs to nobody that the agent knows. So this interpreter
parts in two before anything of a plugin is loaded: the kernel hands what the engine's process leaves behind to its
parent, which does nothing but wait, ends all of that, and then ends as the engine's process did.
"""

import contextlib
import ctypes
import os
import signal
from collections import defaultdict
from pathlib import Path
from typing import NoReturn

from enginebench_agent.worker.pauses import Pauses, clock

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_AWAITED = (signal.SIGCHLD, signal.SIGTERM)


def part() -> Pauses | None:
    """Return in a process of its own, whose parent keeps it, with what that tells of pauses. Nothing outside Linux.

    The agent asks the keeper with SIGTERM to end everything; so does the kernel where the agent is gone.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is None:
        return None
    signal.pthread_sigmask(signal.SIG_BLOCK, _AWAITED)
    for number in _AWAITED:
        signal.signal(number, signal.SIG_DFL)  # whoever started the agent may have had them ignored
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    keeper, pauses = os.getpid(), Pauses()
    if engine := os.fork():
        _keep(engine, pauses)
    os.setpgid(0, 0)  # the agent stops this group where others have their turn, and never the keeper
    prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    if os.getppid() != keeper:  # it was gone before the kernel was asked
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _AWAITED)
    return pauses


def _keep(engine: int, pauses: Pauses) -> NoReturn:
    try:
        last = max(int(path.name) for path in Path("/proc/self/fd").iterdir())
        os.closerange(0, last + 1)  # the agent listens for the end of the pipes
        status = _await_end(engine, pauses)
        status = _end_all(engine, status)
        if os.WIFSIGNALED(status):
            _end_by(os.WTERMSIG(status))
        os._exit(os.waitstatus_to_exitcode(status))
    finally:
        os._exit(1)


def _await_end(engine: int, pauses: Pauses) -> int | None:
    """The status of the engine's process, once it has ended; None where it is to be ended."""
    while signal.sigwait(_AWAITED) == signal.SIGCHLD:
        now_ns = clock()  # before the kernel is asked: what it tells was so already, and not later
        with contextlib.suppress(ChildProcessError):
            while (changed := os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED))[0]:
                if changed[0] == engine:
                    if os.WIFSTOPPED(changed[1]):
                        pauses.begin(now_ns)
                    elif os.WIFCONTINUED(changed[1]):
                        pauses.end(now_ns)
                    else:
                        return changed[1]
    return None


def _end_all(engine: int, status: int | None) -> int:
    """End every descendant, those that are being started included; returns the status of the engine's process."""
    with contextlib.suppress(ChildProcessError):
        while True:
            for pid in _descendants(os.getpid()):
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            ended = os.waitpid(-1, 0)
            if ended[0] == engine:
                status = ended[1]
    return signal.SIGKILL if status is None else status


def _descendants(pid: int) -> list[int]:
    children = defaultdict(list)
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            children[int(path.read_text(errors="replace").rpartition(")")[2].split()[1])].append(int(path.parent.name))
    found = [pid]
    for each in found:
        found += children[each]
    return found[1:]


def _end_by(number: int) -> None:
    """End as the engine's process did, so that the agent sees the same."""
    with contextlib.suppress(OSError):  # of those that nobody may handle
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [number])
    os.kill(os.getpid(), number)
