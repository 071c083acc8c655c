"""The profiles of one model, among which a page switches: those that were measured, and the theoretical one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from enginebench_controller.records import ModelVersion
from enginebench_controller.store.profile_entries import ProfileEntry
from enginebench_ui.views.magnitudes import engine_text, shortened
from enginebench_ui.views.text import count_of, instant

MOST = 200
"""Profiles in the choice, the newest; the list has all."""


@dataclass(frozen=True)
class Sibling:
    """A profile in the choice: `key` is its id or "flops", `query` what opens it; the label is plain text."""

    key: str
    label: str
    query: Mapping[str, str]


FLOPS_KEY = "flops"


def siblings(entry: ProfileEntry, entries: Iterable[ProfileEntry]) -> tuple[Sibling, ...]:
    """Return the profiles of the same model, newest first, this one among them, and the theoretical one."""
    own = [one for one in entries if one.model_digest == entry.model_digest]
    shown = own[:MOST] if entry in own[:MOST] else [entry, *own[: MOST - 1]]
    return (*map(_measured, shown), _theoretical(entry.model_digest))


def siblings_of_model(model: ModelVersion, entries: Iterable[ProfileEntry]) -> tuple[Sibling, ...]:
    """Return the theoretical profile of a model, and the measured ones, newest first."""
    own = [one for one in entries if one.model_digest == model.digest]
    return (_theoretical(model.digest), *map(_measured, own[:MOST]))


def _measured(entry: ProfileEntry) -> Sibling:
    zeros = f"{100 * entry.imposed_sparsity:g} % zeros" if entry.imposed_sparsity is not None else ""
    parts = (
        shortened(entry.name, 32) or "unnamed",
        engine_text(entry),
        f"batch {entry.batch}",
        count_of(entry.cores, "core"),
        zeros,
        "" if entry.status.has_numbers else entry.status.value,
        instant(entry.created_at_unix_ns),
    )
    return Sibling(entry.id, " · ".join(filter(None, parts)), {"id": entry.id})


def _theoretical(digest: str) -> Sibling:
    return Sibling(FLOPS_KEY, "FLOPS · counted in the model, in theory", {"model": digest})
