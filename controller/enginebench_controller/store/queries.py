"""What is asked of the store. Each function takes an open connection and returns records, never rows."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import duckdb

from enginebench_controller.records import (
    Benchmark,
    Measurement,
    ModelVersion,
    Status,
    Target,
    TargetSnapshot,
)
from enginebench_controller.store.measured_rows import from_block_row, from_output_row, from_process_row
from enginebench_controller.store.rows import (
    from_benchmark_row,
    from_measurement_row,
    from_model_row,
    from_snapshot_row,
    from_target_row,
)
from enginebench_controller.store.statements import Row, rows

Part = TypeVar("Part")


@dataclass(frozen=True)
class BenchmarkEntry:
    """A benchmark as it stands in a list: with what it covered, and how many measurements ended how."""

    benchmark: Benchmark
    counts: Mapping[Status, int]
    models: tuple[str, ...]
    engines: tuple[str, ...]
    targets: tuple[str, ...]

    @property
    def measurements(self) -> int:
        """Number of measurements, however they ended."""
        return sum(self.counts.values())

    @property
    def failed(self) -> int:
        """Number of measurements without numbers because they failed."""
        return self.counts.get(Status.FAILED, 0)


def targets(connection: duckdb.DuckDBPyConnection) -> tuple[Target, ...]:
    """Return the targets by name."""
    return tuple(map(from_target_row, rows(connection, "SELECT * FROM targets ORDER BY name")))


def snapshots(connection: duckdb.DuckDBPyConnection) -> tuple[TargetSnapshot, ...]:
    """Return what each target said last, by target."""
    return tuple(map(from_snapshot_row, rows(connection, "SELECT * FROM snapshots ORDER BY target")))


def models(connection: duckdb.DuckDBPyConnection) -> tuple[ModelVersion, ...]:
    """Return the model versions, oldest first."""
    query = "SELECT * FROM models ORDER BY created_at_unix_ns, digest"
    return tuple(map(from_model_row, rows(connection, query)))


def benchmarks(connection: duckdb.DuckDBPyConnection) -> tuple[BenchmarkEntry, ...]:
    """Return all benchmarks, newest first."""
    query = """
        SELECT benchmarks.*, covered.* EXCLUDE (benchmark_id)
        FROM benchmarks LEFT JOIN (
            SELECT benchmark_id, histogram(status) AS counts,
                list(DISTINCT model_name ORDER BY model_name) AS models,
                list(DISTINCT engine ORDER BY engine) AS engines,
                list(DISTINCT target ORDER BY target) AS targets
            FROM measurements GROUP BY benchmark_id
        ) AS covered ON covered.benchmark_id = benchmarks.id
        ORDER BY created_at_unix_ns DESC, id"""
    return tuple(map(to_entry, rows(connection, query)))


def matching_benchmarks(connection: duckdb.DuckDBPyConnection, named: str) -> tuple[Benchmark, ...]:
    """Return the benchmarks `named` can mean, newest first: by id, else by name, else by the start of an id."""
    for condition in ("id = ?", "name = ?", "starts_with(id, ?)"):
        query = f"SELECT * FROM benchmarks WHERE {condition} ORDER BY created_at_unix_ns DESC, id"  # noqa: S608
        if found := rows(connection, query, named):
            return tuple(map(from_benchmark_row, found))
    return ()


def benchmark_snapshots(connection: duckdb.DuckDBPyConnection, benchmark_id: str) -> tuple[TargetSnapshot, ...]:
    """Return what the targets of a benchmark said when it ran, by target."""
    query = "SELECT * FROM benchmark_snapshots WHERE benchmark_id = ? ORDER BY target"
    return tuple(map(from_snapshot_row, rows(connection, query, benchmark_id)))


def measurements(
    connection: duckdb.DuckDBPyConnection, benchmark_id: str, *, with_blocks: bool
) -> tuple[Measurement, ...]:
    """Return the measurements of a benchmark in the order they were stored."""
    query = "SELECT * FROM measurements WHERE benchmark_id = ? ORDER BY position, id"
    return _measurements(connection, rows(connection, query, benchmark_id), with_blocks=with_blocks)


def matching_measurements(connection: duckdb.DuckDBPyConnection, named: str) -> tuple[Measurement, ...]:
    """Return the measurements `named` can mean, with their blocks: by id, else by the start of an id."""
    for condition in ("id = ?", "starts_with(id, ?)"):
        query = f"SELECT * FROM measurements WHERE {condition} ORDER BY id"  # noqa: S608
        if found := rows(connection, query, named):
            return _measurements(connection, found, with_blocks=True)
    return ()


def ids_by_kind(connection: duckdb.DuckDBPyConnection, named: str) -> Mapping[str, tuple[str, ...]]:
    """Return the ids that `named` can mean, by kind, newest first: by id, else by name, else by the start of an id."""
    named_kinds = {"benchmark": "benchmarks", "profile": "profiles"}
    all_kinds = {**named_kinds, "measurement": "measurements"}
    for condition, kinds in (("id = ?", all_kinds), ("name = ?", named_kinds), ("starts_with(id, ?)", all_kinds)):
        found = {kind: _ids(connection, table, condition, named) for kind, table in kinds.items()}
        if any(found.values()):
            return {kind: ids for kind, ids in found.items() if ids}
    return {}


def stored_ids(connection: duckdb.DuckDBPyConnection, among: Sequence[str]) -> frozenset[str]:
    """Return which of these are ids of benchmarks, measurements or profiles."""
    tables = ("benchmarks", "measurements", "profiles")
    query = " UNION ALL ".join(f"SELECT id FROM {table} WHERE id IN (SELECT unnest($1))" for table in tables)  # noqa: S608
    return frozenset(row["id"] for row in rows(connection, query, list(among)))


def _ids(connection: duckdb.DuckDBPyConnection, table: str, condition: str, named: str) -> tuple[str, ...]:
    newest = "started_at_unix_ns" if table == "measurements" else "created_at_unix_ns"
    query = f"SELECT id FROM {table} WHERE {condition} ORDER BY {newest} DESC, id"  # noqa: S608
    return tuple(row["id"] for row in rows(connection, query, named))


def _measurements(
    connection: duckdb.DuckDBPyConnection, found: Sequence[Row], *, with_blocks: bool
) -> tuple[Measurement, ...]:
    """Put measurements together with their parts, each kind of which is asked for once, not once a measurement."""
    ids = [row["id"] for row in found]
    processes = parts(connection, "processes", "process", from_process_row, ids)
    blocks = parts(connection, "blocks", "process, block", from_block_row, ids if with_blocks else [])
    outputs = parts(connection, "captured_outputs", "position", from_output_row, ids)
    return tuple(
        from_measurement_row(row, tuple(processes[row["id"]]), tuple(blocks[row["id"]]), tuple(outputs[row["id"]]))
        for row in found
    )


def parts(
    connection: duckdb.DuckDBPyConnection, table: str, order: str, read: Callable[[Row], Part], ids: Sequence[str]
) -> defaultdict[str, list[Part]]:
    """What belongs to measurements, in order, by their id."""
    found: defaultdict[str, list[Part]] = defaultdict(list)
    query = f"SELECT * FROM {table} WHERE measurement_id IN (SELECT unnest(?)) ORDER BY {order}"  # noqa: S608
    for row in rows(connection, query, ids) if ids else ():
        found[row["measurement_id"]].append(read(row))
    return found


def to_entry(row: Row) -> BenchmarkEntry:
    """Read the columns of `benchmarks` with the aggregates over its measurements; others are left alone."""
    counts: Mapping[str, int] = row["counts"] or {}
    return BenchmarkEntry(
        benchmark=from_benchmark_row(row),
        counts={Status(status): count for status, count in counts.items()},
        models=tuple(row["models"] or ()),
        engines=tuple(row["engines"] or ()),
        targets=tuple(row["targets"] or ()),
    )
