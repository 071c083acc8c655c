"""Lakes read, together with the own file or without, for a `LakeStore`: the queries of a store, over other tables.

DuckDB holds nothing of a lake. Its tables are Arrow datasets of one moment, behind views that have the names and
columns of our own tables, so files elsewhere stay out of reach of any SQL; what is filtered by is pushed down to them.
"""

import operator
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb

from enginebench_controller.errors import StoreError
from enginebench_controller.store.connection import in_memory, reading
from enginebench_controller.store.lake.place import Lake, check_whole, dataset, explained, found, lake_at, no_lake
from enginebench_controller.store.lake.tables import (
    HEADS,
    KINDS,
    MODELS,
    SAMPLE,
    SAMPLES,
    TABLES,
    LakeTable,
    StoreColumn,
    store_columns,
)
from enginebench_controller.store.statements import STREAM, rows
from enginebench_controller.typed_values import unknown_word

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

OWN = "own"
"""The word for the own store among those that are read."""

_VIEW = "lake_{}_"
"""How the name of a table of a lake begins, with its place among those that are read."""

SHOWN_TABLES = (
    "SELECT DISTINCT name FROM (SHOW TABLES) "  # noqa: S608  # the pattern is ours
    f"WHERE NOT regexp_matches(name, '^{_VIEW.format('[0-9]+')}') ORDER BY name"
)
"""What `SHOW TABLES` shows of the own store: without what stands behind the views, and each once."""

_LOOK_AFTER_S = 1.0
_OPEN_ANEW_AFTER_S = 600.0
"""Long before a file that is not needed any more may be gone; see upkeep.py."""


@dataclass(frozen=True)
class OpenLake:
    """A lake as of one moment: its tables, and the ids of what is whole, by the table that has its row."""

    lake: Lake
    heads: Mapping[str, Any]
    ids: Mapping[str, frozenset[str]]
    datasets: Mapping[str, "Dataset"]
    version: str
    """Changes with all that is seen."""


def only_read(reads: Sequence[str]) -> StoreError:
    """The refusal to change anything while these are read."""
    return StoreError(
        f"{' and '.join(reads)} can only be read here; leave --store and ENGINEBENCH_STORE out to change your own "
        "results, and `enginebench store sync` brings them into a lake"
    )


class Ahead:
    """Lakes shown already to whoever will ask one question later: to show them takes longer than most questions."""

    def __init__(self, reads: Sequence[str], confined: Mapping[str, str]) -> None:
        self._lakes = open_all(reads)
        self._confined = dict(confined)
        self._stack = ExitStack()
        self._connection = self._stack.enter_context(in_memory(confined))
        _show(self._connection, self._lakes, with_own=False)

    def fitting(
        self, lakes: Sequence[OpenLake], confined: Mapping[str, str] | None
    ) -> duckdb.DuckDBPyConnection | None:
        """Return the connection where these lakes are still what it shows, and it is confined like that."""
        same = len(lakes) == len(self._lakes) and all(map(operator.is_, lakes, self._lakes))
        return self._connection if same and self._confined == confined else None


