"""What pages read from the store, kept in memory until it changes, and how errors reach the person.

Nothing here holds a connection: each read opens the file, queries and closes it, and is then answered from memory as
long as the store's generation stays the same.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import ParamSpec, TypeVar

import streamlit as st

from enginebench_controller.errors import EnginebenchError, InputError, ModelError
from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.graph.analysis import CountedModel, counted_model
from enginebench_controller.home import Home, default_home, home_to_read
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
from enginebench_controller.verdicts.gate.results import GateResult
from enginebench_controller.verdicts.gate.stored import gate_of
from enginebench_ui.shared.project_key import two_sides as two_sides_of
from enginebench_ui.shared.text import inert
from enginebench_ui.shared.versions import KnownVersion, merged

P = ParamSpec("P")
R = TypeVar("R")

READ_TIMEOUT_S = 10.0
_NOISE_HOLDS_NS = 600 * 10**9


def kept(most: int, spinner: str | bool = False) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keep so many answers, as they are; arguments that begin with an underscore do not tell answers apart.

    The `generation` among the arguments is there for that only: an equal one, an equal answer.
    """
    keeping: Callable[[Callable[P, R]], Callable[P, R]] = st.cache_resource(show_spinner=spinner, max_entries=most)
    return keeping


def place() -> tuple[str, str]:
    """Return where the store is, and its generation: the first arguments of what is kept."""
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


def targets() -> tuple[tuple[Target, ...], tuple[TargetSnapshot, ...]]:
    """Return the targets and what each said last."""
    return _targets(*place())


def models() -> tuple[ModelVersion, ...]:
    """Return the model versions, oldest first."""
    return _models(*place())


def projects() -> tuple[Project, ...]:
    """Return each model version × engine × target with the best measured there, by model, then the fastest first."""
    return _projects(*place())


def versions() -> dict[str, KnownVersion]:
    """Return every model version, of the library and of results, by digest."""
    home = default_home()
    return _versions(*place(), str(home.path), home.library.generation())


def bundle(benchmark_id: str) -> BenchmarkBundle:
    """Return one benchmark, without samples. Raises `InputError` when there is none."""
    return _bundle(*place(), benchmark_id)


def answers(benchmark_id: str) -> tuple[Answer, ...]:
    """Return which is fastest of each group of a benchmark that people compare, in a sentence; none of many targets."""
    return _answers(*place(), benchmark_id)


def two_sides(benchmark_id: str) -> dict[str, str]:
    """Return what opens the comparison of the two projects that a benchmark measured; nothing where they are not two.

    Nothing either of a benchmark that is gone.
    """
    return _two_sides(*place(), benchmark_id)


def gated(benchmark_id: str) -> GateResult | None:
    """Return what a gate found; None for a benchmark that is no gate, or has nothing measured of one side."""
    return _gated(*place(), benchmark_id)


def searches(kind: SearchKind) -> tuple[Search, ...]:
    """Return the searches of a kind, newest first."""
    return tuple(one for one in _searches(*place()) if one.kind is kind)


def search_or_none(search_id: str) -> Search | None:
    """Return the search of this id; None where there is none, as of a step that came without its search."""
    return next((one for one in _searches(*place()) if one.id == search_id), None)


def steps_of(search_id: str) -> tuple[Benchmark, ...]:
    """Return the benchmarks that are the steps of a search, in their order."""
    return _steps_of(*place(), search_id)


def engine_looks() -> EngineLooks:
    """Return what colour and marker each engine has on every page."""
    return _engine_looks(*place())


