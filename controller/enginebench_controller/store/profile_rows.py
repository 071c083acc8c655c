"""Profiles as table rows and back: the profile itself, its layers, and the source nodes with their work."""

import json
from dataclasses import fields
from typing import Any, TypeVar

from enginebench_controller.records import Coverage, Layer, LayerState, ModelWork, Profile, ProfileNode
from enginebench_controller.records.json_form import PHASES
from enginebench_controller.store.json_column import to_json
from enginebench_controller.store.statements import Row
from enginebench_controller.store.subject_columns import from_subject_columns, to_subject_columns

Number = TypeVar("Number", int, float)

_PLAIN = (
    "name",
    "created_at_unix_ns",
    "iterations",
    "profiled_latency_ns",
    "unprofiled_latency_ns",
    "unmatched_reason",
    "model_size_bytes",
    "order_id",
    "imported",
)
_WORK = {one.name: one.name for one in fields(ModelWork)} | {"coverage": "flops_coverage"}
_COVERAGE = tuple(one.name for one in fields(Coverage))
_LARGEST = 2**63 - 1
_COST = ("macs", "flops", "parameters", "nonzero_parameters", "weight_bytes", "activation_bytes")


def to_profile_row(profile: Profile) -> Row:
    """Give the row of `profiles`; layers and nodes have rows of their own."""
    return {
        **to_subject_columns(profile),
        **{column: getattr(profile, column) for column in _PLAIN},
        # These three follow from others; they stand here for people who query the file.
        "imposed_sparsity": profile.imposed_sparsity,
        "optimization_level": profile.optimization_level,
        "peak_rss_bytes": profile.peak_rss_bytes,
        **{column: _kept(getattr(profile.work, name)) if profile.work else None for name, column in _WORK.items()},
        **{column: getattr(profile.coverage, column) if profile.coverage else None for column in _COVERAGE},
        "phases": to_json(PHASES.to_data(profile.phases)),
        "host": to_json(profile.host),
        "plan": to_json(profile.plan),
    }


def from_profile_row(row: Row, layers: tuple[Layer, ...] = (), nodes: tuple[ProfileNode, ...] = ()) -> Profile:
    """Read a row of `profiles`, with what was read of the tables that belong to it."""
    return Profile(
        **from_subject_columns(row),
        **{column: row[column] for column in _PLAIN},
        layers=layers,
        nodes=nodes,
        work=_from_work_columns(row),
        coverage=None if row["total_ns"] is None else Coverage(**{column: row[column] for column in _COVERAGE}),
        phases=PHASES.from_data(json.loads(row["phases"])),
        host=json.loads(row["host"]),
        plan=json.loads(row["plan"]),
    )


def to_layer_row(layer: Layer) -> Row:
    """Give the row of `layers`, but for the profile's id and its position."""
    return {
        "name": layer.name,
        "type": layer.type,
        "execution_order": layer.order,
        "state": layer.state.value,
        "calls": layer.calls,
        "kernel": layer.kernel,
        "precision": layer.precision,
        "time_ns": list(layer.time_ns),
        "output_shapes": [list(shape) for shape in layer.output_shapes],
        "source_nodes": list(layer.source_nodes),
        "inputs": list(layer.inputs),
        "outputs": list(layer.outputs),
        "parameters": to_json(layer.parameters),
        "category": layer.category,
        "matching_group": layer.group,
        "flops": _kept(layer.flops),
        "data_bytes": _kept(layer.data_bytes),
    }


def from_layer_row(row: Row) -> Layer:
    """Read a row of `layers`."""
    return Layer(
        name=row["name"],
        type=row["type"],
        order=row["execution_order"],
        state=LayerState(row["state"]),
        time_ns=tuple(row["time_ns"]),
        calls=row["calls"],
        kernel=row["kernel"],
        precision=row["precision"],
        output_shapes=tuple(map(tuple, row["output_shapes"])),
        source_nodes=tuple(row["source_nodes"]),
        inputs=tuple(row["inputs"]),
        outputs=tuple(row["outputs"]),
        parameters=_from_object(row["parameters"]),
        category=row["category"],
        group=row["matching_group"],
        flops=row["flops"],
        data_bytes=row["data_bytes"],
    )


def to_node_row(node: ProfileNode) -> Row:
    """Give the row of `profile_nodes`, but for the profile's id."""
    return {
        "node": node.index,
        "name": node.name,
        "op_type": node.op_type,
        "domain": node.domain,
        "inputs": list(node.inputs),
        "outputs": list(node.outputs),
        "weights": list(node.weights),
        "output_shapes": [None if shape is None else list(shape) for shape in node.output_shapes],
        "attributes": to_json(node.attributes),
        "folded": node.folded,
        **{column: _kept(getattr(node, column)) for column in _COST},
        "method": node.method,
        "state": node.state,
        "matching_group": node.group,
    }


def from_node_row(row: Row) -> ProfileNode:
    """Read a row of `profile_nodes`."""
    return ProfileNode(
        index=row["node"],
        name=row["name"],
        op_type=row["op_type"],
        domain=row["domain"],
        inputs=tuple(row["inputs"]),
        outputs=tuple(row["outputs"]),
        weights=tuple(row["weights"]),
        output_shapes=tuple(None if shape is None else tuple(shape) for shape in row["output_shapes"]),
        attributes={name: _attribute(value) for name, value in _from_object(row["attributes"]).items()},
        folded=row["folded"],
        **{column: row[column] for column in _COST},
        method=row["method"],
        state=row["state"],
        group=row["matching_group"],
    )


def _kept(count: Number | None) -> Number | None:
    """A count as it can be kept: a shape made up to overflow it counts as unknown."""
    return None if count is None or count > _LARGEST else count


def _from_work_columns(row: Row) -> ModelWork | None:
    found = {name: row[column] for name, column in _WORK.items()}
    return None if all(value is None for value in found.values()) else ModelWork(**found)


def _from_object(text: str) -> dict[str, Any]:
    """The usual empty one is not worth a parser: a sweep over a large model has tens of thousands of them."""
    found: dict[str, Any] = {} if text == "{}" else json.loads(text)
    return found


def _attribute(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
