"""The same model and configuration over time: in all benchmarks, on all engines, in one query."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from enginebench_controller.records import EngineRef, Interval, IntervalMethod, Status
from enginebench_controller.store.statements import Row, rows


@dataclass(frozen=True)
class TrendPoint:
    """A measurement among its like in other benchmarks. `at_unix_ns` is when it was, or its benchmark, begun.

    Times, rates and intervals are None where it failed or did not tell; `cpu_model` where the machine is unknown.
    """

    measurement_id: str
    benchmark_id: str
    benchmark_name: str
    imported: bool
    at_unix_ns: int
    engine: EngineRef
    options: Mapping[str, str]
    status: Status
    failure_kind: str | None
    median_ns: float | None
    median_interval: Interval | None
    mean_ns: float | None
    throughput_items_per_s: float | None
    throughput_interval: Interval | None
    effective_precision: str | None
    effective_threads: int | None
    input_set_sha256: str | None
    cpu_model: str | None


# What an engine made of the request may differ from version to version, and is part of the answer.
_TREND = """
    WITH asked AS (SELECT * FROM measurements WHERE id = ?)
    SELECT one.*, benchmarks.name AS benchmark_name, imported,
        coalesce(one.started_at_unix_ns, created_at_unix_ns) AS at_unix_ns, host->>'cpu_model' AS cpu_model
    FROM asked JOIN measurements AS one ON one.model_digest = asked.model_digest
        AND one.target = asked.target AND one.device = asked.device
        AND one.batch = asked.batch AND one.cores = asked.cores AND one.streams = asked.streams
        AND one.precision = asked.precision AND one.hint = asked.hint
        AND one.load = asked.load AND one.requests = asked.requests
        AND one.arrival_process IS NOT DISTINCT FROM asked.arrival_process
        AND one.arrival_rate_per_s IS NOT DISTINCT FROM asked.arrival_rate_per_s
    JOIN benchmarks ON benchmarks.id = one.benchmark_id
    LEFT JOIN benchmark_snapshots AS seen ON seen.benchmark_id = one.benchmark_id AND seen.target = one.target
    ORDER BY at_unix_ns DESC, one.id LIMIT ?"""


def trend(connection: duckdb.DuckDBPyConnection, measurement_id: str, most: int) -> tuple[TrendPoint, ...]:
    """Return the measurement and its like in every benchmark, oldest first; the newest `most` of them.

    Alike are those of the same model version, target, device and configuration, whatever the engine and its `options`.
    """
    return tuple(_point(row) for row in reversed(rows(connection, _TREND, measurement_id, most)))


def _point(row: Row) -> TrendPoint:
    return TrendPoint(
        measurement_id=row["id"],
        benchmark_id=row["benchmark_id"],
        benchmark_name=row["benchmark_name"],
        imported=row["imported"],
        at_unix_ns=row["at_unix_ns"],
        engine=EngineRef(row["engine"], row["environment"], row["engine_version"]),
        options=json.loads(row["configuration"])["options"],
        status=Status(row["status"]),
        failure_kind=row["failure_kind"],
        median_ns=row["median_ns"],
        median_interval=_interval(row, "median_{}_ns", "median_interval_{}"),
        mean_ns=row["mean_ns"],
        throughput_items_per_s=row["throughput_items_per_s"],
        throughput_interval=_interval(row, "throughput_{}_items_per_s", "throughput_interval_{}"),
        effective_precision=row["effective_precision"],
        effective_threads=row["effective_threads"],
        input_set_sha256=row["input_set_sha256"],
        cpu_model=row["cpu_model"],
    )


def _interval(row: Row, end: str, about: str) -> Interval | None:
    low, high = row[end.format("low")], row[end.format("high")]
    if low is None or high is None:
        return None
    return Interval(low, high, row[about.format("level")], IntervalMethod(row[about.format("method")]))
