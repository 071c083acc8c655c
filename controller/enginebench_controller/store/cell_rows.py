"""What was measured of some model versions: the newest numbers of each configuration, without anything else."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from enginebench_controller.records import InputSet, Status
from enginebench_controller.records.json_form import CONFIGURATION
from enginebench_controller.store.statements import Row, rows


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
