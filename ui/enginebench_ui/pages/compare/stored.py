"""What the page that compares reads, kept in memory: lists until the store changes, what never changes by its ids.

Profiles and measurements are never rewritten, so that a comparison of two holds as long as both are there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from enginebench_controller.errors import InputError
from enginebench_controller.files.reports import benchmark_html, profile_html
from enginebench_controller.records import Measurement, ModelVersion, Peak, ProfileEntry
from enginebench_controller.records.model import families as families_of
from enginebench_controller.store.models import Contender, Experiment
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.answers import Answer, answers_across
from enginebench_controller.verdicts.layers.advisor import advised
from enginebench_controller.verdicts.layers.profiles import ProfileComparison, ProfilePair, compare_profiles
from enginebench_controller.verdicts.pairing import (
    Compared,
    Snapshots,
    compare_pairs,
    planned_processes,
    with_unlike_work,
)
from enginebench_controller.verdicts.parity import engine_label
from enginebench_ui.pages.compare.shapes.layers import layer_table
from enginebench_ui.shared.reading import (
    engine_looks,
    kept,
    kept_for_good,
    models_to_advise_by,
    peaks,
    rightly,
    stamp_of,
)

_MOST_LISTS = 64
_MOST_COMPARISONS = 6
"""A comparison of two profiles of 3,000 layers takes some 30 MB."""


@dataclass(frozen=True, eq=False)
class ComparedLayers:
    """Two profiles compared, with the table of all their layers."""

    comparison: ProfileComparison
    table: pd.DataFrame

    @property
    def pair(self) -> ProfilePair:
        """B compared with A."""
        return self.comparison.pairs[0]


def contenders() -> tuple[Contender, ...]:
    """Return everything that can be compared, with the best that is right of each."""
    return rightly(_contenders, lambda found: (one.best_benchmark_id for one in found if one.best_benchmark_id))


@kept(4)
def _contenders(store: Store, wrong: frozenset[str]) -> tuple[Contender, ...]:
    return store.contenders(wrong)


@kept(4)
def families(store: Store) -> dict[str, str]:
    """Return the model version that each one stems from, by digest."""
    return families_of(store.models())


@kept(_MOST_LISTS)
def experiments(store: Store, contender: Contender, *, repeats: bool, also: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the experiments of a contender: the newest of each configuration, or all, and those named in any case."""
    return store.experiments(contender, repeats=repeats, also=also)


@kept(4)
def profile_entries(store: Store) -> tuple[ProfileEntry, ...]:
    """Return all profiles as they stand in lists, newest first; copies for other batches count as their originals."""
    originals = {model.digest: model.original_digest for model in store.models()}
    found = store.profile_entries()
    return tuple(replace(one, model_digest=originals.get(one.model_digest, one.model_digest)) for one in found)


@kept_for_good(_MOST_LISTS)
def measured(store: Store, measurement_id: str) -> Measurement:
    """Return a measurement. Raises `InputError` when it is gone."""
    return store.measurement(measurement_id)


def compared(first: Measurement, second: Measurement) -> Compared | None:
    """Return what came of comparing two measurements; None where one has no numbers."""
    if first.latency is None or second.latency is None:
        return None
    return _compared(first.id, second.id, first, second)


def answers(first: Measurement, second: Measurement) -> tuple[Answer, ...]:
    """Return which of two measurements is faster, in a sentence; nothing where they did other work."""
    found = compared(first, second)
    return () if found is None else _answers_of_two(first.id, second.id, found)


def layers(first_id: str, second_id: str) -> ComparedLayers:
    """Return two profiles compared layer by layer. Raises `InputError` when one is gone or has no layers."""
    found, (known, held) = peaks(), models_to_advise_by()
    here = None if held is None else tuple(one.digest for one in held)
    stamp = *stamp_of(found), *((one.digest, one.name) for one in known), here
    return _layers(first_id, second_id, stamp, found, known, held)


def report(first: Measurement, second: Measurement) -> str:
    """Return two measurements compared, as a page for others. Calls no page."""
    pair = compared(first, second)
    title = " against ".join(f"{one.model_name} on {engine_label(one)}" for one in (first, second))
    return benchmark_html(title, [pair] if pair else [], answers=answers(first, second))


def report_of_layers(profile_ids: Sequence[str], points: Sequence[Measurement], doubts: Sequence[str] = ()) -> str:
    """Return two profiles compared, as a page for others that begins with what two measurements tell, and doubts."""
    found = layers(*profile_ids)
    said = answers(*points) if points else ()
    return profile_html(found.comparison, looks=engine_looks(), answers=said, doubts=doubts)


@kept_for_good(_MOST_LISTS)
def _compared(store: Store, first_id: str, second_id: str, _first: Measurement, _second: Measurement) -> Compared:
    planned = planned_processes(map(store.benchmark, {_first.benchmark_id, _second.benchmark_id}))
    snapshots = _snapshots(store, _first, _second)
    pairs = [(_first, _second)]
    (found,) = compare_pairs(pairs, store.block_samples, store.models(), planned=planned, snapshots=snapshots)
    return with_unlike_work(found)


@kept_for_good(_MOST_LISTS)
def _answers_of_two(store: Store, first_id: str, second_id: str, _compared: Compared) -> tuple[Answer, ...]:
    blocks = store.block_latencies([first_id, second_id])
    planned = planned_processes(map(store.benchmark, {one.benchmark_id for one in (_compared.first, _compared.second)}))
    snapshots = _snapshots(store, _compared.first, _compared.second)
    return answers_across([_compared], {}, blocks, store.models(), planned=planned, snapshots=snapshots)


def _snapshots(store: Store, *measurements: Measurement) -> Snapshots:
    return {one: store.benchmark_snapshots(one) for one in {each.benchmark_id for each in measurements}}


@kept_for_good(_MOST_COMPARISONS)
def _layers(
    store: Store,
    first_id: str,
    second_id: str,
    stamp: tuple[object, ...],
    _peaks: tuple[Peak, ...],
    _known: tuple[ModelVersion, ...],
    _held: tuple[ModelVersion, ...] | None,
) -> ComparedLayers:
    found = {one.id: one for one in store.whole_profiles((first_id, second_id))}
    for identity in (first_id, second_id):
        if identity not in found:
            raise InputError(f"there is no profile {identity!r} any more; choose another one")
    comparison = advised(compare_profiles([found[first_id], found[second_id]], _peaks), _peaks, _known, _held)
    return ComparedLayers(comparison, layer_table(comparison.pairs[0]))
