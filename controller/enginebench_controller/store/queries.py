"""What is asked of the store. Each function takes an open connection and returns records, never rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import (
    Benchmark,
    Measurement,
    ModelVersion,
    Profile,
    Status,
    Target,
    TargetSnapshot,
)
from enginebench_controller.store.rows import (
    Row,
    from_benchmark_row,
    from_layer_row,
    from_measurement_row,
    from_model_row,
    from_profile_row,
    from_snapshot_row,
    from_target_row,
)


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
    return tuple(map(from_target_row, _rows(connection, "SELECT * FROM targets ORDER BY name")))


def snapshots(connection: duckdb.DuckDBPyConnection) -> tuple[TargetSnapshot, ...]:
    """Return what each target said last, by target."""
    return tuple(map(from_snapshot_row, _rows(connection, "SELECT * FROM snapshots ORDER BY target")))


def models(connection: duckdb.DuckDBPyConnection) -> tuple[ModelVersion, ...]:
    """Return the model versions, oldest first."""
    query = "SELECT * FROM models ORDER BY created_at_unix_ns, digest"
    return tuple(map(from_model_row, _rows(connection, query)))


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
    return tuple(map(_entry, _rows(connection, query)))


def matching_benchmarks(connection: duckdb.DuckDBPyConnection, named: str) -> tuple[Benchmark, ...]:
    """Return the benchmarks `named` can mean, newest first: by id, else by name, else by the start of an id."""
    for condition in ("id = ?", "name = ?", "starts_with(id, ?)"):
        query = f"SELECT * FROM benchmarks WHERE {condition} ORDER BY created_at_unix_ns DESC, id"  # noqa: S608
        if found := _rows(connection, query, named):
            return tuple(map(from_benchmark_row, found))
    return ()


def benchmark_snapshots(connection: duckdb.DuckDBPyConnection, benchmark_id: str) -> tuple[TargetSnapshot, ...]:
    """Return what the targets of a benchmark said when it ran, by target."""
    query = "SELECT * FROM benchmark_snapshots WHERE benchmark_id = ? ORDER BY target"
    return tuple(map(from_snapshot_row, _rows(connection, query, benchmark_id)))


def measurements(
    connection: duckdb.DuckDBPyConnection, benchmark_id: str, *, with_samples: bool
) -> tuple[Measurement, ...]:
    """Return the measurements of a benchmark in the order they were stored."""
    query = "SELECT * FROM measurements WHERE benchmark_id = ? ORDER BY position, id"
    found = _rows(connection, query, benchmark_id)
    return tuple(from_measurement_row(row, samples(connection, row["id"]) if with_samples else None) for row in found)


def samples(connection: duckdb.DuckDBPyConnection, measurement_id: str) -> NDArray[np.int64] | None:
    """Return raw latencies in ns, int64 of shape (iterations,); None where there are none."""
    query = "SELECT unnest(latency_ns) AS latency_ns FROM samples WHERE measurement_id = ?"
    columns = connection.execute(query, [measurement_id]).fetchnumpy()
    latencies_ns = np.asarray(columns["latency_ns"], dtype=np.int64)
    return latencies_ns if latencies_ns.size else None


def profiles(connection: duckdb.DuckDBPyConnection) -> tuple[Profile, ...]:
    """Return all profiles without their layers, newest first."""
    query = "SELECT * FROM profiles ORDER BY created_at_unix_ns DESC, id"
    return tuple(map(from_profile_row, _rows(connection, query)))


def profile(connection: duckdb.DuckDBPyConnection, profile_id: str) -> Profile | None:
    """Return one profile with its layers; None when there is none."""
    found = _rows(connection, "SELECT * FROM profiles WHERE id = ?", profile_id)
    layers = _rows(connection, "SELECT * FROM layers WHERE profile_id = ? ORDER BY position", profile_id)
    return from_profile_row(found[0], tuple(map(from_layer_row, layers))) if found else None


def _entry(row: Row) -> BenchmarkEntry:
    counts: Mapping[str, int] = row["counts"] or {}
    return BenchmarkEntry(
        benchmark=from_benchmark_row(row),
        counts={Status(status): count for status, count in counts.items()},
        models=tuple(row["models"] or ()),
        engines=tuple(row["engines"] or ()),
        targets=tuple(row["targets"] or ()),
    )


def _rows(connection: duckdb.DuckDBPyConnection, query: str, *parameters: Any) -> list[Row]:
    result = connection.execute(query, list(parameters))
    names = [column[0] for column in result.description]
    return [dict(zip(names, values, strict=True)) for values in result.fetchall()]
