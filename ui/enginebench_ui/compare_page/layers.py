"""Kernel-level performance: every layer of both sides, filters that stack, and one row opened beside them."""

from collections.abc import Sequence
from functools import partial

import streamlit as st

from enginebench_controller.comparing.layer_rows import LayerRow
from enginebench_ui import choosing
from enginebench_ui.compare_page import address
from enginebench_ui.compare_page.details import show_details
from enginebench_ui.compare_page.reading import ComparedLayers
from enginebench_ui.views.compare_filters import (
    CONDITION_NAMES,
    FIELD_NAMES,
    Condition,
    Field,
    Filter,
    conditions_of,
    filter_sentence,
    filter_text,
    matching,
    needs_value,
    parse_filter,
    problem,
)
from enginebench_ui.views.compare_layers import Order, ordered, sentences
from enginebench_ui.views.compare_sources import ID_CHARACTERS
from enginebench_ui.views.text import count_of, inert

_TABLE_PX = 620
_NUMBER = st.column_config.NumberColumn
_TEXT = st.column_config.TextColumn
_FIELD, _CONDITION = "new filter field", "new filter condition"
_VALUE, _PROBLEM = "new filter value", "new filter problem"

_PLUS_MINUS = _NUMBER(format="%.3f", width=75, help="Half of the mean's 95 % interval over the inferences of the pass.")
COLUMNS = {
    "Layer": _TEXT(width=150, pinned=True, help="The source node with most work, else the engine's own name."),
    "Time A (ms)": _NUMBER(format="%.3f", width=90, help="Measured with counters on: the mean of one inference."),
    "Precision A": _TEXT(width=80),
    "Time B (ms)": _NUMBER(format="%.3f", width=90, help="Measured with counters on: the mean of one inference."),
    "Precision B": _TEXT(width=80),
    "Δ (ms)": _NUMBER(format="%+.3f", width=70, help="B − A; empty where one side has no time."),
    "Ratio": _NUMBER(format="%.3f", width=60, help="B ÷ A: below 1, B takes less time."),
    "Verdict": _TEXT(width=115, help="Beyond noise and 5 %, corrected for the number of rows; or why there is none."),
    "Operator": _TEXT(width=90),
    "± A (ms)": _PLUS_MINUS,
    "± B (ms)": _PLUS_MINUS,
    "A (%)": _NUMBER(format="%.1f", width=55, help="Of the time of all layers of A."),
    "B (%)": _NUMBER(format="%.1f", width=55, help="Of the time of all layers of B."),
}


def show_layers(found: ComparedLayers) -> None:
    """Draw the table of layers; filters and rows draw nothing else anew."""
    st.caption("  \n".join(map(inert, sentences(found.pair))))
    st.fragment(_show_layers)(found)


def _show_layers(found: ComparedLayers) -> None:
    filters = tuple(one for one in map(parse_filter, address.repeated(address.FILTERS)) if one)
    _ask_filter(filters)
    _show_filters(filters)
    shown = ordered(matching(found.pair.rows, filters), Order(_asked_order()))
    chosen = _chosen(found)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        total = len(found.pair.rows)
        st.caption(f"{len(shown)} of {count_of(total, 'row')}" if len(shown) < total else count_of(total, "row"))
        _show_table(found, shown, chosen)
    with right:
        show_details(found.pair, chosen)


def _ask_filter(filters: Sequence[Filter]) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        field = Field(
            st.selectbox("Filter by", list(Field), format_func=lambda one: FIELD_NAMES[one], key=_FIELD, width=170)
        )
        conditions = conditions_of(field)
        condition = st.selectbox(
            "Condition",
            list(conditions),
            format_func=lambda one: CONDITION_NAMES[one],
            key=f"{_CONDITION} {field}",
            width=190,
        )
        if needs_value(Condition(condition)):
            st.text_input("Value", key=_VALUE, width=170, on_change=partial(_add_filter, filters, field))
        st.button("Add filter", icon=":material/filter_alt:", on_click=partial(_add_filter, filters, field))
        st.selectbox("Order", list(Order), key=address.ORDER, bind=address.BIND, width=190)
    if text := st.session_state.pop(_PROBLEM, None):
        st.warning(inert(text), icon=":material/info:")


def _asked_order() -> str:
    return str(st.session_state.get(address.ORDER) or Order.EXECUTION)


def _add_filter(filters: Sequence[Filter], field: Field) -> None:
    condition = Condition(st.session_state[f"{_CONDITION} {field}"])
    one = Filter(field, condition, str(st.session_state.get(_VALUE) or "").strip() if needs_value(condition) else "")
    if text := problem(one):
        st.session_state[_PROBLEM] = text
        return
    if one not in filters:
        address.put(address.FILTERS, [filter_text(other) for other in (*filters, one)])
    st.session_state[_VALUE] = ""


def _show_filters(filters: Sequence[Filter]) -> None:
    if not filters:
        return
    with st.container(horizontal=True, vertical_alignment="center"):
        for one in filters:
            rest = [filter_text(other) for other in filters if other != one]
            st.button(
                inert(filter_sentence(one)),
                key=f"remove {filter_text(one)}",
                icon=":material/close:",
                help="Remove this filter",
                on_click=partial(address.put, address.FILTERS, rest),
            )
        if len(filters) > 1:
            st.button("Remove all", type="tertiary", on_click=partial(address.forget, address.FILTERS))


def _chosen(found: ComparedLayers) -> LayerRow | None:
    wished = address.value(address.ROW)
    return next((row for row in found.pair.rows if str(row.order) == wished), None)


def _show_table(found: ComparedLayers, shown: Sequence[LayerRow], chosen: LayerRow | None) -> None:
    if not shown:
        st.info("No layer meets all of these filters; remove one.", icon=":material/filter_alt_off:")
        return
    orders = tuple(row.order for row in shown)
    # Another set of rows is another widget: a place in one means nothing in the other.
    key = f"layers {hash((found.pair.first.id, found.pair.second.id, orders))}"
    st.dataframe(
        found.table.loc[list(orders)],
        key=choosing.follow_row(key, orders.index(chosen.order) if chosen and chosen.order in orders else None),
        hide_index=True,
        placeholder="–",
        height="content" if len(orders) <= 16 else _TABLE_PX,
        column_config=COLUMNS,
        on_select=partial(_row_selected, key, orders, (found.pair.first.id, found.pair.second.id)),
        selection_mode=["single-row", "single-cell"],
        alt="Layers of A and B: select a row for its details",
    )


def _row_selected(key: str, orders: tuple[int, ...], profile_ids: tuple[str, str]) -> None:
    """Open a row. Its number means something in these two profiles only, so the address names them, too."""
    row = choosing.selected_row(key)
    if row is None or row >= len(orders):
        address.forget(address.ROW)
        return
    address.put(address.ROW, str(orders[row]))
    for letter, identity in zip("AB", profile_ids, strict=True):
        address.put(address.PROFILES[letter], identity[:ID_CHARACTERS])
