"""The timing loops, the same for every engine: one request after the other, or a fixed number in flight.

Time is `time.perf_counter_ns`, read immediately around the engine's own call. Latencies go into one growing buffer of
64-bit integers in the order of completion; nothing is computed from them here.
"""

import gc
import math
import queue
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle

from enginebench_plugins.spec import InferRequest, Load, Outputs, Tensors

ReportProgress = Callable[[int, int, int], None]
"""Called with nanoseconds elapsed, nanoseconds expected and inferences completed."""

REPORT_PERIOD_NS = 250_000_000

_clock = time.perf_counter_ns


@dataclass(frozen=True)
class Limits:
    """When a loop ends: when both minima are met, or at the latest at the maximum (None: no maximum)."""

    min_duration_ns: int
    min_iterations: int
    max_duration_ns: int | None = None


@dataclass(frozen=True)
class Timings:
    """Latency of every request in nanoseconds, in order of completion; wall clock from first start to last completion.

    `conclusive` is False when the maximum duration cut the loop off before the fewest iterations were done.
    """

    latency_ns: "array[int]"
    wall_ns: int
    conclusive: bool


@contextmanager
def collector_paused() -> Iterator[None]:
    """Collect once, then keep Python's garbage collector from running in the middle of a measurement."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def time_requests(
    load: Load,
    requests: Sequence[InferRequest],
    inputs: Sequence[Tensors],
    limits: Limits,
    report: ReportProgress,
) -> Timings:
    """Run inferences until the limits say stop, rotating through `inputs`; every request runs at least once.

    Under a synchronous load `requests` has one entry; under an asynchronous one all of them are in flight.
    Raises the first error of an inference, once nothing is in flight any more.
    """
    loop = _SyncLoop if load is Load.SYNC else _AsyncLoop
    return loop(requests, inputs, limits, report).run()


class _Loop:
    """What both loads share: the samples, the end, and the report."""

    def __init__(
        self,
        requests: Sequence[InferRequest],
        inputs: Sequence[Tensors],
        limits: Limits,
        report: ReportProgress,
    ) -> None:
        self.requests = requests
        self.next_input = cycle(inputs).__next__  # one call into C: threads may share it
        self.limits = limits
        self.samples: array[int] = array("q")
        self._report = report
        self.begin_at(_clock())

    def begin_at(self, now: int) -> None:
        """Fix the ends relative to the first start."""
        maximum = self.limits.max_duration_ns
        self.started = now
        self.min_end = now + self.limits.min_duration_ns
        self.max_end = math.inf if maximum is None else now + maximum

    def is_over(self, now: int) -> bool:
        """Whether nothing is to be started any more."""
        met = now >= self.min_end and len(self.samples) >= self.limits.min_iterations
        return met or now >= self.max_end

    def report_at(self, now: int) -> None:
        """Tell how far the loop has come."""
        elapsed, done = now - self.started, len(self.samples)
        by_iterations = elapsed * self.limits.min_iterations // max(done, 1)
        expected = max(self.limits.min_duration_ns, by_iterations)
        maximum = self.limits.max_duration_ns
        self._report(elapsed, expected if maximum is None else min(expected, maximum), done)

    def timings(self, last_end: int) -> Timings:
        """The outcome, once nothing is in flight."""
        conclusive = len(self.samples) >= self.limits.min_iterations
        return Timings(self.samples, last_end - self.started, conclusive)


class _SyncLoop(_Loop):
    """Waits for each inference before it starts the next one."""

    def run(self) -> Timings:
        infer, next_input, record = self.requests[0].infer, self.next_input, self.samples.append
        over, clock = False, _clock
        self.begin_at(clock())
        next_report = self.started + REPORT_PERIOD_NS
        while not over:
            tensors = next_input()
            begin = clock()
            outputs = infer(tensors)
            end = clock()
            del outputs  # freeing them is not part of the latency
            record(end - begin)
            over = self.is_over(end)
            if end >= next_report:
                self.report_at(end)
                next_report = end + REPORT_PERIOD_NS
        return self.timings(end)


class _AsyncLoop(_Loop):
    """Keeps every request in flight: each completion restarts its own request, on the thread it arrived on.

    That spares a hand-over between threads for each inference. This thread only waits and reports.
    """

    def run(self) -> Timings:
        self.stopped = False
        self.error: BaseException | None = None
        self.finished: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        slots = [_Slot(request, self) for request in self.requests]
        self.begin_at(_clock())
        for slot in slots:
            slot.start()
        self._await_all(len(slots))
        if self.error is not None:
            raise self.error
        return self.timings(max(slot.end for slot in slots))

    def fail(self, error: BaseException) -> None:
        """Keep the first error and start nothing more."""
        self.error = self.error or error
        self.stopped = True

    def _await_all(self, in_flight: int) -> None:
        while in_flight:
            try:
                self.finished.get(timeout=REPORT_PERIOD_NS / 1e9)
                in_flight -= 1
            except queue.Empty:
                self.report_at(_clock())


class _Inline(threading.local):
    """Per thread: the slot whose `start` is on the stack, and whether it completed meanwhile on this thread."""

    slot: "_Slot | None" = None
    completed = False


_inline = _Inline()


class _Slot:
    """One request of an asynchronous load."""

    def __init__(self, request: InferRequest, loop: _AsyncLoop) -> None:
        self._request = request
        self._loop = loop
        self._begin = 0
        self.end = 0

    def start(self) -> None:
        """Start an inference; again and again where the engine completes it within the call, without recursion."""
        again = True
        try:
            while again:
                tensors = self._loop.next_input()
                _inline.slot, _inline.completed = self, False
                self._begin = _clock()
                self._request.start(tensors, self._on_done)
                again = _inline.completed
        except BaseException as error:  # raised on an engine's thread: carried to the one that waits
            self._loop.fail(error)
            self._loop.finished.put(self)
        finally:
            _inline.slot = None

    def _on_done(self, outputs: Outputs | None, error: BaseException | None) -> None:
        loop = self._loop
        self.end = end = _clock()
        if error is not None:
            loop.fail(error)
        else:
            loop.samples.append(end - self._begin)
        if loop.stopped or loop.is_over(end):
            loop.stopped = True
            loop.finished.put(self)
        elif _inline.slot is self:
            _inline.completed = True
        else:
            self.start()
