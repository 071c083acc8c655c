"""Model versions, and what was measured of each: projects, contenders, experiments; copies count as originals.

A project on a device is what can be compared with another; copies of a model for other batches are the model itself.
One aggregate over the measurements, however many they are; only the best measurement of each project is read whole.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import duckdb

from enginebench_controller.records import Block, DerivationKind, Measurement, ModelVersion, Process, Status
from enginebench_controller.records.model import lineage
from enginebench_controller.store.connection import StoreFile
from enginebench_controller.store.rows import (
    from_block_row,
    from_measurement_row,
    from_model_row,
    from_process_row,
    to_model_row,
)
from enginebench_controller.store.statements import Row, parts, rows, upsert_all

# The original is not among the models where only the copy was ever run, before originals were kept as well.
_ORIGINALS = f"""(
        SELECT copy.digest AS copy_digest, copy.parent_digest AS original_digest,
            coalesce(original.name, regexp_replace(copy.name, '-batch[0-9]+$', '')) AS original_name
        FROM models AS copy LEFT JOIN models AS original ON original.digest = copy.parent_digest
        WHERE copy.parent_digest IS NOT NULL AND copy.derived_by->>'$.kind' = '{DerivationKind.REBATCHED}')"""  # noqa: S608  # a constant

_OF_ORIGINALS = """(
        SELECT {table}.* REPLACE (
            coalesce(original_digest, model_digest) AS model_digest, coalesce(original_name, model_name) AS model_name)
        FROM {table} LEFT JOIN {originals} ON copy_digest = model_digest)"""

MEASUREMENTS = _OF_ORIGINALS.format(table="measurements", originals=_ORIGINALS)
"""The table of measurements, as a subquery, with those of copies as those of their originals."""

PROFILES = _OF_ORIGINALS.format(table="profiles", originals=_ORIGINALS)
"""The same of the table of profiles."""


@dataclass(frozen=True)
class Contender:
    """A model version on an engine, in one environment, of a target, on one device.

    `experiments` were measured there, of which `with_numbers` came to any; both are 0 where there are only profiles.
    `best_items_per_s` is the largest throughput of those that count, measured in `best_benchmark_id`, and
    `last_at_unix_ns` the newest start; None where unknown.
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
    best_benchmark_id: str | None
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
    cluster: str = ""


@dataclass(frozen=True)
class ParameterCount:
    """How many parameters a model version has, and how many of them are not zero, as counted in its file."""

    parameters: int
    nonzero: int


@dataclass(frozen=True)
class Project:
    """A model version on an engine, in one environment, of a target.

    `best` is the measurement with the largest throughput of those that count, whatever its configuration, without
    outputs; None where none of them has numbers. `counts` are all measurements by how they ended. `begun_at_unix_ns`
    and `last_at_unix_ns` are the starts of the first and the last one, None where unknown. `counted` is known of models
    that were profiled.
    """

    model_digest: str
    model_name: str
    engine: str
    environment: str
    target: str
    counts: Mapping[Status, int]
    begun_at_unix_ns: int | None
    last_at_unix_ns: int | None
    best: Measurement | None
    counted: ParameterCount | None = None


_CONTENDERS = f"""
    WITH measured AS (
        SELECT model_digest, engine, environment, target, device,
            arg_max(model_name, coalesce(started_at_unix_ns, 0)) AS model_name,
            count(*) AS experiments,
            count(throughput_items_per_s) AS with_numbers,
            max(throughput_items_per_s) FILTER (counts) AS best_items_per_s,
            first(benchmark_id ORDER BY throughput_items_per_s DESC NULLS LAST, id) FILTER (counts)
                AS best_benchmark_id,
            max(started_at_unix_ns) AS last_at_unix_ns
        FROM (
            SELECT *, throughput_items_per_s IS NOT NULL AND NOT list_contains(?::VARCHAR[], id) AS counts
            FROM {MEASUREMENTS}
        ) GROUP BY ALL
    ), profiled AS (
        SELECT model_digest, engine, environment, target, device,
            arg_max(model_name, created_at_unix_ns) AS profiled_name,
            count(*) AS profiles,
            max(created_at_unix_ns) AS profiled_at_unix_ns
        FROM {PROFILES} GROUP BY ALL
    )
    SELECT model_digest, engine, environment, target, device,
        coalesce(model_name, profiled_name) AS model_name,
        coalesce(experiments, 0) AS experiments,
        coalesce(with_numbers, 0) AS with_numbers,
        coalesce(profiles, 0) AS profiles,
        best_items_per_s,
        best_benchmark_id,
        greatest(last_at_unix_ns, profiled_at_unix_ns) AS last_at_unix_ns
    FROM measured FULL JOIN profiled USING (model_digest, engine, environment, target, device)
    ORDER BY model_name, model_digest, best_items_per_s DESC NULLS LAST, engine, environment, target, device"""  # noqa: S608  # names of ours

# Version 1 of the schema kept the seed outside of an input set. Numbers count more than a newer failure.
_EXPERIMENTS = f"""
    WITH own AS (
        SELECT id, benchmark_id, started_at_unix_ns, engine_version, batch, streams, cores, cluster,
            requests, precision, hint,
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
        FROM {MEASUREMENTS}
        WHERE model_digest = ? AND engine = ? AND environment = ? AND target = ? AND device = ?
    ), ranked AS (
        SELECT *,
            row_number() OVER (newest) AS place,
            count(*) OVER (same) - row_number() OVER (newest) AS earlier
        FROM own
        WINDOW
            same AS (PARTITION BY batch, streams, cores, cluster, requests, precision, hint, load, input_set, options),
            newest AS (PARTITION BY batch, streams, cores, cluster, requests, precision, hint, load, input_set, options
                ORDER BY (throughput_items_per_s IS NOT NULL) DESC, started_at_unix_ns DESC NULLS LAST, id)
    )
    SELECT * EXCLUDE (place) FROM ranked
    WHERE place = 1 OR ? OR coalesce(list_bool_or([starts_with(id, one) FOR one IN CAST(? AS VARCHAR[])]), false)
    ORDER BY cores, cluster, precision, hint, load, requests, input_set, batch, streams, started_at_unix_ns DESC, id"""  # noqa: S608


