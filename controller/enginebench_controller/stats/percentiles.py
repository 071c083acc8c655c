"""How many samples a percentile needs before it says anything."""

from functools import cache

from scipy.special import bdtr

PERCENTS = (50.0, 90.0, 95.0, 99.0, 99.9)
"""The percentiles of every summary."""

CONFIDENCE = 0.99
"""With which at least two samples are to lie above a percentile that is shown."""


@cache
def samples_needed(percent: float) -> int:
    """The smallest number of samples with which a percentile, 50 ≤ percent < 100, is shown.

    It is the smallest n with P(Binomial(n, 1 − percent/100) ≤ 1) ≤ 1 − `CONFIDENCE`: two or more samples above the true
    percentile are then all but certain, so it is not a guess made from the maximum. The rule is MLPerf LoadGen's
    (early_stopping.cc) with one discarded sample.
    """
    if not 50 <= percent < 100:
        raise ValueError(f"percentiles from 50 to below 100 are known, not {percent}")
    above = (100 - percent) / 100
    enough, too_few = 2, 1
    while not _enough(enough, above):
        enough, too_few = enough * 2, enough
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        enough, too_few = (middle, too_few) if _enough(middle, above) else (enough, middle)
    return enough


def _enough(samples: int, above: float) -> bool:
    return bool(bdtr(1, samples, above) <= 1 - CONFIDENCE)
