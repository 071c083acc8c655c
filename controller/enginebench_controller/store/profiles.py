"""Profiles in and out of the store, with their layers and the source nodes these were matched to."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import duckdb

from enginebench_controller.records import (
    Coverage,
    EngineRef,
    Layer,
    LayerState,
    ModelVersion,
    ModelWork,
    Profile,
    ProfileEntry,
    ProfileNode,
    Status,
)
from enginebench_controller.records.fields import BYSTANDERS, HOST, PHASES
from enginebench_controller.store.connection import StoreFile
from enginebench_controller.store.models import keep_model
from enginebench_controller.store.naming import meant, only, unknown
from enginebench_controller.store.rows import from_subject_columns, to_json, to_subject_columns
from enginebench_controller.store.statements import Row, insert, insert_all, rows

Number = TypeVar("Number", int, float)

_PROFILE_ROWS_PLAIN = (
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
        **{column: getattr(profile, column) for column in _PROFILE_ROWS_PLAIN},
        # These three follow from others; they stand here for people who query the file.
        "imposed_sparsity": profile.imposed_sparsity,
        "optimization_level": profile.optimization_level,
        "peak_rss_bytes": profile.peak_rss_bytes,
        **{column: _kept(getattr(profile.work, name)) if profile.work else None for name, column in _WORK.items()},
        **{column: getattr(profile.coverage, column) if profile.coverage else None for column in _COVERAGE},
        "phases": to_json(PHASES.to_data(profile.phases)),
        "host": to_json(HOST.to_data(profile.host)),
        "plan": to_json(profile.plan),
        "bystanders": to_json(BYSTANDERS.to_data(profile.bystanders)) if profile.bystanders else None,
    }


def from_profile_row(row: Row, layers: tuple[Layer, ...] = (), nodes: tuple[ProfileNode, ...] = ()) -> Profile:
    """Read a row of `profiles`, with what was read of the tables that belong to it."""
    return Profile(
        **from_subject_columns(row),
        **{column: row[column] for column in _PROFILE_ROWS_PLAIN},
        layers=layers,
        nodes=nodes,
        work=_from_work_columns(row),
        coverage=None if row["total_ns"] is None else Coverage(**{column: row[column] for column in _COVERAGE}),
        phases=PHASES.from_text(row["phases"]),
        host=HOST.from_text(row["host"]),
        plan=json.loads(row["plan"]),
        bystanders=BYSTANDERS.from_text(row["bystanders"]) if row["bystanders"] else None,
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


@dataclass(frozen=True)
class StoredWork:
    """The nodes of a model with the work of each, as a profile brought them, for `batch` items."""

    profile_id: str
    batch: int
    nodes: tuple[ProfileNode, ...]
    work: ModelWork


_PLAIN = (
    *("id", "name", "created_at_unix_ns", "target", "model_digest", "model_name", "device", "batch", "cores"),
    *("imposed_sparsity", "optimization_level", "profiled_latency_ns", "unprofiled_latency_ns"),
    *("total_ns", "matched_ns", "order_id", "imported", "cluster"),
)

_PARTS = ("layers", "profile_nodes")


class ProfileStore(StoreFile):
    """What is kept of profiles, with their layers and nodes."""

    def add_profile(self, profile: Profile, *models: ModelVersion) -> bool:
        """Keep a profile with its layers and nodes; False when it is there already.

        `models` are its version and those that this one was made from: they are kept, too.
        """
        with self._writing() as connection:
            for model in models:
                keep_model(connection, model)
            return _insert(connection, profile)

    def add_profiles(self, arriving: Iterable[Profile]) -> tuple[str, ...]:
        """Keep whole profiles, all or none; return the ids that are new."""
        with self._writing() as connection:
            return tuple(one.id for one in arriving if _insert(connection, one))

    def remove_profile(self, profile_id: str) -> None:
        """Remove a profile with its layers and nodes. Raises `InputError` for an unknown id."""
        with self._writing() as connection:
            for table in _PARTS:
                connection.execute(f"DELETE FROM {table} WHERE profile_id = ?", [profile_id])  # noqa: S608
            removed = connection.execute("DELETE FROM profiles WHERE id = ? RETURNING id", [profile_id]).fetchall()
        if not removed:
            raise unknown(profile_id, "profile")

    def profiles(self) -> tuple[Profile, ...]:
        """Return all profiles without their layers and nodes, newest first."""
        query = "SELECT * FROM profiles ORDER BY created_at_unix_ns DESC, id"
        with self._reading() as connection:
            return tuple(map(from_profile_row, rows(connection, query)))

    def profile(self, named: str) -> Profile:
        """Return the whole profile with this id, else this name, else this start of an id.

        Raises `InputError` when there is none or more than one.
        """
        with self._reading() as connection:
            found = tuple(map(from_profile_row, meant(connection, "profiles", named)))
            (whole,) = _whole(connection, [only(found, named, "profile", connection).id])
        return whole

    def profile_entries(self) -> tuple[ProfileEntry, ...]:
        """Return all profiles as they stand in lists, newest first: without settings, layers and nodes."""
        query = f"""
            SELECT {", ".join(_PLAIN)}, engine, environment, engine_version, status,
                coalesce(configuration->>'$.precision', '') AS precision
            FROM profiles ORDER BY created_at_unix_ns DESC, id"""  # noqa: S608
        with self._reading() as connection:
            return tuple(map(_entry, rows(connection, query)))

    def whole_profiles(self, profile_ids: Iterable[str]) -> tuple[Profile, ...]:
        """Return the whole profiles of these very ids as of one moment, in this order; those not there are left out."""
        with self._reading() as connection:
            return _whole(connection, profile_ids)

    def stored_work(self, model_digest: str, batch: int | None = None) -> StoredWork | None:
        """Return a model's nodes with their work, where a profile (at this batch) brought them.

        Of its newest profile that was led back to nodes: at this batch, else at the smallest there is.
        """
        query = """
            SELECT * FROM profiles
            WHERE model_digest = ? AND batch = coalesce(?, batch) AND flops_coverage IS NOT NULL
            ORDER BY batch, created_at_unix_ns DESC, id LIMIT 1"""
        with self._reading() as connection:
            for row in rows(connection, query, model_digest, batch):
                profile = from_profile_row(row)
                nodes = rows(connection, "SELECT * FROM profile_nodes WHERE profile_id = ? ORDER BY node", profile.id)
                if profile.work is not None and nodes:
                    return StoredWork(profile.id, row["batch"], tuple(map(from_node_row, nodes)), profile.work)
        return None


def _insert(connection: duckdb.DuckDBPyConnection, profile: Profile) -> bool:
    """Add a profile with its layers and nodes; False, and nothing done, when it is there."""
    if not insert(connection, "profiles", to_profile_row(profile)):
        return False
    key = {"profile_id": profile.id}
    layers = [{**key, "position": position} | to_layer_row(one) for position, one in enumerate(profile.layers)]
    insert_all(connection, "layers", layers)
    insert_all(connection, "profile_nodes", [key | to_node_row(node) for node in profile.nodes])
    return True


def _entry(row: Row) -> ProfileEntry:
    return ProfileEntry(
        **{column: row[column] for column in _PLAIN},
        engine=EngineRef(row["engine"], row["environment"], row["engine_version"]),
        precision=row["precision"],
        status=Status(row["status"]),
    )


def _whole(connection: duckdb.DuckDBPyConnection, profile_ids: Iterable[str]) -> tuple[Profile, ...]:
    """Return the profiles of these very ids, in this order, with layers and nodes; those not there are left out.

    Each table is walked through once, however many profiles are asked for.
    """
    asked = list(dict.fromkeys(profile_ids))
    layers = _by_profile(connection, "SELECT * FROM layers WHERE {} ORDER BY profile_id, position", asked)
    nodes = _by_profile(connection, "SELECT * FROM profile_nodes WHERE {} ORDER BY profile_id, node", asked)
    found = {row["id"]: row for row in _among(connection, "SELECT * FROM profiles WHERE {}", "id", asked)}
    return tuple(
        from_profile_row(found[one], tuple(map(from_layer_row, layers[one])), tuple(map(from_node_row, nodes[one])))
        for one in asked
        if one in found
    )


def _by_profile(connection: duckdb.DuckDBPyConnection, query: str, profile_ids: Sequence[str]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {one: [] for one in profile_ids}
    for row in _among(connection, query, "profile_id", profile_ids):
        found[row["profile_id"]].append(row)
    return found


def _among(connection: duckdb.DuckDBPyConnection, query: str, column: str, values: Sequence[str]) -> list[Row]:
    """The rows in which the column has one of the values; equality is what lets DuckDB skip whole groups of rows."""
    condition = " OR ".join([f"{column} = ?"] * len(values)) or "false"
    return rows(connection, query.format(condition), *values)
