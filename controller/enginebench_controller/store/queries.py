"""What is asked of the store. Each function takes an open connection and returns records, never rows."""

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from enginebench_controller.records import (
    Benchmark,
    Block,
    CapturedOutput,
    Measurement,
    ModelVersion,
    Process,
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
    return tuple(map(_entry, rows(connection, query)))


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
    return tuple(_measurement(connection, row, with_blocks) for row in rows(connection, query, benchmark_id))


def matching_measurements(connection: duckdb.DuckDBPyConnection, named: str) -> tuple[Measurement, ...]:
    """Return the measurements `named` can mean, with their blocks: by id, else by the start of an id."""
    for condition in ("id = ?", "starts_with(id, ?)"):
        query = f"SELECT * FROM measurements WHERE {condition} ORDER BY id"  # noqa: S608
        if found := rows(connection, query, named):
            return tuple(_measurement(connection, row, with_blocks=True) for row in found)
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


def _ids(connection: duckdb.DuckDBPyConnection, table: str, condition: str, named: str) -> tuple[str, ...]:
    newest = "started_at_unix_ns" if table == "measurements" else "created_at_unix_ns"
    query = f"SELECT id FROM {table} WHERE {condition} ORDER BY {newest} DESC, id"  # noqa: S608
    return tuple(row["id"] for row in rows(connection, query, named))


def _measurement(connection: duckdb.DuckDBPyConnection, row: Row, with_blocks: bool) -> Measurement:
    identity = row["id"]
    blocks = _blocks(connection, identity) if with_blocks else ()
    return from_measurement_row(row, _processes(connection, identity), blocks, _captured_outputs(connection, identity))


def _processes(connection: duckdb.DuckDBPyConnection, measurement_id: str) -> tuple[Process, ...]:
    query = "SELECT * FROM processes WHERE measurement_id = ? ORDER BY process"
    return tuple(map(from_process_row, rows(connection, query, measurement_id)))


def _blocks(connection: duckdb.DuckDBPyConnection, measurement_id: str) -> tuple[Block, ...]:
    query = "SELECT * FROM blocks WHERE measurement_id = ? ORDER BY process, block"
    return tuple(map(from_block_row, rows(connection, query, measurement_id)))


def _captured_outputs(connection: duckdb.DuckDBPyConnection, measurement_id: str) -> tuple[CapturedOutput, ...]:
    query = "SELECT * FROM captured_outputs WHERE measurement_id = ? ORDER BY position"
    return tuple(map(from_output_row, rows(connection, query, measurement_id)))


def _entry(row: Row) -> BenchmarkEntry:
    counts: Mapping[str, int] = row["counts"] or {}
    return BenchmarkEntry(
        benchmark=from_benchmark_row(row),
        counts={Status(status): count for status, count in counts.items()},
        models=tuple(row["models"] or ()),
        engines=tuple(row["engines"] or ()),
        targets=tuple(row["targets"] or ()),
    )
