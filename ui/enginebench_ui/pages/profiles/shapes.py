"""Profiles as a list: the baselines by name, the FLOPS profile that every model has, and the passes of each sweep."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from enginebench_controller.graph.analysis import CountedModel
from enginebench_controller.records import ModelVersion, ProfileEntry
from enginebench_controller.records.profile import is_at_most
from enginebench_controller.verdicts.pruning.prospects import sweeps
from enginebench_ui.shared.text import (
    Row,
    cells,
    engine_text,
    in_milliseconds,
    in_percent,
    instant,
    items_per_s,
    magnitude,
)

MOST_LISTED = 2000
"""Rows that are sent to the browser; a search reaches the others."""


class ListedKind(StrEnum):
    """What a list is of; the words stand on the page and in its address."""

    BASELINE = "Baseline"
    FLOPS = "FLOPS"
    PRUNING = "Pruning passes"


@dataclass(frozen=True)
class Listing:
    """Table rows with what opens each: the query of the profile's page. `total` also counts what is not shown."""

    rows: tuple[Row, ...]
    queries: tuple[dict[str, str], ...]
    total: int


def baselines(entries: Iterable[ProfileEntry], search: str = "") -> Listing:
    """Profiles that were measured for themselves, newest first: all but the passes of sweeps."""
    listed = list(entries)
    orders = {passes[0].order_id for passes in sweeps(listed)}
    found = [one for one in listed if not one.order_id or one.order_id not in orders]
    return _listing(found, search, _text, _baseline_row, lambda one: {"id": one.id})


def sweep_passes(entries: Iterable[ProfileEntry], search: str = "") -> Listing:
    """A row a sweep, newest first; it opens the dense pass, or the first one where that is missing."""
    found = sweeps(entries)
    return _listing(
        found, search, lambda passes: _text(passes[0]), _sweep_row, lambda passes: {"id": _dense(passes).id}
    )


def theoretical(
    models: Sequence[ModelVersion], search: str = "", flops: Callable[[ModelVersion], str | None] = lambda _model: None
) -> Listing:
    """A row a model version, newest first; `flops` is asked for the work of those that are shown, None is not known."""
    newest = sorted(models, key=lambda one: (-one.created_at_unix_ns, one.digest))
    return _listing(
        newest,
        search,
        lambda one: f"{one.name}\n{one.digest}",
        lambda one: _model_row(one, flops(one)),
        lambda one: {"model": one.digest},
    )


def _listing(
    found: Sequence[object],
    search: str,
    text: Callable[..., str],
    row: Callable[..., Row],
    query: Callable[..., dict[str, str]],
) -> Listing:
    words = search.casefold().split()
    kept = [one for one in found if all(word in text(one).casefold() for word in words)]
    shown = kept[:MOST_LISTED]
    return Listing(tuple(cells(row(one)) for one in shown), tuple(map(query, shown)), len(kept))


def _text(entry: ProfileEntry) -> str:
    return "\n".join((entry.id, entry.name, entry.model_name, engine_text(entry), entry.target, entry.order_id or ""))


def _baseline_row(entry: ProfileEntry) -> Row:
    return {
        "Name": entry.name,
        "Model": entry.model_name,
        "Engine": engine_text(entry),
        "Median (ms)": in_milliseconds(entry.unprofiled_latency_ns),
        "Items/s": items_per_s(entry.batch, entry.unprofiled_latency_ns),
        "Batch": entry.batch,
        "Cores": entry.cores,
        "Precision": entry.precision or None,
        "Matched (%)": in_percent(_matched_share(entry)),
        "Status": entry.status.value,
        "Target": entry.target,
        "Created": instant(entry.created_at_unix_ns),
        "Id": entry.id[:12],
    }


def _sweep_row(passes: Sequence[ProfileEntry]) -> Row:
    first = _dense(passes)
    imposed = [one.imposed_sparsity for one in passes if one.imposed_sparsity]
    return {
        "Name": first.name,
        "Model": first.model_name,
        "Engine": engine_text(first),
        "Passes": len(passes),
        "Zeros imposed": ", ".join(f"{share:g}" for share in sorted(imposed)),
        "Failed": sum(not one.status.has_numbers for one in passes),
        "Dense (ms)": in_milliseconds(first.profiled_latency_ns),
        "Batch": first.batch,
        "Cores": first.cores,
        "Precision": first.precision or None,
        "Device": first.device,
        "Target": first.target,
        "Created": instant(first.created_at_unix_ns),
        "Order": first.order_id,
    }


def work_text(counted: CountedModel) -> str:
    """The operations of one inference at the model's own batch, marked where the larger branch of an If counts."""
    return f"{'≤ ' if is_at_most(counted.nodes) else ''}{magnitude(counted.work.flops, 'FLOP')}"


def _model_row(model: ModelVersion, flops: str | None) -> Row:
    return {
        "Model": model.name,
        "FLOPs": flops,
        "Format": model.format,
        "Size (MB)": model.size_bytes / 1e6,
        "Made by": str(model.derivation) if model.derivation else None,
        "Added": instant(model.created_at_unix_ns),
        "Digest": model.digest[:12],
    }


def _dense(passes: Sequence[ProfileEntry]) -> ProfileEntry:
    return next((one for one in passes if one.imposed_sparsity == 0), passes[0])


def _matched_share(entry: ProfileEntry) -> float | None:
    return entry.matched_ns / entry.total_ns if entry.matched_ns is not None and entry.total_ns else None
