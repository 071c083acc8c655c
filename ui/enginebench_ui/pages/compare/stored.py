"""What the page that compares reads, kept in memory: lists until the store changes, what never changes by its ids.

Profiles and measurements are never rewritten, so that a comparison of two holds as long as both are there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from enginebench_controller.errors import InputError
from enginebench_controller.files.reports import benchmark_html, profile_html
from enginebench_controller.records import Measurement, Peak, ProfileEntry
from enginebench_controller.records.model import families as families_of
from enginebench_controller.store.models import Contender, Experiment
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.answers import Answer, answers_across
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
from enginebench_ui.shared.reading import engine_looks, kept, place, store_at

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
    """Return everything that can be compared."""
    return _contenders(*place())


def families() -> dict[str, str]:
    """Return the model version that each one stems from, by digest."""
    return _families(*place())


def experiments(contender: Contender, *, repeats: bool, also: Sequence[str]) -> tuple[Experiment, ...]:
    """Return the experiments of a contender: the newest of each configuration, or all, and those named in any case."""
    return _experiments(*place(), contender, repeats, tuple(also))


def profile_entries() -> tuple[ProfileEntry, ...]:
    """Return all profiles as they stand in lists, newest first; copies for other batches count as their originals."""
    return _profile_entries(*place())


def measured(measurement_id: str) -> Measurement:
    """Return a measurement. Raises `InputError` when it is gone."""
    return _measured(place()[0], measurement_id)


def compared(first: Measurement, second: Measurement) -> Compared | None:
    """Return what came of comparing two measurements; None where one has no numbers."""
    if first.latency is None or second.latency is None:
        return None
    return _compared(place()[0], first.id, second.id, first, second)


def answers(first: Measurement, second: Measurement) -> tuple[Answer, ...]:
    """Return which of two measurements is faster, in a sentence; nothing where they did other work."""
    found = compared(first, second)
    return () if found is None else _answers_of_two(place()[0], first.id, second.id, found)


def layers(first_id: str, second_id: str) -> ComparedLayers:
    """Return two profiles compared layer by layer. Raises `InputError` when one is gone or has no layers."""
    peaks = _peaks(*place())
    stamp = len(peaks), max((peak.measured_at_unix_ns for peak in peaks), default=0)
    return _layers(place()[0], first_id, second_id, stamp, peaks)


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


@kept(_MOST_LISTS)
def _contenders(path: str, generation: str) -> tuple[Contender, ...]:
    return store_at(path).contenders()


@kept(4)
def _families(path: str, generation: str) -> dict[str, str]:
    return families_of(store_at(path).models())


@kept(_MOST_LISTS)
def _experiments(
    path: str, generation: str, contender: Contender, repeats: bool, also: tuple[str, ...]
) -> tuple[Experiment, ...]:
    return store_at(path).experiments(contender, repeats=repeats, also=also)


@kept(4)
def _profile_entries(path: str, generation: str) -> tuple[ProfileEntry, ...]:
    store = store_at(path)
    originals = {model.digest: model.original_digest for model in store.models()}
    found = store.profile_entries()
    return tuple(replace(one, model_digest=originals.get(one.model_digest, one.model_digest)) for one in found)


@kept(4)
def _peaks(path: str, generation: str) -> tuple[Peak, ...]:
    return store_at(path).peaks()


@kept(_MOST_LISTS)
def _measured(path: str, measurement_id: str) -> Measurement:
    return store_at(path).measurement(measurement_id)


@kept(_MOST_LISTS)
def _compared(path: str, first_id: str, second_id: str, _first: Measurement, _second: Measurement) -> Compared:
    store = store_at(path)
    planned = planned_processes(map(store.benchmark, {_first.benchmark_id, _second.benchmark_id}))
    snapshots = _snapshots(store, _first, _second)
    pairs = [(_first, _second)]
    (found,) = compare_pairs(pairs, store.block_samples, store.models(), planned=planned, snapshots=snapshots)
    return with_unlike_work(found)


@kept(_MOST_LISTS)
def _answers_of_two(path: str, first_id: str, second_id: str, _compared: Compared) -> tuple[Answer, ...]:
    store = store_at(path)
    blocks = store.block_latencies([first_id, second_id])
    planned = planned_processes(map(store.benchmark, {one.benchmark_id for one in (_compared.first, _compared.second)}))
    snapshots = _snapshots(store, _compared.first, _compared.second)
    return answers_across([_compared], {}, blocks, store.models(), planned=planned, snapshots=snapshots)


def _snapshots(store: Store, *measurements: Measurement) -> Snapshots:
    return {one: store.benchmark_snapshots(one) for one in {each.benchmark_id for each in measurements}}


@kept(_MOST_COMPARISONS)
def _layers(
    path: str, first_id: str, second_id: str, stamp: tuple[int, int], _peaks: tuple[Peak, ...]
) -> ComparedLayers:
    found = {one.id: one for one in store_at(path).whole_profiles((first_id, second_id))}
    for identity in (first_id, second_id):
        if identity not in found:
            raise InputError(f"there is no profile {identity!r} any more; choose another one")
    comparison = compare_profiles([found[first_id], found[second_id]], _peaks)
    return ComparedLayers(comparison, layer_table(comparison.pairs[0]))
