"""Confidence intervals from whole blocks and whole processes; single iterations follow one another too closely.

Samples of one block share what the machine did meanwhile, and samples of one process share where its memory came to
lie. Either is therefore one observation (a cluster), however many samples it has.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import Interval, IntervalMethod
from enginebench_proto.agreed import student_t

Numbers = NDArray[np.float64]


def welch(a: Numbers, b: Numbers) -> tuple[float, float, float]:
    """Mean of `b` less mean of `a`, its standard error, and Satterthwaite's degrees of freedom (1 without any error).

    Both are arrays of shape (n,) with n ≥ 2 independent values.
    """
    squares = np.array([np.var(a, ddof=1) / a.size, np.var(b, ddof=1) / b.size])
    error = float(np.sqrt(squares.sum()))
    degrees = float(squares.sum() ** 2 / (squares**2 / (a.size - 1, b.size - 1)).sum()) if error else 1.0
    return float(np.mean(b) - np.mean(a)), error, degrees


def welch_p_value(middle: float, error: float, degrees: float) -> float:
    """Two-sided p of a difference being 0 by Student's t; certain where there is no error."""
    if not error:
        return 0.0 if middle else 1.0
    return 2 * student_t.tail(abs(middle) / error, degrees)


LEVEL = 0.95
"""The nominal coverage of every interval."""

MIN_BLOCKS = 6
"""With fewer blocks there is no interval within one process."""

CORRELATED = 0.5
"""A correlation between neighbouring blocks counts from so many of its standard errors on.

Simulated runs of 40 blocks, each correlated by 0.5 with the one before, were covered 88 % of the time without the
correction and 94 % with it. Independent blocks pay for it with 3 % more width, 12 of them with 20 %.
"""

MIN_CORRELATED_BLOCKS = 12
"""With fewer blocks their correlation cannot be told, and is not looked for."""

_STRONGEST_CORRELATION = 0.8


def over_processes(values: Sequence[float]) -> Interval | None:
    """The interval of the mean of one value a process: mean ± t·SD/√K with K − 1 degrees of freedom, but not below 0.

    The values are durations or rates. None for fewer than two processes. Source: Kalibera and Jones, "Rigorous
    Benchmarking in Reasonable Time", ISMM 2013, with the process as the highest level that is repeated.
    """
    if len(values) < 2:
        return None
    mean, half = mean_and_half_width(np.asarray(values, dtype=np.float64))
    return Interval(max(0.0, mean - half), mean + half, LEVEL, IntervalMethod.PROCESSES_T)


def mean_and_half_width(values: Numbers) -> tuple[float, float]:
    """The mean of K ≥ 2 independent values, and half the width of its t interval."""
    error = float(np.std(values, ddof=1)) / np.sqrt(values.size)
    return float(np.mean(values)), float(t_quantile(values.size - 1) * error)


def t_quantile(degrees: float) -> float:
    """By how many standard errors an interval of `LEVEL` reaches to each side."""
    return student_t.quantile((1 + LEVEL) / 2, degrees)


def of_quantile(
    share: float, below: Numbers, up_to: Numbers, sizes: Numbers, quantile: Callable[[float], float]
) -> Interval | None:
    """The interval of the quantile of `share` over the blocks of one process.

    `below` and `up_to` have the number of samples below the estimated quantile, and up to it, in each block, and
    `sizes` the number of samples, all of shape (blocks,); `quantile` gives the pooled quantile of a share. The interval
    of the share is found from the blocks' shares and mapped back through the pooled order statistics. Where many
    samples equal the quantile, the share below it decides how far down it could lie, the share up to it how far up.

    None with fewer than `MIN_BLOCKS` blocks, or where a bound would lie outside the data. Source: Woodruff,
    "Confidence Intervals for Medians and Other Position Measures", Journal of the American Statistical Association 47,
    1952.
    """
    down, up = ratio_and_half_width(below, sizes), ratio_and_half_width(up_to, sizes)
    if down is None or up is None or share - down[1] < 0 or share + up[1] > 1:
        return None
    return Interval(quantile(share - down[1]), quantile(share + up[1]), LEVEL, IntervalMethod.BLOCKS)


def of_ratio(amounts: Numbers, sizes: Numbers) -> Interval | None:
    """The interval of Σ amounts ÷ Σ sizes over the blocks of one process, not below 0.

    None with fewer than `MIN_BLOCKS` blocks.
    """
    ratio = ratio_and_half_width(amounts, sizes)
    if ratio is None:
        return None
    return Interval(max(0.0, ratio[0] - ratio[1]), ratio[0] + ratio[1], LEVEL, IntervalMethod.BLOCKS_T)


def ratio_and_half_width(amounts: Numbers, sizes: Numbers) -> tuple[float, float] | None:
    """R = Σ amounts ÷ Σ sizes over blocks, arrays of shape (blocks,), and half the width of its t interval.

    With e = amount − R·size for each of B blocks, the standard error is √(B/(B − 1)·Σe²) ÷ Σ sizes, with B − 1 degrees
    of freedom: the ratio estimator of cluster sampling (Cochran, "Sampling Techniques", 3rd edition, 1977, chapters 6
    and 9A). Blocks that follow their neighbours count for fewer. None with fewer than `MIN_BLOCKS` blocks.
    """
    amounts, sizes = amounts[sizes > 0], sizes[sizes > 0]
    if sizes.size < MIN_BLOCKS:
        return None
    ratio = float(amounts.sum() / sizes.sum())
    residuals = amounts - ratio * sizes
    worth = independent_share(residuals)
    squares = float(np.dot(residuals, residuals))
    error = np.sqrt(sizes.size / (sizes.size - 1) * squares / worth) / sizes.sum()
    return ratio, float(t_quantile(max(sizes.size * worth, MIN_BLOCKS) - 1) * error)


def independent_share(residuals: Numbers) -> float:
    """How many independent blocks one of these is worth: (1 − r)/(1 + r), with r the correlation of neighbours.

    That is the effective sample size of a first-order autoregressive series (Thiébaux and Zwiers, "The Interpretation
    and Estimation of Effective Sample Size", Journal of Climate and Applied Meteorology 23, 1984), with r corrected for
    its bias by (1 + 3r)/B (Kendall, "Note on Bias in the Estimation of Autocorrelation", Biometrika 41, 1954).
    """
    squares = float(np.dot(residuals, residuals))
    products = float(np.dot(residuals[:-1], residuals[1:]))
    if residuals.size < MIN_CORRELATED_BLOCKS or products <= CORRELATED / np.sqrt(residuals.size) * squares:
        return 1.0
    seen = products / squares
    correlation = min(seen + (1 + 3 * seen) / residuals.size, _STRONGEST_CORRELATION)
    return (1 - correlation) / (1 + correlation)
