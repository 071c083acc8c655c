"""What pages read from the store, kept in memory until the store changes, and how errors reach the person.

Nothing here holds a connection: each read opens the file, queries and closes it, and is then answered from memory as
long as the store's generation stays the same.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import streamlit as st

from enginebench_controller.errors import EnginebenchError, ModelError
from enginebench_controller.home import Home, default_home
from enginebench_controller.model.counted_model import CountedModel, counted_model
from enginebench_controller.model.library import ModelLibrary
from enginebench_controller.records import ModelVersion, Peak, Target, TargetSnapshot
from enginebench_controller.store.listing import BenchmarkPage
from enginebench_controller.store.profile_entries import ProfileEntry
from enginebench_controller.store.project_rows import Project
from enginebench_ui.keeping import kept, place, store_at
from enginebench_ui.views.text import inert
from enginebench_ui.views.versions import KnownVersion, merged

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
