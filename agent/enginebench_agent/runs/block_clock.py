"""The agent's own clock beside that of a child: whether the blocks took as long as the child tells.

A plugin shares a process with the loop that times it, and can change Python's clock there; here it cannot. Both clocks
are the kernel's monotonic one, so whatever they differ by is the time that messages take, or a lie. By how much the
agent itself was late to hear of them, its event loop knows, which counts how long it had nothing to do.
"""

import asyncio
import selectors
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from time import process_time_ns

from enginebench_proto.v1.worker_pb2 import WorkerMessage

TOLERATED_SHARE = 0.05
"""Of the time of all blocks compared. What the kernel's clock itself is off by is the same on both sides."""

FEWEST_DELAY_NS = 20_000_000
"""A message may take this long whatever was measured: a few turns of the processor's scheduler."""

READY_NS = 1_000_000
"""Whoever has nothing to do for less has found the message there, and does not know when it came."""


FEWEST_COMPARED = 3
"""Messages of the begin, and of the end, where there are so many."""

STANDSTILL_NS = 1_000_000_000
"""By so much the agent must be late, for no reason that it knows of, to have been stopped."""


@dataclass(frozen=True)
class _Reading:
    """The end of a block by both clocks: as the child tells, and when its message came, at the earliest and latest.

    `held_up_ns` is by how much it may have been sent later: what the child did since, or waited for a processor.
    """

    told_ns: int
    earliest_ns: int
    latest_ns: int
    blocks_ns: int
    held_up_ns: int


