"""What measuring itself costs, found by measuring nothing, and how long a block is to be."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import repeat

from enginebench_agent.worker.loads.block import clock
from enginebench_agent.worker.loads.closed import SyncLoad
from enginebench_plugins.spec import InferRequest, Outputs, Tensors
from enginebench_proto.v1.configuration_pb2 import StopRule
from enginebench_proto.v1.measurement_pb2 import Calibration

LARGEST_CLOCK_SHARE = 1e-4
"""One reading of the clock against a block, as in torch.utils.benchmark.Timer."""

SHORTEST_BLOCK_NS = 20_000_000
"""Of the blocks chosen here: evidence counts processor time in ticks of 10 ms, and costs time between blocks."""

LONGEST_BLOCK_NS = 1_000_000_000

BLOCKS_OF_MINIMUM = 20
"""Blocks that the shortest steady state is divided into: enough to know their variance."""

_READINGS = 1000
_REPETITIONS = 5
_EMPTY_BLOCK_NS = 2_000_000


class _Nothing(InferRequest):
    """An inference that costs the call and nothing else."""

    def infer(self, inputs: Tensors) -> Outputs:
        """Give the inputs back."""
        return inputs


def cost_of_measuring(stop: StopRule) -> Calibration:
    """Time the clock and the very loop of the synchronous load around a call that does nothing.

    Both are the least of a few repetitions: whatever else the machine does can only add. Takes about 15 ms.
    """
    timer_ns = min(_reading_ns() for _ in range(_REPETITIONS))
    load = SyncLoad(_Nothing(), [{}])
    blocks = [load.block(_EMPTY_BLOCK_NS) for _ in range(_REPETITIONS)]
    empty_loop_ns = min(block.duration_ns / len(block.latency_ns) for block in blocks)
    return Calibration(timer_ns=timer_ns, empty_loop_ns=empty_loop_ns, block_ns=block_length_ns(stop, timer_ns))


def block_length_ns(stop: StopRule, timer_ns: float) -> int:
    """The length asked for, or a 20th of the shortest steady state within 20 ms and 1 s; long enough for the clock."""
    chosen = min(max(stop.min_duration_ns // BLOCKS_OF_MINIMUM, SHORTEST_BLOCK_NS), LONGEST_BLOCK_NS)
    return max(stop.block_ns or chosen, round(timer_ns / LARGEST_CLOCK_SHARE))


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep Python's garbage collector from running in the middle of a measurement.

    What lives already is set aside, so that collecting between two blocks looks at what is new only.
    """
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _reading_ns() -> float:
    begin = clock()
    for _ in repeat(None, _READINGS):
        clock()
    return (clock() - begin) / (_READINGS + 1)
