"""Measurements in and out of the store: whole, as the newest numbers of each configuration, or as headlines."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import duckdb

from enginebench_controller.errors import StoreError
from enginebench_controller.records import BlockSamples, InputSet, Measurement, Status
from enginebench_controller.records.fields import CONFIGURATION
from enginebench_controller.store.connection import StoreFile
from enginebench_controller.store.naming import BY_ID, meant, only
from enginebench_controller.store.rows import (
    from_block_row,
    from_measurement_row,
    from_output_row,
    from_process_row,
    to_block_row,
    to_measurement_row,
    to_output_row,
    to_process_row,
)
from enginebench_controller.store.samples import insert_samples
from enginebench_controller.store.statements import Row, insert, insert_all, parts, rows

_PARTS = ("block_samples", "blocks", "processes", "captured_outputs")


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
    cluster: str = ""


@dataclass(frozen=True)
class Headline:
    """How a measurement ended, with its median latency and its throughput; None without numbers."""

    status: Status
    median_ns: float | None
    throughput_items_per_s: float | None


_AXES = """model_digest, target, engine, environment, device, batch, cores, cluster, streams, precision, hint, load,
    requests, arrival_process, arrival_rate_per_s"""
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


class MeasurementStore(StoreFile):
    """What is kept of measurements; their raw samples are `SampleStore`'s."""

    def add_measurement(self, measurement: Measurement, samples: Iterable[BlockSamples] = ()) -> bool:
        """Keep a measurement with its raw samples; durable on return. False when it is there already.

        Samples are taken from the iterable block by block: memory does not grow with their number. Raises
        `StoreError` also when its benchmark is not there.
        """
        with self._writing() as connection:
            return insert_measurement(connection, measurement, samples)

    def add_measurements(self, together: Iterable[tuple[Measurement, Iterable[BlockSamples]]]) -> None:
        """Keep measurements with their raw samples as `add_measurement` does, all or none."""
        with self._writing() as connection:
            for measurement, samples in together:
                insert_measurement(connection, measurement, samples)

    def measurements(self, benchmark_id: str, *, with_blocks: bool = True) -> tuple[Measurement, ...]:
        """Return the measurements of a benchmark in the order they were stored, their blocks only where wanted."""
        with self._reading() as connection:
            return measurements_of(connection, benchmark_id, with_blocks=with_blocks)

    def measurement(self, named: str) -> Measurement:
        """Return the measurement with this id, else this start of an id, with its blocks.

        Raises `InputError` when there is none or more than one.
        """
        with self._reading() as connection:
            found = _whole(connection, meant(connection, "measurements", named, BY_ID, "id"), with_blocks=True)
        return only(found, named, "measurement")

    def measured_cells(self, model_digests: Iterable[str]) -> tuple[MeasuredCell, ...]:
        """Return the newest numbers of every configuration in which these versions were measured."""
        with self._reading() as connection:
            return tuple(map(_cell, rows(connection, _CELLS, list(model_digests))))

    def headlines(self, benchmark_id: str) -> Mapping[str, Headline]:
        """Return how the measurements of a benchmark ended, with their first numbers, by id; none for an unknown id."""
        query = "SELECT id, status, median_ns, throughput_items_per_s FROM measurements WHERE benchmark_id = ?"
        with self._reading() as connection:
            return {
                row["id"]: Headline(Status(row["status"]), row["median_ns"], row["throughput_items_per_s"])
                for row in rows(connection, query, benchmark_id)
            }


def insert_measurement(
    connection: duckdb.DuckDBPyConnection, measurement: Measurement, samples: Iterable[BlockSamples]
) -> bool:
    """Add a measurement with its raw samples, taken block by block; False, and nothing done, when it is there.

    Raises `StoreError` when its benchmark is not.
    """
    benchmark_id = measurement.benchmark_id
    if not connection.execute("SELECT 1 FROM benchmarks WHERE id = ?", [benchmark_id]).fetchone():
        raise StoreError(f"measurement {measurement.id} was not stored: its benchmark {benchmark_id} was removed")
    so_far = "SELECT count(*) FROM measurements WHERE benchmark_id = ?"
    ((position,),) = connection.execute(so_far, [benchmark_id]).fetchall()
    if not insert(connection, "measurements", {"position": position} | to_measurement_row(measurement)):
        return False
    _insert_parts(connection, measurement)
    insert_samples(connection, measurement.id, samples)
    return True


def _insert_parts(connection: duckdb.DuckDBPyConnection, measurement: Measurement) -> None:
    key = {"measurement_id": measurement.id}
    insert_all(connection, "processes", [key | to_process_row(one) for one in measurement.processes])
    insert_all(connection, "blocks", [key | to_block_row(one) for one in measurement.blocks])
    for position, output in enumerate(measurement.captured_outputs):
        insert(connection, "captured_outputs", key | {"position": position} | to_output_row(output))


def delete_measurements(connection: duckdb.DuckDBPyConnection, benchmark_id: str) -> None:
    """Remove the measurements of a benchmark with everything that belongs to them."""
    for table in _PARTS:
        connection.execute(
            f"DELETE FROM {table} WHERE measurement_id IN "  # noqa: S608
            "(SELECT id FROM measurements WHERE benchmark_id = ?)",
            [benchmark_id],
        )
    connection.execute("DELETE FROM measurements WHERE benchmark_id = ?", [benchmark_id])


def measurements_of(
    connection: duckdb.DuckDBPyConnection, benchmark_id: str, *, with_blocks: bool
) -> tuple[Measurement, ...]:
    """Return the measurements of a benchmark in the order they were stored."""
    query = "SELECT * FROM measurements WHERE benchmark_id = ? ORDER BY position, id"
    return _whole(connection, rows(connection, query, benchmark_id), with_blocks=with_blocks)


def _whole(
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


def _cell(row: Row) -> MeasuredCell:
    asked = CONFIGURATION.from_data(json.loads(row.pop("configuration")))
    row |= {"options": asked.options, "input_set": asked.input_set, "status": Status(row["status"])}
    return MeasuredCell(**row)
