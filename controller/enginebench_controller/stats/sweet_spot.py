"""The sweet spot: of several points the one with the most throughput that is still quick enough."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class OperatingPoint:
    """What one configuration reaches: its latency in nanoseconds and its throughput in items/s; None without numbers.

    `id` tells points apart, and decides between equal ones.
    """

    id: str
    latency_ns: float | None
    throughput_items_per_s: float | None


def sweet_spot(points: Iterable[OperatingPoint], threshold_ns: float | None) -> OperatingPoint | None:
    """Return the point of most throughput whose latency is at most `threshold_ns`, which itself is quick enough.

    Of equal throughputs the quicker point wins, and of equal points the one with the smallest id, whatever the order
    they come in. Points without numbers never win. None where no point is quick enough, and without a threshold, which
    0 means, too.
    """
    if not threshold_ns or threshold_ns < 0:
        return None
    return _best(point for point in points if point.latency_ns is not None and point.latency_ns <= threshold_ns)


def best_point(points: Iterable[OperatingPoint]) -> OperatingPoint | None:
    """Return the point of most throughput, however slow; ties and points without numbers as for `sweet_spot`."""
    return _best(points)


def _best(points: Iterable[OperatingPoint]) -> OperatingPoint | None:
    # Of a point without latency nobody can say how quick it is: it is no operating point, whatever its throughput.
    known = [
        (-point.throughput_items_per_s, point.latency_ns, point.id, point)
        for point in points
        if point.throughput_items_per_s is not None and point.latency_ns is not None
    ]
    return min(known, key=lambda one: one[:3])[3] if known else None
