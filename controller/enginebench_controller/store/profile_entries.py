"""Profiles as they stand in lists: plain columns only, no layers, nodes or settings, so that thousands list at once."""

from dataclasses import dataclass

import duckdb

from enginebench_controller.records import EngineRef, ModelWork, ProfileNode, Status
from enginebench_controller.store.profile_rows import from_node_row, from_profile_row
from enginebench_controller.store.statements import Row, rows


@dataclass(frozen=True)
class ProfileEntry:
    """A profile as it stands in a list; fields are those of `Profile`, `precision` is the one asked for.

    `total_ns` and `matched_ns` are sums of the layers' mean times, None where nothing was matched.
    """

    id: str
    name: str
    created_at_unix_ns: int
    target: str
    engine: EngineRef
    model_digest: str
    model_name: str
    device: str
    batch: int
    cores: int
    precision: str
    status: Status
    imposed_sparsity: float | None = None
    optimization_level: int | None = None
    profiled_latency_ns: int | None = None
    unprofiled_latency_ns: int | None = None
    total_ns: int | None = None
    matched_ns: int | None = None
    order_id: str | None = None
    imported: bool = False


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
    *("total_ns", "matched_ns", "order_id", "imported"),
)


def profile_entries(connection: duckdb.DuckDBPyConnection) -> tuple[ProfileEntry, ...]:
    """Return all profiles, newest first."""
    query = f"""
        SELECT {", ".join(_PLAIN)}, engine, environment, engine_version, status,
            coalesce(configuration->>'$.precision', '') AS precision
        FROM profiles ORDER BY created_at_unix_ns DESC, id"""  # noqa: S608
    return tuple(map(_entry, rows(connection, query)))


def stored_work(connection: duckdb.DuckDBPyConnection, model_digest: str, batch: int | None) -> StoredWork | None:
    """Return what the newest profile of a model knows of its nodes: at this batch, else at the smallest there is.

    None where no profile of the model (at this batch) was led back to its nodes.
    """
    query = """
        SELECT * FROM profiles
        WHERE model_digest = ? AND batch = coalesce(?, batch) AND flops_coverage IS NOT NULL
        ORDER BY batch, created_at_unix_ns DESC, id LIMIT 1"""
    for row in rows(connection, query, model_digest, batch):
        profile = from_profile_row(row)
        nodes = rows(connection, "SELECT * FROM profile_nodes WHERE profile_id = ? ORDER BY node", profile.id)
        if profile.work is not None and nodes:
            return StoredWork(profile.id, row["batch"], tuple(map(from_node_row, nodes)), profile.work)
    return None


def _entry(row: Row) -> ProfileEntry:
    return ProfileEntry(
        **{column: row[column] for column in _PLAIN},
        engine=EngineRef(row["engine"], row["environment"], row["engine_version"]),
        precision=row["precision"],
        status=Status(row["status"]),
    )
