"""What a profile amounts to: mean times with their intervals, shares, and how far counters and sums can be trusted.

Only layers that were executed and timed count anywhere here; all others have no time, which is not a time of 0.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from enginebench_controller.records import Interval, IntervalMethod, Layer, LayerState, Profile
from enginebench_controller.stats.intervals import LEVEL, MIN_BLOCKS, mean_and_half_width, ratio_and_half_width


@dataclass(frozen=True)
class TypeTime:
    """The timed layers of one type: the sum of their mean times, its share of the whole, and their number.

    `precisions` counts them by the precision they ran in, in the engine's own words, "" where it does not tell.
    """

    type: str
    time_ns: float
    share: float | None
    layers: int
    precisions: Mapping[str, int]


def mean_ns(layer: Layer) -> float | None:
    """The mean time of a layer in one inference, in nanoseconds; None unless it was executed and timed."""
    if layer.state != LayerState.EXECUTED or not layer.time_ns:
        return None
    return sum(layer.time_ns) / len(layer.time_ns)


def interval(layer: Layer) -> Interval | None:
    """The 95 % interval of a layer's mean time: mean ± t·SD/√n over n inferences, but not below 0.

    From `MIN_BLOCKS` inferences on, those that follow their neighbours count for fewer, as `ratio_and_half_width` has
    it, with inferences as the clusters. It says how far this pass could have told another mean, not what another
    process would have shown. None for fewer than two inferences.
    """
    if mean_ns(layer) is None or len(layer.time_ns) < 2:
        return None
    times = np.asarray(layer.time_ns, dtype=np.float64)
    found = ratio_and_half_width(times, np.ones_like(times)) if times.size >= MIN_BLOCKS else None
    mean, half = found or mean_and_half_width(times)
    return Interval(max(0.0, mean - half), mean + half, LEVEL, IntervalMethod.ITERATIONS_T)


def total_ns(layers: Iterable[Layer]) -> float | None:
    """The sum of the layers' mean times, in nanoseconds; None without any timed layer."""
    times = [time for time in map(mean_ns, layers) if time is not None]
    return sum(times) if times else None


def share(layer: Layer, total: float | None) -> float | None:
    """A layer's mean time ÷ `total` nanoseconds; None where either is unknown."""
    return ratio(mean_ns(layer), total)


def layers_to_latency(profile: Profile) -> float | None:
    """The median inference's Σ layers ÷ the median latency without counters, so that both leave disturbances out.

    Below 1 there is time outside layers, above 1 layers overlap.
    """
    times = [layer.time_ns for layer in profile.layers if mean_ns(layer) is not None]
    if not times:
        return None
    return ratio(float(np.median(np.sum(times, axis=0))), profile.unprofiled_latency_ns)


def profiled_to_unprofiled(profile: Profile) -> float | None:
    """The median latency with counters ÷ that without: what the counters cost."""
    return ratio(profile.profiled_latency_ns, profile.unprofiled_latency_ns)


def by_type(layers: Iterable[Layer]) -> tuple[TypeTime, ...]:
    """The timed layers by type, the type that takes most time first."""
    timed: dict[str, list[tuple[Layer, float]]] = defaultdict(list)
    for layer in layers:
        if (time := mean_ns(layer)) is not None:
            timed[layer.type].append((layer, time))
    total = sum(time for members in timed.values() for _, time in members)
    types = [_type_time(name, members, total) for name, members in timed.items()]
    return tuple(sorted(types, key=lambda one: (-one.time_ns, one.type)))


def slowest_first(layers: Sequence[Layer]) -> list[Layer]:
    """The layers by mean time, those without one last, in the order of execution where equal."""
    times = {id(layer): mean_ns(layer) for layer in layers}
    return sorted(layers, key=lambda layer: (times[id(layer)] is None, -(times[id(layer)] or 0.0), layer.order))


def ratio(part: float | None, whole: float | None) -> float | None:
    """`part` ÷ `whole`; None where either is unknown or there is nothing to divide by."""
    return None if part is None or not whole else part / whole


def _type_time(name: str, members: list[tuple[Layer, float]], total: float) -> TypeTime:
    time = sum(time for _, time in members)
    precisions = dict(Counter(layer.precision for layer, _ in members))
    return TypeTime(name, time, ratio(time, total), len(members), precisions)
