"""What the page Search by SQL reads: answers and the tables there are, kept in memory until the store changes."""

from enginebench_controller.store.sql_query import QueryLimits, QueryResult
from enginebench_controller.store.sql_spare import READY
from enginebench_controller.store.tables.described import Table
from enginebench_ui.keeping import kept, place, store_at

LIMITS = QueryLimits(seconds=5.0, rows=10_000, cell_characters=5_000, answer_bytes=8_000_000)
"""Less than the command line allows: the answer is kept in memory, and goes to a browser whole."""


def answer(sql: str) -> QueryResult:
    """Return what the SQL finds. Raises `InputError` for what is no query, fails or takes too much."""
    return _answer(*place(), sql)


def prepare() -> None:
    """Have the process ready that will run the first query."""
    READY.prepare()


def tables() -> tuple[Table, ...]:
    """Return the tables that can be asked, with their columns and what they mean."""
    return _tables(*place())


@kept(4, "Asking the results …")
def _answer(path: str, generation: str, sql: str) -> QueryResult:
    return store_at(path).query(sql, LIMITS, READY)


@kept(2)
def _tables(path: str, generation: str) -> tuple[Table, ...]:
    return store_at(path).tables()
