"""Where the layers of two profiles and the latency without counters do not say the same, and what may be why."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log

from enginebench_controller.records import Profile
from enginebench_controller.stats.layers import (
    counters_ns,
    layers_to_latency,
    profiled_to_unprofiled,
    ratio,
    total_ns,
    unevenness,
)
from enginebench_controller.verdicts.disturbances import beside_pass
from enginebench_controller.verdicts.words import UNKNOWN, factor_words

SUM_OFF = 0.1
"""Σ layers ÷ latency may be so far from 1."""
UNEVEN = 0.25
"""The middle half of the inferences of a pass may lie apart by this share of their median."""
_AS_FAST = 1.05
"""Ratios nearer to 1 than this disagree about nothing."""
_COSTS_NOTHING = 0.9
"""Medians of equal passes differ by less than from 1 to this."""
_FAR_APART = 1.3
"""Ratios of layers and of latencies that are further apart are worth a word."""
_A_PART = 0.2
"""Of how far they are apart, as a logarithm: a factor that made less of it is not why. One of five made as much."""
_NOTICED = 1 / (1 - SUM_OFF)
"""Nor is a factor that is no larger than this, as medians of equal passes may be apart by it."""


def is_held_up(profile: Profile) -> bool:
    """Whether something else decided over the times of a pass: others, or what made its inferences unlike."""
    return beside_pass(profile) is not None or (unevenness(profile) or 0.0) > UNEVEN


def counters_are_in_layers(profile: Profile) -> bool:
    """Whether layers add up to more than the latency, so that what counters cost may be in their times.

    Some engines spend it between layers, whose shares and ratios are then what they seem.
    """
    return (layers_to_latency(profile) or 0.0) > 1 + SUM_OFF


def disagreement(
    profiles: tuple[Profile, Profile], other: str, latency: float | None, layers: float | None
) -> Iterator[str]:
    """Say where the ratios of the second profile to the first, by `latency` and by `layers`, are far apart.

    The first is A, and the second is called by the letter of the `other`.
    """
    if not latency or not layers:
        return
    told = f"the layers take {factor_words(layers)} the time, the model without counters {factor_words(latency)}"
    if (latency > 1) == (layers > 1):
        if abs(log(layers / latency)) > log(_FAR_APART):
            yield f"{told}: {_why_neither(profiles) or _why_apart(profiles, other, layers / latency)}"
    elif min(abs(log(latency)), abs(log(layers))) > log(_AS_FAST):
        counted = " and ".join(map(_counted_words, profiles))
        believed = _why_neither(profiles) or "believe the latency"
        yield f"layers and latency disagree: {told}. With counters it takes {counted} as long as without; {believed}"


def _counted_words(profile: Profile) -> str:
    cost = profiled_to_unprofiled(profile)
    return f"{cost:.2f} times" if cost else UNKNOWN


def _why_neither(profiles: tuple[Profile, Profile]) -> str:
    """Why neither is to be believed, as the halves of a profile did not find the same machine; "" where they may be."""
    if any(map(is_held_up, profiles)):
        return (
            "something else held up a side while it was profiled: believe neither, and profile again when the machine "
            "is quiet"
        )
    if any((cost := profiled_to_unprofiled(one)) and cost < _COSTS_NOTHING for one in profiles):
        return (
            "counters make nothing faster, so the machine was slower in the half of a profile without them: believe "
            "neither, and profile again"
        )
    return ""


@dataclass(frozen=True)
class _Side:
    """Σ layers ÷ latency of a profile: by means, which ratios of layers go by, and by medians, as latencies are.

    Of the latter `counted` is the factor that may be what counters cost, 1 where that is in no layer's time.
    """

    letter: str
    by_means: float
    by_medians: float
    counted: float
    cost_ns: float

    @classmethod
    def of(cls, letter: str, profile: Profile) -> "_Side":
        means = ratio(total_ns(profile.layers), profile.unprofiled_latency_ns) or 1.0
        medians = layers_to_latency(profile) or means  # a clock may see nothing of the median inference
        cost = max(1.0, profiled_to_unprofiled(profile) or 1.0)
        counted = min(cost, medians) if counters_are_in_layers(profile) else 1.0
        return cls(letter, means, medians, counted, counters_ns(profile) or 0.0)


def _why_apart(profiles: tuple[Profile, Profile], other: str, apart: float) -> str:
    """Why layers and latency agree on which side is faster, and not on by how much; what made little of it is not said.

    Above 1, `apart` says that the layers of the second are the longer ones for their latency.
    """
    sides = [_Side.of(letter, one) for letter, one in zip(("A", other), profiles, strict=True)]
    short, long = sides if apart > 1 else reversed(sides)
    least = max(_NOTICED, max(apart, 1 / apart) ** _A_PART)
    sums = " and ".join(f"{one.by_means:.2f} times {one.letter}'s latency" for one in sides)
    return ", and ".join(why for factor, why in _reasons(short, long) if factor > least) or f"layers add up to {sums}"


def _reasons(short: _Side, long: _Side) -> Iterator[tuple[float, str]]:
    """All that makes the layers of one side short for its latency, or long, each with its factor of the whole."""
    count = "which counts in the means of its layers, and not in its latency, a median"
    yield long.by_means / long.by_medians, f"some inferences of {long.letter} took longer than most, {count}"
    yield short.by_medians / short.by_means, f"some inferences of {short.letter} took less than most, {count}"
    costs = [f"{one.cost_ns / 1e3:.1f} µs a layer of {one.letter}" for one in (long, short) if one.counted > _NOTICED]
    yield (
        long.counted,
        f"verdicts and ratios of layers include some or all of what counters cost, {' and '.join(costs)}, which may be "
        "most of a short one's time",
    )
    overlap = f"the layers of {long.letter} add up to more than its latency, as where they overlap"
    yield long.by_medians / long.counted, overlap
    nothing = "of which verdicts and ratios of layers know nothing"
    yield 1 / short.by_medians, f"there is time outside of the layers of {short.letter}, {nothing}"
