"""What the layers of a profile amount to: mean times, intervals, shares, and how two means compare.

Only layers that were executed and timed count anywhere here; all others have no time, which is not a time of 0.

The intervals know these two passes only. Equal processes can differ by more than their own iterations show.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import Interval, IntervalMethod, Layer, LayerState, Profile
from enginebench_controller.stats.intervals import (
    LEVEL,
    MIN_BLOCKS,
    independent_share,
    mean_and_half_width,
    ratio_and_half_width,
    welch_p_value,
)
from enginebench_proto.agreed import student_t

_ALIKE = 0.02
"""Means and medians of a quiet pass lie within this of each other."""
_FEWEST_FOR_QUARTILES = 4


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


def median_ns(layer: Layer) -> float | None:
    """The time of a layer in the middle one of the inferences, in nanoseconds; None unless it was executed and timed.

    Where an engine tells its mean only, that.
    """
    return None if mean_ns(layer) is None else float(np.median(layer.time_ns))


def spread(layer: Layer) -> float | None:
    """The half width of the 95 % interval of a layer's mean time, as a share of it; None where that is unknown."""
    mean, found = mean_ns(layer), interval(layer)
    # The low end stops at 0, whatever the half width.
    return None if found is None or mean is None else ratio(found.high - mean, mean)


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
    sums = _sums_ns(profile)
    return None if sums is None else ratio(float(np.median(sums)), profile.unprofiled_latency_ns)


def unevenness(profile: Profile) -> float | None:
    """How far apart the middle half of the inferences of a pass lie, by the sums of their layers' times ÷ the median.

    None without layers, for fewer than four inferences, and where an engine tells means.
    """
    sums = _sums_ns(profile)
    if sums is None or sums.size < _FEWEST_FOR_QUARTILES:
        return None
    low, middle, high = np.quantile(sums, (0.25, 0.5, 0.75))
    return ratio(float(high - low), float(middle))


def _sums_ns(profile: Profile) -> NDArray[np.float64] | None:
    """Of each inference the sum of its layers' times, in nanoseconds: shape (inferences,)."""
    times = [layer.time_ns for layer in profile.layers if mean_ns(layer) is not None]
    return np.sum(np.asarray(times, dtype=np.float64), axis=0) if times else None


def layers_to_latency_words(profile: Profile) -> str | None:
    """`layers_to_latency` in words, with what the means come to where these differ, since layers are shown by means."""
    by_medians = layers_to_latency(profile)
    by_means = ratio(total_ns(profile.layers), profile.unprofiled_latency_ns)
    if by_medians is None or by_means is None:
        return None
    if not by_medians or abs(by_means / by_medians - 1) <= _ALIKE:
        return f"{by_medians:.2f}"
    return f"{by_medians:.2f} by medians, {by_means:.2f} by means"


def profiled_to_unprofiled(profile: Profile) -> float | None:
    """The median latency with counters ÷ that without: what the counters cost."""
    return ratio(profile.profiled_latency_ns, profile.unprofiled_latency_ns)


def counters_ns(profile: Profile) -> float | None:
    """What counters cost a layer in nanoseconds, if they cost each as much: (profiled − unprofiled) ÷ timed layers.

    None where that is unknown, 0 where nothing was slower with them.
    """
    timed = sum(mean_ns(layer) is not None for layer in profile.layers)
    if not timed or profile.profiled_latency_ns is None or profile.unprofiled_latency_ns is None:
        return None
    return max(0.0, profile.profiled_latency_ns - profile.unprofiled_latency_ns) / timed


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


_FEWEST_DEGREES = 1.0


@dataclass(frozen=True)
class Mean:
    """A mean with its standard error and the error's degrees of freedom."""

    value: float
    error: float
    degrees: float


