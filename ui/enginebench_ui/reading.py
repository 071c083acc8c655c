"""What pages read from the store, kept in memory until the store changes, and how errors reach the person.

Nothing here holds a connection: each read opens the file, queries and closes it, and is then answered from memory as
long as the store's generation stays the same.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import default_home
from enginebench_controller.records import ModelVersion, Target, TargetSnapshot
from enginebench_controller.store.queries import BenchmarkEntry
from enginebench_controller.store.store import BenchmarkBundle, Store
from enginebench_ui.views.charts import Ecdf, ecdf
from enginebench_ui.views.text import inert

P = ParamSpec("P")
R = TypeVar("R")

READ_TIMEOUT_S = 10.0


@contextmanager
def banner_on_error() -> Iterator[None]:
    """Show an error as its sentence and end the page there."""
    try:
        yield
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
        st.stop()


def benchmarks() -> tuple[BenchmarkEntry, ...]:
    """Return all benchmarks, newest first."""
    return _benchmarks(*_place())


def targets() -> tuple[tuple[Target, ...], tuple[TargetSnapshot, ...]]:
    """Return the targets and what each said last."""
    return _targets(*_place())


def models() -> tuple[ModelVersion, ...]:
    """Return the model versions, oldest first."""
    return _models(*_place())


def bundle(benchmark_id: str) -> BenchmarkBundle:
    """Return one benchmark with its measurements, without samples. Raises `InputError` when there is none."""
    return _bundle(*_place(), benchmark_id)


def latency_shares(measurement_ids: Iterable[str]) -> dict[str, Ecdf]:
    """Return how the raw latencies of measurements are distributed, by id; those without any are left out.

    Only the curves are kept in memory, never the samples.
    """
    found = {identity: _latency_shares(*_place(), identity) for identity in measurement_ids}
    return {identity: curve for identity, curve in found.items() if curve is not None}


def _store(path: str) -> Store:
    return Store(Path(path), timeout_s=READ_TIMEOUT_S)


def _place() -> tuple[str, str]:
    store = default_home().store
    return str(store.path), store.generation()


def _kept(read: Callable[P, R]) -> Callable[P, R]:
    """Answer from memory. The generation among the arguments is there for that only: an equal one, an equal answer."""
    kept: Callable[P, R] = st.cache_data(show_spinner=False, max_entries=64)(read)
    return kept


@_kept
def _benchmarks(path: str, generation: str) -> tuple[BenchmarkEntry, ...]:
    return _store(path).benchmarks()


@_kept
def _targets(path: str, generation: str) -> tuple[tuple[Target, ...], tuple[TargetSnapshot, ...]]:
    store = _store(path)
    return store.targets(), store.snapshots()


@_kept
def _models(path: str, generation: str) -> tuple[ModelVersion, ...]:
    return _store(path).models()


@_kept
def _bundle(path: str, generation: str, benchmark_id: str) -> BenchmarkBundle:
    return _store(path).bundle(benchmark_id, with_samples=False)


@_kept
def _latency_shares(path: str, generation: str, measurement_id: str) -> Ecdf | None:
    samples_ns = _store(path).samples(measurement_id)
    return None if samples_ns is None else ecdf(samples_ns)
