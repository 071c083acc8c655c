"""Reference work: the same small task, whatever is measured, done between two blocks and timed.

Where an engine has become slower and this has too, it was the machine. It never runs in a block nor while inferences
are in flight, and the inference that settles caches and threads comes after it.
"""

import numpy as np

from enginebench_agent.worker.loads.block import clock
from enginebench_proto.v1.measurement_pb2 import Evidence

MOST_OF_THE_TIME = 0.05
"""Of the time of blocks, at most, the reference work takes."""

SIDE = 64
PRODUCTS = 48
"""Squares of 16 KB in a core's own cache: too small for libraries to use more than the calling thread, whose other
threads would go on spinning into the block. 25 million operations of float32."""

STREAM_BYTES = 2 << 20
"""Twice that, read and written, is more than most caches of a single core. It is held from the steady state on."""

UNSETTLED_NS = 130_000_000
"""A block of one inference is not settled by another; where that is shorter than this, caches that this work has used
would show in it."""

_SEED = 20_260_101


class ReferenceWork:
    """Does the work before a block where there is time for it, and tells what it took."""

    def __init__(self) -> None:
        generator = np.random.default_rng(_SEED)
        self._left = generator.standard_normal((SIDE, SIDE), dtype=np.float32)
        self._right = generator.standard_normal((SIDE, SIDE), dtype=np.float32)
        self._product = np.zeros((SIDE, SIDE), dtype=np.float32)
        self._source = np.ones(STREAM_BYTES // 4, dtype=np.float32)
        self._sink = np.zeros_like(self._source)
        self._spent_ns = 0
        self._blocks_ns = 0
        self._last: tuple[int, int] | None = None
        self._is_unsettled = False
        self._do()  # the library's own start belongs to no reading
        self._dear_ns = self._timed()
        self._last = None

    def before_block(self, length_ns: int) -> None:
        """Do it, unless it would then have taken more than its share of the blocks so far and the one to come."""
        allowed_ns = MOST_OF_THE_TIME * (self._blocks_ns + length_ns)
        if self._spent_ns + self._dear_ns <= allowed_ns and not self._is_unsettled:
            self._dear_ns = self._timed()
            self._spent_ns += self._dear_ns

    def after_block(self, duration_ns: int, iterations: int, evidence: Evidence) -> None:
        """Add what the work before this block took to its evidence; nothing where none was done."""
        self._blocks_ns += duration_ns
        self._is_unsettled = iterations == 1 and duration_ns < UNSETTLED_NS
        if self._last is not None:
            evidence.reference_product_ns, evidence.reference_stream_ns = self._last
        self._last = None

    def _timed(self) -> int:
        """Do it twice, as the first time finds in the caches what the engine left there; returns what both took."""
        begin = clock()
        self._do()
        self._last = self._do()
        return clock() - begin

    def _do(self) -> tuple[int, int]:
        left, right, product = self._left, self._right, self._product
        begin = clock()
        for _ in range(PRODUCTS):
            np.matmul(left, right, out=product)
        between = clock()
        np.multiply(self._source, np.float32(0.5), out=self._sink)
        return between - begin, clock() - between
