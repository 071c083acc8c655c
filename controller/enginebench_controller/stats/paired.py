"""How two things compare that took turns: pairs of processes, each one observation, with an interval over pairs.

A process pair is the same process of two members of one interleaved group: both were alive together and took turns
block by block. Within a pair the blocks share what the machine did; from pair to pair the luck of processes is drawn
anew. All ratios are kept as natural logarithms: twice as slow and twice as fast are equally far from 0. How the
estimators were chosen stands in docs/reference/measuring.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, exp, fsum, inf, log, sqrt
from statistics import NormalDist, median

from enginebench_controller.stats import intervals
from enginebench_controller.stats.intervals import LEVEL
from enginebench_proto.agreed import student_t

FEWEST_PAIRS = 2
"""One process pair tells nothing of how pairs differ: there is no interval."""

TRIMMED = 0.2
"""The share of the pairs that is left out at each end, of all but one of them: none of five, one of six, four of 21.

One process in some twenty is slower by a tenth or more for as long as it lives, and a busy neighbour strikes several
pairs in succession. Wilcox, "Introduction to Robust Estimation and Hypothesis Testing", recommends a fifth as well.
"""

LOOKED_AT = -NormalDist().inv_cdf((1 - LEVEL) / 4)
"""By how many standard errors an interval reaches at its last look when it may be looked at after every pair: 2.24.

A sum of independent steps, looked at all the time, comes this far in 5 % of all cases: a Brownian motion exceeds c by
time 1 with a probability of at most 4·(1 − Φ(c)), by the reflection principle.
"""

_LEAST_CHANCE = 1e-290
"""Of a tail; beyond it quantiles are no numbers any more, nor exponentials beyond `_LARGEST`."""

_LARGEST = 700.0


@dataclass(frozen=True)
class RatioInterval:
    """An estimate of a log ratio between the ends of its 95 % interval."""

    middle: float
    low: float
    high: float

    @property
    def ratios(self) -> tuple[float, float, float]:
        """The middle and the two ends as ratios; infinite where they are no numbers any more."""
        middle, low, high = (exp(one) if one < _LARGEST else inf for one in (self.middle, self.low, self.high))
        return middle, low, high

    @property
    def inverse(self) -> "RatioInterval":
        """That of the inverse ratio."""
        return RatioInterval(-self.middle, -self.high, -self.low)

    @property
    def half(self) -> float:
        """Half the width."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Estimate:
    """A log ratio over process pairs with its standard error and the error's degrees of freedom."""

    middle: float
    error: float
    degrees: int

    @property
    def p_value(self) -> float:
        """That of the log ratio being 0, two-sided; certain where there is no error."""
        return intervals.welch_p_value(self.middle, self.error, self.degrees)

    def within(self, errors: float) -> RatioInterval:
        """The interval that reaches so far to each side as normal deviates would `errors` standard errors."""
        half = 0.0 if self.error == 0 else _student(errors, self.degrees) * self.error
        return RatioInterval(self.middle, self.middle - half, self.middle + half)


def log_ratio(first: Sequence[float], second: Sequence[float]) -> float | None:
    """The log ratio second ÷ first of one process pair, from its blocks' medians: the median over pairs of blocks.

    Both have the blocks that the two have in common, in the same order, without disturbed ones. None without any, or
    where a median is not above 0. Raises ValueError when one is longer than the other.
    """
    if len(first) != len(second):
        raise ValueError(f"blocks in common are as many on both sides, not {len(first)} and {len(second)}")
    if not len(first) or min(*first, *second) <= 0:
        return None
    return median(log(b) - log(a) for a, b in zip(first, second, strict=True))


