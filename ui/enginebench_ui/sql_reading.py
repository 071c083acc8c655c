"""What the page Search by SQL reads: answers and the tables there are, kept in memory until the store changes."""

from pathlib import Path

from enginebench_controller.home import default_home
from enginebench_controller.store.sql_query import QueryLimits, QueryResult
from enginebench_controller.store.sql_spare import READY
from enginebench_controller.store.store import Store
from enginebench_controller.store.tables.described import Table
from enginebench_ui.keeping import kept
from enginebench_ui.reading import READ_TIMEOUT_S

LIMITS = QueryLimits(seconds=5.0, rows=10_000, cell_characters=5_000, answer_bytes=8_000_000)
"""Less than the command line allows: the answer is kept in memory, and goes to a browser whole."""


def answer(sql: str) -> QueryResult:
    """Return what the SQL finds. Raises `InputError` for what is no query, fails or takes too much."""
    return _answer(*_place(), sql)


def prepare() -> None:
    """Have the process ready that will run the first query."""
    READY.prepare()


def tables() -> tuple[Table, ...]:
    """Return the tables that can be asked, with their columns and what they mean."""
    return _tables(*_place())


def _store(path: str) -> Store:
    return Store(Path(path), timeout_s=READ_TIMEOUT_S)


def _place() -> tuple[str, str]:
    store = default_home().store
    return str(store.path), store.generation()


@kept(4, "Asking the results …")
def _answer(path: str, generation: str, sql: str) -> QueryResult:
    return _store(path).query(sql, LIMITS, READY)


@kept(2)
def _tables(path: str, generation: str) -> tuple[Table, ...]:
    return _store(path).tables()
