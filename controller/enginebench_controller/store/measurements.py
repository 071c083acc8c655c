"""Measurements in and out of the store: whole, as the newest numbers of each configuration, or as headlines."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import duckdb

from enginebench_controller.errors import StoreError
from enginebench_controller.records import (
    Benchmark,
    BlockSamples,
    InputSet,
    Measurement,
    Status,
    TargetSnapshot,
)
from enginebench_controller.records.fields import CONFIGURATION
from enginebench_controller.store.rows import (
    from_benchmark_row,
    from_block_row,
    from_measurement_row,
    from_output_row,
    from_process_row,
    from_snapshot_row,
    to_benchmark_row,
    to_block_row,
    to_measurement_row,
    to_output_row,
    to_process_row,
    to_snapshot_row,
)
from enginebench_controller.store.samples import insert_samples
from enginebench_controller.store.statements import Row, insert, insert_all, rows


@dataclass(frozen=True)
class MeasuredCell:
    """A configuration that has numbers, and the newest of them: the median latency and the throughput.

    The arrivals are those of an open loop, None for other loads; `options` are the engine's.
    """

    model_digest: str
    target: str
    engine: str
    environment: str
    device: str
    batch: int
    cores: int
    streams: int
    precision: str
    hint: str
    load: str
    requests: int
    arrival_process: str | None
    arrival_rate_per_s: float | None
    options: Mapping[str, str]
    input_set: InputSet
    benchmark_id: str
    status: Status
    started_at_unix_ns: int | None
    median_ns: float | None
    throughput_items_per_s: float | None


_AXES = """model_digest, target, engine, environment, device, batch, cores, streams, precision, hint, load, requests,
    arrival_process, arrival_rate_per_s"""
# The newest comes last.
_CELLS = f"""
    SELECT {_AXES}, configuration, benchmark_id, status, started_at_unix_ns, median_ns, throughput_items_per_s
    FROM measurements
    WHERE throughput_items_per_s IS NOT NULL AND list_contains(?::VARCHAR[], model_digest)
    QUALIFY row_number() OVER (
        PARTITION BY {_AXES}, configuration->>'$.options', configuration->>'$.input_set'
        ORDER BY started_at_unix_ns DESC NULLS LAST, id
    ) = 1
    ORDER BY {_AXES}, started_at_unix_ns NULLS FIRST"""  # noqa: S608


def measured_cells(connection: duckdb.DuckDBPyConnection, model_digests: Iterable[str]) -> tuple[MeasuredCell, ...]:
    """Return the newest numbers of every configuration of these versions."""
    return tuple(map(_cell, rows(connection, _CELLS, list(model_digests))))


def _cell(row: Row) -> MeasuredCell:
    asked = CONFIGURATION.from_data(json.loads(row.pop("configuration")))
    row |= {"options": asked.options, "input_set": asked.input_set, "status": Status(row["status"])}
    return MeasuredCell(**row)


@dataclass(frozen=True)
class Headline:
    """How a measurement ended, with its median latency and its throughput; None without numbers."""

    status: Status
    median_ns: float | None
    throughput_items_per_s: float | None


def headlines(connection: duckdb.DuckDBPyConnection, benchmark_id: str) -> dict[str, Headline]:
    """Return what the measurements of a benchmark came to, by their ids."""
    query = "SELECT id, status, median_ns, throughput_items_per_s FROM measurements WHERE benchmark_id = ?"
    return {
        row["id"]: Headline(Status(row["status"]), row["median_ns"], row["throughput_items_per_s"])
        for row in rows(connection, query, benchmark_id)
    }


_PARTS_OF_A_MEASUREMENT = ("block_samples", "blocks", "processes", "captured_outputs")


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
