"""The difference of two means whose variances differ: Welch, "The Generalization of 'Student's' Problem", 1947."""

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

Numbers = NDArray[np.float64]


def difference(a: Numbers, b: Numbers) -> tuple[float, float, float]:
    """Mean of `b` less mean of `a`, its standard error, and Satterthwaite's degrees of freedom (1 without any error).

    Both are arrays of shape (n,) with n ≥ 2 independent values.
    """
    squares = np.array([np.var(a, ddof=1) / a.size, np.var(b, ddof=1) / b.size])
    error = float(np.sqrt(squares.sum()))
    degrees = float(squares.sum() ** 2 / (squares**2 / (a.size - 1, b.size - 1)).sum()) if error else 1.0
    return float(np.mean(b) - np.mean(a)), error, degrees


def p_value(middle: float, error: float, degrees: float) -> float:
    """Two-sided p of a difference being 0 by Student's t; certain where there is no error."""
    if not error:
        return 0.0 if middle else 1.0
    return float(2 * stdtr(degrees, -abs(middle) / error))
