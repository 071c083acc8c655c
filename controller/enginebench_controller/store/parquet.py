"""Rows as a Parquet file, written by DuckDB in memory: the results themselves are not touched."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb

from enginebench_controller.store.statements import insert_all


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
            raise OSError(str(error).splitlines()[0]) from error
