"""The advisor: plain rules over a profile, each with the numbers it goes by and the layers it is about."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from enginebench_controller.graph.roofline import rooflines
from enginebench_controller.records import Layer, ModelVersion, Peak, Profile
from enginebench_controller.records.model import int8_versions, is_gone
from enginebench_controller.stats.layers import counters_ns, ratio
from enginebench_controller.verdicts.layers.advice import Advice, AdvisedProfile, Severity, percent
from enginebench_controller.verdicts.layers.profiles import ProfileComparison
from enginebench_controller.verdicts.layers.quantizing import (
    AGAINST_UNUSED,
    INT8_UNUSED,
    float_in_int8,
    int8_unused,
    rearranging,
    slower_in_int8,
)
from enginebench_controller.verdicts.layers.trust import (
    distorted,
    disturbed,
    low_coverage,
    other_settings,
    sum_is_off,
    uneven,
    uneven_layers,
)
from enginebench_controller.verdicts.pruning.prospects import PruningOutcome, prospects_of

_MUCH_REARRANGING = 0.1
"""Reorders and converts may take this share of the time. WB's advisor had the same 10 %."""


def much_rearranging(subject: AdvisedProfile) -> Iterator[Advice]:
    """Reorders and converts, which compute nothing, take much of the time."""
    positions = rearranging(subject)
    share = subject.share(positions)
    if share is not None and share > _MUCH_REARRANGING and not subject.is_overstated(positions):
        yield Advice(
            "much-rearranging",
            Severity.GAIN,
            f"{_moves(len(positions))} {subject.share_words(positions)} of the time",
            "look at the layers around them: a neighbour in another layout or precision makes the engine convert twice",
            subject.profile.id,
            {"layers": len(positions), "time_share": share},
            subject.named(positions),
        )


def _moves(number: int) -> str:
    return "1 reorder or convert takes" if number == 1 else f"{number} reorders and converts take"


_DOMINANT_LAYER = 0.2
"""A single layer beyond this share of the time is worth a word."""


def dominant_layer(subject: AdvisedProfile) -> Iterator[Advice]:
    """Single layers take much of the time, the one to look at first before the others."""
    if len(subject.timed) == 1:
        return
    for place, (position, layer, time) in enumerate(_telling(subject, _DOMINANT_LAYER)):
        first = "look at this layer first: its kernel, its precision and its place under the roofline"
        yield Advice(
            "dominant-layer",
            Severity.NOTE,
            f"the layer {layer.name} ({layer.type}{_nodes(subject, layer, ', of ')}) alone takes "
            f"{subject.share_words([position])} of the time{_roof_words(subject, position, ', and ')}",
            "then look at this one" if place else first,
            subject.profile.id,
            {"time_share": ratio(time, subject.total_ns) or 0.0, "mean_ns": time},
            subject.named([position]),
        )


def _telling(subject: AdvisedProfile, least: float) -> Iterator[tuple[int, Layer, float]]:
    """The timed layers beyond a share of the time, slowest first, whose means and shares may be gone by."""
    for one in subject.timed:
        if (ratio(one[2], subject.total_ns) or 0.0) <= least:
            return
        if not subject.is_uneven(one[0]) and not subject.is_overstated([one[0]]):
            yield one


def _nodes(subject: AdvisedProfile, layer: Layer, before: str = " of ") -> str:
    names = subject.nodes_words(layer)
    return f"{before}{names}" if names else ""


def _roof_words(subject: AdvisedProfile, position: int, before: str = " ") -> str:
    """What of its roofline a layer reaches; "" where that is unknown."""
    place = subject.places[position] if subject.places else None
    if place is None or place.share is None:
        return ""
    least = "at least " if subject.shares_are_bounds else ""
    return f"{before}reaches {least}{percent(place.share)} of what its roofline allows"


_LOW_ROOFLINE, _RELEVANT_LAYER = 0.3, 0.05
"""A layer below the first, of what its roofline allows, that takes more than the second of the time."""


def far_below_roofline(subject: AdvisedProfile) -> Iterator[Advice]:
    """Layers that take time and reach little of what the machine was measured to be capable of."""
    for position, layer, time in _telling(subject, _RELEVANT_LAYER):
        place = subject.places[position] if subject.places else None
        if place is None or place.share is None:
            continue
        if _without_counters(subject, place.share, time) < _LOW_ROOFLINE:
            bound = f", bound by {place.bound.value}" if place.bound else ""
            yield Advice(
                "far-below-roofline",
                Severity.GAIN,
                f"the layer {layer.name}{_nodes(subject, layer)}{_roof_words(subject, position)}{bound}, "
                f"and takes {subject.share_words([position])} of the time",
                "try another engine, batch or layout for it: compare this profile with theirs, layer by layer",
                subject.profile.id,
                {"roofline_share": place.share, "time_share": ratio(time, subject.total_ns) or 0.0, "mean_ns": time},
                subject.named([position]),
            )


