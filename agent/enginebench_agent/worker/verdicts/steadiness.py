"""Whether an engine is warm: whether two halves of a window of inferences are alike."""

import statistics
from collections.abc import Sequence

from enginebench_agent.worker.verdicts import mann_whitney

LARGEST_DIFFERENCE = 0.05
"""Quartiles of both halves may differ by this share: pyperf's bound for Q1 and Q3, here for the median too."""

SIGNIFICANCE = 0.01
"""A difference counts when halves of one distribution would differ so only once in a hundred windows.

Without that, a latency with two modes or rare stalls would seldom be steady: its quartiles jump by themselves.
"""

FEWEST = 6
"""Smaller halves cannot differ significantly, whatever they hold: even 5 values below 5 others have p = 0.012."""

_QUARTILES = ("lower quartile", "median", "upper quartile")


def unsteadiness(first: Sequence[int], second: Sequence[int]) -> str:
    """What differs between two consecutive halves of latencies, in a few words; empty when they are alike.

    Halves of fewer than `FEWEST` latencies are judged by their quartiles alone.
    """
    if _begins_with_outlier(first):
        return f"the first inference still took {first[0] / statistics.median(first):.2g} times the median"
    before, after = _quartiles(first), _quartiles(second)
    changes = [later / earlier - 1 if earlier else 0.0 for earlier, later in zip(before, after, strict=True)]
    largest = max(range(3), key=lambda index: abs(changes[index]))
    if abs(changes[largest]) <= LARGEST_DIFFERENCE:
        return ""
    moved = "rose" if changes[largest] > 0 else "fell"
    words = f"the {_QUARTILES[largest]} still {moved} by {100 * abs(changes[largest]):.0f} % between its two halves"
    if is_too_few(first, second):
        return f"too few inferences to tell ({len(first)} and {len(second)}): {words}"
    return words if mann_whitney.p_value(first, second) < SIGNIFICANCE else ""


def is_too_few(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether halves so small could not be told apart."""
    return min(len(first), len(second)) < FEWEST


def _begins_with_outlier(values: Sequence[int]) -> bool:
    """pyperf's rule (pyperf/_worker.py): the first value lies above Q3 + 1.5·IQR of the others.

    And by more than `LARGEST_DIFFERENCE` above the median, because the quartiles of a constant latency coincide.
    """
    if len(values) < FEWEST:
        return False
    lower, median, upper = _quartiles(values[1:])
    return values[0] > max(upper + 1.5 * (upper - lower), (1 + LARGEST_DIFFERENCE) * median)


def _quartiles(values: Sequence[int]) -> tuple[float, float, float]:
    if len(values) < 2:
        return (values[0],) * 3
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, median, upper
