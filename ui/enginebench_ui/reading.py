"""What pages read from the store, kept in memory until the store changes, and how errors reach the person.

Nothing here holds a connection: each read opens the file, queries and closes it, and is then answered from memory as
long as the store's generation stays the same.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import Home, default_home
from enginebench_controller.records import ModelVersion, Peak, Target, TargetSnapshot
from enginebench_controller.store.project_rows import Project
from enginebench_controller.store.store import Store
from enginebench_ui.views.text import inert
from enginebench_ui.views.versions import KnownVersion, merged

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


def targets() -> tuple[tuple[Target, ...], tuple[TargetSnapshot, ...]]:
    """Return the targets and what each said last."""
    return _targets(*_place())


def models() -> tuple[ModelVersion, ...]:
    """Return the model versions, oldest first."""
    return _models(*_place())


def projects() -> tuple[Project, ...]:
    """Return each model version × engine × target with the best measured there, by model, then the fastest first."""
    return _projects(*_place())


def versions() -> dict[str, KnownVersion]:
    """Return every model version, of the library and of results, by digest."""
    home = default_home()
    return _versions(*_place(), str(home.path), home.library.generation())


def peaks() -> tuple[Peak, ...]:
    """Return what the last calibration of each engine, version, device and number of cores found, on all targets."""
    return _peaks(*_place())


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
def _targets(path: str, generation: str) -> tuple[tuple[Target, ...], tuple[TargetSnapshot, ...]]:
    store = _store(path)
    return store.targets(), store.snapshots()


@_kept
def _models(path: str, generation: str) -> tuple[ModelVersion, ...]:
    return _store(path).models()


@_kept
def _projects(path: str, generation: str) -> tuple[Project, ...]:
    return _store(path).projects()


@_kept
def _versions(path: str, generation: str, home: str, library_generation: str) -> dict[str, KnownVersion]:
    library = Home(Path(home)).library
    kept = library.versions()
    return merged(_store(path).models(), kept, {one.digest: library.weights(one) for one in kept})


@_kept
def _peaks(path: str, generation: str) -> tuple[Peak, ...]:
    return _store(path).peaks()
