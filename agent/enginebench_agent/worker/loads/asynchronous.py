"""The asynchronous load: a fixed number of requests in flight, each restarted by its own completion."""

import queue
import threading
from array import array
from collections.abc import Sequence
from itertools import cycle

import numpy as np

from enginebench_agent.worker.loads.block import TimedBlock, TimedLoad, clock
from enginebench_agent.worker.loads.completions import Completions
from enginebench_plugins.spec import InferRequest, Outputs, Tensors


class AsyncLoad(TimedLoad):
    """Keeps every request in flight, from block to block too: each completion restarts its request where it arrives.

    That spares a hand-over between threads for each inference. The calling thread only waits and collects.
    """

    goes_on = True

    def __init__(self, requests: Sequence[InferRequest], inputs: Sequence[Tensors]) -> None:
        self.next_input = cycle(inputs).__next__  # one call into C: threads may share it
        self.completions = Completions(width=2)
        self.finished: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        self.stopped = False
        self._slots = [_Slot(request, self) for request in requests]
        self._in_flight = 0
        self._begin = 0

    def block(self, length_ns: int, fewest: int = 1, *, drain: bool = False) -> TimedBlock:
        """The first block begins with the first start, any other with the end of the one before."""
        if not self._in_flight:
            self._start()
        self.completions.wait(self._begin + length_ns, fewest)
        if drain or self.completions.error is not None:
            self.close()
        if self.completions.error is not None:
            raise self.completions.error
        return self._cut()

    def align(self) -> None:
        """The next block begins with a completion, as every block but the very first does."""
        self.block(0)

    def close(self) -> None:
        """Start nothing more and wait for what is in flight."""
        self.stopped = True
        while self._in_flight:
            self.finished.get()
            self._in_flight -= 1

    def _start(self) -> None:
        self.stopped = False
        self._in_flight = len(self._slots)
        self.completions.take()  # of what was still in flight when the load was last closed
        self._begin = clock()
        for slot in self._slots:
            # An engine that completes within `start` keeps its thread until the end, so each slot has one of its own.
            threading.Thread(target=slot.start, name="first-start", daemon=True).start()

    def _cut(self) -> TimedBlock:
        rows = self.completions.take()
        begin, end = self._begin, int(rows[-1, 1])
        # A block before may have ended within the same instant, on another thread.
        self._begin = end = max(end, begin + 1)
        return TimedBlock(begin, end, array("q", np.subtract(rows[:, 1], rows[:, 0]).tobytes()))


class _Inline(threading.local):
    """Per thread: the slot whose `start` is on the stack, and whether it completed meanwhile on this thread."""

    slot: "_Slot | None" = None
    completed = False


_inline = _Inline()


class _Slot:
    """One request of an asynchronous load."""

    def __init__(self, request: InferRequest, load: AsyncLoad) -> None:
        self._request = request
        self._load = load
        self._begin = 0

    def start(self) -> None:
        """Start an inference; again and again where the engine completes it within the call, without recursion."""
        again = True
        try:
            while again:
                tensors = self._load.next_input()
                _inline.slot, _inline.completed = self, False
                self._begin = clock()
                self._request.start(tensors, self._on_done)
                again = _inline.completed
        except BaseException as error:  # raised on an engine's thread: carried to the one that waits
            self._load.completions.fail(error)
            self._load.finished.put(self)
        finally:
            _inline.slot = None

    def _on_done(self, outputs: Outputs | None, error: BaseException | None) -> None:
        end = clock()
        load = self._load
        if error is None:
            load.completions.add((self._begin, end))
        else:
            load.stopped = True
            load.completions.fail(error)
        if load.stopped:
            load.finished.put(self)
        elif _inline.slot is self:
            _inline.completed = True
        else:
            self.start()
