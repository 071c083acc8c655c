"""Keeps the process that an engine lives in, so that nothing of it is left, and tells it when it was stopped.

SIGSTOP falls into an inference most times, where it looks like a slow one, and the process itself never hears of it.

A process that leaves its session, and whose parent ends, belongs to nobody that the agent knows. So this interpreter
parts in two before anything of a plugin is loaded: the kernel hands what the engine's process leaves behind to its
parent, which does nothing but wait, ends all of that, and then ends as the engine's process did.
"""

import contextlib
import ctypes
import mmap
import os
import signal
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

_ENTRY = struct.Struct("qq")
_COUNT = struct.Struct("q")
_ENTRIES = 64
"""Pauses that are remembered: far more than there can sensibly be in a block."""

UNKNOWN_NS = -(1 << 62)
"""When a pause began of which a keeper hears only afterwards, for it was stopped too."""

clock = time.perf_counter_ns


class Pauses:
    """Memory that keeper and engine share. One writes begin and end of each pause, the other reads."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, _COUNT.size + _ENTRIES * _ENTRY.size)

    def begin(self, at_ns: int) -> None:
        """The engine's process was stopped, at the latest now. Harmless while it is."""
        count = self._count()
        if count and not self._entry(count - 1)[1]:
            return
        _ENTRY.pack_into(self._memory, self._place(count), at_ns, 0)
        _COUNT.pack_into(self._memory, 0, count + 1)

    def end(self, at_ns: int) -> None:
        """It goes on. Where nobody has seen it stopped, as the keeper was stopped too, only that is kept."""
        count = self._count()
        if count and not (entry := self._entry(count - 1))[1]:
            _ENTRY.pack_into(self._memory, self._place(count - 1), entry[0], at_ns)
        else:
            _ENTRY.pack_into(self._memory, self._place(count), UNKNOWN_NS, at_ns)
            _COUNT.pack_into(self._memory, 0, count + 1)

    def within(self, begin_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
        """The pauses that began in this stretch, which the engine's process has just come through.

        The one before may be told to have ended in it, for a keeper gets a processor when the engine leaves it one.
        """
        count = self._count()
        for number in range(max(0, count - _ENTRIES), count):
            paused_ns, continued_ns = self._entry(number)
            if begin_ns <= paused_ns < end_ns:
                yield paused_ns, min(continued_ns or end_ns, end_ns)

    def total_ns(self, begin_ns: int, end_ns: int) -> int:
        """How long those pauses were together."""
        return sum(continued_ns - paused_ns for paused_ns, continued_ns in self.within(begin_ns, end_ns))

    def went_on(self, begin_ns: int) -> bool:
        """Whether it went on after this instant and nobody had seen it stopped."""
        count = self._count()
        ended = (self._entry(number) for number in range(max(0, count - _ENTRIES), count))
        return any(paused_ns == UNKNOWN_NS and continued_ns >= begin_ns for paused_ns, continued_ns in ended)

    def _count(self) -> int:
        return int(_COUNT.unpack_from(self._memory)[0])

    def _entry(self, number: int) -> tuple[int, int]:
        begin_ns, end_ns = _ENTRY.unpack_from(self._memory, self._place(number))
        return begin_ns, end_ns

    def _place(self, number: int) -> int:
        return _COUNT.size + number % _ENTRIES * _ENTRY.size


_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_AWAITED = (signal.SIGCHLD, signal.SIGCONT, signal.SIGTERM)


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
    while (number := signal.sigwait(_AWAITED)) != signal.SIGTERM:
        now_ns = clock()  # before the kernel is asked: what it tells was so already, and not later
        was_stopped = signal.SIGCONT in (number, *signal.sigpending())
        with contextlib.suppress(ChildProcessError):
            while (changed := os.waitpid(-1, os.WNOHANG | os.WUNTRACED | os.WCONTINUED))[0]:
                if changed[0] == engine:
                    if os.WIFSTOPPED(changed[1]):
                        pauses.begin(UNKNOWN_NS if was_stopped else now_ns)
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