@dataclass(frozen=True)
class MeanRatio:
    """The second mean compared with the first. `ratio` is None where the first is 0.

    `low` and `high` bound the ratio, and together all ratios of a family of comparisons with 95 % certainty; None where
    nothing bounds it. `p_value` is that of equality, two-sided, times the size of the family.
    """

    difference: float
    ratio: float | None
    low: float | None
    high: float | None
    p_value: float


def mean_of(values: NDArray[np.float64]) -> Mean | None:
    """The mean of values in the order they were seen; ones that follow their neighbours count for fewer.

    None for fewer than two, whose error nobody knows.
    """
    if values.size < 2:
        return None
    mean = float(values.sum()) / values.size
    residuals = values - mean
    squares = float(np.dot(residuals, residuals))
    independent = values.size * (independent_share(residuals) if squares else 1.0)
    degrees = max(independent, min(values.size, MIN_BLOCKS)) - 1
    return Mean(mean, sqrt(squares / (values.size - 1) / independent), degrees)


def sum_of(means: Sequence[Mean]) -> Mean:
    """The sum of independent means."""
    squares = sum(one.error**2 for one in means)
    degrees = sum(one.error**4 / one.degrees for one in means)
    return Mean(sum(one.value for one in means), sqrt(squares), squares**2 / degrees if degrees else _FEWEST_DEGREES)


def half_width(mean: Mean) -> float:
    """Half the width of a mean's 95 % interval."""
    return student_t.quantile((1 + LEVEL) / 2, mean.degrees) * mean.error


def compare_means(a: Mean, b: Mean, comparisons: int = 1) -> MeanRatio:
    """Compare `b` with `a`, one of a family of so many `comparisons` (Bonferroni).

    Welch's t of the difference, with Satterthwaite's degrees of freedom; the ratio's interval is Fieller's, all ρ with
    |b − ρ·a| ≤ t·√(s_b² + ρ²·s_a²), so that it excludes 1 exactly when the test tells the means apart (Fieller, "Some
    Problems in Interval Estimation", Journal of the Royal Statistical Society B 16, 1954).
    """
    difference = b.value - a.value
    error, degrees = _welch(a, b)
    chance = welch_p_value(difference, error, degrees)
    t = student_t.quantile(1 - (1 - LEVEL) / 2 / comparisons, degrees)
    low, high = _fieller(a, b, t)
    return MeanRatio(
        difference=difference,
        ratio=b.value / a.value if a.value else None,
        low=low,
        high=high,
        p_value=min(1.0, chance * comparisons),
    )


def _welch(a: Mean, b: Mean) -> tuple[float, float]:
    squares = a.error**2 + b.error**2
    parts = a.error**4 / a.degrees + b.error**4 / b.degrees
    return sqrt(squares), squares**2 / parts if parts else _FEWEST_DEGREES


def _fieller(a: Mean, b: Mean, t: float) -> tuple[float | None, float | None]:
    """The roots of (a² − t²s_a²)·ρ² − 2ab·ρ + (b² − t²s_b²) = 0; no bounds where `a` may well be 0."""
    square = a.value**2 - (t * a.error) ** 2
    if square <= 0:
        return None, None
    middle = a.value * b.value
    root = sqrt(max(0.0, middle**2 - square * (b.value**2 - (t * b.error) ** 2)))
    return max(0.0, (middle - root) / square), (middle + root) / square


def mean_time(layers: Sequence[Layer]) -> Mean | None:
    """The mean time in nanoseconds of all these layers in one inference; None without any time or with a single one.

    They are added inference by inference, since they share its luck, where each has a time for every inference.
    """
    timed = [np.asarray(layer.time_ns, dtype=np.float64) for layer in layers if layer.time_ns]
    if not timed:
        return None
    if len(timed) == 1:
        return mean_of(timed[0])
    if len({times.size for times in timed}) == 1:
        return mean_of(np.sum(timed, axis=0))
    means = [mean for mean in map(mean_of, timed) if mean is not None]
    return sum_of(means) if len(means) == len(timed) else None