def _without_counters(subject: AdvisedProfile, share: float, time_ns: float) -> float:
    """The most of its roofline that a layer can reach without counters, where these are much of the layers' times."""
    cost_ns = counters_ns(subject.profile) if subject.shares_are_bounds else None
    return share * time_ns / max(1.0, time_ns - (cost_ns or 0.0))


_WORTHWHILE_PRUNING = 1.2
"""The speed-up from which on imposed sparsity is worth a word."""


def pruning_pays(subject: AdvisedProfile) -> Iterator[Advice]:
    """Passes with sparsity imposed on this model promise a speed-up."""
    if not subject.imposed:
        return
    try:
        found = prospects_of(subject.imposed)
    except ValueError:  # they do not belong together, so they tell nothing
        return
    best = max(found.outcomes, key=_promise, default=None)
    if best is None or _promise(best) < _WORTHWHILE_PRUNING or best.sparsity is None:
        return
    known = "measured on a pruned copy" if best.measured_speedup is not None else "with zeros imposed"
    yield Advice(
        "pruning-pays",
        Severity.GAIN,
        f"with {percent(best.sparsity)} of the weights zero the model ran {_promise(best):.2f} times as fast ({known})",
        f"see `enginebench prospects show {found.series.dense.id}`; whether the model's answers survive it takes a "
        "retraining to say",
        subject.profile.id,
        {"sparsity": best.sparsity, "speedup": _promise(best), "known_from": known},
    )


def _promise(outcome: PruningOutcome) -> float:
    """What was seen, never what was only estimated."""
    return outcome.measured_speedup or outcome.imposed_speedup or 0.0


Rule = Callable[[AdvisedProfile], Iterator[Advice]]

RULES: tuple[Rule, ...] = (
    other_settings,
    distorted,
    sum_is_off,
    disturbed,
    uneven,
    uneven_layers,
    low_coverage,
    int8_unused,
    float_in_int8,
    slower_in_int8,
    much_rearranging,
    far_below_roofline,
    pruning_pays,
    dominant_layer,
)
"""In the order of what to know first: what the numbers are worth, what there is to gain, where time goes."""


def advise(
    profile: Profile,
    against: Profile | None = None,
    peaks: Sequence[Peak] = (),
    imposed: Sequence[Profile] = (),
    int8_versions: Sequence[ModelVersion] = (),
    *,
    is_model_gone: bool = False,
) -> tuple[Advice, ...]:
    """All that the rules have to say of a profile; nothing of one without layers.

    `against` is another profile of the model, such as the floating one of an INT8 version; `peaks` are those of the
    target; `imposed` are passes over the same model with sparsity imposed, the dense one and pruned copies included;
    `int8_versions` are those made of it already, newest first; `is_model_gone` says that the library has it no more.
    """
    if not profile.layers:
        return ()
    places = rooflines(profile, peaks) if peaks else ()
    subject = AdvisedProfile(
        profile, against, tuple(peaks), places, tuple(imposed), tuple(int8_versions), is_model_gone
    )
    return tuple(advice for rule in RULES for advice in rule(subject))


def advised(
    comparison: ProfileComparison,
    peaks: Sequence[Peak] = (),
    known: Sequence[ModelVersion] = (),
    held: Sequence[ModelVersion] | None = None,
) -> ProfileComparison:
    """A comparison with what the rules say of each of its sides; `peaks` are those of their targets.

    They go by the model versions that are `known` and by those that the library `held` of them, None where nobody
    looked.
    """
    return replace(comparison, advice=tuple(_advice(comparison.profiles, peaks, known, held)))


def _advice(
    profiles: Sequence[Profile],
    peaks: Sequence[Peak],
    known: Sequence[ModelVersion],
    held: Sequence[ModelVersion] | None,
) -> Iterator[Advice]:
    """What the rules say of each side, but for what the comparison says by itself, or is."""
    originals = {one.digest: one.original_digest for one in known}
    compared = {originals.get(one.model_digest, one.model_digest) for one in profiles}
    for place, one in enumerate(profiles):
        own = [peak for peak in peaks if peak.target == one.target]
        int8 = int8_versions(known, one.model_digest)
        gone = held is not None and is_gone(one.model_digest, known, held)
        advice = advise(one, profiles[0] if place else None, own, int8_versions=int8, is_model_gone=gone)
        is_beside_int8 = any(version.digest in compared for version in int8)
        told = {AGAINST_UNUSED, INT8_UNUSED} if is_beside_int8 else {AGAINST_UNUSED}
        yield from (each for each in advice if each.rule not in told)
