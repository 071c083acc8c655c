"""The open loop: requests are sent when they are due, whether or not earlier ones have completed.

Every latency counts from the instant its request was due. A request that finds no free slot waits, and so does one
whose sender woke late; a load that sent later and counted from there would hide the queue ("coordinated omission",
Gil Tene, "How NOT to Measure Latency", 2013).
"""

import ctypes
import math
import queue
import random
import threading
from array import array
from collections.abc import Iterator, Sequence
from itertools import cycle, repeat

import numpy as np

from enginebench_agent.worker.loads.block import TimedBlock, TimedLoad, clock
from enginebench_agent.worker.loads.completions import Completions, column
from enginebench_plugins.spec import InferRequest, Outputs, Tensors
from enginebench_proto.v1.configuration_pb2 import ARRIVAL_PROCESS_CONSTANT, Arrivals


def gaps_ns(arrivals: Arrivals) -> Iterator[float]:
    """The time before each arrival since the one before it, in nanoseconds; always the same for the same seed.

    Poisson arrivals have independent gaps of −ln(1 − u)/rate, u uniform on [0, 1). `check_arrivals` has found
    rate and process sound.
    """
    mean_ns = 1e9 / arrivals.rate_per_s
    if arrivals.process == ARRIVAL_PROCESS_CONSTANT:
        return repeat(mean_ns)
    return _exponential_ns(mean_ns, random.Random(arrivals.seed))  # noqa: S311  # a schedule, not a secret


def _exponential_ns(mean_ns: float, generator: random.Random) -> Iterator[float]:
    while True:
        yield -math.log(1 - generator.random()) * mean_ns


_PR_SET_TIMERSLACK = 29
_NEVER = 1 << 63


class OpenLoop(TimedLoad):
    """Sends each arrival to the slot that has been free for longest. Slots are requests: as many are in flight at most.

    A sender thread follows the schedule; completions come on the engine's threads; the calling thread only collects.
    """

    goes_on = True

    def __init__(self, requests: Sequence[InferRequest], inputs: Sequence[Tensors], gaps_ns: Iterator[float]) -> None:
        self.completions = Completions(width=3)
        self.free: queue.SimpleQueue[_Slot | None] = queue.SimpleQueue()
        self.scheduled = 0
        """Arrivals that were due before the end of the schedule."""
        self.unsent = 0
        """Those of them that were given up."""
        self.late = 0
        """Those of them that waited as the schedule ended, and were sent after it."""
        self._slots = [_Slot(request, self) for request in requests]
        for slot in self._slots:
            self.free.put(slot)
        self._inputs = cycle(inputs)
        self._gaps_ns = gaps_ns
        self._sender: threading.Thread | None = None
        self._halt = threading.Lock()  # held while the sender may sleep; released to wake it
        self._begin = 0
        self._horizon = 0
        self._given_up = False
        self._is_over = False  # the whole schedule, not that of a turn

    def block(self, length_ns: int, fewest: int = 1, *, in_turn: bool = False) -> TimedBlock:
        """In a turn, a schedule of this length and at least one arrival begins with the block and ends with it.

        Otherwise the schedule begins with the first block and goes on from block to block.
        """
        if self._sender is None:
            self._start(length_ns if in_turn else _NEVER)
        if in_turn:
            self._join()
        else:
            self.completions.wait(self._begin + length_ns, fewest)
        return self._cut()

    @property
    def sender_id(self) -> int | None:
        """The kernel's number of the thread that sends; None where none has begun, or it was waited for."""
        return None if self._sender is None else self._sender.native_id

    def remainder(self, length_ns: int, until_ns: int | None) -> Iterator[TimedBlock]:
        """Arrivals due by now are carried out, but none is sent once the clock reads `until_ns`."""
        self._end_schedule()
        last = _NEVER if until_ns is None else until_ns
        while not self.completions.over:
            # By the clock: since the last block nothing may have completed, and what is overdue is not slept for.
            self.completions.wait(min(clock() + length_ns, last), fewest=0)
            if clock() >= last:
                self._give_up()
                self._join()
            if self.completions.count() or self.completions.error is not None:
                yield self._cut()
        if self.completions.count():
            yield self._cut()

    def close(self) -> None:
        """Send nothing more and wait for what is in flight."""
        self._end_schedule()
        self._give_up()
        self._join()

    def _start(self, length_ns: int) -> None:
        self.completions.reopen()
        self._given_up = False
        self._halt.acquire(blocking=False)
        self._begin = clock()
        first = self._begin + next(self._gaps_ns)
        self._horizon = max(self._begin + length_ns, int(first) + 1)
        self._sender = threading.Thread(target=self._send_all, args=(first,), name="open-loop-sender", daemon=True)
        self._sender.start()

    def _end_schedule(self) -> None:
        self._horizon = min(self._horizon, clock())
        self._is_over = True
        if self._halt.locked():
            self._halt.release()

    def _give_up(self) -> None:
        self._given_up = True
        self.free.put(None)  # for a sender that waits for a slot

    def _join(self) -> None:
        if self._sender is not None:
            self._sender.join()
            self._sender = None

    def _cut(self) -> TimedBlock:
        if self.completions.error is not None:
            self.close()
            raise self.completions.error
        rows = self.completions.take()
        begin = self._begin
        self._begin = end = max(int(rows[-1, 2]), begin + 1)
        latency = array("q", np.subtract(rows[:, 2], rows[:, 0]).tobytes())
        return TimedBlock(begin, end, latency, column(rows, 0), column(rows, 1), column(rows, 2))

    def _send_all(self, first: float) -> None:
        _wake_on_time()
        try:
            self._follow_schedule(first)
        except BaseException as error:  # raised by the engine: carried to the thread that waits
            self.completions.fail(error)
        self._await_slots()
        self.completions.finish()

    def _await_slots(self) -> None:
        back: list[_Slot] = []
        while len(back) < len(self._slots):
            if (slot := self.free.get()) is not None:
                back.append(slot)
        for slot in back:
            self.free.put(slot)

    def _follow_schedule(self, first: float) -> None:
        due = first
        while self._falls_due(due):
            self.scheduled += 1
            slot = None if self._given_up else self.free.get()
            if slot is None:
                self.unsent += 1
            else:
                self.late += self._is_over
                slot.send(next(self._inputs), int(due))
            due += next(self._gaps_ns)

    def _falls_due(self, due: float) -> bool:
        """Sleep until `due`; False at once when that lies behind the end of the schedule."""
        while due < self._horizon and (remaining_ns := due - clock()) > 0:
            self._halt.acquire(timeout=min(remaining_ns / 1e9, threading.TIMEOUT_MAX))
        return due < self._horizon


class _Slot:
    """One request of an open loop."""

    def __init__(self, request: InferRequest, load: OpenLoop) -> None:
        self._request = request
        self._load = load
        self._scheduled = 0
        self._sent = 0

    def send(self, tensors: Tensors, scheduled: int) -> None:
        """Start the inference that was due when the clock read `scheduled`."""
        self._scheduled = scheduled
        self._sent = clock()
        try:
            self._request.start(tensors, self._on_done)
        except BaseException:
            self._load.free.put(self)
            raise

    def _on_done(self, outputs: Outputs | None, error: BaseException | None) -> None:
        end = clock()
        if error is None:
            self._load.completions.add((self._scheduled, self._sent, end))
        else:
            self._load.completions.fail(error)
        self._load.free.put(self)


def _wake_on_time() -> None:
    """Let this thread's sleeps end within a nanosecond, not the usual 50 µs. Does nothing outside Linux."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
