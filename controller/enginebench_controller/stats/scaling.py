"""How a figure changes as cores or batch grow: speed-up and efficiency against the ideal, and the sweet spot.

Everything is per work done. With c times the cores, the ideal is that each item takes 1/c of the time. With b times the
batch, it is that the larger batch takes no longer than the smaller one, so that here, too, each item takes 1/b of the
time. Where nothing is gained, each item takes as long as before. So a speed-up of 1 always means no gain, and the ideal
speed-up is always by how much the size has grown.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Axis(StrEnum):
    """What grows while all else stays."""

    CORES = "cores"
    BATCH = "batch"


class Quantity(StrEnum):
    """What is looked at: of times less is better, of the rate more."""

    TIME_PER_ITEM = "time_per_item"
    TIME_PER_BATCH = "time_per_batch"
    ITEMS_PER_S = "items_per_s"

    @property
    def more_is_better(self) -> bool:
        """Whether the larger of two values is the better one."""
        return self is Quantity.ITEMS_PER_S


_EXPONENTS: Mapping[tuple[Axis, Quantity], tuple[int, int]] = {
    (Axis.CORES, Quantity.TIME_PER_ITEM): (-1, 0),
    (Axis.CORES, Quantity.TIME_PER_BATCH): (-1, 0),
    (Axis.CORES, Quantity.ITEMS_PER_S): (1, 0),
    (Axis.BATCH, Quantity.TIME_PER_ITEM): (-1, 0),
    (Axis.BATCH, Quantity.TIME_PER_BATCH): (0, 1),
    (Axis.BATCH, Quantity.ITEMS_PER_S): (1, 0),
}
"""With which power of the size a figure grows: in the ideal case, and where nothing is gained."""


@dataclass(frozen=True)
class ScalingPoint:
    """What was measured at a size; `value` None where it failed, `low` and `high` the ends of its interval if known."""

    size: int
    value: float | None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class ScaledPoint:
    """A point beside the smallest one that has a value; None where either has none.

    `speed_up_low` and `speed_up_high` are the least and the greatest that both intervals allow; None without them.
    """

    size: int
    value: float | None
    low: float | None
    high: float | None
    speed_up: float | None = None
    speed_up_low: float | None = None
    speed_up_high: float | None = None
    efficiency: float | None = None


@dataclass(frozen=True)
class Scaling:
    """Points by size. `base` is the smallest with a value, which all are compared with; None where no point has one.

    `best` and `worst` are None unless two points have a value; of equals the smaller size is named.
    """

    axis: Axis
    figure: Quantity
    points: tuple[ScaledPoint, ...]
    base: ScalingPoint | None
    best: ScaledPoint | None
    worst: ScaledPoint | None

    def ideal(self, size: float) -> float | None:
        """What the figure would be at a size if it grew from the base in the ideal way."""
        return self._grown(size, 0)

    def without_gain(self, size: float) -> float | None:
        """What the figure would be at a size if each item took as long as at the base."""
        return self._grown(size, 1)

    def _grown(self, size: float, place: int) -> float | None:
        if self.base is None or self.base.value is None:
            return None
        return self.base.value * (size / self.base.size) ** _EXPONENTS[self.axis, self.figure][place]


def scale(points: Sequence[ScalingPoint], axis: Axis, figure: Quantity) -> Scaling:
    """Compare points of different sizes, each at least 1, with the smallest one that has a value."""
    ordered = sorted(points, key=lambda point: point.size)
    base = next((point for point in ordered if point.value is not None), None)
    scaled = tuple(_scaled(point, base, axis, figure) for point in ordered)
    known = [one for one in scaled if one.value is not None]
    best, worst = (_first(known, figure, 1), _first(known, figure, -1)) if len(known) > 1 else (None, None)
    return Scaling(axis, figure, scaled, base, best, worst)


def _scaled(point: ScalingPoint, base: ScalingPoint | None, axis: Axis, figure: Quantity) -> ScaledPoint:
    if base is None or point.value is None:
        return ScaledPoint(point.size, point.value, point.low, point.high)
    growth = point.size / base.size
    work = growth ** _EXPONENTS[axis, figure][1]
    speed_up = _speed_up(base.value, point.value, work, figure)
    low, high = _range(base, point, work, figure)
    efficiency = None if speed_up is None else speed_up / growth
    return ScaledPoint(point.size, point.value, point.low, point.high, speed_up, low, high, efficiency)


def _range(base: ScalingPoint, point: ScalingPoint, work: float, figure: Quantity) -> tuple[float | None, float | None]:
    if base is point:
        return None, None
    ends = (
        _speed_up(base.low, point.high, work, figure),
        _speed_up(base.high, point.low, work, figure),
    )
    return (ends[1], ends[0]) if figure.more_is_better else ends


def _speed_up(base: float | None, value: float | None, work: float, figure: Quantity) -> float | None:
    if not base or not value:
        return None
    return value / (base * work) if figure.more_is_better else base * work / value


def _first(known: Sequence[ScaledPoint], figure: Quantity, sign: int) -> ScaledPoint:
    """The best point with a sign of 1, the worst with -1."""
    order = -sign if figure.more_is_better else sign
    return min(known, key=lambda one: (order * (one.value or 0.0), one.size))


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
