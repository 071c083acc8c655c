"""Profiles as one flat table: a row a layer, with what ran where repeated in each."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from enginebench_controller.model.layer_rooflines import rooflines
from enginebench_controller.model.roofline import Roofline
from enginebench_controller.records import Layer, Peak, Profile
from enginebench_controller.stats import profiles as figures

Row = dict[str, Any]

COLUMN_TYPES: Final = {
    "profile_id": "VARCHAR",
    "profile": "VARCHAR",
    "target": "VARCHAR",
    "engine": "VARCHAR",
    "engine_version": "VARCHAR",
    "environment": "VARCHAR",
    "model": "VARCHAR",
    "model_digest": "VARCHAR",
    "device": "VARCHAR",
    "batch": "INTEGER",
    "cores": "INTEGER",
    "asked_precision": "VARCHAR",
    "imposed_sparsity": "DOUBLE",
    "unprofiled_latency_ns": "BIGINT",
    "execution_order": "BIGINT",
    "layer": "VARCHAR",
    "type": "VARCHAR",
    "state": "VARCHAR",
    "mean_ns": "DOUBLE",
    "low_ns": "DOUBLE",
    "high_ns": "DOUBLE",
    "share": "DOUBLE",
    "calls": "BIGINT",
    "kernel": "VARCHAR",
    "precision": "VARCHAR",
    "flops": "BIGINT",
    "data_bytes": "BIGINT",
    "flops_per_s": "DOUBLE",
    "bytes_per_s": "DOUBLE",
    "share_of_attainable": "DOUBLE",
    "bound": "VARCHAR",
    "dense_equivalent": "BOOLEAN",
    "category": "VARCHAR",
    "matching_group": "INTEGER",
    "matched_nodes": "VARCHAR[]",
    "source_nodes": "VARCHAR[]",
    "inputs": "VARCHAR[]",
    "outputs": "VARCHAR[]",
    "output_shapes": "BIGINT[][]",
    "parameters": "JSON",
    "time_ns": "BIGINT[]",
}
"""The columns with their types in SQL. `source_nodes` are the engine's words, `matched_nodes` what came of them."""


def layer_rows(profiles: Iterable[Profile], peaks: Sequence[Peak] = ()) -> Iterator[Row]:
    """The layers of all profiles in the order of execution; None where something is unknown.

    `peaks` are those of the profiles' targets.
    """
    for profile in profiles:
        yield from _rows(profile, peaks)


def _rows(profile: Profile, peaks: Sequence[Peak]) -> Iterator[Row]:
    subject, total = _subject(profile), figures.total_ns(profile.layers)
    nodes: dict[int | None, list[str]] = {}
    for node in profile.nodes:
        nodes.setdefault(node.group, []).append(node.name)
    for layer, place in zip(profile.layers, rooflines(profile, peaks), strict=True):
        matched = [] if layer.group is None else nodes.get(layer.group, [])
        yield {**subject, **_times(layer, total), **_layer(layer), **_place(place), "matched_nodes": matched}


def _subject(profile: Profile) -> Row:
    asked = profile.configuration
    return {
        "profile_id": profile.id,
        "profile": profile.name,
        "target": profile.target,
        "engine": profile.engine.name,
        "engine_version": profile.engine.version,
        "environment": profile.engine.environment,
        "model": profile.model_name,
        "model_digest": profile.model_digest,
        "device": asked.device,
        "batch": asked.batch,
        "cores": asked.cores,
        "asked_precision": asked.precision,
        "imposed_sparsity": profile.imposed_sparsity,
        "unprofiled_latency_ns": profile.unprofiled_latency_ns,
    }


def _times(layer: Layer, total: float | None) -> Row:
    interval = figures.interval(layer)
    return {
        "mean_ns": figures.mean_ns(layer),
        "low_ns": interval.low if interval else None,
        "high_ns": interval.high if interval else None,
        "share": figures.share(layer, total),
        "time_ns": list(layer.time_ns) or None,
    }


def _layer(layer: Layer) -> Row:
    return {
        "execution_order": layer.order,
        "layer": layer.name,
        "type": layer.type,
        "state": layer.state.value,
        "calls": layer.calls if layer.time_ns else None,
        "kernel": layer.kernel or None,
        "precision": layer.precision or None,
        "category": layer.category or None,
        "matching_group": layer.group,
        "source_nodes": list(layer.source_nodes),
        "inputs": list(layer.inputs),
        "outputs": list(layer.outputs),
        "flops": layer.flops,
        "data_bytes": layer.data_bytes,
        "output_shapes": [list(shape) for shape in layer.output_shapes],
        "parameters": dict(layer.parameters),
    }


def _place(place: Roofline | None) -> Row:
    columns = dict.fromkeys(("flops_per_s", "bytes_per_s", "share", "bound", "dense_equivalent"))
    found = columns if place is None else {column: getattr(place, column) for column in columns}
    return {"share_of_attainable": found.pop("share"), **found}
