"""What pages read from the store, kept in memory until it changes, and how errors reach the person.

Nothing here holds a connection: each read opens the file, queries and closes it, and is then answered from memory as
long as the store's generation stays the same.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

import streamlit as st

from enginebench_controller.errors import EnginebenchError, InputError, ModelError, StoreError
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.graph.analysis import CountedModel, counted_model
from enginebench_controller.home import default_home, home_to_read
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import (
    NOISE_AGE_NS,
    Benchmark,
    ModelVersion,
    Noise,
    Peak,
    ProfileEntry,
    Search,
    SearchKind,
    Target,
    TargetSnapshot,
)
from enginebench_controller.store.benchmarks import BenchmarkPage
from enginebench_controller.store.measurements import Headline, MeasuredCell
from enginebench_controller.store.models import Project
from enginebench_controller.store.store import BenchmarkBundle, Store
from enginebench_controller.verdicts.across import are_many
from enginebench_controller.verdicts.answers import Answer, answers_of
from enginebench_controller.verdicts.doubts import Mark, marks
from enginebench_controller.verdicts.gate.results import GateResult
from enginebench_controller.verdicts.gate.stored import gate_of
from enginebench_controller.verdicts.soundness import soundness
from enginebench_ui.shared.project_key import two_sides as two_sides_of
from enginebench_ui.shared.text import inert
from enginebench_ui.shared.versions import KnownVersion, merged

P = ParamSpec("P")
R = TypeVar("R")

READ_TIMEOUT_S = 10.0
_NOISE_HOLDS_NS = 600 * 10**9


def kept(most: int, spinner: str | bool = False) -> Callable[[Callable[Concatenate[Store, P], R]], Callable[P, R]]:
    """Keep so many answers, as they are, until the store changes; the function is given the store."""
    return _keeping(most, spinner, place)


def kept_for_good(
    most: int, spinner: str | bool = False
) -> Callable[[Callable[Concatenate[Store, P], R]], Callable[P, R]]:
    """Keep so many of what the store never changes; arguments that begin with an underscore do not tell them apart."""
    return _keeping(most, spinner, lambda: place()[:1])


_asked_at: dict[tuple[str, str], tuple[str, ...]] = {}
"""Where each function was asked last, by its file and name: those of a page are made anew whenever it is drawn."""


def _keeping(
    most: int, spinner: str | bool, where: Callable[[], tuple[str, ...]]
) -> Callable[[Callable[Concatenate[Store, P], R]], Callable[P, R]]:
    def keeping(read: Callable[Concatenate[Store, P], R]) -> Callable[P, R]:
        # Streamlit goes by name, source and parameters: `wraps` shows it those of `read`, whose `store` is `there`.
        @wraps(read)
        def remembered(there: tuple[str, ...], *arguments: P.args, **named: P.kwargs) -> R:
            return read(store_at(there[0]), *arguments, **named)

        keeper = st.cache_resource(show_spinner=spinner, max_entries=most)
        cached = keeper(remembered)
        name = read.__code__.co_filename, read.__qualname__

        @wraps(read)
        def answered(*arguments: P.args, **named: P.kwargs) -> R:
            there = where()
            if _asked_at.get(name) != there:  # else as many old states of the store would be kept as answers
                cached.clear()
                _asked_at[name] = there
            answer: R = cached(there, *arguments, **named)
            return answer

        return answered

    return keeping


def place() -> tuple[str, str]:
    """Return where the store is, and its generation: an equal one, an equal answer."""
    read = home_to_read().store
    return str(read.path), read.generation()


def store_at(path: str) -> Store:
    """Return the store there, or the lakes that are read in its place: pages do not wait for long."""
    return replace(home_to_read(), path=Path(path).parent).store_within(READ_TIMEOUT_S)


WITH_NODES = "onnx"
"""The format whose nodes are counted."""


@contextmanager
def banner_on_error() -> Iterator[None]:
    """Show an error as its sentence and end the page there."""
    try:
        yield
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
        st.stop()


def library() -> ModelLibrary:
    """Return the model versions of this machine."""
    return default_home().library


@kept(64)
def targets(store: Store) -> tuple[tuple[Target, ...], tuple[TargetSnapshot, ...]]:
    """Return the targets and what each said last."""
    return store.targets(), store.snapshots()


@kept(64)
def models(store: Store) -> tuple[ModelVersion, ...]:
    """Return the model versions, oldest first."""
    return store.models()


def projects() -> tuple[Project, ...]:
    """Return each model version × engine × target with the best measured there, by model, then the fastest first."""
    return rightly(_projects, lambda found: (one.best.benchmark_id for one in found if one.best))


@kept(4)
def _projects(store: Store, wrong: frozenset[str]) -> tuple[Project, ...]:
    return store.projects(wrong)


def rightly(read: Callable[[frozenset[str]], R], best: Callable[[R], Iterable[str]]) -> R:
    """Return what `read` does, given the measurements that cannot be the best of anything: a fast wrong answer is none.

    They are looked for in the benchmarks, by id, of what would be `best`, until it is right.
    """
    wrong: frozenset[str] = frozenset()
    while True:
        found = read(wrong)
        asked = dict.fromkeys(best(found))
        sizes = _sizes()  # of now: what was read before may have been removed since
        if (more := wrong.union(*(_wrong(one, sizes.get(one, 0)) for one in asked))) == wrong:
            return found
        wrong = more


@kept(4)
def _sizes(store: Store) -> Mapping[str, int]:
    """How many measurements each benchmark has."""
    return {one.benchmark.id: one.measurements for one in store.benchmarks()}


@kept_for_good(1024, "Looking whether outputs are right …")
def _wrong(store: Store, benchmark_id: str, measurements: int) -> frozenset[str]:
    """Which of so many measurements of a benchmark have wrong outputs, or numbers that cannot be."""
    found = store.measurements(benchmark_id, with_blocks=False)
    impossible = (one.id for one in found if Mark.IMPOSSIBLE in marks(one))
    return frozenset((*soundness(found, store.models()).problems, *impossible))


def versions() -> dict[str, KnownVersion]:
    """Return every model version, of the library and of results, by digest."""
    return _versions(library().generation())


@kept(64)
def _versions(store: Store, library_generation: str) -> dict[str, KnownVersion]:
    held = library()
    here = held.versions()
    return merged(store.models(), here, {one.digest: held.weights(one) for one in here})


@kept(8)
def bundle(store: Store, benchmark_id: str) -> BenchmarkBundle:
    """Return one benchmark, without samples. Raises `InputError` when there is none."""
    return store.bundle(benchmark_id, with_samples=False)


@kept(8)
def answers(store: Store, benchmark_id: str) -> tuple[Answer, ...]:
    """Return which is fastest of each group of a benchmark that people compare, in a sentence; none of many targets."""
    found = bundle(benchmark_id)
    if are_many(found.measurements):  # a group each
        return ()
    return answers_of(store, found.benchmark, found.measurements, store.models())


@kept(64)
def two_sides(store: Store, benchmark_id: str) -> dict[str, str]:
    """Return what opens the comparison of the two projects that a benchmark measured; nothing where they are not two.

    Nothing either of a benchmark that is gone.
    """
    try:
        measured = bundle(benchmark_id).measurements
    except InputError:
        return {}
    return two_sides_of(measured, models())


@kept(8)
def gated(store: Store, benchmark_id: str) -> GateResult | None:
    """Return what a gate found; None for a benchmark that is no gate, or has nothing measured of one side."""
    benchmark = bundle(benchmark_id).benchmark
    return gate_of(home_to_read(), benchmark) if benchmark.plan.get("gate") else None


def searches(kind: SearchKind) -> tuple[Search, ...]:
    """Return the searches of a kind, newest first."""
    return tuple(one for one in _searches() if one.kind is kind)


def search_or_none(search_id: str) -> Search | None:
    """Return the search of this id; None where there is none, as of a step that came without its search."""
    return next((one for one in _searches() if one.id == search_id), None)


@kept(4)
def _searches(store: Store) -> tuple[Search, ...]:
    return store.searches()


@kept(8)
def steps_of(store: Store, search_id: str) -> tuple[Benchmark, ...]:
    """Return the benchmarks that are the steps of a search, in their order."""
    return store.steps_of(search_id)


@kept(4)
def engine_looks(store: Store) -> EngineLooks:
    """Return what colour and marker each engine has on every page."""
    return EngineLooks(store.engine_names())


def noise() -> Mapping[str, Noise]:
    """Return how noisy each target was that has measured during the last day, by name."""
    return _noise(time.time_ns() // _NOISE_HOLDS_NS)  # it passes although nothing is stored


@kept(64)
def _noise(store: Store, moment: int) -> Mapping[str, Noise]:
    return store.noise(time.time_ns() - NOISE_AGE_NS)


@kept(64)
def peaks(store: Store) -> tuple[Peak, ...]:
    """Return what the last calibration of each engine, version, device and number of cores found, on all targets."""
    return store.peaks()


def stamp_of(found: Iterable[Peak]) -> tuple[object, ...]:
    """Return what tells peaks from others: when each was measured, and on which processor, which may be known later.

    The last time alone is not enough, as a target's clock may be set back.
    """
    return tuple((peak.measured_at_unix_ns, peak.cpu_model) for peak in found)


def listed(search: str, size: int, page: int) -> BenchmarkPage:
    """Return a page of the list, newest first."""
    read = partial(_listed, search, size, page)
    return rightly(read, lambda found: (one.fastest.benchmark_id for one in found.listed if one.fastest))


@kept(8)
def _listed(store: Store, search: str, size: int, page: int, wrong: frozenset[str]) -> BenchmarkPage:
    return store.benchmark_page(search, size, page, wrong)


@kept(4)
def profile_entries(store: Store) -> tuple[ProfileEntry, ...]:
    """Return all profiles as they stand in lists, newest first."""
    return store.profile_entries()


def theory(model: ModelVersion, batch: int | None) -> CountedModel:
    """Return a model's nodes with their work: as a profile brought them, else counted in the library's file.

    Raises `ModelError` where the format shows no nodes, or the file cannot be counted.
    """
    return _theory(str(library().main_path(model)), model.digest, model.format, batch)


@kept_for_good(8, "Counting the operations of the model …")
def _theory(store: Store, file: str, digest: str, kind: str, batch: int | None) -> CountedModel:
    known = store.stored_work(digest, batch)
    if known is not None:
        return CountedModel(known.batch, known.nodes, known.work)
    if kind != WITH_NODES:
        raise ModelError(f"the format {kind} shows no nodes to count, layer by layer")
    return counted_model(Path(file), batch)


def known_models() -> tuple[ModelVersion, ...]:
    """Return the model versions of the library, and those that the store knows although their files are gone."""
    return _known_models(library().generation())


@kept(4)
def _known_models(store: Store, library_generation: str) -> tuple[ModelVersion, ...]:
    held = {one.digest: one for one in library().versions()}
    return (*held.values(), *(one for one in store.models() if one.digest not in held))


def models_to_advise_by() -> tuple[tuple[ModelVersion, ...], tuple[ModelVersion, ...] | None]:
    """Return the models that are known, and those that the library holds; None where a record there cannot be read.

    Layers are shown without it.
    """
    try:
        return known_models(), tuple(library().versions())
    except StoreError:
        return models(), None


def measured_cells(model_digests: Iterable[str]) -> tuple[MeasuredCell, ...]:
    """Return the newest numbers of every configuration in which these versions were measured."""
    return _measured_cells(tuple(sorted(model_digests)))


@kept(16)
def _measured_cells(store: Store, model_digests: tuple[str, ...]) -> tuple[MeasuredCell, ...]:
    return store.measured_cells(model_digests)


def headlines(benchmark_ids: Iterable[str]) -> dict[str, Headline]:
    """Return what the measurements of benchmarks came to, by measurement id."""
    return {key: one for each in benchmark_ids for key, one in _headlines(each).items()}


@kept(16)
def _headlines(store: Store, benchmark_id: str) -> Mapping[str, Headline]:
    return store.headlines(benchmark_id)


@kept(16)
def newest_benchmarks(store: Store, most: int) -> tuple[Benchmark, ...]:
    """Return the newest benchmarks, the newest first."""
    return tuple(one.entry.benchmark for one in store.benchmark_page("", most).listed)


@kept(16)
def benchmark_or_none(store: Store, named: str) -> Benchmark | None:
    """Return the benchmark that an address names; None where there is none."""
    try:
        return store.benchmark(named)
    except InputError:
        return None
