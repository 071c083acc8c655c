"""What changes the store. Each function takes a connection inside a transaction; store.py opens and commits it."""

from collections.abc import Iterable

import duckdb

from enginebench_controller.errors import StoreError
from enginebench_controller.records import (
    Benchmark,
    BlockSamples,
    Measurement,
    ModelVersion,
    Target,
    TargetSnapshot,
)
from enginebench_controller.store.measured_rows import to_block_row, to_output_row, to_process_row
from enginebench_controller.store.rows import (
    to_benchmark_row,
    to_measurement_row,
    to_model_row,
    to_snapshot_row,
    to_target_row,
)
from enginebench_controller.store.samples import insert_samples
from enginebench_controller.store.statements import insert, insert_all, insertion, upsert

_PARTS_OF_A_MEASUREMENT = ("block_samples", "blocks", "processes", "captured_outputs")


def insert_target(connection: duckdb.DuckDBPyConnection, target: Target) -> bool:
    """Add a target; False when its name is taken."""
    return insert(connection, "targets", to_target_row(target))


def delete_target(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Forget a target and what it said last; False when there is none of this name."""
    connection.execute("DELETE FROM snapshots WHERE target = ?", [name])
    return bool(connection.execute("DELETE FROM targets WHERE name = ? RETURNING name", [name]).fetchall())


def replace_snapshot(connection: duckdb.DuckDBPyConnection, snapshot: TargetSnapshot) -> None:
    """Keep what a target said last, unless a later word of it is there already."""
    newest = "WHERE excluded.seen_at_unix_ns >= snapshots.seen_at_unix_ns"
    upsert(connection, "snapshots", "target", to_snapshot_row(snapshot), newest)


def replace_model(connection: duckdb.DuckDBPyConnection, model: ModelVersion) -> None:
    """Keep a model version; its digest fixes everything but its name."""
    row = to_model_row(model)
    connection.execute(
        f"{insertion('models', row)} ON CONFLICT (digest) DO UPDATE SET name = excluded.name", list(row.values())
    )


def insert_benchmark(
    connection: duckdb.DuckDBPyConnection, benchmark: Benchmark, snapshots: Iterable[TargetSnapshot]
) -> bool:
    """Add a benchmark with what its targets said of themselves; False, and nothing done, when it is there."""
    if not insert(connection, "benchmarks", to_benchmark_row(benchmark)):
        return False
    for snapshot in snapshots:
        insert(connection, "benchmark_snapshots", {"benchmark_id": benchmark.id} | to_snapshot_row(snapshot))
    return True


def insert_measurement(
    connection: duckdb.DuckDBPyConnection, measurement: Measurement, samples: Iterable[BlockSamples]
) -> bool:
    """Add a measurement with its raw samples, taken block by block; False, and nothing done, when it is there.

    Raises `StoreError` when its benchmark is not.
    """
    benchmark_id = measurement.benchmark_id
    if not connection.execute("SELECT 1 FROM benchmarks WHERE id = ?", [benchmark_id]).fetchone():
        raise StoreError(f"measurement {measurement.id} was not stored: its benchmark {benchmark_id} was removed")
    position = _measurements_so_far(connection, benchmark_id)
    if not insert(connection, "measurements", {"position": position} | to_measurement_row(measurement)):
        return False
    _insert_parts(connection, measurement)
    insert_samples(connection, measurement.id, samples)
    return True


def delete_benchmark(connection: duckdb.DuckDBPyConnection, benchmark_id: str) -> bool:
    """Remove a benchmark with everything that belongs to it; False when there is none."""
    for table in _PARTS_OF_A_MEASUREMENT:
        connection.execute(
            f"DELETE FROM {table} WHERE measurement_id IN "  # noqa: S608
            "(SELECT id FROM measurements WHERE benchmark_id = ?)",
            [benchmark_id],
        )
    connection.execute("DELETE FROM measurements WHERE benchmark_id = ?", [benchmark_id])
    connection.execute("DELETE FROM benchmark_snapshots WHERE benchmark_id = ?", [benchmark_id])
    return bool(connection.execute("DELETE FROM benchmarks WHERE id = ? RETURNING id", [benchmark_id]).fetchall())


def _insert_parts(connection: duckdb.DuckDBPyConnection, measurement: Measurement) -> None:
    key = {"measurement_id": measurement.id}
    insert_all(connection, "processes", [key | to_process_row(one) for one in measurement.processes])
    insert_all(connection, "blocks", [key | to_block_row(one) for one in measurement.blocks])
    for position, output in enumerate(measurement.captured_outputs):
        insert(connection, "captured_outputs", key | {"position": position} | to_output_row(output))


def _measurements_so_far(connection: duckdb.DuckDBPyConnection, benchmark_id: str) -> int:
    query = "SELECT count(*) FROM measurements WHERE benchmark_id = ?"
    return int(connection.execute(query, [benchmark_id]).fetchall()[0][0])
