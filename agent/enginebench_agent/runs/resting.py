"""Whoever has no turn rests: it is stopped with everything it started, and its own time stands still meanwhile.

A process that only waits is not idle. ONNX Runtime's threads spin 25 ms into each block of 50 ms of the other member,
and the log ratios of neighbouring blocks then scatter ten times as much as between two that are stopped.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent.machine.this_process import children, threads

PATIENCE_SECONDS = 1.0
"""How long whoever is to rest is waited for: a thread in the middle of a disk access stops only afterwards,
and one that waits for a processor only when it has got one."""

LOOK_SECONDS = 0.0005

_STILL = frozenset("TtZX")
"""States of a thread that uses no processor: stopped, held by a debugger, ended."""


@dataclass(frozen=True)
class _Process:
    pid: int
    group: int
    session: int
    began: int
    is_still: bool


class Rest:
    """Stops the engine's process, its group, and what it started that left the group; `keeper` is never stopped.

    A stopped keeper could end nothing: the signal by which the kernel tells it that the agent is gone would wait too.
    """

    def __init__(self, keeper: int, engine: int) -> None:
        self._keeper = keeper
        self._engine = engine
        self._apart: dict[int, int] = {}  # stopped one by one: process, and when it began

    async def begin(self) -> bool:
        """Stop all; returns whether all were seen to stand still. Harmless when they are gone."""
        self._signal_group(signal.SIGSTOP)
        deadline = asyncio.get_running_loop().time() + PATIENCE_SECONDS
        while not self._stands_still():
            if asyncio.get_running_loop().time() > deadline:
                return False
            await asyncio.sleep(LOOK_SECONDS)
        return True

    def end(self) -> None:
        """Let all go on."""
        self._signal_apart(signal.SIGCONT)
        self._apart.clear()
        self._signal_group(signal.SIGCONT)

    def kill(self) -> None:
        """End what a keeper that was killed itself has left: of its session, and of those that rest outside of it.

        Only while the keeper is there, be it as a zombie: until then its session's number belongs to nobody else.
        """
        self._signal_apart(signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._engine, 0)  # rarely is there anybody, and looking at all processes takes milliseconds
            for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):  # noqa: PTH208
                if (process := _process(pid)) is not None and process.session == self._keeper != pid:
                    _signal(pid, signal.SIGKILL)

    def _stands_still(self) -> bool:
        still = True
        for process in _processes(self._keeper, self._engine):
            if process.group != self._engine and process.pid not in self._apart:
                self._apart[process.pid] = process.began
                _signal(process.pid, signal.SIGSTOP)
            still &= process.is_still
        return still

    def _signal_group(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._engine, number)

    def _signal_apart(self, number: signal.Signals) -> None:
        for pid, began in self._apart.items():
            if (now := _process(pid)) is not None and now.began == began:
                _signal(pid, number)


class OwnTime:
    """A clock that stands still while its owner rests: what a child's limits and its sampling go by."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._spent = 0.0
        self._since: float | None = self._loop.time()
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._timer: asyncio.TimerHandle | None = None

    def rest(self) -> None:
        """Stand still. Harmless when repeated."""
        self._spent, self._since = self.seconds(), None
        self._wind()

    def go_on(self) -> None:
        """Run again. Harmless when repeated."""
        if self._since is None:
            self._since = self._loop.time()
            self._wind()

    def seconds(self) -> float:
        """How long it has run."""
        return self._spent + (0.0 if self._since is None else self._loop.time() - self._since)

    def nanoseconds(self) -> int:
        """The same as an integer."""
        return round(self.seconds() * 1e9)

    def call_later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call once this clock has run so much longer."""
        self._due = sorted([*self._due, (self.seconds() + seconds, call)], key=lambda due: due[0])
        self._wind()

    async def sleep(self, seconds: float) -> None:
        """Wait until this clock has run so much longer."""
        over = asyncio.Event()
        self.call_later(seconds, over.set)
        await over.wait()

    def stop(self) -> None:
        """Call nobody any more."""
        self._due.clear()
        self._wind()

    def _wind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        running = self._since is not None and self._due
        self._timer = self._loop.call_later(self._due[0][0] - self.seconds(), self._ring) if running else None

    def _ring(self) -> None:
        self._timer = None
        now = self.seconds()
        due = [call for at, call in self._due if at <= now]
        self._due = [each for each in self._due if each[0] > now]
        for call in due:
            call()
        self._wind()


def _processes(keeper: int, engine: int) -> Iterator[_Process]:
    """The engine's process and all that descend from it or from a keeper, who is left out."""
    pids = [engine, *(pid for pid in children(keeper) if pid != engine)] if keeper != engine else [engine]
    for pid in pids:
        if (process := _process(pid)) is not None:
            yield process
            pids += children(pid)


def _process(pid: int) -> _Process | None:
    """A process, still where all its threads are; None for one that is gone."""
    stats = list(_stats(pid))
    if not stats:
        return None
    first = stats[0]
    return _Process(pid, int(first[2]), int(first[3]), int(first[19]), all(stat[0] in _STILL for stat in stats))


def _stats(pid: int) -> Iterator[list[str]]:
    """What follows the name in the `stat` of each thread, the first one's first: proc(5), from field 3 on."""
    for thread in threads(pid):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/task/{thread}/stat").read_text(errors="replace")
            yield text.rpartition(")")[2].split()


def _signal(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
