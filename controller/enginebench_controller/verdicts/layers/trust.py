"""Rules on what the numbers of a profile are worth: what makes its times or its shares mislead."""

from collections.abc import Iterator, Mapping

from enginebench_controller.records import Profile
from enginebench_controller.stats.layers import (
    counters_ns,
    layers_to_latency,
    median_ns,
    profiled_to_unprofiled,
    ratio,
    spread,
    unevenness,
)
from enginebench_controller.verdicts import disturbances
from enginebench_controller.verdicts.disturbances import beside_pass, beside_words
from enginebench_controller.verdicts.layers.advice import Advice, AdvisedProfile, Severity, percent
from enginebench_controller.verdicts.layers.disagreement import SUM_OFF, UNEVEN, counters_are_in_layers, is_held_up
from enginebench_controller.verdicts.parity import requested_is_not_effective
from enginebench_controller.verdicts.words import milliseconds

_TRUSTWORTHY_COVERAGE = 0.95
"""Time led back to source nodes below this share is to be read with care."""


def low_coverage(subject: AdvisedProfile) -> Iterator[Advice]:
    """Much of the time is not led back to the model, or none of it."""
    profile = subject.profile
    share = profile.coverage.share if profile.coverage else None
    if share is None:
        if profile.layers and profile.unmatched_reason:
            yield _warning(
                subject,
                "low-coverage",
                f"no layer is led back to the model: {profile.unmatched_reason}",
                "compare layers by the engine's own names only",
            )
        return
    if share < _TRUSTWORTHY_COVERAGE:
        unmatched = [at for at, layer, _ in subject.timed if layer.group is None]
        yield _warning(
            subject,
            "low-coverage",
            f"only {percent(share)} of the time is led back to the model's nodes",
            "read figures per node with care: the time of the layers named here is missing from them",
            {"matched_share": share, "layers": len(unmatched)},
            unmatched,
        )


def other_settings(subject: AdvisedProfile) -> Iterator[Advice]:
    """What ran is not what was asked for."""
    for sentence in requested_is_not_effective(subject.profile):
        yield _warning(
            subject,
            "other-settings",
            sentence,
            "compare only with what really ran alike, or ask for what the engine has",
        )


_DISTORTION = 1.2
"""Profiled ÷ unprofiled latency: beyond this, counters cost too much."""


def distorted(subject: AdvisedProfile) -> Iterator[Advice]:
    """With counters the model was a good deal slower."""
    profile = subject.profile
    if (sentence := distorted_words(profile)) is not None:
        evidence = {"profiled_to_unprofiled": profiled_to_unprofiled(profile) or 0.0}
        if not is_held_up(profile):
            evidence["counters_ns_a_layer"] = counters_ns(profile) or 0.0
        yield _warning(subject, "distorted", sentence, distortion_remedy(profile), evidence)


def distorted_words(profile: Profile) -> str | None:
    """How much slower the model was with counters; None where that is little or unknown.

    Also by how much a layer, unless something else may be why.
    """
    found, cost_ns = profiled_to_unprofiled(profile), counters_ns(profile)
    if found is None or found <= _DISTORTION or cost_ns is None:
        return None
    told = f"with counters the model takes {found:.2f} times as long as without"
    return told if is_held_up(profile) else f"{told}, {cost_ns / 1e3:.1f} µs more for each layer executed"


def distortion_remedy(profile: Profile) -> str:
    """What to do about counters that distort, by where their time went."""
    if is_held_up(profile):
        return "profile again when the machine is quiet: it was held up meanwhile, so that counters need not be why"
    if counters_are_in_layers(profile):
        return (
            "take the shares of short layers for too large and those of long ones for too small: counters cost every "
            "layer about as much, and the latency is the one without them"
        )
    return (
        "go by the latency without them, and by shares as they are: the layers add up to no more than that, so "
        "counters cost time between them"
    )


