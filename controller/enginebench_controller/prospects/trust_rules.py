"""Rules about how far the numbers of a profile can be trusted."""

from collections.abc import Iterator

from enginebench_controller.prospects.advice import Advice, Severity, Subject, percent
from enginebench_controller.stats.profiles import layers_to_latency, profiled_to_unprofiled
from enginebench_controller.trust.parity import requested_is_not_effective


def low_coverage(subject: Subject) -> Iterator[Advice]:
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
    if share < subject.thresholds.trustworthy_coverage:
        unmatched = [at for at, layer, _ in subject.timed if layer.group is None]
        yield _warning(
            subject,
            "low-coverage",
            f"only {percent(share)} of the time is led back to the model's nodes",
            "read figures per node with care: the time of the layers named here is missing from them",
            {"matched_share": share, "layers": len(unmatched)},
            unmatched,
        )


def other_settings(subject: Subject) -> Iterator[Advice]:
    """What ran is not what was asked for."""
    for sentence in requested_is_not_effective(subject.profile):
        yield _warning(
            subject,
            "other-settings",
            sentence,
            "compare only with what really ran alike, or ask for what the engine has",
        )


def distorted(subject: Subject) -> Iterator[Advice]:
    """Counters made the model a good deal slower."""
    found = profiled_to_unprofiled(subject.profile)
    if found is not None and found > subject.thresholds.distortion:
        yield _warning(
            subject,
            "distorted",
            f"with counters the model takes {found:.2f} times as long as without",
            "trust shares more than times, above all of short layers",
            {"profiled_to_unprofiled": found},
        )


def sum_is_off(subject: Subject) -> Iterator[Advice]:
    """The layers do not add up to the latency."""
    found = layers_to_latency(subject.profile)
    if found is None or abs(found - 1) <= subject.thresholds.sum_off:
        return
    why = "there is time outside of layers" if found < 1 else "layers overlap, or counters and other levels cost time"
    yield _warning(
        subject,
        "sum-is-off",
        f"the layers' times add up to {found:.2f} times the latency without counters: {why}",
        "do not read a layer's time as its part of the latency",
        {"layers_to_latency": found},
    )


def _warning(
    subject: Subject,
    rule: str,
    sentence: str,
    remedy: str,
    evidence: dict[str, float | int | str] | None = None,
    layers: list[int] | None = None,
) -> Advice:
    named = subject.named(layers or [])
    return Advice(rule, Severity.WARNING, sentence, remedy, subject.profile.id, evidence or {}, named)
