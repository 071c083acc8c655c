"""The synchronous load: each inference is waited for before the next one starts."""

from array import array
from collections.abc import Sequence
from itertools import cycle

from enginebench_agent.worker.loads.block import CAPACITY, TimedBlock, TimedLoad, clock
from enginebench_plugins.spec import InferRequest, Tensors


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

    def block(self, length_ns: int, fewest: int = 1, *, drain: bool = False) -> TimedBlock:
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
