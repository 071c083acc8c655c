"""What the store answers a person: to SQL as JSON and CSV, and to whether it is sound."""

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from enginebench_controller.files.csv_cells import cell
from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import DocumentForm, Form
from enginebench_controller.store.backups import StoreCheck
from enginebench_controller.store.lake.upkeep import Compacted
from enginebench_controller.store.lake.writing import Synced
from enginebench_controller.store.sql_query import QueryResult


def query_document(result: QueryResult) -> Document:
    """The document that `enginebench query --json` prints; rows are lists, because columns may share a name."""
    return {
        **head("query"),
        "columns": [{"name": column.name, "type": column.type} for column in result.columns],
        "rows": [list(row) for row in result.rows],
        "more_rows": result.more_rows,
        "remarks": list(result.remarks),
    }


def check_document(path: Path, found: StoreCheck) -> Document:
    """The document that `enginebench store check --json` prints; `rows` is null for a table that cannot be read."""
    return {
        **head("store_check"),
        "path": str(path),
        "tables": [{"name": name, "rows": rows} for name, rows in found.rows.items()],
        "problems": list(found.problems),
    }


def sync_document(lake: str, found: Sequence[Synced], left_out: Collection[str]) -> Document:
    """The document that `enginebench store sync --json` prints."""
    return {**head("store_sync"), "lake": lake, "kinds": [asdict(one) for one in found], "left_out": sorted(left_out)}


def compact_document(lake: str | None, found: Compacted | tuple[int, int]) -> Document:
    """The document that `enginebench store compact --json` prints: of a lake, or of the own store in bytes."""
    told = (
        asdict(found)
        if isinstance(found, Compacted)
        else dict(zip(("bytes_before", "bytes_after"), found, strict=True))
    )
    unknown = dict.fromkeys(("joined", "into", "bytes_before", "bytes_after"))
    return {**head("store_compact"), "lake": lake, **unknown, **told}


def query_csv(result: QueryResult) -> str:
    """The text: a header and the rows that there are."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow([cell(column.name) for column in result.columns])
    writer.writerows([cell(value) for value in row] for row in result.rows)
    return text.getvalue()


class ColumnForm(Form):
    """A column with its type in DuckDB's words."""

    name: str
    type: str


class QueryDocument(DocumentForm):
    """What SQL finds; rows are lists, because columns may share a name."""

    document = "query"

    columns: tuple[ColumnForm, ...]
    rows: tuple[tuple[Any, ...], ...]
    more_rows: bool
    remarks: tuple[str, ...]


class TableForm(Form):
    """A table; `rows` is null where it cannot be read."""

    name: str
    rows: int | None


class StoreCheckDocument(DocumentForm):
    """Whether the store is sound."""

    document = "store_check"

    path: str
    tables: tuple[TableForm, ...]
    problems: tuple[str, ...]


class SyncedForm(Form):
    """What came of benchmarks, or of profiles: ids that this one brought, how many were there already, and the ids of
    those that have more here than there.
    """

    noun: str
    new: tuple[str, ...]
    known: int
    behind: tuple[str, ...]


class StoreSyncDocument(DocumentForm):
    """What was brought into a lake; `left_out` are the benchmarks that are under way, or wait to be resumed."""

    document = "store_sync"

    lake: str
    kinds: tuple[SyncedForm, ...]
    left_out: tuple[str, ...]


class StoreCompactDocument(DocumentForm):
    """How many files of a lake were joined, into how many; or how many bytes the own store took and takes."""

    document = "store_compact"

    lake: str | None
    joined: int | None
    into: int | None
    bytes_before: int | None
    bytes_after: int | None
