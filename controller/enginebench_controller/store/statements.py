"""Rows as mappings of column to value: into tables, out of queries, and as a Parquet file.

Table and column names are ours; every value travels as a parameter.
"""

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import duckdb

Row = dict[str, Any]
Part = TypeVar("Part")


def insert(connection: duckdb.DuckDBPyConnection, table: str, row: Row) -> bool:
    """Add a row; False, and nothing done, when its key is taken."""
    statement = f"{insertion(table, row)} ON CONFLICT DO NOTHING RETURNING 1"
    return bool(connection.execute(statement, list(row.values())).fetchall())


def insert_all(connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Row]) -> None:
    """Add rows of the same columns, column by column: a thousand blocks take 0.1 s, and 1 s one by one."""
    if rows:
        connection.execute(_insertion_of_all(table, rows[0]), _by_column(rows))


def upsert_all(
    connection: duckdb.DuckDBPyConnection, table: str, key: str, rows: Sequence[Row], condition: str = ""
) -> None:
    """Add rows likewise, or where a key is taken, and under this condition if any, put values in place of the old.

    No two of them may have the same key.
    """
    if rows:
        changes = ", ".join(f"{column} = excluded.{column}" for column in rows[0] if column != key)
        statement = f"{_insertion_of_all(table, rows[0])} ON CONFLICT ({key}) DO UPDATE SET {changes} {condition}"
        connection.execute(statement, _by_column(rows))


def _insertion_of_all(table: str, row: Row) -> str:
    values = ", ".join(["unnest(?)"] * len(row))
    return f"INSERT INTO {table} ({', '.join(row)}) SELECT {values}"


def _by_column(rows: Sequence[Row]) -> list[list[Any]]:
    return [[row[column] for row in rows] for column in rows[0]]


def insertion(table: str, row: Row) -> str:
    """The statement that adds a row, with a mark for each value."""
    marks = ", ".join("?" * len(row))
    return f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})"  # noqa: S608


def rows(connection: duckdb.DuckDBPyConnection, query: str, *parameters: Any) -> list[Row]:
    """What a query finds."""
    return list(_rows(connection, query, parameters))


def _rows(connection: duckdb.DuckDBPyConnection, query: str, parameters: Sequence[Any]) -> Iterator[Row]:
    """The same a few at a time: of 100,000 that are there at once, the garbage collector takes half the time.

    The connection must not be asked anything else meanwhile.
    """
    result = connection.execute(query, list(parameters))
    names = [column[0] for column in result.description]
    while some := result.fetchmany(_AT_ONCE):
        for values in some:
            yield dict(zip(names, values, strict=True))


_AT_ONCE = 256


STREAM = "stream registered as '"
"""How DuckDB calls what is no table of its own, with the name after it, where reading from it fails."""


TELLS_OF_OTHERS = "len(disturbances) > 0 OR other_cpu_time_ns IS NOT NULL OR steal_ns IS NOT NULL"
"""Whether a block knows of others: where none does, that none was disturbed says nothing."""


def among(column: str, values: Sequence[Any]) -> str:
    """The condition that a column has one of so many values, with a mark for each.

    By name, and not by a join with a list: so it is known before a scan begins, which passes over what cannot match.
    """
    return f"{column} IN ({', '.join('?' * len(values))})" if values else "false"


def write_parquet(path: Path, types: Mapping[str, str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows that have a value for each column of `types`, which are DuckDB's; a JSON column takes any data.

    Raises OSError where the file cannot be written.
    """
    documents = [column for column, kind in types.items() if kind == "JSON"]
    columns = ", ".join(f"{name} {kind}" for name, kind in types.items())
    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": "false"}) as connection:
        connection.execute(f"CREATE TABLE exported ({columns})")
        texts = [{**row, **{column: json.dumps(row[column]) for column in documents}} for row in rows]
        insert_all(connection, "exported", texts)
        try:
            connection.execute("COPY exported TO ? (FORMAT parquet)", [str(path)])
        except duckdb.IOException as error:
            raise _of_the_system(error) from error


def _of_the_system(error: duckdb.IOException) -> OSError:
    """What the operating system said, where DuckDB gives its number: its own words wrap that in JSON."""
    said = re.search(r'"errno":"(\d+)"', str(error))
    return OSError(int(said[1]), os.strerror(int(said[1]))) if said else OSError(str(error).splitlines()[0])


def parts(
    connection: duckdb.DuckDBPyConnection, table: str, order: str, read: Callable[[Row], Part], ids: Sequence[str]
) -> defaultdict[str, list[Part]]:
    """What belongs to measurements, in order, by their id."""
    found: defaultdict[str, list[Part]] = defaultdict(list)
    query = f"SELECT * FROM {table} WHERE {among('measurement_id', ids)} ORDER BY {order}"  # noqa: S608
    for row in _rows(connection, query, ids):
        found[row["measurement_id"]].append(read(row))
    return found
