"""Experiments: the measurements of one project on one device as points, light enough to list them all.

A project on a device is what can be compared with another; copies of a model for other batches are the model itself.
Nothing here reads processes, blocks or samples.
"""

from collections.abc import Collection
from dataclasses import dataclass

import duckdb

from enginebench_controller.records import Status
from enginebench_controller.store import originals
from enginebench_controller.store.statements import Row, rows


@dataclass(frozen=True)
class Contender:
    """A model version on an engine, in one environment, of a target, on one device.

    `experiments` were measured there, of which `with_numbers` came to any; both are 0 where there are only profiles.
    `best_items_per_s` is the largest throughput, `last_at_unix_ns` the newest start; None where unknown.
    """

    model_digest: str
    model_name: str
    engine: str
    environment: str
    target: str
    device: str
    experiments: int
    with_numbers: int
    profiles: int
    best_items_per_s: float | None
    last_at_unix_ns: int | None


@dataclass(frozen=True)
class Experiment:
    """One measurement of a contender. Latencies are medians; the ends are of 95 % intervals; None where unknown.

    `earlier` is how many measurements of the very same configuration came before this one. `loads` puts the load and
    its rate in words, and `input_set` the name of the input set with its seed.
    """

    id: str
    benchmark_id: str
    started_at_unix_ns: int | None
    engine_version: str | None
    batch: int
    streams: int
    cores: int
    requests: int
    precision: str
    hint: str
    load: str
    input_set: str
    options: str
    status: Status
    failure: str | None
    effective_precision: str | None
    effective_threads: int | None
    latency_ns: float | None
    latency_low_ns: float | None
    latency_high_ns: float | None
    throughput_items_per_s: float | None
    throughput_low_items_per_s: float | None
    throughput_high_items_per_s: float | None
    earlier: int = 0


_CONTENDERS = f"""
    WITH measured AS (
        SELECT model_digest, engine, environment, target, device,
            arg_max(model_name, coalesce(started_at_unix_ns, 0)) AS model_name,
            count(*) AS experiments,
            count(throughput_items_per_s) AS with_numbers,
            max(throughput_items_per_s) AS best_items_per_s,
            max(started_at_unix_ns) AS last_at_unix_ns
        FROM {originals.MEASUREMENTS} GROUP BY ALL
    ), profiled AS (
        SELECT model_digest, engine, environment, target, device,
            arg_max(model_name, created_at_unix_ns) AS profiled_name,
            count(*) AS profiles,
            max(created_at_unix_ns) AS profiled_at_unix_ns
        FROM {originals.PROFILES} GROUP BY ALL
    )
    SELECT model_digest, engine, environment, target, device,
        coalesce(model_name, profiled_name) AS model_name,
        coalesce(experiments, 0) AS experiments,
        coalesce(with_numbers, 0) AS with_numbers,
        coalesce(profiles, 0) AS profiles,
        best_items_per_s,
        greatest(last_at_unix_ns, profiled_at_unix_ns) AS last_at_unix_ns
    FROM measured FULL JOIN profiled USING (model_digest, engine, environment, target, device)
    ORDER BY model_name, model_digest, best_items_per_s DESC NULLS LAST, engine, environment, target, device"""  # noqa: S608  # names of ours

# Version 1 of the schema kept the seed outside of an input set. Numbers count more than a newer failure.
_EXPERIMENTS = f"""
    WITH own AS (
        SELECT id, benchmark_id, started_at_unix_ns, engine_version, batch, streams, cores, requests, precision, hint,
            CASE WHEN arrival_rate_per_s IS NULL THEN load
                ELSE concat(load, ' ', round(arrival_rate_per_s, 3), '/s ', arrival_process) END AS load,
            concat_ws(', seed ', coalesce(configuration->>'$.input_set.name', 'random'),
                CASE WHEN coalesce(configuration->>'$.input_set.name', 'random') = 'random'
                    THEN configuration->>'$.input_set.seed' END) AS input_set,
            coalesce(configuration->>'$.options', '{{}}') AS options,
            status, coalesce(failure->>'$.message', failure_kind) AS failure,
            effective_precision, effective_threads,
            median_ns AS latency_ns, median_low_ns AS latency_low_ns, median_high_ns AS latency_high_ns,
            throughput_items_per_s, throughput_low_items_per_s, throughput_high_items_per_s
        FROM {originals.MEASUREMENTS}
        WHERE model_digest = ? AND engine = ? AND environment = ? AND target = ? AND device = ?
    ), ranked AS (
        SELECT *,
            row_number() OVER (newest) AS place,
            count(*) OVER (same) - row_number() OVER (newest) AS earlier
        FROM own
        WINDOW
            same AS (PARTITION BY batch, streams, cores, requests, precision, hint, load, input_set, options),
            newest AS (PARTITION BY batch, streams, cores, requests, precision, hint, load, input_set, options
                ORDER BY (throughput_items_per_s IS NOT NULL) DESC, started_at_unix_ns DESC NULLS LAST, id)
    )
    SELECT * EXCLUDE (place) FROM ranked
    WHERE place = 1 OR ? OR coalesce(list_bool_or([starts_with(id, one) FOR one IN CAST(? AS VARCHAR[])]), false)
    ORDER BY cores, precision, hint, load, requests, input_set, batch, streams, started_at_unix_ns DESC, id"""  # noqa: S608


def contenders(connection: duckdb.DuckDBPyConnection) -> tuple[Contender, ...]:
    """Return everything that was measured or profiled, by model, and then the fastest first."""
    return tuple(Contender(**row) for row in rows(connection, _CONTENDERS))


def experiments(
    connection: duckdb.DuckDBPyConnection, contender: Contender, *, repeats: bool = False, also: Collection[str] = ()
) -> tuple[Experiment, ...]:
    """Return the newest measurement of each configuration, one with numbers where there is any; with `repeats`, all.

    Measurements whose ids begin with one of `also` are among them in any case.
    """
    key = (contender.model_digest, contender.engine, contender.environment, contender.target, contender.device)
    return tuple(map(_experiment, rows(connection, _EXPERIMENTS, *key, repeats, list(also))))


def _experiment(row: Row) -> Experiment:
    return Experiment(**{**row, "status": Status(row["status"])})
