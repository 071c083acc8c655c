"""The schema, as named steps in order. Steps are only ever appended: a file remembers those it has been through."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version as distribution_version
from pathlib import Path

import duckdb

from enginebench_controller.store.failures import newer_file
from enginebench_controller.store.schema import FIRST_SCHEMA
from enginebench_controller.store.schema_2 import SECOND_SCHEMA
from enginebench_controller.store.schema_3 import THIRD_SCHEMA
from enginebench_controller.store.schema_4 import FOURTH_SCHEMA
from enginebench_controller.store.schema_5 import FIFTH_SCHEMA
from enginebench_controller.store.schema_6 import SIXTH_SCHEMA


@dataclass(frozen=True)
class Migration:
    """One step of the schema: its statements and the record that they ran are committed together, or not at all."""

    name: str
    statements: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration("targets, models, benchmarks, measurements, profiles", FIRST_SCHEMA),
    Migration("processes, blocks with evidence, samples by block, captured outputs", SECOND_SCHEMA),
    Migration("profiles with source nodes, their work, and what layers were matched to", THIRD_SCHEMA),
    Migration("peaks of engines", FOURTH_SCHEMA),
    Migration("what an engine did afterwards, and what measurements are judged by", FIFTH_SCHEMA),
    Migration("who else used the machine, and when processes and agents stood still", SIXTH_SCHEMA),
)
"""Step n of this list takes a file from schema version n-1 to n. Never change or reorder what has been released."""

_JOURNAL = """
CREATE TABLE IF NOT EXISTS migrations (
    version INTEGER PRIMARY KEY,
    name VARCHAR NOT NULL,
    applied_at_unix_ns BIGINT NOT NULL,
    enginebench_version VARCHAR NOT NULL
)"""


def schema_version(connection: duckdb.DuckDBPyConnection) -> int:
    """Return the number of steps the file has been through; 0 for a new file."""
    return _latest(connection)[0]


def pending(
    connection: duckdb.DuckDBPyConnection, path: Path, steps: Sequence[Migration] = MIGRATIONS
) -> Sequence[Migration]:
    """Return the steps the file still needs. Raises `StoreError` for a file made by a newer enginebench."""
    version, made_by = _latest(connection)
    if version > len(steps):
        raise newer_file(path, version, len(steps), made_by)
    return steps[version:]


def migrate(connection: duckdb.DuckDBPyConnection, path: Path, steps: Sequence[Migration] = MIGRATIONS) -> None:
    """Take the file through every step it still needs, each in a transaction of its own with its record."""
    needed = pending(connection, path, steps)
    first = len(steps) - len(needed) + 1
    for version, step in enumerate(needed, start=first):
        with atomic(connection):
            connection.execute(_JOURNAL)
            for statement in step.statements:
                connection.execute(statement)
            record = [version, step.name, time.time_ns(), distribution_version("enginebench")]
            connection.execute("INSERT INTO migrations VALUES (?, ?, ?, ?)", record)


@contextmanager
def atomic(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commit what the block did, or undo all of it when it raises."""
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def _latest(connection: duckdb.DuckDBPyConnection) -> tuple[int, str]:
    known = connection.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = 'migrations'").fetchone()
    if known is None:
        return 0, ""
    row = connection.execute("SELECT version, enginebench_version FROM migrations ORDER BY version DESC").fetchone()
    return (int(row[0]), str(row[1])) if row else (0, "")
