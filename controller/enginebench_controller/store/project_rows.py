"""Projects: each model version on each engine of each target, with the best that was measured there.

One aggregate over the measurements, however many they are; only the best measurement of each project is read whole.
Copies of a model for other batches are the model itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from enginebench_controller.records import Block, Measurement, Process, Status
from enginebench_controller.store import originals
from enginebench_controller.store.measured_rows import from_block_row, from_process_row
from enginebench_controller.store.queries import parts
from enginebench_controller.store.rows import from_measurement_row
from enginebench_controller.store.statements import Row, rows


@dataclass(frozen=True)
class ParameterCount:
    """How many parameters a model version has, and how many of them are not zero, as counted in its file."""

    parameters: int
    nonzero: int


@dataclass(frozen=True)
class Project:
    """A model version on an engine, in one environment, of a target.

    `best` is the measurement with the largest throughput, whatever its configuration, without outputs; None where no
    measurement has numbers. `counts` are all measurements by how they ended. `begun_at_unix_ns`
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


# Ties go to the smallest id, so that the same store always gives the same answer. Names change; the newest holds.
_PROJECTS = f"""
    WITH project AS (
        SELECT model_digest AS digest, engine AS engine_name, environment AS environment_name, target AS target_name,
            arg_max(model_name, coalesce(started_at_unix_ns, 0)) AS newest_name,
            histogram(status) AS counts,
            min(started_at_unix_ns) AS begun_at_unix_ns,
            max(started_at_unix_ns) AS last_at_unix_ns,
            first(id ORDER BY throughput_items_per_s DESC, id) FILTER (throughput_items_per_s IS NOT NULL) AS best_id
        FROM {originals.MEASUREMENTS} GROUP BY ALL
    ), counted AS (
        SELECT model_digest AS counted_digest,
            arg_max(parameters, created_at_unix_ns) AS parameters,
            arg_max(nonzero_parameters, created_at_unix_ns) AS nonzero_parameters
        FROM {originals.PROFILES} WHERE parameters IS NOT NULL AND nonzero_parameters IS NOT NULL GROUP BY ALL
    )
    SELECT project.*, counted.*, measurements.*
    FROM project
    LEFT JOIN measurements ON measurements.id = project.best_id
    LEFT JOIN counted ON counted.counted_digest = project.digest
    ORDER BY newest_name, digest, throughput_items_per_s DESC NULLS LAST, engine_name, environment_name, target_name"""  # noqa: S608  # names of ours


def projects(connection: duckdb.DuckDBPyConnection) -> tuple[Project, ...]:
    """Return all projects, by model and then the fastest first."""
    found = rows(connection, _PROJECTS)
    best = [row["id"] for row in found if row["id"] is not None]
    processes = parts(connection, "processes", "process", from_process_row, best)
    blocks = parts(connection, "blocks", "process, block", from_block_row, best)  # which tell what was disturbed
    return tuple(_project(row, tuple(processes[row["id"]]), tuple(blocks[row["id"]])) for row in found)


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
