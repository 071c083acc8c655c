"""The tables as they are in a file – names, types, number of rows – with the words about them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import duckdb

from enginebench_controller.store.statements import Row, rows
from enginebench_controller.store.tables.measured import MEASURED
from enginebench_controller.store.tables.profiled import PROFILED

WORDS = {words.name: words for words in (*MEASURED, *PROFILED)}


@dataclass(frozen=True)
class Column:
    """One column; `type` is DuckDB's."""

    name: str
    type: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """One table: what a row of it is, how many there are, and its columns in their order."""

    name: str
    row: str
    rows: int
    columns: tuple[Column, ...]


def tables(connection: duckdb.DuckDBPyConnection) -> tuple[Table, ...]:
    """Return the documented tables of the file, in the order of the documentation."""
    query = "SELECT table_name, column_name, data_type FROM duckdb_columns() WHERE NOT internal ORDER BY column_index"
    columns: dict[str, list[Row]] = {}
    for row in rows(connection, query):
        columns.setdefault(row["table_name"], []).append(row)
    return tuple(
        Table(name, words.row, _count(connection, name), tuple(_column(words.columns, row) for row in columns[name]))
        for name, words in WORDS.items()
        if name in columns
    )


def _count(connection: duckdb.DuckDBPyConnection, name: str) -> int:
    # DuckDB's own `estimated_size` goes on counting rows that were deleted.
    ((count,),) = connection.execute(f"SELECT count(*) FROM {name}").fetchall()  # noqa: S608  # one of WORDS
    return int(count)


def page(described: Iterable[Table]) -> str:
    """The text of docs/tables.md."""
    return _HEAD + "".join(map(_section, described))


_HEAD = """\
# The tables of the results

`results.duckdb` holds everything that was measured. `enginebench query SQL` and the page *Search by SQL* ask it,
reading only; every DuckDB from 1.2 on opens it with `duckdb -readonly`. Units stand in the names: `_ns` are
nanoseconds, `_unix_ns` nanoseconds since 1970 (`make_timestamp_ns(created_at_unix_ns)` makes a date of it). NULL means
unknown, and never 0. JSON columns open with `configuration->>'$.options'`, lists with `unnest(time_ns)` or
`list_avg(time_ns)`. Rows with the status `inconclusive` have numbers, too, less sure than was asked for: say
`WHERE status = 'ok'` where only sure ones are to count.

This page is written by `python -m enginebench_controller.store.tables`, and a test holds it to the schema.
"""


def _section(table: Table) -> str:
    lines = [f"| `{column.name}` | {column.type} | {column.meaning} |" for column in table.columns]
    return f"\n## {table.name}\n\nA row: {table.row}.\n\n| column | type | meaning |\n|---|---|---|\n" + "\n".join(
        [*lines, ""]
    )


def _column(meanings: Mapping[str, str], row: Row) -> Column:
    return Column(row["column_name"], row["data_type"], meanings.get(row["column_name"], ""))
