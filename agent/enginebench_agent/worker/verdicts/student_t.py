"""Quantiles of Student's t distribution without SciPy, which agents do not have."""

import math
from statistics import NormalDist


def quantile(probability: float, degrees: float) -> float:
    """The value below which `probability` of the distribution with `degrees` ≥ 3 degrees of freedom lies.

    Cornish–Fisher expansion in 1/degrees, four terms: Abramowitz and Stegun, "Handbook of Mathematical Functions",
    1964, 26.7.5. At 0.975 it is too small by 0.12 % with 3 degrees and by 0.01 % with 5.
    """
    x = NormalDist().inv_cdf(probability)
    terms: tuple[float, ...] = (
        (x**3 + x) / 4,
        (5 * x**5 + 16 * x**3 + 3 * x) / 96,
        (3 * x**7 + 19 * x**5 + 17 * x**3 - 15 * x) / 384,
        (79 * x**9 + 776 * x**7 + 1482 * x**5 - 1920 * x**3 - 945 * x) / 92160,
    )
    return x + math.fsum(term / degrees ** (power + 1) for power, term in enumerate(terms))
