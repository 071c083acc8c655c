"""Whether two sets of numbers come from one distribution, by their ranks alone."""

import math
from collections.abc import Sequence
from itertools import groupby


def p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p of the Mann–Whitney U test by its normal approximation, with corrections for ties and continuity.

    1 where either is empty or all numbers are equal. Source: Mann and Whitney, "On a Test of Whether one of Two Random
    Variables is Stochastically Larger than the Other", Annals of Mathematical Statistics 18, 1947; the correction for
    ties as in Lehmann, "Nonparametrics", 1975, §1.4.
    """
    m, n = len(first), len(second)
    rank_sum, ties = _rank_sum_and_ties(first, second)
    total = m + n
    if not (m and n) or ties == total**3 - total:
        return 1.0
    mean = m * n / 2
    variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)))
    distance = max(0.0, abs(rank_sum - m * (m + 1) / 2 - mean) - 0.5)
    return math.erfc(distance / math.sqrt(2 * variance))


def _rank_sum_and_ties(first: Sequence[float], second: Sequence[float]) -> tuple[float, int]:
    """The sum of the ranks of `first` among all, tied ones sharing their mean, and Σ(t³ − t) over groups of t ties."""
    ordered = sorted([(value, 1) for value in first] + [(value, 0) for value in second])
    rank_sum, ties, before = 0.0, 0, 0
    for _, group in groupby(ordered, key=lambda pair: pair[0]):
        members = [belongs for _, belongs in group]
        size = len(members)
        rank_sum += sum(members) * (before + (size + 1) / 2)
        ties += size**3 - size
        before += size
    return rank_sum, ties
