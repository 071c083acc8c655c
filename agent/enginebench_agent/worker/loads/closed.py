"""The closed loads, synchronous and asynchronous: an inference waits for one before it. And which one is asked for."""

import math
import queue
import threading
from array import array
from collections.abc import Sequence
from itertools import cycle

import numpy as np

from enginebench_agent.worker.loads.block import CAPACITY, TimedBlock, TimedLoad, clock
from enginebench_agent.worker.loads.completions import Completions
from enginebench_agent.worker.loads.open_loop import OpenLoop, gaps_ns
from enginebench_plugins.spec import InferRequest, Load, Outputs, Tensors
from enginebench_proto.v1.configuration_pb2 import LOAD_OPEN_LOOP, Configuration


class SyncLoad(TimedLoad):
    """One request, on the calling thread."""

    def __init__(self, request: InferRequest, inputs: Sequence[Tensors]) -> None:
        self._request = request
        self._inputs = cycle(inputs)
        self._last_input = inputs[-1]
        self._buffer = array("q", bytes(8 * CAPACITY))
        self._before = 0  # inferences of the block before

    def align(self) -> None:
        """Infer once, untimed: what was done since the last block has emptied the caches and put threads to sleep.

        The first inference after a pause takes 0.06 to 0.5 ms longer than the others: 1.3 % of one of 18 ms, a share of
        which gets into the median over short blocks, but nothing that shows in one of 130 ms. One that fills a block of
        its own would only be run twice.
        """
        if self._before != 1:
            self._request.infer(self._last_input)  # out of turn, or some inputs might never be timed

    def block(self, length_ns: int, fewest: int = 1, *, in_turn: bool = False) -> TimedBlock:
        """Nothing is ever in flight between blocks."""
        # All names are local and nothing is called but the clock and the engine: what the loop itself costs lies
        # between two inferences and is paid in throughput. `calibration` tells how much that is.
        infer, buffer, read_clock = self._request.infer, self._buffer, clock
        last = fewest - 1
        begin = read_clock()
        deadline = begin + length_ns
        for index, tensors in zip(range(CAPACITY), self._inputs, strict=False):
            start = read_clock()
            outputs = infer(tensors)
            now = read_clock()
            del outputs  # freeing them is not part of the latency
            buffer[index] = now - start
            if now >= deadline and index >= last:
                break
        self._before = index + 1
        return TimedBlock(begin, now, buffer[: index + 1])

    def close(self) -> None:
        """Nothing to wait for."""


class AsyncLoad(TimedLoad):
    """Keeps every request in flight, from block to block too: each completion restarts its request where it arrives.

    That spares a hand-over between threads for each inference. The calling thread only waits and collects.

    Requests that were started together complete together, wave after wave, until they have drifted apart. A block that
    began within a wave would count inferences that were done before it: 3 of the first 4, a tenth of a short block and
    more. So each block holds whole waves, as many inferences as there are requests or a multiple of that, and the
    first one begins at the end of one.
    """

    goes_on = True

    def __init__(self, requests: Sequence[InferRequest], inputs: Sequence[Tensors]) -> None:
        self.next_input = cycle(inputs).__next__  # one call into C: threads may share it
        self.completions = Completions(width=2)
        self.finished: queue.SimpleQueue[_Slot] = queue.SimpleQueue()
        self.stopped = False
        self._requests = requests
        self._in_flight = 0
        self._begin = 0

    def block(self, length_ns: int, fewest: int = 1, *, in_turn: bool = False) -> TimedBlock:
        """The first block begins with the first start, any other with the end of the one before."""
        if not self._in_flight:
            self._start()
        self.completions.wait(self._begin + length_ns, fewest)
        waves = math.ceil(self.completions.count() / len(self._requests))
        self.completions.wait(self._begin, waves * len(self._requests))
        if self.completions.error is not None:
            self.drain()
        return self._cut()

    def align(self) -> None:
        """The next block begins with the end of a wave, as every block but the very first does."""
        self.block(0)

    def drain(self) -> None:
        """Start nothing more, wait for what is in flight, and forget it."""
        self.close()
        if self.completions.error is not None:
            raise self.completions.error

    def close(self) -> None:
        """Start nothing more and wait for what is in flight."""
        self.stopped = True
        while self._in_flight:
            self.finished.get()
            self._in_flight -= 1

    def _start(self) -> None:
        self.stopped = False
        self._in_flight = len(self._requests)
        self.completions.take()  # of what was still in flight when the load was last closed
        self._begin = clock()
        for request in self._requests:
            # An engine that completes within `start` keeps its thread until the end, so each slot has one of its own.
            threading.Thread(target=_Slot(request, self).start, name="first-start", daemon=True).start()

    def _cut(self) -> TimedBlock:
        rows = self.completions.take()
        begin, end = self._begin, int(rows[-1, 1])
        # A block before may have ended within the same instant, on another thread.
        self._begin = end = max(end, begin + 1)
        return TimedBlock(begin, end, array("q", np.subtract(rows[:, 1], rows[:, 0]).tobytes()))


class _Slot:
    """One request of an asynchronous load.

    Each inference brings two events, in either order and on any thread: the return of the `start` that began it, and
    its completion. The second one starts the next inference. So an engine may complete within `start`, again and again,
    without recursion, and no request is started while its last `start` goes on.
    """

    def __init__(self, request: InferRequest, load: AsyncLoad) -> None:
        self._request = request
        self._load = load
        self._begin = 0
        self._is_second_event = cycle((False, True)).__next__  # one call into C, and so never interrupted
        self._done = self._on_done  # bound once

    def start(self) -> None:
        """Start an inference; again and again where the engine completes it within the call."""
        load = self._load
        while True:
            tensors = load.next_input()
            self._begin = clock()
            try:
                self._request.start(tensors, self._done)
            except BaseException as error:  # raised on an engine's thread: carried to the one that waits
                load.completions.fail(error)
                break
            if not self._is_second_event():
                return
            if load.stopped:
                break
        load.finished.put(self)

    def _on_done(self, outputs: Outputs | None, error: BaseException | None) -> None:
        end = clock()
        load = self._load
        if error is None:
            load.completions.add((self._begin, end))
        else:
            load.stopped = True
            load.completions.fail(error)
        if self._is_second_event():
            if load.stopped:
                load.finished.put(self)
            else:
                self.start()


def closed_load(load: Load, requests: Sequence[InferRequest], inputs: Sequence[Tensors]) -> TimedLoad:
    """A load whose next inference waits for one before it. A synchronous one takes the first of the requests."""
    return SyncLoad(requests[0], inputs) if load is Load.SYNC else AsyncLoad(requests, inputs)


def open_loop(
    configuration: Configuration, requests: Sequence[InferRequest], inputs: Sequence[Tensors]
) -> OpenLoop | None:
    """The open loop a configuration asks for; None when its load is a closed one."""
    if configuration.load != LOAD_OPEN_LOOP:
        return None
    return OpenLoop(requests, inputs, gaps_ns(configuration.arrivals))
