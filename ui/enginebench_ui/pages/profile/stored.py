"""What the pages of profiles read, and what is worked out of it, kept in memory.

A stored profile never changes, so it is kept by its id, whatever else the store takes in meanwhile. It is kept as it is
and not as a copy for each session: its records are frozen.
"""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from enginebench_controller.errors import InputError
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.files.exports.profiles import export_profiles
from enginebench_controller.records import ModelVersion, Peak, Profile, ProfileEntry
from enginebench_controller.records.model import int8_versions, is_gone
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.layers.advice import Advice
from enginebench_controller.verdicts.layers.advisor import advise
from enginebench_controller.verdicts.pruning.prospects import sweep_for
from enginebench_ui.pages.profile.shapes.layers import Dataset, LayerView, layer_views
from enginebench_ui.pages.profile.shapes.prospects import Sweep, sweep_of
from enginebench_ui.pages.profile.shapes.results import LayerForms, layer_forms
from enginebench_ui.shared.reading import (
    kept,
    kept_for_good,
    models_to_advise_by,
    place,
    profile_entries,
    stamp_of,
    store_at,
)
from enginebench_ui.shared.showing import MOST_CARDS

QUICK_SWEEP_NODES = 4000
"""Nodes of all passes together that are read within about half a second."""

SWEEPS_KEPT = 3
_sweeps: dict[tuple[str, tuple[str, ...]], Sweep] = {}
"""Sweeps by the store's path and the ids of their passes. Not Streamlit's memory, which does not tell what is in it."""


def find(named: str) -> ProfileEntry:
    """Return the profile with this id, else the only one whose id begins so. Raises `InputError`."""
    listed = profile_entries()
    found = [one for one in listed if one.id == named] or [one for one in listed if named and one.id.startswith(named)]
    if len(found) != 1:
        many = f"{len(found)} profiles begin with" if found else "there is no profile"
        raise InputError(f"{many} {named!r}; it may have been removed")
    return found[0]


@kept_for_good(12, "Reading the profile …")
def whole(store: Store, profile_id: str) -> Profile:
    """Return a profile with its layers and nodes. Raises `InputError` when there is none."""
    found = store.whole_profiles([profile_id])
    if not found:
        raise InputError(f"there is no profile {profile_id!r}; it may have been removed")
    return found[0]


@kept(16)
def peaks(store: Store, target: str) -> tuple[Peak, ...]:
    """Return what the last calibrations of a target found."""
    return store.peaks(target)


def layers(profile: Profile) -> tuple[LayerView, ...]:
    """Return the layers of a whole profile as views, under the roofs of its target."""
    found = peaks(profile.target)
    return _layers(profile.id, stamp_of(found), profile, found)


def forms(profile: Profile, dataset: Dataset) -> LayerForms:
    """Return a figure of these layers as what is shown of it."""
    stamp = stamp_of(peaks(profile.target))
    return _forms(profile.id, stamp, dataset.label, layers(profile), dataset)


def passes(entry: ProfileEntry) -> tuple[ProfileEntry, ...]:
    """Return the passes with zeros imposed on the profile's model, dense one and copies included; empty without any."""
    return sweep_for(profile_entries(), entry)


def sweep(found: Sequence[ProfileEntry]) -> Sweep:
    """Return what these passes tell. Takes seconds for passes over thousands of nodes, the first time."""
    path, profile_ids = place()[0], tuple(one.id for one in found)
    known = _sweeps.get((path, profile_ids))
    if known is not None or not profile_ids:
        return known or Sweep()
    told = sweep_of(store_at(path).whole_profiles(profile_ids))
    for oldest in list(_sweeps)[: len(_sweeps) + 1 - SWEEPS_KEPT]:
        _sweeps.pop(oldest, None)
    _sweeps[path, profile_ids] = told
    return told


def is_slow_sweep(found: Sequence[ProfileEntry], nodes: int) -> bool:
    """Whether these passes over so many nodes are still to be read, and would keep a person waiting."""
    key = (place()[0], tuple(one.id for one in found))
    return len(found) * nodes > QUICK_SWEEP_NODES and key not in _sweeps


def advice(profile: Profile, passes: Sweep) -> tuple[Advice, ...]:
    """Return what the advisor says of a whole profile."""
    found = peaks(profile.target)
    ids = tuple(one.id for one in passes.passes)
    known, held = models_to_advise_by()
    int8 = int8_versions(known, profile.model_digest)
    digests = tuple(one.digest for one in int8)
    gone = held is not None and is_gone(profile.model_digest, known, held)
    return _advice(profile.id, stamp_of(found), ids, digests, gone, profile, found, passes.passes, int8)


def exported(profile: Profile, form: ExportFormat) -> bytes:
    """Return a profile as the file that `enginebench profiles export` writes. Calls no page."""
    store = store_at(place()[0])
    with TemporaryDirectory() as folder:
        file = Path(folder) / "export"
        export_profiles([profile], store.peaks(profile.target), form, file)
        return file.read_bytes()


@kept_for_good(12, "Placing the layers under their roofs …")
def _layers(
    store: Store, profile_id: str, stamp: tuple[object, ...], _profile: Profile, _found: Sequence[Peak]
) -> tuple[LayerView, ...]:
    return layer_views(_profile, _found)


@kept_for_good(6)
def _forms(
    store: Store,
    profile_id: str,
    stamp: tuple[object, ...],
    label: str,
    _layers: tuple[LayerView, ...],
    _dataset: Dataset,
) -> LayerForms:
    return layer_forms(_layers, _dataset, MOST_CARDS)


@kept_for_good(12, "Asking the advisor …")
def _advice(
    store: Store,
    profile_id: str,
    stamp: tuple[object, ...],
    pass_ids: tuple[str, ...],
    int8_digests: tuple[str, ...],
    is_model_gone: bool,
    _profile: Profile,
    _found: Sequence[Peak],
    _passes: Sequence[Profile],
    _int8: Sequence[ModelVersion],
) -> tuple[Advice, ...]:
    return advise(_profile, None, _found, _passes, int8_versions=_int8, is_model_gone=is_model_gone)