@contextmanager
def reading_together(
    path: Path,
    reads: Sequence[str],
    timeout_s: float,
    confined: Mapping[str, str] | None = None,
    ahead: Ahead | None = None,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open lakes for reading, and the file at `path` with them where `reads` says so. Raises like `reading`."""
    lakes = open_all(reads)
    with_own = OWN in reads
    shown = ahead.fitting(lakes, confined) if ahead is not None and not with_own else None
    with ExitStack() as stack:
        if shown is None:
            opened_now = reading(path, timeout_s, confined) if with_own else _without_rows(confined)
            shown = stack.enter_context(opened_now)
            _show(shown, lakes, with_own=with_own)
        connection = shown
        try:
            yield connection
        except ValueError as error:
            raise unknown_word(error, " and ".join(str(path) if one == OWN else one for one in reads)) from error
        except duckdb.Error as error:
            failed = re.search(STREAM + _VIEW.format("([0-9]+)"), str(error))
            if failed is None and with_own:
                raise
            if failed is None:
                raise StoreError(f"{' and '.join(reads)} cannot be read: {str(error).splitlines()[0]}") from None
            lake = lakes[int(failed[1])].lake
            forget(lake)
            with explained(lake):
                raise OSError(str(error)) from None


@contextmanager
def _without_rows(confined: Mapping[str, str] | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """What has all tables and no rows; made once, for to make the tables takes longer than most questions."""
    if confined:
        with in_memory(confined) as connection:
            yield connection
        return
    with _lock:
        if not _empty:
            _empty.append(_open_empty.enter_context(in_memory()))
        connection = _empty[0].cursor()
    with connection:
        yield connection


_empty: list[duckdb.DuckDBPyConnection] = []
_open_empty = ExitStack()
_kept: dict[Lake, tuple[OpenLake, float, float]] = {}
_lock = threading.Lock()


def open_all(reads: Sequence[str]) -> list[OpenLake]:
    """The lakes among these, opened as by `opened`."""
    return [opened(lake_at(one)) for one in reads if one != OWN]


def opened(lake: Lake) -> OpenLake:
    """The lake as it is, or was a second ago. Raises `StoreError`, or `InputError` where there is none."""
    with _lock:
        now = time.monotonic()
        known, opened_at, looked_at = _kept.get(lake, (None, 0.0, 0.0))
        if known is not None and now - looked_at < _LOOK_AFTER_S:
            return known
        if known is None or now - opened_at > _OPEN_ANEW_AFTER_S or _has_changed(known):
            known, opened_at = _open(lake), now
        _kept[lake] = (known, opened_at, now)
        return known


def forget(lake: Lake) -> None:
    """Open the lake anew when it is read next."""
    with _lock:
        _kept.pop(lake, None)


def _has_changed(known: OpenLake) -> bool:
    with explained(known.lake):
        for head in known.heads.values():
            head.update_incremental()
    return _version(known.heads) != known.version


def _version(heads: Mapping[str, Any]) -> str:
    return "/".join(str(head.version()) for head in heads.values())


def _open(lake: Lake) -> OpenLake:
    """What the heads name first, then the rest: all of what they name was there before."""
    heads = found(lake, HEADS)
    version = _version(heads)
    with explained(lake):
        datasets = {name: dataset(lake, name, head) for name, head in heads.items()}
        ids = {name: frozenset(one.to_table(columns=["id"]).column("id").to_pylist()) for name, one in datasets.items()}
    others = found(lake, [table for table in TABLES if table not in HEADS])
    if not heads:  # which are made first
        raise no_lake(lake)
    with explained(lake):
        check_whole(lake, {**heads, **others})
        datasets |= {name: dataset(lake, name, table) for name, table in others.items()}
    return OpenLake(lake, heads, ids, datasets, version)


def _show(connection: duckdb.DuckDBPyConnection, lakes: Sequence[OpenLake], *, with_own: bool) -> None:
    """Put views over the tables, with the rows of all; what is in several is shown once, the first one's."""
    ((database,),) = connection.execute("SELECT current_database()").fetchall()
    selects = {table.name: [_own_rows(database, table)] for table in TABLES}
    seen = {head.name: _ids(connection, head) if with_own else frozenset() for head in HEADS}
    for place, one in enumerate(lakes):
        shown = {head.name: one.ids.get(head.name, frozenset()) - seen[head.name] for head in HEADS}
        seen = {name: ids | shown[name] for name, ids in seen.items()}
        for table in TABLES:
            if table.name in one.datasets:
                name = f"{_VIEW.format(place)}{table.name}"
                connection.register(name, _of(table, one.datasets[table.name], shown))
                selects[table.name].append(_lake_rows(name, table, one.datasets[table.name].schema.names))
    for table in TABLES:
        once = "DISTINCT ON (digest) *" if table == MODELS else "*"
        every = " UNION ALL ".join(selects[table.name])
        connection.execute(f"CREATE TEMP VIEW {table.name} AS SELECT {once} FROM ({every})")  # noqa: S608  # names of ours


def _ids(connection: duckdb.DuckDBPyConnection, head: LakeTable) -> frozenset[str]:
    return frozenset(row["id"] for row in rows(connection, f"SELECT id FROM {head.name}"))  # noqa: S608  # likewise


def _of(table: LakeTable, whole: "Dataset", shown: Mapping[str, frozenset[str]]) -> "Dataset":
    """The rows of what is whole."""
    import pyarrow  # noqa: PLC0415  # of an extra
    from pyarrow import dataset as datasets  # noqa: PLC0415  # likewise

    head = next((kind.head.name for kind in KINDS if table in (kind.head, *kind.parts)), None)
    if head is None:
        return whole
    return whole.filter(datasets.field(table.key).isin(pyarrow.array(sorted(shown[head]), pyarrow.string())))


def _own_rows(database: str, table: LakeTable) -> str:
    names = [column.name for column in store_columns()[table.name]]
    order = ["rowid"] if table.name == SAMPLES else []
    return f'SELECT {", ".join([*names, *order])} FROM "{database}".main.{table.name}'  # noqa: S608  # names of ours


def _lake_rows(name: str, table: LakeTable, there: Sequence[str]) -> str:
    columns = [f"{_value(column, there)}::{column.type} AS {column.name}" for column in store_columns()[table.name]]
    order = [f"{SAMPLE}::BIGINT AS rowid"] if table.name == SAMPLES else []
    return f"SELECT {', '.join([*columns, *order])} FROM {name}"  # noqa: S608  # names of ours


def _value(column: StoreColumn, there: Sequence[str]) -> str:
    """What a row has in a column, or would have got when an older file was brought up to date."""
    if column.name not in there:
        return column.default
    return column.name if column.default == "NULL" else f"coalesce({column.name}, {column.default})"
