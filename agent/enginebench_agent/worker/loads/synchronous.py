"""The synchronous load: each inference is waited for before the next one starts."""

from array import array
from collections.abc import Sequence
from itertools import cycle

from enginebench_agent.worker.loads.block import CAPACITY, TimedBlock, TimedLoad, clock
from enginebench_plugins.spec import InferRequest, Tensors

LEAD_IN_FROM = 50
"""From so many inferences a block on, one more goes before it."""


class SyncLoad(TimedLoad):
    """One request, on the calling thread."""

    def __init__(self, request: InferRequest, inputs: Sequence[Tensors]) -> None:
        self._request = request
        self._inputs = cycle(inputs)
        self._buffer = array("q", bytes(8 * CAPACITY))
        self._before = 0  # inferences of the block before

    def block(self, length_ns: int, fewest: int = 1, *, drain: bool = False) -> TimedBlock:
        """Nothing is ever in flight between blocks.

        Where it costs little, an inference that is not timed goes first: what was done since the block before has
        emptied the caches, and the tail of the latencies should show the engine's doing, not the harness's.
        """
        if self._before >= LEAD_IN_FROM:
            self._request.infer(next(self._inputs))
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
