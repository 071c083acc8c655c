"""How two things compare that took turns: pairs of processes, each one observation, with an interval over pairs.

A process pair is the same process of two members of one interleaved group: both were alive together and took turns
block by block. Within a pair the blocks share what the machine did; from pair to pair the luck of processes is drawn
anew. All ratios are kept as natural logarithms: twice as slow and twice as fast are equally far from 0.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np
from scipy.special import ndtri

from enginebench_controller.stats.intervals import t_quantile

FEWEST_PAIRS = 3
"""With fewer process pairs there is no interval."""


@dataclass(frozen=True)
class Interval:
    """An estimate of a log ratio between the ends of its 95 % interval."""

    middle: float
    low: float
    high: float

    @property
    def ratios(self) -> tuple[float, float, float]:
        """The middle and the ends as ratios."""
        return exp(self.middle), exp(self.low), exp(self.high)


def log_ratio(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The log ratio second ÷ first of one process pair, from its blocks' medians: the median over pairs of blocks.

    Both have the blocks that the two have in common, in the same order, without disturbed ones. None without any, or
    where a median is not above 0. Raises ValueError when one is longer than the other.
    """
    if len(first) != len(second):
        raise ValueError(f"blocks in common are as many on both sides, not {len(first)} and {len(second)}")
    if not first or min(*first, *second) <= 0:
        return None
    return float(np.median([log(b) - log(a) for a, b in zip(first, second, strict=True)]))


def interval(log_ratios: Sequence[float]) -> Interval | None:
    """The interval of the log ratio over a number of process pairs that was fixed before; None for fewer than three."""
    if len(log_ratios) < FEWEST_PAIRS:
        return None
    values = np.asarray(log_ratios, dtype=np.float64)
    middle, half = (
        float(np.mean(values)),
        t_quantile(values.size - 1) * float(np.std(values, ddof=1)) / sqrt(values.size),
    )
    return Interval(middle, middle - half, middle + half)


def sequential_interval(log_ratios: Sequence[float], most: int) -> Interval | None:
    """The interval so far, which may be looked at after every pair, up to `most` pairs, at no cost in false alarms."""
    found = interval(log_ratios)
    if found is None:
        return None
    stretch = sqrt(max(most, len(log_ratios)) / len(log_ratios))  # O'Brien and Fleming's, not yet simulated
    return Interval(
        found.middle,
        found.middle - stretch * (found.middle - found.low),
        found.middle + stretch * (found.high - found.middle),
    )


def detectable(spread: float, pairs: int, power: float = 0.9) -> float:
    """The log ratio whose interval over so many pairs lies beyond 0 with a probability of `power`.

    `spread` is the standard deviation of the log ratio from pair to pair.
    """
    return float(t_quantile(pairs - 1) + ndtri(power)) * spread / sqrt(pairs)
