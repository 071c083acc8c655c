"""Whether all that a results file holds can be read, and fits together: no foreign keys see to that, see schema.py."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import duckdb

from enginebench_controller.store.tables.described import WORDS

_BELONGS = (
    ("benchmark_snapshots", "benchmark_id", "benchmarks"),
    ("measurements", "benchmark_id", "benchmarks"),
    ("processes", "measurement_id", "measurements"),
    ("blocks", "measurement_id", "measurements"),
    ("block_samples", "measurement_id", "measurements"),
    ("captured_outputs", "measurement_id", "measurements"),
    ("layers", "profile_id", "profiles"),
    ("profile_nodes", "profile_id", "profiles"),
)
"""A table, the column that names what a row belongs to, and where that is."""

_INCOMPLETE = """
SELECT id, iterations, found FROM measurements
JOIN (SELECT measurement_id, count(*) AS found FROM block_samples GROUP BY ALL) ON measurement_id = id
WHERE iterations <> found ORDER BY id"""


@dataclass(frozen=True)
class StoreCheck:
    """What a look at every value found: the rows of each table, None where they cannot be read, and the problems."""

    rows: dict[str, int | None]
    problems: tuple[str, ...]


def check(connection: duckdb.DuckDBPyConnection) -> StoreCheck:
    """Read every value of the file, which DuckDB holds against its checksums, and look for what belongs to nothing."""
    rows: dict[str, int | None] = {}
    problems: list[str] = []
    there = {name for (name,) in connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()}
    for table in filter(there.__contains__, WORDS):  # an older file lacks some
        try:
            # A hash of whole rows: to count them alone would read next to nothing.
            ((count, _),) = connection.execute(
                f"SELECT count(*), bit_xor(hash(every)) FROM {table} AS every"  # noqa: S608  # one of WORDS
            ).fetchall()
            rows[table] = int(count)
        except duckdb.Error as error:
            rows[table] = None
            problems.append(f"the table {table} cannot be read: {str(error).splitlines()[0]}")
    if not problems:
        problems.extend(_inconsistencies(connection, there))
    return StoreCheck(rows, tuple(problems))


def _inconsistencies(connection: duckdb.DuckDBPyConnection, there: Collection[str]) -> Iterator[str]:
    for table, column, owner in _BELONGS:
        if table not in there:
            continue
        query = f"SELECT count(*), count(DISTINCT {column}) FROM {table} ANTI JOIN {owner} ON {column} = {owner}.id"  # noqa: S608  # of _BELONGS
        ((lost, owners),) = connection.execute(query).fetchall()
        if lost:
            yield f"{lost:,} rows of {table} belong to {owners:,} {owner} that are not there"
    if "block_samples" not in there:
        return
    for identity, iterations, found in connection.execute(_INCOMPLETE).fetchall():
        yield f"measurement {identity} has {found:,} samples of {iterations:,} iterations"
