"""Search by SQL: a person's question to the results, its answer as table, chart or file, and the address to share."""

from collections.abc import Sequence
from typing import TypeVar

import pandas as pd
import streamlit as st

from enginebench_controller.files.store_answers import query_csv
from enginebench_controller.home import home_to_read
from enginebench_controller.store.sql_query import READY, QueryLimits, QueryResult
from enginebench_controller.store.store import Store
from enginebench_controller.store.tables import Table
from enginebench_ui.pages.search.shapes import (
    EXAMPLES,
    Axes,
    ChartKind,
    Example,
    answer_figure,
    answer_frame,
    caption,
    default_axes,
    number_columns,
    remarks,
)
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_one
from enginebench_ui.shared.showing import MOST_CARDS, chart, row_cards
from enginebench_ui.shared.text import count_of, inert

LIMITS = QueryLimits(seconds=5.0, rows=10_000, cell_characters=5_000, answer_bytes=8_000_000)
"""Less than the command line allows: the answer is kept in memory, and goes to a browser whole."""


@reading.kept(4, "Asking the results …")
def ask(store: Store, sql: str) -> QueryResult:
    """Return what the SQL finds. Raises `InputError` for what is no query, fails or takes too much."""
    return store.query(sql, LIMITS, READY)


def prepare() -> None:
    """Have the process ready that will run the first query."""
    READY.prepare(home_to_read().reads)


@reading.kept(2)
def known_tables(store: Store) -> tuple[Table, ...]:
    """Return the tables that can be asked, with their columns and what they mean."""
    return store.tables()


T = TypeVar("T")

BIND = "query-params"
EDITOR_PX, ANSWER_PX, SCHEMA_PX = 200, 460, 420
TABLE, CHART = "table", "chart"
NO_COLOUR = "one colour"
FIRST_TABLE = "measurements"
EDITOR_STYLE = "<style>.st-key-sql textarea { font-family: ui-monospace, monospace; font-size: 0.875rem; }</style>"
_TEXT = st.column_config.TextColumn
SCHEMA_COLUMNS = {"Column": _TEXT(width="medium"), "Type": _TEXT(width="small"), "Meaning": _TEXT(width="large")}


def show() -> None:
    """Draw the page."""
    st.title("Search by SQL", anchor=False)
    st.caption(
        "Ask the results in DuckDB's SQL. It only reads: nothing that is asked here can change or lose anything. "
        "The question stands in the address of this page, which can be sent to others."
    )
    left, right = st.columns([5, 3], gap="large")
    # The right side first: an error on the left ends the page.
    with right:
        examples, tables = st.tabs(["Examples", "Tables and columns"])
        with examples:
            for example in EXAMPLES:
                st.button(example.question, type="tertiary", on_click=_take, args=(example,))
        with tables:
            _show_tables()
    with left:
        sql = st.text_area("SQL", key="sql", bind=BIND, height=EDITOR_PX, placeholder="SELECT * FROM …")
        st.html(EDITOR_STYLE)
        st.button("Run", type="primary", icon=":material/play_arrow:", help="Ctrl+Enter in the field does the same.")
        if sql.strip():
            _show_answer(sql)
        else:
            prepare()
            st.info("Write a question, or begin with one of the examples.", icon=":material/lightbulb:")


def _take(example: Example) -> None:
    """Ask an example, with its chart where it has one."""
    st.session_state["sql"] = example.sql
    st.session_state["view"] = CHART if example.kind else TABLE
    for key, value in (("kind", example.kind), ("x", example.x), ("y", example.y), ("colour", example.colour)):
        if value is not None:
            st.session_state[key] = value.value if isinstance(value, ChartKind) else value
        else:
            st.session_state.pop(key, None)


def _show_answer(sql: str) -> None:
    with reading.banner_on_error():
        result = ask(sql)
    for remark in result.remarks:
        st.warning(inert(remark[0].upper() + remark[1:] + "."), icon=":material/content_cut:")
    if not result.rows:
        st.info("Nothing was found: the query is right, and no row fits it.", icon=":material/search_off:")
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        view = st.segmented_control(
            "Show as",
            [TABLE, CHART],
            required=True,
            default=_unless_set("view", TABLE),
            key="view",
            bind=BIND,
            label_visibility="collapsed",
        )
        st.download_button(
            "CSV",
            lambda: query_csv(result),
            "enginebench-query.csv",
            "text/csv",
            icon=":material/download:",
            on_click="ignore",
        )
        st.caption(inert(caption(result)), width="content")
    frame = answer_frame(result)
    if view == CHART:
        _show_chart(frame)
    else:
        st.dataframe(frame, hide_index=True, placeholder="–", height=_height(result), alt="The answer")
        row_cards(frame.head(MOST_CARDS).to_dict("records"), len(frame), "answer")


def _height(result: QueryResult) -> int | str:
    return "content" if len(result.rows) <= 12 else ANSWER_PX


def _show_chart(frame: pd.DataFrame) -> None:
    first = default_axes(frame)
    if first is None:
        st.info("There is no column of numbers to draw.", icon=":material/info:")
        return
    axes = _axes(frame, first)
    chart(answer_figure(frame, axes, reading.engine_looks()), key="answer", name="query", alt=f"{axes.y} by {axes.x}")
    for remark in remarks(frame, axes):
        st.caption(inert(remark))


def _axes(frame: pd.DataFrame, first: Axes) -> Axes:
    names = list(frame.columns)
    with st.container(horizontal=True):
        kind = _choice("Chart", [kind.value for kind in ChartKind], first.kind.value, "kind")
        x = _choice("Along (x)", names, first.x, "x")
        y = _choice("Up (y)", list(number_columns(frame)), first.y, "y")
        colour = _choice("Colour", [NO_COLOUR, *names], first.colour or NO_COLOUR, "colour")
    return Axes(ChartKind(kind), x, y, None if colour == NO_COLOUR else colour)


def _choice(label: str, options: Sequence[str], default: str, key: str) -> str:
    # What was chosen for another question means nothing here.
    if st.session_state.get(key, default) not in options:
        del st.session_state[key]
    place = _unless_set(key, list(options).index(default)) or 0
    chosen: str = st.selectbox(label, options, index=place, key=key, bind=BIND, width=170)
    return chosen


def _unless_set(key: str, default: T) -> T | None:
    """A default only where an example has not set the value: Streamlit warns of both."""
    return None if key in st.session_state else default


def _show_tables() -> None:
    with reading.banner_on_error():
        tables = {table.name: table for table in known_tables()}
    labels = {name: f"{name} · {count_of(table.rows, 'row')}" for name, table in tables.items()}
    _show_table(tables[choose_one("Table", labels, "table", default=FIRST_TABLE)])


def _show_table(table: Table) -> None:
    st.caption(f"A row is {inert(table.row)}.")
    rows = [{"Column": column.name, "Type": column.type, "Meaning": column.meaning} for column in table.columns]
    st.dataframe(rows, hide_index=True, column_config=SCHEMA_COLUMNS, height=SCHEMA_PX, alt=f"Columns of {table.name}")
    row_cards(rows, len(rows), f"columns of {table.name}", columns=SCHEMA_COLUMNS)
    example = Example("", f"SELECT * FROM {table.name} LIMIT 100")  # noqa: S608  # a name of ours, and read-only
    st.button("See its first 100 rows", icon=":material/table_rows:", on_click=_take, args=(example,))


show()
