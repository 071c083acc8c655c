"""Times of single inferences from counters that tell a running average in whole microseconds.

OpenVINO's CPU divides the time a layer took since the network was compiled by the number of inferences, and cuts the
quotient to whole microseconds. After inference n the total lies within [n·average, n·(average + 1)): a tube around the
true path of totals. Differences of its lower edge jump by up to n µs, which buries small layers. Of all paths through
the tube the shortest one, the taut string (Davies and Kovac, Annals of Statistics 29, 2001), changes its slope only
where the readings force it to: a steady layer gets a steady time, exact to about 1 µs ÷ n, and an outlier stays one.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise

NS_PER_US = 1000


def single_times_ns(averages_us: Sequence[int]) -> list[int] | None:
    """The time of each inference, in nanoseconds, from the average after each, beginning with the network's first.

    None when the totals would shrink: then the readings are no running averages.
    """
    low = [number * average for number, average in enumerate(averages_us, start=1)]
    high = [number * (average + 1) for number, average in enumerate(averages_us, start=1)]
    # Totals never shrink, so every reading bounds those after it from below and those before it from above.
    low = list(accumulate(low, max))
    high = list(accumulate(reversed(high), min))[::-1]
    if any(lowest > highest for lowest, highest in zip(low, high, strict=True)):
        return None
    totals_us = _taut_string([0, *low], [0, *high])
    return [round((after - before) * NS_PER_US) for before, after in pairwise(totals_us)]


def _taut_string(low: Sequence[float], high: Sequence[float]) -> list[float]:
    """The shortest path from the start of the tube to the middle of its end, one height a step."""
    middle = (low[-1] + high[-1]) / 2
    low, high = [*low[:-1], middle], [*high[:-1], middle]
    path = [low[0]]
    while len(path) < len(low):
        start = len(path) - 1
        bend, height = _next_bend(low, high, start, path[-1])
        slope = (height - path[-1]) / (bend - start)
        path += [path[start] + slope * step for step in range(1, bend - start + 1)]
    return path


def _next_bend(low: Sequence[float], high: Sequence[float], start: int, height: float) -> tuple[int, float]:
    """Where a string drawn straight from (start, height) first touches an edge it has to go around, or the end."""
    steepest, steepest_at, flattest, flattest_at = float("inf"), start, float("-inf"), start
    for step in range(start + 1, len(low)):
        rise_low, rise_high = ((edge[step] - height) / (step - start) for edge in (low, high))
        if rise_low > steepest:
            return steepest_at, high[steepest_at]
        if rise_high < flattest:
            return flattest_at, low[flattest_at]
        if rise_high <= steepest:
            steepest, steepest_at = rise_high, step
        if rise_low >= flattest:
            flattest, flattest_at = rise_low, step
    return len(low) - 1, low[-1]