class BlockClock:
    """Hears what a child sends in its steady state and judges the whole of it, never a single block."""

    def __init__(self) -> None:
        self._readings: list[_Reading] = []
        self._blocks_ns = 0
        self._start: tuple[int, _Reading] | None = None  # of a phase: when sent by the child's clock, and as a begin
        self._first_start: tuple[int, _Reading] | None = None
        self._child_waited_ns = (0, 0)  # in all, when the last two messages came
        self._held_up_ns = 0
        self._first_end_ns = 0  # told, on the scale that begins with the steady state
        self._first_block_end_ns = 0  # told, on the scale that begins with the first block
        self._delay_ns = FEWEST_DELAY_NS
        self._behind_ns = 0
        self.stood_still_ns = 0
        """How long the agent was seen to stand still: stopped, or its machine was."""
        self._before = _Own.now()
        self._earliest_ns = self._now_ns = self._before.clock_ns

    def wait(self) -> None:
        """The agent is about to wait for the next message; by what it did since the last one it falls behind.

        Messages that came meanwhile queue, and delays add up until the agent has waited for as long (Lindley's
        recursion for the time in a queue).
        """
        self._before = _Own.now()
        self._behind_ns += self._before.clock_ns - self._now_ns
        self._delay_ns = max(self._delay_ns, self._behind_ns)

    def hear(self, message: WorkerMessage, child_waited_ns: int = 0) -> None:
        """Note when a message came; by so much as the agent worked or wanted to meanwhile, it may have been late.

        So it may by what the child has waited for a processor, `child_waited_ns` in all, since the message before the
        last one: it was heard some time after it was sent, and the child may have waited to send this one by then.
        """
        own = _Own.now()
        self._now_ns = own.clock_ns
        before_last_ns, last_ns = self._child_waited_ns
        self._held_up_ns = max(0, child_waited_ns - before_last_ns)
        self._child_waited_ns = (last_ns, child_waited_ns)
        self._delay_ns = max(self._delay_ns, own.busy_ns - self._before.busy_ns)
        waited_ns, idle_ns = own.clock_ns - self._before.clock_ns, own.idle_since_ns(self._before)
        if idle_ns >= READY_NS:  # for so long it was not there
            self._earliest_ns = self._now_ns - (waited_ns - idle_ns)
            self._behind_ns = max(0, self._behind_ns - idle_ns) + waited_ns - idle_ns
        else:  # it was there, and to be told so took as long
            self._behind_ns += waited_ns
        if message.HasField("phase"):
            self._start = (message.sent_ns, self._reading(0)) if message.sent_ns else None
            self._first_start = self._first_start or self._start
        elif message.part.HasField("result") and not self._readings and self._first_start is not None:
            # A profile or a calibration has no blocks: all of it, from its first phase on, is taken for one, and what
            # the child has waited in all that time says nothing of its last message.
            start_ns, begin = self._first_start
            self._start = start_ns, replace(begin, held_up_ns=0)
            self._held_up_ns = 0
            self._end_block(message, 0, message.sent_ns, message.sent_ns - start_ns)
        elif message.part.HasField("block"):
            block = message.part.block
            self._end_block(message, block.begin_ns + block.duration_ns, message.ended_ns, block.duration_ns)

    def oversleep(self, late_ns: int, busy_ns: int, slept_ns: int) -> None:
        """The agent awoke so much later than it wanted to, and had worked or waited for a processor for `busy_ns`.

        What that does not explain stood still. It may have begun while nothing was due, but after it fell asleep.
        """
        if late_ns - busy_ns > READY_NS:
            self._delay_ns = max(self._delay_ns, late_ns + slept_ns)
        if late_ns - busy_ns > STANDSTILL_NS:
            self.stood_still_ns += late_ns - busy_ns

    def difference_ns(self) -> tuple[int, int] | None:
        """How long blocks took by the agent's clock, and by the child's, where these differ by too much; else None.

        Compared are the least delayed messages of the first quarter and of the last one, of three each where there are
        so many: one alone may have waited for a processor on its way, of which the agent knows nothing. What differs
        must be more than 5 % of the blocks between them, and that plus the longest delay that the agent has noticed in
        itself.
        """
        if len(self._readings) < 2:
            return None
        count = max(len(self._readings) // 4, min(FEWEST_COMPARED, len(self._readings) // 2))
        early, late = self._readings[:count], self._readings[-count:]
        first, last = min(early, key=_latest_offset_ns), min(_known(late), key=_earliest_offset_ns)
        begin = min(_known(early), key=_earliest_offset_ns)
        slow_ns = _earliest_offset_ns(last) - last.held_up_ns - _latest_offset_ns(first)
        fast_ns = _earliest_offset_ns(begin) - begin.held_up_ns - min(map(_latest_offset_ns, late))
        told_ns = last.blocks_ns - first.blocks_ns
        if max(slow_ns, fast_ns) <= TOLERATED_SHARE * told_ns + self._delay_ns:
            return None
        return told_ns + (slow_ns if slow_ns > fast_ns else -fast_ns), told_ns

    def _end_block(self, message: WorkerMessage, end_ns: int, ended_ns: int, duration_ns: int) -> None:
        """A block, or what is taken for one, has ended: by the scale of the blocks, and by the clock of messages."""
        if not self._readings:
            self._first_block_end_ns = end_ns
            self._first_end_ns = self._begin(ended_ns)
        self._blocks_ns += duration_ns
        told_ns = self._first_end_ns + end_ns - self._first_block_end_ns
        self._readings.append(self._reading(told_ns, max(0, message.sent_ns - ended_ns)))

    def _reading(self, told_ns: int, after_ns: int = 0) -> _Reading:
        held_up_ns = self._held_up_ns + after_ns
        return _Reading(told_ns, self._earliest_ns, self._now_ns, self._blocks_ns, held_up_ns)

    def _begin(self, ended_ns: int) -> int:
        """Take the begin of the steady state as a reading too; returns the end of the first block on its scale."""
        self._blocks_ns = 0
        if self._start is None:
            return 0
        start_ns, begin = self._start
        self._readings.append(replace(begin, blocks_ns=0))
        return ended_ns - start_ns


def _known(readings: Sequence[_Reading]) -> Sequence[_Reading]:
    """Those messages that were waited for, where there are any: of the others nobody knows when they came."""
    return [each for each in readings if each.latest_ns - each.earliest_ns <= READY_NS] or readings


def _earliest_offset_ns(reading: _Reading) -> int:
    return reading.earliest_ns - reading.told_ns


def _latest_offset_ns(reading: _Reading) -> int:
    return reading.latest_ns - reading.told_ns


@dataclass(frozen=True)
class _Own:
    """What the agent has done up to a moment, by its clock: how long it used processors and waited for one.

    Whoever waits for a message meanwhile hears of it at most so much later than it came. `idle_ns` is how long its loop
    had nothing to do; None where nobody counts that.
    """

    clock_ns: int
    used_ns: int
    delayed_ns: int
    idle_ns: int | None

    @classmethod
    def now(cls) -> "_Own":
        clock_ns = time.perf_counter_ns()  # first, as to look in /proc may take a while
        delayed_ns = waited_ns(f"self/task/{threading.get_native_id()}")
        return cls(clock_ns, process_time_ns(), delayed_ns, idle_ns())

    @property
    def busy_ns(self) -> int:
        """How long it has used processors and waited for one."""
        return self.used_ns + self.delayed_ns

    def idle_since_ns(self, before: "_Own") -> int:
        """How long it surely had nothing to do: a loop that awakes late counts that as idle, too."""
        if self.idle_ns is None or before.idle_ns is None:
            return self.clock_ns - before.clock_ns
        return max(0, self.idle_ns - before.idle_ns - (self.delayed_ns - before.delayed_ns))


def busy_ns() -> int:
    """How long this process has used processors so far, and its calling thread has waited for one, by the kernel."""
    return _Own.now().busy_ns


def waited_ns(task: str) -> int:
    """How long a task, by its folder in /proc, has waited for a processor so far; 0 where the kernel does not count it.

    Of a process it is the first thread.
    """
    try:
        return int(Path(f"/proc/{task}/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def idle_ns() -> int | None:
    """For how long the running loop has had nothing to do so far, in ns; None where another kind runs, or none."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    return loop.idle_ns if isinstance(loop, IdleLoop) else None


class IdleLoop(asyncio.SelectorEventLoop):
    """The loop of an agent, which knows how long it had nothing to do: what it hears after that it hears as it comes.

    All else may make it late, and no account of the kernel's has it: other coroutines, a disk that a file is written
    to, a lock in /proc that hundreds of processes want.
    """

    def __init__(self) -> None:
        self._idle = _IdleSelector()
        super().__init__(self._idle)

    @property
    def idle_ns(self) -> int:
        """For how long it has waited so far while nothing was due, in ns."""
        return self._idle.idle_ns


class _IdleSelector(selectors.DefaultSelector):
    """Waits as any other one does, and adds up for how long."""

    idle_ns = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        begin_ns = time.perf_counter_ns()
        try:
            return super().select(timeout)
        finally:
            self.idle_ns += time.perf_counter_ns() - begin_ns
