"""What was measured of some model versions: the newest numbers of each configuration, without anything else."""

from collections.abc import Iterable
from dataclasses import dataclass

import duckdb

from enginebench_controller.records import Status
from enginebench_controller.store.statements import rows


@dataclass(frozen=True)
class MeasuredCell:
    """A configuration that has numbers, and the newest of them: the median latency and the throughput."""

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
    benchmark_id: str
    status: Status
    started_at_unix_ns: int | None
    median_ns: float | None
    throughput_items_per_s: float | None


_AXES = "model_digest, target, engine, environment, device, batch, cores, streams, precision, hint, load, requests"
_CELLS = f"""
    SELECT {_AXES}, benchmark_id, status, started_at_unix_ns, median_ns, throughput_items_per_s
    FROM measurements
    WHERE throughput_items_per_s IS NOT NULL AND list_contains(?::VARCHAR[], model_digest)
    QUALIFY row_number() OVER (PARTITION BY {_AXES} ORDER BY started_at_unix_ns DESC NULLS LAST, id) = 1
    ORDER BY {_AXES}"""  # noqa: S608


def measured_cells(connection: duckdb.DuckDBPyConnection, model_digests: Iterable[str]) -> tuple[MeasuredCell, ...]:
    """Return the newest numbers of every configuration of these versions."""
    found = rows(connection, _CELLS, list(model_digests))
    return tuple(MeasuredCell(**{**row, "status": Status(row["status"])}) for row in found)


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
