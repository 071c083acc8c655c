"""What could be gained: pruning estimated, imposed and measured side by side, and what the advisor says."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.records import Profile, ProfileEntry
from enginebench_controller.verdicts.layers.advice import Advice, Severity
from enginebench_controller.verdicts.pruning.estimate import estimate, uniform
from enginebench_controller.verdicts.pruning.prospects import (
    PruningOutcome,
    PruningProspects,
    Saving,
    prospects_of,
    savings_by_layer,
    sweeps,
)
from enginebench_controller.verdicts.words import factor_words
from enginebench_ui.pages.profile.shapes.layers import BASELINE
from enginebench_ui.pages.profile.shapes.summary import GOAL
from enginebench_ui.shared.text import (
    Row,
    cells,
    in_milliseconds,
    in_percent,
    milliseconds_text,
    percent_text,
    shortened,
)


@dataclass(frozen=True)
class Sweep:
    """What the passes of a sweep tell; `problem` is the reason where they tell nothing. `is_pending`: not read yet."""

    passes: tuple[Profile, ...] = ()
    prospects: PruningProspects | None = None
    problem: str = ""
    is_pending: bool = False

    @property
    def sparsities(self) -> tuple[float, ...]:
        """The shares of zeros of the passes that have layers, the dense one left out."""
        return tuple(one.imposed_sparsity for one in self.passes if one.imposed_sparsity and one.layers)


def by_sparsity(passes: Iterable[ProfileEntry]) -> Mapping[float, str]:
    """The ids of the passes that impose zeros and did not fail, by the share of zeros."""
    return {one.imposed_sparsity: one.id for one in passes if one.imposed_sparsity and one.status.has_numbers}


def sweep_of(passes: Sequence[Profile]) -> Sweep:
    """Sort out the passes of a sweep."""
    if not passes:
        return Sweep()
    try:
        return Sweep(tuple(passes), prospects_of(passes))
    except ValueError as error:
        return Sweep(tuple(passes), problem=str(error))


def nearest_step(sweep: Sweep, wished: float | None) -> float:
    """The share of zeros that savings are told for: the one looked at, else the step nearest to the goal."""
    if wished:
        return wished
    return min(sweep.sparsities, key=lambda share: abs(share - GOAL), default=GOAL)


def savings(profile: Profile, sweep: Sweep, sparsity: float) -> Mapping[int, Saving]:
    """What each layer of the profile, by position, would save with these zeros in every layer with weights."""
    if sweep.prospects is None:
        return {}
    series = sweep.prospects.series
    expected = estimate(series, uniform(series.dense.nodes, sparsity))
    return {} if expected is None else savings_by_layer(profile, series, expected)


def outcome_rows(prospects: PruningProspects) -> tuple[Row, ...]:
    """Return a row a way to prune; each time says whether it is estimated, imposed or measured."""
    return tuple(cells(_row(one)) for one in prospects.outcomes)


def other_settings(profile: Profile, sweep: Sweep) -> str:
    """Return a sentence where the sweep ran at another batch or on other cores than the profile; else nothing."""
    if sweep.prospects is None:
        return ""
    here, there = profile.configuration, sweep.prospects.series.dense.configuration
    if (here.batch, here.cores) == (there.batch, there.cores):
        return ""
    return (
        f"The passes with zeros imposed ran at batch {there.batch} on {there.cores} cores, this profile at batch "
        f"{here.batch} on {here.cores}: the estimate is for theirs."
    )


def elsewhere(entries: Iterable[ProfileEntry], subject: ProfileEntry) -> ProfileEntry | None:
    """The dense pass of the newest sweep over the same model with another engine or on another target."""
    for passes in sweeps(entries):
        dense = next((one for one in passes if one.imposed_sparsity == 0), None)
        if dense is not None and dense.model_digest == subject.model_digest and dense.status.has_numbers:
            return dense
    return None


def _row(one: PruningOutcome) -> Row:
    return {
        "What": _what(one),
        "Zeros (%)": in_percent(one.sparsity),
        "Estimated (ms)": in_milliseconds(one.estimate.time_ns if one.estimate else None),
        "Estimated ×": one.estimate.speedup if one.estimate else None,
        "Imposed (ms)": in_milliseconds(one.imposed_ns),
        "Imposed ×": one.imposed_speedup,
        "Measured (ms)": in_milliseconds(one.measured_ns),
        "Measured ×": one.measured_speedup,
        "Estimate's error": None if one.error is None else factor_words(1 + one.error),
        "Parameters": one.parameters,
        "FLOPs (estimated)": one.flops,
    }


def _what(one: PruningOutcome) -> str:
    if one.is_copy:
        return f"pruned copy {one.profile.model_name}"
    return f"{percent_text(one.sparsity, 1)} zeros imposed" if one.sparsity else "dense"


def saving_basis(sweep: Sweep, sparsity: float | None) -> str:
    """What savings are for, in a sentence."""
    step = nearest_step(sweep, sparsity)
    return (
        f"Saves: estimated with {100 * step:g} % zeros in every layer with weights, in times of the sweep's dense pass "
        f"(optimization level {_level(sweep)}). What the engine makes for itself, and what it hands to ONNX Runtime "
        "(ORT), gains nothing."
    )


def _level(sweep: Sweep) -> str:
    level = sweep.prospects.series.dense.optimization_level if sweep.prospects else None
    return "unknown" if level is None else str(level)


RESULTS = "Layer results"
"""The section of the page that shows layers one by one; the words stand in its address."""

HEADINGS = {
    Severity.WARNING: "Know before trusting the numbers",
    Severity.GAIN: "Time to be gained",
    Severity.NOTE: "Worth knowing",
}
ICONS = {
    Severity.WARNING: ":material/warning:",
    Severity.GAIN: ":material/trending_up:",
    Severity.NOTE: ":material/info:",
}


@dataclass(frozen=True)
class LayerLink:
    """A layer that advice is about: its position in the profile, and a label of raw text."""

    position: int
    label: str


@dataclass(frozen=True)
class AdviceView:
    """All that one rule found, with one remedy; texts are raw, since they quote names of layers."""

    severity: Severity
    sentences: tuple[str, ...]
    remedy: str
    rule: str
    layers: tuple[LayerLink, ...]


def advice_views(advice: Iterable[Advice]) -> tuple[AdviceView, ...]:
    """Return the advice in its order, that of one rule with one remedy together."""
    groups: dict[tuple[str, str], list[Advice]] = {}
    for one in advice:
        groups.setdefault((one.rule, one.remedy), []).append(one)
    return tuple(map(_view, groups.values()))


def of_severity(views: Sequence[AdviceView], severity: Severity) -> tuple[AdviceView, ...]:
    """Those of one kind."""
    return tuple(view for view in views if view.severity is severity)


def layer_query(profile_id: str, position: int) -> dict[str, str]:
    """What opens a layer of the profile itself, whichever figure was looked at before."""
    return {"id": profile_id, "view": RESULTS, "data": BASELINE, "layer": str(position)}


def _view(group: Sequence[Advice]) -> AdviceView:
    first = group[0]
    named = {layer.position: layer for one in group for layer in one.layers}
    return AdviceView(
        severity=first.severity,
        sentences=tuple(_capital(one.sentence) for one in group),
        remedy=_capital(first.remedy),
        rule=first.rule,
        layers=tuple(
            LayerLink(position, f"{shortened(layer.name, 32)}, {milliseconds_text(layer.time_ns)}")
            for position, layer in named.items()
        ),
    )


def _capital(sentence: str) -> str:
    """As a sentence of its own: rules write them to stand behind a colon."""
    return f"{sentence[:1].upper()}{sentence[1:]}."
