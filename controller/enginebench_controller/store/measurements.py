"""Measurements in and out of the store: whole, as the newest numbers of each configuration, or as headlines."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import duckdb

from enginebench_controller.errors import StoreError
from enginebench_controller.records import BlockSamples, CapturedOutput, InputSet, Measurement, Status
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
from enginebench_controller.store.statements import Row, among, insert_all, parts, rows

_PARTS = ("block_samples", "blocks", "processes", "captured_outputs")

WithSamples = tuple[Measurement, Iterable[BlockSamples]]


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
            return bool(insert_measurements(connection, [(measurement, samples)]))

    def add_measurements(self, together: Sequence[WithSamples]) -> None:
        """Keep measurements with their raw samples as `add_measurement` does, all or none."""
        with self._writing() as connection:
            insert_measurements(connection, together)

    def measurements(self, benchmark_id: str, *, with_blocks: bool = True) -> tuple[Measurement, ...]:
        """Return the measurements of a benchmark in the order they were stored, their blocks only where wanted."""
        with self._reading() as connection:
            return measurements_of(connection, benchmark_id, with_blocks=with_blocks)

    def measurement(self, named: str) -> Measurement:
        """Return the measurement with this id, else this start of an id, with its blocks.

        Raises `InputError` when there is none or more than one.
        """
        with self._reading() as connection:
            rows_of_it = meant(connection, "measurements", named, BY_ID, "id")
            found = _whole(connection, rows_of_it, from_output_row, with_blocks=True)
            return only(found, named, "measurement", connection)

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


def insert_measurements(connection: duckdb.DuckDBPyConnection, together: Sequence[WithSamples]) -> int:
    """Add measurements with their raw samples, taken block by block; returns how many were not there.

    All rows of a table go in together: one by one they take fifty times as long. Raises `StoreError` for one whose
    benchmark is not there.
    """
    known = "SELECT id FROM measurements WHERE id IN (SELECT unnest(?))"
    there = {identity for (identity,) in connection.execute(known, [[one.id for one, _ in together]]).fetchall()}
    new = [(one, samples) for one, samples in together if one.id not in there]
    places = _next_places(connection, [one for one, _ in new])
    insert_all(
        connection,
        "measurements",
        [{"position": next(places[one.benchmark_id])} | to_measurement_row(one) for one, _ in new],
    )
    for table, rows_of in _PARTS_OF.items():
        insert_all(connection, table, [{"measurement_id": one.id} | row for one, _ in new for row in rows_of(one)])
    insert_samples(connection, ((one.id, samples) for one, samples in new))
    return len(new)


_PARTS_OF: Mapping[str, Callable[[Measurement], Iterable[Row]]] = {
    "processes": lambda one: map(to_process_row, one.processes),
    "blocks": lambda one: map(to_block_row, one.blocks),
    "captured_outputs": lambda one: (
        {"position": position} | to_output_row(output) for position, output in enumerate(one.captured_outputs)
    ),
}


def _next_places(connection: duckdb.DuckDBPyConnection, new: Sequence[Measurement]) -> Mapping[str, Iterator[int]]:
    """What the next measurements of each benchmark have as their position."""
    query = """
        SELECT benchmarks.id, count(measurements.id) FROM benchmarks
        LEFT JOIN measurements ON benchmark_id = benchmarks.id
        WHERE benchmarks.id IN (SELECT unnest(?)) GROUP BY ALL"""
    wanted = list(dict.fromkeys(one.benchmark_id for one in new))
    places = {identity: itertools.count(taken) for identity, taken in connection.execute(query, [wanted]).fetchall()}
    for one in new:
        if one.benchmark_id not in places:
            raise StoreError(f"measurement {one.id} was not stored: its benchmark {one.benchmark_id} was removed")
    return places


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
    of_benchmark = "FROM measurements WHERE benchmark_id = ?"
    ids = [row["id"] for row in rows(connection, f"SELECT id {of_benchmark} ORDER BY position, id", benchmark_id)]
    read = _output_reader()
    found: list[Measurement] = []
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        query = f"SELECT * {of_benchmark} AND {among('id', some)} ORDER BY position, id"
        found += _whole(connection, rows(connection, query, benchmark_id, *some), read, with_blocks=with_blocks)
    return tuple(found)


_AT_ONCE = 500
"""Measurements that are put together at once: of all, rows and records together would take twice the memory."""


def _whole(
    connection: duckdb.DuckDBPyConnection,
    found: Sequence[Row],
    read_output: Callable[[Row], CapturedOutput],
    *,
    with_blocks: bool,
) -> tuple[Measurement, ...]:
    """Put measurements together with their parts, each kind of which is asked for once, not once a measurement."""
    ids = [row["id"] for row in found]
    processes = parts(connection, "processes", "process", from_process_row, ids)
    blocks = parts(connection, "blocks", "process, block", from_block_row, ids if with_blocks else [])
    outputs = parts(connection, "captured_outputs", "position", read_output, ids)
    return tuple(
        from_measurement_row(row, tuple(processes[row["id"]]), tuple(blocks[row["id"]]), tuple(outputs[row["id"]]))
        for row in found
    )


def _output_reader() -> Callable[[Row], CapturedOutput]:
    """What reads outputs, and makes those that are equal to the last bit one: of a thousand targets nearly all are."""
    known: dict[tuple[object, ...], CapturedOutput] = {}

    def read(row: Row) -> CapturedOutput:
        numbers = blake2b(row["elements"], digest_size=16).digest()
        key = (numbers, *(row[name] for name in ("input_index", "name", "dtype", "stride")), *row["shape"])
        if key not in known:
            known[key] = from_output_row(row)
        return known[key]

    return read


def _cell(row: Row) -> MeasuredCell:
    asked = CONFIGURATION.from_text(row.pop("configuration"))
    row |= {"options": asked.options, "input_set": asked.input_set, "status": Status(row["status"])}
    return MeasuredCell(**row)