# Ties go to the smallest id, so that the same store always gives the same answer. Names change; the newest holds.
_PROJECTS = f"""
    WITH project AS (
        SELECT model_digest AS digest, engine AS engine_name, environment AS environment_name, target AS target_name,
            arg_max(model_name, coalesce(started_at_unix_ns, 0)) AS newest_name,
            histogram(status) AS counts,
            min(started_at_unix_ns) AS begun_at_unix_ns,
            max(started_at_unix_ns) AS last_at_unix_ns,
            first(id ORDER BY throughput_items_per_s DESC, id)
                FILTER (throughput_items_per_s IS NOT NULL AND NOT list_contains(?::VARCHAR[], id)) AS best_id
        FROM {MEASUREMENTS} GROUP BY ALL
    ), counted AS (
        SELECT model_digest AS counted_digest,
            arg_max(parameters, created_at_unix_ns) AS parameters,
            arg_max(nonzero_parameters, created_at_unix_ns) AS nonzero_parameters
        FROM {PROFILES} WHERE parameters IS NOT NULL AND nonzero_parameters IS NOT NULL GROUP BY ALL
    )
    SELECT project.*, counted.*, measurements.*
    FROM project
    LEFT JOIN measurements ON measurements.id = project.best_id
    LEFT JOIN counted ON counted.counted_digest = project.digest
    ORDER BY newest_name, digest, throughput_items_per_s DESC NULLS LAST, engine_name, environment_name, target_name"""  # noqa: S608  # names of ours


class ModelStore(StoreFile):
    """The model versions, whose files are kept elsewhere, and what can be compared of them."""

    def save_model(self, model: ModelVersion) -> None:
        """Keep a model version, in place of what was known of its digest."""
        with self._writing() as connection:
            keep_model(connection, model)

    def models(self) -> tuple[ModelVersion, ...]:
        """Return the model versions, oldest first."""
        with self._reading() as connection:
            return _models(connection)

    def projects(self, wrong: Collection[str] = ()) -> tuple[Project, ...]:
        """Return each model version × engine × target with its best measurement, by model, then the fastest first.

        The measurements `wrong` are nobody's best.
        """
        with self._reading() as connection:
            found = rows(connection, _PROJECTS, list(wrong))
            best = [row["id"] for row in found if row["id"] is not None]
            processes = parts(connection, "processes", "process", from_process_row, best)
            blocks = parts(connection, "blocks", "process, block", from_block_row, best)  # which tell of disturbances
        return tuple(_project(row, tuple(processes[row["id"]]), tuple(blocks[row["id"]])) for row in found)

    def contenders(self, wrong: Collection[str] = ()) -> tuple[Contender, ...]:
        """Return each model version × engine × target × device that can be compared, by model, then the fastest.

        That is what was measured or profiled. The measurements `wrong` are nobody's best.
        """
        with self._reading() as connection:
            return tuple(Contender(**row) for row in rows(connection, _CONTENDERS, list(wrong)))

    def experiments(
        self, contender: Contender, *, repeats: bool = False, also: Collection[str] = ()
    ) -> tuple[Experiment, ...]:
        """Return the newest measurement of each configuration of a contender, or all; those in `also` in any case.

        It is the newest with numbers, where there is any. With `repeats` it is all; `also` are starts of ids.
        """
        key = (contender.model_digest, contender.engine, contender.environment, contender.target, contender.device)
        with self._reading() as connection:
            found = rows(connection, _EXPERIMENTS, *key, repeats, list(also))
        return tuple(Experiment(**{**row, "status": Status(row["status"])}) for row in found)


def keep_model(connection: duckdb.DuckDBPyConnection, model: ModelVersion) -> None:
    """Keep a version of one's own: what an import said of this digest before makes way for it."""
    upsert_all(connection, "models", "digest", [to_model_row(model)])


def with_ancestors(connection: duckdb.DuckDBPyConnection, digests: Iterable[str]) -> tuple[ModelVersion, ...]:
    """Return these model versions and those that they were made from, as far as they are known, oldest first."""
    known = {model.digest: model for model in _models(connection)}
    wanted = {passed for digest in digests for passed in lineage(digest, known)}
    return tuple(model for digest, model in known.items() if digest in wanted)


def _models(connection: duckdb.DuckDBPyConnection) -> tuple[ModelVersion, ...]:
    query = "SELECT * FROM models ORDER BY created_at_unix_ns, digest"
    return tuple(map(from_model_row, rows(connection, query)))


def _project(row: Row, processes: tuple[Process, ...], blocks: tuple[Block, ...]) -> Project:
    return Project(
        model_digest=row["digest"],
        model_name=row["newest_name"],
        engine=row["engine_name"],
        environment=row["environment_name"],
        target=row["target_name"],
        counts={Status(status): count for status, count in row["counts"].items()},
        begun_at_unix_ns=row["begun_at_unix_ns"],
        last_at_unix_ns=row["last_at_unix_ns"],
        best=None if row["id"] is None else from_measurement_row(row, processes, blocks),
        counted=_counted(row),
    )


def _counted(row: Row) -> ParameterCount | None:
    parameters = row["parameters"]
    return None if parameters is None else ParameterCount(parameters, row["nonzero_parameters"])
