"""The mean latency of a measurement with its interval, from what each block adds up to; no raw sample is needed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from enginebench_controller.records import Interval
from enginebench_controller.stats import intervals
from enginebench_controller.stats.summary import Excluded


@dataclass(frozen=True)
class BlockLatency:
    """The raw latencies of one block of a process: how many, their sum and their median, in nanoseconds."""

    process: int
    block: int
    samples: int
    total_ns: int
    median_ns: float


def mean_interval(blocks: Sequence[BlockLatency], excluded: Excluded = ()) -> Interval | None:
    """The interval of the mean latency: `intervals.over_processes` over their means, or over the blocks of one process.

    None where there are too few of either. `excluded` blocks count for nothing.
    """
    counted = [one for one in blocks if (one.process, one.block) not in excluded and one.samples]
    members = {process: [one for one in counted if one.process == process] for process in {b.process for b in counted}}
    if len(members) != 1:
        return intervals.over_processes([_mean_ns(own) for own in members.values()])
    totals = np.array([one.total_ns for one in counted], dtype=np.float64)
    return intervals.of_ratio(totals, np.array([one.samples for one in counted], dtype=np.float64))


def _mean_ns(blocks: Sequence[BlockLatency]) -> float:
    return sum(one.total_ns for one in blocks) / sum(one.samples for one in blocks)
