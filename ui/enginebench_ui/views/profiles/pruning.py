"""Pruning: estimated, imposed and measured times side by side, and what each layer would save."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.prospects import (
    Outcome,
    PruningProspects,
    Saving,
    estimate,
    prospects_of,
    savings_by_layer,
    sweeps,
    uniform,
)
from enginebench_controller.records import Profile
from enginebench_controller.stats.change import factor_words
from enginebench_controller.store.profile_entries import ProfileEntry
from enginebench_ui.views.magnitudes import percent_text
from enginebench_ui.views.profiles.summary import GOAL
from enginebench_ui.views.text import Row, cells, milliseconds, percent


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


def _row(one: Outcome) -> Row:
    return {
        "What": _what(one),
        "Zeros (%)": percent(one.sparsity),
        "Estimated (ms)": milliseconds(one.estimate.time_ns if one.estimate else None),
        "Estimated ×": one.estimate.speedup if one.estimate else None,
        "Imposed (ms)": milliseconds(one.imposed_ns),
        "Imposed ×": one.imposed_speedup,
        "Measured (ms)": milliseconds(one.measured_ns),
        "Measured ×": one.measured_speedup,
        "Estimate's error": None if one.error is None else factor_words(1 + one.error),
        "Parameters": one.parameters,
        "FLOPs (estimated)": one.flops,
    }


def _what(one: Outcome) -> str:
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