def sum_is_off(subject: AdvisedProfile) -> Iterator[Advice]:
    """The layers do not add up to the latency."""
    found = layers_to_latency(subject.profile)
    if found is None or abs(found - 1) <= SUM_OFF:
        return
    counted = profiled_to_unprofiled(subject.profile)
    if counted is not None and counted < 1 - SUM_OFF:
        why = f"with counters the model took {counted:.2f} times as long as without, so the machine was slower without"
    elif found < 1:
        why = "there is time outside of layers"
    else:
        why = "layers overlap, or counters and other levels cost time"
    yield _warning(
        subject,
        "sum-is-off",
        f"the layers' times add up to {found:.2f} times the latency without counters: {why}",
        "do not read a layer's time as its part of the latency",
        {"layers_to_latency": found},
    )


_HELD_UP = "a layer that was held up, if only once, has too large a mean, and with it too large a share"


def disturbed(subject: AdvisedProfile) -> Iterator[Advice]:
    """Others used the machine while the pass went on."""
    if use := beside_pass(subject.profile):
        remedy = f"{disturbances.remedy(use)}, and profile again: {_HELD_UP}"
        evidence: dict[str, float | int | str] = {"others_share": use.share}
        yield _warning(subject, "disturbed", beside_words(subject.profile, use), remedy, evidence)


def uneven(subject: AdvisedProfile) -> Iterator[Advice]:
    """The inferences of the pass took unlike times, so that something else decided over them."""
    found = unevenness(subject.profile)
    if found is not None and found > UNEVEN:
        yield _warning(
            subject,
            "uneven",
            uneven_words(found),
            f"profile again when the machine is quiet: {_HELD_UP}",
            {"unevenness": found},
        )


def uneven_words(found: float) -> str:
    """That the inferences of a pass differ by so much."""
    return (
        f"the middle half of the inferences of this pass differs by {percent(found)} of their median, as where a "
        "machine does other things meanwhile"
    )


_RELEVANT_LAYER = 0.05
"""A layer that takes less of the time misleads nobody."""


def uneven_layers(subject: AdvisedProfile) -> Iterator[Advice]:
    """Layers that take time, whose means are too uncertain to go by; no rule advises on one of these."""
    found = [
        at
        for at, _, time in subject.timed
        if (ratio(time, subject.total_ns) or 0.0) > _RELEVANT_LAYER and subject.is_uneven(at)
    ]
    if found:
        evidence = {"layers": len(found), "spread": spread(subject.profile.layers[found[0]]) or 0.0}
        sentence = "; ".join(_uneven_layer(subject, at) for at in found[:_UNEVEN_TOLD])
        more = f"; so are {len(found) - _UNEVEN_TOLD} more" if len(found) > _UNEVEN_TOLD else ""
        yield _warning(
            subject,
            "uneven-layer",
            f"too uneven to tell what they take: {sentence}{more}",
            "go by the medians, or profile again with more inferences when the machine is quiet",
            evidence,
            found,
        )


_UNEVEN_TOLD = 3


def _uneven_layer(subject: AdvisedProfile, position: int) -> str:
    """A layer by its mean and by its median, which a single inference that was held up does not move."""
    layer = subject.profile.layers[position]
    middles = [median_ns(one) or 0.0 for _, one, _ in subject.timed]
    median = median_ns(layer)
    share = ratio(median, sum(middles))
    by_median = "" if share is None else f", and {milliseconds(median)} ms, {percent(share)}, by medians"
    time = next(time for at, _, time in subject.timed if at == position)
    return (
        f"{layer.name} with {milliseconds(time)} ms ± {100 * (spread(layer) or 0.0):.0f} %, "
        f"{percent(subject.share([position]) or 0.0)} of the time, by means{by_median}"
    )


def _warning(
    subject: AdvisedProfile,
    rule: str,
    sentence: str,
    remedy: str,
    evidence: Mapping[str, float | int | str] | None = None,
    layers: list[int] | None = None,
) -> Advice:
    named = subject.named(layers or [])
    return Advice(rule, Severity.WARNING, sentence, remedy, subject.profile.id, evidence or {}, named)
