"""Where the layers of two profiles and the latency without counters do not say the same, and what may be why."""

from collections.abc import Iterator
from math import log

from enginebench_controller.records import Profile
from enginebench_controller.stats.layers import counters_ns, layers_to_latency, profiled_to_unprofiled
from enginebench_controller.verdicts.layers.trust import SUM_OFF, counters_are_in_layers, is_held_up
from enginebench_controller.verdicts.words import UNKNOWN, factor_words

_AS_FAST = 1.05
"""Ratios nearer to 1 than this disagree about nothing."""
_COSTS_NOTHING = 0.9
"""Medians of equal passes differ by less than from 1 to this."""
_FAR_APART = 1.3
"""Ratios of layers and of latencies that are further apart are worth a word."""
_COSTS_MUCH = 0.1
"""Counters that cost less of a layer of mean length are not why ratios are far apart."""


def disagreement(profiles: tuple[Profile, Profile], latency: float | None, layers: float | None) -> Iterator[str]:
    """Say where the ratios of the second profile to the first, by `latency` and by `layers`, are far apart."""
    if not latency or not layers:
        return
    told = f"the layers take {factor_words(layers)} the time, the model without counters {factor_words(latency)}"
    if (latency > 1) == (layers > 1):
        if abs(log(layers / latency)) > log(_FAR_APART):
            yield f"{told}: {_why_apart(profiles)}"
    elif min(abs(log(latency)), abs(log(layers))) > log(_AS_FAST):
        yield f"layers and latency disagree: {told}. {_what_to_believe(profiles)}"


def _why_apart(profiles: tuple[Profile, Profile]) -> str:
    """Why layers and latency agree on which side is faster, and not on by how much."""
    if any(map(is_held_up, profiles)):
        return (
            "something else held up a side while it was profiled, so that neither tells by how much: profile again "
            "when the machine is quiet"
        )
    costs = [cost for one in profiles if (cost := counters_ns(one)) is not None]
    if len(costs) == len(profiles) and any(map(_counters_tell, profiles)):
        return (
            "verdicts and ratios of layers include what counters cost, "
            f"{' and '.join(f'{cost / 1e3:.1f} µs' for cost in costs)} a layer, which is most of a short one's time, "
            "and know nothing of time outside of layers"
        )
    sums = [layers_to_latency(one) for one in profiles]
    if any(found is not None and found < 1 - SUM_OFF for found in sums):
        return "there is time outside of layers, of which verdicts and ratios of layers know nothing"
    return "the layers of a side add up to more than its latency, as where they overlap"


def _counters_tell(profile: Profile) -> bool:
    """Whether counters are in the layers' times, and much of that of a layer of mean length."""
    found, sums = profiled_to_unprofiled(profile), layers_to_latency(profile)
    if not found or not sums or not counters_are_in_layers(profile):
        return False
    return (found - 1) / sums > _COSTS_MUCH


def _what_to_believe(profiles: tuple[Profile, Profile]) -> str:
    """What to go by where the layers call one side faster and the latency without counters the other.

    It is counters that differ, unless a side was faster with them: then its halves did not find the same machine.
    """
    costs = [profiled_to_unprofiled(one) for one in profiles]
    told = " and ".join(f"{cost:.2f} times" if cost else UNKNOWN for cost in costs)
    believed = "believe the latency"
    if any(cost and cost < _COSTS_NOTHING for cost in costs):
        believed = (
            "counters make nothing faster, so the machine was slower in the half of a profile without them: believe "
            "neither, and profile again"
        )
    return f"With counters it takes {told} as long as without; {believed}"
