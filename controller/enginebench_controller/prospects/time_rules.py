"""Rules about where time goes: dominant layers, layers far below the roofline, and what pruning would gain."""

from collections.abc import Iterator

from enginebench_controller.prospects.advice import Advice, Severity, Subject, percent
from enginebench_controller.prospects.outcomes import Outcome, prospects_of
from enginebench_controller.stats.profiles import ratio


def dominant_layer(subject: Subject) -> Iterator[Advice]:
    """A single layer takes much of the time."""
    for position, layer, time in subject.timed:
        share = ratio(time, subject.total_ns)
        if share is None or share <= subject.thresholds.dominant_layer or len(subject.timed) == 1:
            return
        yield Advice(
            "dominant-layer",
            Severity.NOTE,
            f"the layer {layer.name} ({layer.type}) alone takes {percent(share)} of the time",
            "look at this layer first: its kernel, its precision and its place under the roofline",
            subject.profile.id,
            {"time_share": share, "mean_ns": time},
            subject.named([position]),
        )


def far_below_roofline(subject: Subject) -> Iterator[Advice]:
    """Layers that take time and reach little of what the machine was measured to be capable of."""
    for position, layer, time in subject.timed:
        place = subject.places[position] if subject.places else None
        share = ratio(time, subject.total_ns)
        if place is None or place.share is None or share is None:
            continue
        if share > subject.thresholds.relevant_layer and place.share < subject.thresholds.low_roofline:
            bound = f", bound by {place.bound.value}" if place.bound else ""
            yield Advice(
                "far-below-roofline",
                Severity.GAIN,
                f"the layer {layer.name} reaches {percent(place.share)} of what its roofline allows{bound}, and takes "
                f"{percent(share)} of the time",
                "try another engine, batch or layout for it: compare this profile with theirs, layer by layer",
                subject.profile.id,
                {"roofline_share": place.share, "time_share": share, "mean_ns": time},
                subject.named([position]),
            )


def pruning_pays(subject: Subject) -> Iterator[Advice]:
    """Passes with sparsity imposed on this model promise a speed-up."""
    if not subject.imposed:
        return
    try:
        found = prospects_of(subject.imposed)
    except ValueError:  # they do not belong together, so they tell nothing
        return
    best = max(found.outcomes, key=_promise, default=None)
    if best is None or _promise(best) < subject.thresholds.worthwhile_pruning or best.sparsity is None:
        return
    known = "measured on a pruned copy" if best.measured_speedup is not None else "with zeros imposed"
    yield Advice(
        "pruning-pays",
        Severity.GAIN,
        f"with {percent(best.sparsity)} of the weights zero the model ran {_promise(best):.2f} times as fast ({known})",
        "see `enginebench prospects show`; whether the model's answers survive it takes a retraining to say",
        subject.profile.id,
        {"sparsity": best.sparsity, "speedup": _promise(best), "known_from": known},
    )


def _promise(outcome: Outcome) -> float:
    """What was seen, never what was only estimated."""
    return outcome.measured_speedup or outcome.imposed_speedup or 0.0
