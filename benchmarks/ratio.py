"""Ratios with an interval, and the spread of repeated runs."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binom, bootstrap

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Ratio:
    """A ratio and the bounds of its 95 % confidence interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


def paired_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The typical ratio of ours to theirs, round by round."""
    return median_ratio([one / other for one, other in zip(ours, theirs, strict=True)])


def median_ratio(ratios: Sequence[float]) -> Ratio:
    """The median of a ratio a round, between the order statistics that enclose the true one with at least 95 %.

    A round is one pair of processes: the rounds are independent, the samples within them are not. Now and then a
    process is slower by a third for as long as it lives, on either side; a mean would be that round's. Source of the
    interval: the sign test (Conover, "Practical Nonparametric Statistics", 1971, §3.2).
    """
    ordered = sorted(ratios)
    outside = int(binom.ppf((1 - CONFIDENCE) / 2, len(ordered), 0.5))  # so many on either side may be left out
    if binom.cdf(0, len(ordered), 0.5) > (1 - CONFIDENCE) / 2:
        return Ratio(statistics.median(ordered), 0.0, math.inf)
    return Ratio(statistics.median(ordered), ordered[outside - 1], ordered[-outside])


def variation(values: Sequence[float]) -> float:
    """Standard deviation ÷ mean; NaN for a single value."""
    if len(values) < 2:
        return math.nan
    return statistics.stdev(values) / statistics.fmean(values)


def spread_ratio(ours: Sequence[float], theirs: Sequence[float]) -> Ratio:
    """The variation of ours ÷ that of theirs.

    The interval comes of rounds drawn anew, both sides of a round together, as they share the machine's moods. Source:
    the bias-corrected and accelerated bootstrap (Efron, "Better Bootstrap Confidence Intervals", 1987). Without three
    rounds, or where a side does not vary, there is none.
    """
    if len(ours) < 3 or not variation(theirs):
        return Ratio(math.nan, 0.0, math.inf)
    drawn = bootstrap((ours, theirs), _spread_ratio, paired=True, confidence_level=CONFIDENCE, rng=1)
    low, high = drawn.confidence_interval
    return Ratio(float(_spread_ratio(np.array(ours), np.array(theirs))), float(low), float(high))


def _spread_ratio(ours: np.ndarray, theirs: np.ndarray, axis: int = -1) -> np.ndarray:
    def variations(values: np.ndarray) -> np.ndarray:
        return np.std(values, axis=axis, ddof=1) / np.mean(values, axis=axis)

    return variations(ours) / variations(theirs)
