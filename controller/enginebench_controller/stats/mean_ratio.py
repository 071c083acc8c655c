"""How one mean compares with another, with an interval of their ratio: of times that were all seen in one pass each.

The intervals know these two passes only. Equal processes can differ by more than their own iterations show.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from enginebench_controller.stats.intervals import LEVEL, MIN_BLOCKS, independent_share
from enginebench_proto.agreed import student_t

_FEWEST_DEGREES = 1.0


@dataclass(frozen=True)
class Mean:
    """A mean with its standard error and the error's degrees of freedom."""

    value: float
    error: float
    degrees: float


@dataclass(frozen=True)
class MeanRatio:
    """The second mean compared with the first. `ratio` is None where the first is 0.

    `low` and `high` bound the ratio, and together all ratios of a family of comparisons with 95 % certainty; None where
    nothing bounds it. `p_value` is that of equality, two-sided, times the size of the family.
    """

    difference: float
    ratio: float | None
    low: float | None
    high: float | None
    p_value: float


def mean_of(values: NDArray[np.float64]) -> Mean | None:
    """The mean of values in the order they were seen; ones that follow their neighbours count for fewer.

    None for fewer than two, whose error nobody knows.
    """
    if values.size < 2:
        return None
    mean = float(values.sum()) / values.size
    residuals = values - mean
    squares = float(np.dot(residuals, residuals))
    independent = values.size * (independent_share(residuals) if squares else 1.0)
    degrees = max(independent, min(values.size, MIN_BLOCKS)) - 1
    return Mean(mean, sqrt(squares / (values.size - 1) / independent), degrees)


def sum_of(means: Sequence[Mean]) -> Mean:
    """The sum of independent means."""
    squares = sum(one.error**2 for one in means)
    degrees = sum(one.error**4 / one.degrees for one in means)
    return Mean(sum(one.value for one in means), sqrt(squares), squares**2 / degrees if degrees else _FEWEST_DEGREES)


def half_width(mean: Mean) -> float:
    """Half the width of a mean's 95 % interval."""
    return student_t.quantile((1 + LEVEL) / 2, mean.degrees) * mean.error


def compare_means(a: Mean, b: Mean, comparisons: int = 1) -> MeanRatio:
    """Compare `b` with `a`, one of a family of so many `comparisons` (Bonferroni).

    Welch's t of the difference, with Satterthwaite's degrees of freedom; the ratio's interval is Fieller's, all ρ with
    |b − ρ·a| ≤ t·√(s_b² + ρ²·s_a²), so that it excludes 1 exactly when the test tells the means apart (Fieller, "Some
    Problems in Interval Estimation", Journal of the Royal Statistical Society B 16, 1954).
    """
    difference = b.value - a.value
    error, degrees = _welch(a, b)
    chance = 1 if not error and not difference else 0 if not error else 2 * stdtr(degrees, -abs(difference) / error)
    t = student_t.quantile(1 - (1 - LEVEL) / 2 / comparisons, degrees)
    low, high = _fieller(a, b, t)
    return MeanRatio(
        difference=difference,
        ratio=b.value / a.value if a.value else None,
        low=low,
        high=high,
        p_value=min(1.0, float(chance) * comparisons),
    )


def _welch(a: Mean, b: Mean) -> tuple[float, float]:
    squares = a.error**2 + b.error**2
    parts = a.error**4 / a.degrees + b.error**4 / b.degrees
    return sqrt(squares), squares**2 / parts if parts else _FEWEST_DEGREES


def _fieller(a: Mean, b: Mean, t: float) -> tuple[float | None, float | None]:
    """The roots of (a² − t²s_a²)·ρ² − 2ab·ρ + (b² − t²s_b²) = 0; no bounds where `a` may well be 0."""
    square = a.value**2 - (t * a.error) ** 2
    if square <= 0:
        return None, None
    middle = a.value * b.value
    root = sqrt(max(0.0, middle**2 - square * (b.value**2 - (t * b.error) ** 2)))
    return max(0.0, (middle - root) / square), (middle + root) / square
