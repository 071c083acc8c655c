"""`enginebench query`: SQL over the results, reading only."""

import json as json_text
import sys
from typing import Annotated, Any

import typer
from rich.text import Text

from enginebench_controller.cli.console import UNKNOWN, plain, print_json, print_table, remark
from enginebench_controller.cli.options import Json
from enginebench_controller.documents.queries import query_document
from enginebench_controller.errors import InputError
from enginebench_controller.exports.query_csv import query_csv
from enginebench_controller.home import default_home
from enginebench_controller.store.sql_query import QueryLimits, QueryResult

LONGEST_S = 20.0
"""A benchmark that wants to store a result waits for a query, and not for ever."""


_MOST_BYTES = 256_000_000


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("query")(query)


def query(
    sql: Annotated[str, typer.Argument(metavar="SQL", help="One SELECT, DESCRIBE, SHOW, SUMMARIZE or EXPLAIN.")],
    rows: Annotated[int, typer.Option(metavar="N", min=1, max=1_000_000, help="At most this many rows.")] = 10_000,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=0.1, max=LONGEST_S, help="Longest time; others wait meanwhile.")
    ] = 5.0,
    json: Json = False,
    csv: Annotated[bool, typer.Option("--csv", help="Print CSV with a header.")] = False,
) -> None:
    """Ask the results by SQL (DuckDB's), reading only; docs/tables.md lists tables and columns."""
    if json and csv:
        raise InputError("--json and --csv are two forms of one answer; choose one")
    result = default_home().store.query(sql, QueryLimits(seconds=seconds, rows=rows, answer_bytes=_MOST_BYTES))
    if json:
        print_json(query_document(result))
    elif csv:
        sys.stdout.write(query_csv(result))
    else:
        _print_rows(result)
    for line in result.remarks:
        remark(line)


def _print_rows(result: QueryResult) -> None:
    columns = [(column.name, _holds_numbers(column.type)) for column in result.columns]
    print_table("", columns, [[_cell(value) for value in row] for row in result.rows])


def _holds_numbers(kind: str) -> bool:
    """Whether values of DuckDB's type are numbers: TINYINT, UBIGINT, DOUBLE, DECIMAL(5,2), …"""
    return kind.endswith(("INT", "INTEGER", "DOUBLE", "FLOAT")) or kind.startswith("DECIMAL")


def _cell(value: Any) -> Text:
    if value is None:
        return plain(UNKNOWN)
    text = value if isinstance(value, str) else json_text.dumps(value, ensure_ascii=False)
    return Text("\n").join(map(plain, text.split("\n")))