def noise() -> Mapping[str, Noise]:
    """Return how noisy each target was that has measured during the last day, by name."""
    return _noise(*place(), time.time_ns() // _NOISE_HOLDS_NS)  # it passes although nothing is stored


def peaks() -> tuple[Peak, ...]:
    """Return what the last calibration of each engine, version, device and number of cores found, on all targets."""
    return _peaks(*place())


@kept(64)
def _targets(path: str, generation: str) -> tuple[tuple[Target, ...], tuple[TargetSnapshot, ...]]:
    store = store_at(path)
    return store.targets(), store.snapshots()


@kept(64)
def _models(path: str, generation: str) -> tuple[ModelVersion, ...]:
    return store_at(path).models()


@kept(64)
def _projects(path: str, generation: str) -> tuple[Project, ...]:
    return store_at(path).projects()


@kept(64)
def _versions(path: str, generation: str, home: str, library_generation: str) -> dict[str, KnownVersion]:
    library = Home(Path(home)).library
    kept = library.versions()
    return merged(store_at(path).models(), kept, {one.digest: library.weights(one) for one in kept})


@kept(8)
def _bundle(path: str, generation: str, benchmark_id: str) -> BenchmarkBundle:
    return store_at(path).bundle(benchmark_id, with_samples=False)


@kept(8)
def _answers(path: str, generation: str, benchmark_id: str) -> tuple[Answer, ...]:
    found, own = _bundle(path, generation, benchmark_id), store_at(path)
    if are_many(found.measurements):  # a group each
        return ()
    return answers_of(own, found.benchmark, found.measurements, own.models())


@kept(64)
def _two_sides(path: str, generation: str, benchmark_id: str) -> dict[str, str]:
    try:
        measured = _bundle(path, generation, benchmark_id).measurements
    except InputError:
        return {}
    return two_sides_of(measured, _models(path, generation))


@kept(8)
def _gated(path: str, generation: str, benchmark_id: str) -> GateResult | None:
    benchmark = _bundle(path, generation, benchmark_id).benchmark
    return gate_of(home_to_read(), benchmark) if benchmark.plan.get("gate") else None


@kept(4)
def _searches(path: str, generation: str) -> tuple[Search, ...]:
    return store_at(path).searches()


@kept(8)
def _steps_of(path: str, generation: str, search_id: str) -> tuple[Benchmark, ...]:
    return store_at(path).steps_of(search_id)


@kept(4)
def _engine_looks(path: str, generation: str) -> EngineLooks:
    return EngineLooks(store_at(path).engine_names())


@kept(64)
def _noise(path: str, generation: str, moment: int) -> Mapping[str, Noise]:
    return store_at(path).noise(time.time_ns() - NOISE_AGE_NS)


@kept(64)
def _peaks(path: str, generation: str) -> tuple[Peak, ...]:
    return store_at(path).peaks()


def listed(search: str, size: int, page: int) -> BenchmarkPage:
    """Return a page of the list, newest first."""
    return _listed(*place(), search, size, page)


@kept(8)
def _listed(path: str, generation: str, search: str, size: int, page: int) -> BenchmarkPage:
    return store_at(path).benchmark_page(search, size, page)


def profile_entries() -> tuple[ProfileEntry, ...]:
    """Return all profiles as they stand in lists, newest first."""
    return _profile_entries(*place())


def theory(model: ModelVersion, batch: int | None) -> CountedModel:
    """Return a model's nodes with their work: as a profile brought them, else counted in the library's file.

    Raises `ModelError` where the format shows no nodes, or the file cannot be counted.
    """
    path, _ = place()
    return _theory(path, str(default_home().library.main_path(model)), model.digest, model.format, batch)


def known_models() -> tuple[ModelVersion, ...]:
    """Return the model versions of the library, and those that the store knows although their files are gone."""
    held = library()
    return _known_models(*place(), held.generation())


def library() -> ModelLibrary:
    """Return the model versions of this machine."""
    return default_home().library


@kept(4)
def _profile_entries(path: str, generation: str) -> tuple[ProfileEntry, ...]:
    return store_at(path).profile_entries()


@kept(4)
def _known_models(path: str, generation: str, library_generation: str) -> tuple[ModelVersion, ...]:
    held = {one.digest: one for one in library().versions()}
    return (*held.values(), *(one for one in store_at(path).models() if one.digest not in held))


@kept(8, "Counting the operations of the model …")
def _theory(path: str, file: str, digest: str, kind: str, batch: int | None) -> CountedModel:
    kept = store_at(path).stored_work(digest, batch)
    if kept is not None:
        return CountedModel(kept.batch, kept.nodes, kept.work)
    if kind != WITH_NODES:
        raise ModelError(f"the format {kind} shows no nodes to count, layer by layer")
    return counted_model(Path(file), batch)


def measured_cells(model_digests: Iterable[str]) -> tuple[MeasuredCell, ...]:
    """Return the newest numbers of every configuration in which these versions were measured."""
    return _measured_cells(*place(), tuple(sorted(model_digests)))


def headlines(benchmark_ids: Iterable[str]) -> dict[str, Headline]:
    """Return what the measurements of benchmarks came to, by measurement id."""
    return {key: one for each in benchmark_ids for key, one in _headlines(*place(), each).items()}


def newest_benchmarks(most: int) -> tuple[Benchmark, ...]:
    """Return the newest benchmarks, the newest first."""
    return _newest_benchmarks(*place(), most)


def benchmark_or_none(named: str) -> Benchmark | None:
    """Return the benchmark that an address names; None where there is none."""
    return _benchmark_or_none(*place(), named)


@kept(16)
def _measured_cells(path: str, generation: str, model_digests: tuple[str, ...]) -> tuple[MeasuredCell, ...]:
    return store_at(path).measured_cells(model_digests)


@kept(16)
def _headlines(path: str, generation: str, benchmark_id: str) -> Mapping[str, Headline]:
    return store_at(path).headlines(benchmark_id)


@kept(16)
def _newest_benchmarks(path: str, generation: str, most: int) -> tuple[Benchmark, ...]:
    return tuple(one.entry.benchmark for one in store_at(path).benchmark_page("", most).listed)


@kept(16)
def _benchmark_or_none(path: str, generation: str, named: str) -> Benchmark | None:
    try:
        return store_at(path).benchmark(named)
    except InputError:
        return None
