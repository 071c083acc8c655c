"""What pages read from the store, kept in memory until the store changes, and how errors reach the person.

Nothing here holds a connection: each read opens the file, queries and closes it, and is then answered from memory as
long as the store's generation stays the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import Home, default_home
from enginebench_controller.records import ModelVersion, Peak, Target, TargetSnapshot
from enginebench_controller.store.project_rows import Project
from enginebench_ui.keeping import kept, place, store_at
from enginebench_ui.views.text import inert
from enginebench_ui.views.versions import KnownVersion, merged


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


@kept(64)
def _peaks(path: str, generation: str) -> tuple[Peak, ...]:
    return store_at(path).peaks()
