"""A rate from blocks of work: median, interval, and what became of blocks in which the machine did something else."""

import statistics
from collections.abc import Callable, Sequence
from math import comb

from enginebench_agent.machine import this_process
from enginebench_agent.machine.disturbances import disturbances
from enginebench_agent.machine.evidence import EvidenceReader
from enginebench_agent.worker.loads.block import clock
from enginebench_proto.v1.peaks_pb2 import Rate

BLOCKS = 9
"""The fewest whose second and last but one hold the median in 95 of 100 cases."""

FEWEST = 3
LONGEST_NS = 1_000_000_000
"""After so long no further block begins when there are `FEWEST`; slow boards would take minutes otherwise."""

MOST_DISTURBED = 6
"""Beyond so many, the machine is not going to be quiet."""

Work = tuple[float, int]
"""What a block did, in operations or bytes, and how long it took, in nanoseconds."""


class RateMeter:
    """Runs blocks and watches the machine meanwhile."""

    def __init__(self, cores: int) -> None:
        self._cores = cores
        self._evidence = EvidenceReader(this_process.affinity())

    def measure(self, block: Callable[[], Work]) -> Rate:
        """Repeat a block. Disturbed ones are left out as long as `FEWEST` others remain: they say nothing of a peak."""
        clean: list[float] = []
        disturbed: list[float] = []
        begin = clock()
        while len(clean) < BLOCKS and len(disturbed) <= MOST_DISTURBED:
            if clock() - begin > LONGEST_NS and len(clean) + len(disturbed) >= FEWEST:
                break
            rate_per_s, is_disturbed = self._run(block)
            (disturbed if is_disturbed else clean).append(rate_per_s)
        too_few = len(clean) < FEWEST
        rate = to_rate(clean + disturbed if too_few else clean)
        rate.disturbed_blocks, rate.disturbed = len(disturbed), too_few
        return rate

    def _run(self, block: Callable[[], Work]) -> tuple[float, bool]:
        begin = clock()
        self._evidence.begin()
        amount, duration_ns = block()
        evidence = self._evidence.end()
        found = disturbances(evidence, clock() - begin, self._cores, self._evidence.highest_frequency_hz)
        return amount * 1e9 / duration_ns, bool(found)


def to_rate(rates_per_s: Sequence[float]) -> Rate:
    """Median and 95 % interval by order statistics: that the median lies beyond the k-th of n is binomial.

    Source: Conover, "Practical Nonparametric Statistics", 3rd edition, 1999, §3.2.
    """
    ordered, skipped = sorted(rates_per_s), _beyond(len(rates_per_s))
    return Rate(
        median_per_s=statistics.median(ordered),
        low_per_s=ordered[skipped],
        high_per_s=ordered[-1 - skipped],
        blocks=len(ordered),
    )


def _beyond(count: int) -> int:
    """How many of the smallest, and of the largest, lie outside the interval: 0 below nine."""
    skipped = 0
    while 2 * sum(comb(count, k) for k in range(skipped + 2)) <= 0.05 * 2**count:
        skipped += 1
    return skipped