def estimate(log_ratios: Sequence[float]) -> Estimate | None:
    """The trimmed mean of the pairs' log ratios; None for fewer than two pairs.

    Its standard error is √((n − 1)·s² ÷ (h·(h − 1))), with s² the variance of all n values after those trimmed were
    moved to the nearest of the h that are left, and h − 1 degrees of freedom: Tukey and McLaughlin, "Less Vulnerable
    Confidence and Significance Procedures for Location Based on a Single Sample", Sankhyā A 25, 1963; Yuen, "The
    Two-Sample Trimmed t for Unequal Population Variances", Biometrika 61, 1974. Of up to five pairs it is Student's t.
    """
    if len(log_ratios) < FEWEST_PAIRS:
        return None
    ordered = sorted(map(float, log_ratios))
    out = int(TRIMMED * (len(ordered) - 1))
    kept = ordered[out : len(ordered) - out]
    moved = [*[kept[0]] * out, *kept, *[kept[-1]] * out]
    centre = fsum(moved) / len(moved)
    squares = fsum((one - centre) ** 2 for one in moved)
    return Estimate(fsum(kept) / len(kept), sqrt(squares / (len(kept) * (len(kept) - 1))), len(kept) - 1)


def interval(log_ratios: Sequence[float]) -> RatioInterval | None:
    """The interval of the log ratio over a number of process pairs that was fixed before; None for fewer than two."""
    found = estimate(log_ratios)
    return None if found is None else found.within(-NormalDist().inv_cdf((1 - LEVEL) / 2))


def sequential_interval(log_ratios: Sequence[float], most: int) -> RatioInterval | None:
    """The interval so far, which may be looked at after every pair, up to `most` pairs, at no cost in false alarms.

    It is `LOOKED_AT`·√(most ÷ pairs) standard errors wide: wide while there are few pairs, and at the last by a seventh
    wider than one that was looked at once. That is O'Brien and Fleming's rule ("A Multiple Testing Procedure for
    Clinical Trials", Biometrics 35, 1979) for looks without number, and what Lan and DeMets' spending function spends
    ("Discrete Sequential Boundaries for Clinical Trials", Biometrika 70, 1983). Normal quantiles are replaced by
    Student's of the same chance (Jennison and Turnbull, "Group Sequential Methods", 2000, section 4.4).
    """
    found = estimate(log_ratios)
    return None if found is None else found.within(LOOKED_AT * sqrt(max(most / len(log_ratios), 1.0)))


def sequential_p_value(log_ratios: Sequence[float], most: int) -> float | None:
    """The p-value that goes with `sequential_interval`: below 5 % where the interval leaves out 0."""
    found = estimate(log_ratios)
    if found is None:
        return None
    if not found.p_value:
        return 0.0
    reached = -NormalDist().inv_cdf(found.p_value / 2) / sqrt(max(most / len(log_ratios), 1.0))
    return min(1.0, 4 * _normal_tail(reached))


def spread(log_ratios: Sequence[float]) -> float | None:
    """The SD of the log ratio from pair to pair, as the interval sees it: its standard error times √pairs."""
    found = estimate(log_ratios)
    return None if found is None else found.error * sqrt(len(log_ratios))


def detectable(spread: float, pairs: int, least: float = 0.0, power: float = 0.9) -> float:
    """The log ratio that is found with a probability of `power` within so many pairs, looked at after each.

    Found is one whose interval lies above 0 and whose middle lies above `least`. Raises ValueError for fewer than two
    pairs.
    """
    if pairs < FEWEST_PAIRS:
        raise ValueError(f"{pairs} process pairs find nothing; {FEWEST_PAIRS} are needed")
    degrees = pairs - 2 * int(TRIMMED * (pairs - 1)) - 1
    error = spread / sqrt(pairs)
    return max(_student(LOOKED_AT, degrees) * error, least) + _student(NormalDist().inv_cdf(power), degrees) * error


def _student(errors: float, degrees: int) -> float:
    """The quantile of Student's t that is exceeded as seldom as `errors` by a normal deviate."""
    chance = _normal_tail(errors)
    return inf if chance < _LEAST_CHANCE else -student_t.quantile(chance, degrees)


def _normal_tail(deviate: float) -> float:
    """The chance of a normal deviate above this one, as exact far out as near 0."""
    return erfc(deviate / sqrt(2)) / 2
