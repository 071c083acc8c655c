"""What the pages that order something read, kept in memory until the store changes."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import ParamSpec, TypeVar

import streamlit as st

from enginebench_controller.errors import InputError
from enginebench_controller.home import default_home
from enginebench_controller.records import Benchmark
from enginebench_controller.store.cell_rows import Headline, MeasuredCell
from enginebench_controller.store.store import Store
from enginebench_ui.reading import READ_TIMEOUT_S

P = ParamSpec("P")
R = TypeVar("R")


def measured_cells(model_digests: Iterable[str]) -> tuple[MeasuredCell, ...]:
    """Return the newest numbers of every configuration in which these versions were measured."""
    return _measured_cells(*_place(), tuple(sorted(model_digests)))


def headlines(benchmark_ids: Iterable[str]) -> dict[str, Headline]:
    """Return what the measurements of benchmarks came to, by measurement id."""
    return {key: one for each in benchmark_ids for key, one in _headlines(*_place(), each).items()}


def newest_benchmarks(most: int) -> tuple[Benchmark, ...]:
    """Return the newest benchmarks, the newest first."""
    return _newest_benchmarks(*_place(), most)


def benchmark_or_none(named: str) -> Benchmark | None:
    """Return the benchmark that an address names; None where there is none."""
    return _benchmark_or_none(*_place(), named)


def _place() -> tuple[str, str]:
    own = default_home().store
    return str(own.path), own.generation()


def _kept(read: Callable[P, R]) -> Callable[P, R]:
    """Answer from memory. The generation among the arguments is there for that only: an equal one, an equal answer."""
    kept: Callable[P, R] = st.cache_resource(show_spinner=False, max_entries=16)(read)
    return kept


@_kept
def _measured_cells(path: str, generation: str, model_digests: tuple[str, ...]) -> tuple[MeasuredCell, ...]:
    return Store(Path(path), READ_TIMEOUT_S).measured_cells(model_digests)


@_kept
def _headlines(path: str, generation: str, benchmark_id: str) -> Mapping[str, Headline]:
    return Store(Path(path), READ_TIMEOUT_S).headlines(benchmark_id)


@_kept
def _newest_benchmarks(path: str, generation: str, most: int) -> tuple[Benchmark, ...]:
    return tuple(one.entry.benchmark for one in Store(Path(path), READ_TIMEOUT_S).benchmark_page("", most).listed)


@_kept
def _benchmark_or_none(path: str, generation: str, named: str) -> Benchmark | None:
    try:
        return Store(Path(path), READ_TIMEOUT_S).benchmark(named)
    except InputError:
        return None
