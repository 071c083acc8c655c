"""Ratios with an interval, and the spread of repeated runs."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import t

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
    """The geometric mean of ours ÷ theirs, round by round, with Student's t interval of the logarithms.

    A round is one pair of processes: the rounds are independent, the samples within them are not.
    """
    logs = [math.log(one / other) for one, other in zip(ours, theirs, strict=True)]
    centre = statistics.fmean(logs)
    width = _half_width(logs)
    return Ratio(math.exp(centre), math.exp(centre - width), math.exp(centre + width))


def variation(values: Sequence[float]) -> float:
    """Standard deviation ÷ mean; NaN for a single value."""
    if len(values) < 2:
        return math.nan
    return statistics.stdev(values) / statistics.fmean(values)


def _half_width(values: Sequence[float]) -> float:
    if len(values) < 2:
        return math.inf
    quantile = float(t.ppf((1 + CONFIDENCE) / 2, len(values) - 1))
    return quantile * statistics.stdev(values) / math.sqrt(len(values))
