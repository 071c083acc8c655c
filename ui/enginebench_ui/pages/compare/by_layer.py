"""The layers of both sides: by type, by precision, and every one of them, with filters and one row opened beside."""

from collections.abc import Sequence
from functools import partial

import pandas as pd
import streamlit as st

from enginebench_controller.verdicts.layers.profiles import ProfilePair
from enginebench_controller.verdicts.layers.rows import LayerRow
from enginebench_ui.pages.compare import address
from enginebench_ui.pages.compare.shapes.details import Detail, detail, fusing_figure, parameter_rows
from enginebench_ui.pages.compare.shapes.layers import (
    CONDITION_NAMES,
    FIELD_NAMES,
    Filter,
    FilterCondition,
    FilterField,
    RowOrder,
    conditions_of,
    filter_sentence,
    filter_text,
    matching,
    needs_value,
    ordered,
    parse_filter,
    problem,
    sentences,
    verdict_styles,
)
from enginebench_ui.pages.compare.shapes.points import Looks
from enginebench_ui.pages.compare.shapes.sides import ID_CHARACTERS
from enginebench_ui.pages.compare.shapes.summary import (
    INCLUDED,
    Words,
    distribution_figure,
    excluded_after,
    follower_rows,
    hidden_sentence,
    precision_figure,
    precision_shares,
    share_rows,
    transition_rows,
    type_rows,
    waterfall_figure,
)
from enginebench_ui.pages.compare.stored import ComparedLayers
from enginebench_ui.shared import choosing
from enginebench_ui.shared.keys import show_steps
from enginebench_ui.shared.showing import MOST_CARDS, chart, row_cards, table
from enginebench_ui.shared.text import count_of, inert

_HIGHLIGHT = "background-color: rgba(230, 159, 0, 0.28)"
"""Seen on light and dark; the sign ≠ beside it says the same."""


def show_details(pair: ProfilePair, row: LayerRow, looks: Looks) -> None:
    """Draw a row."""
    with st.container(border=True):
        found = detail(pair, row)
        st.markdown(f"**{inert(found.heading)}**")
        st.caption(inert(found.summary))
        for notice in found.notices:
            st.warning(inert(notice), icon=":material/info:")
        _show_parts(found, str(row.order), looks)


def _show_parts(found: Detail, key: str, looks: Looks) -> None:
    execution, fusing, differing = st.tabs(["Execution", "Fusing", f"Differing ({len(found.differing)})"])
    with execution:
        _show_parameters(found, f"execution {key}", only_differing=False)
    with fusing:
        for one in found.fusing:
            st.markdown(f"**{inert(one.sentence)}**")
            figure = fusing_figure(one, looks[one.letter].colour)
            if figure is not None:
                chart(figure, f"fusing {one.letter} {key}", name="fusing", alt=one.sentence)
            with st.expander("Names in full"):
                for operator, name in one.nodes:
                    st.markdown(f"{inert(operator)} · {inert(name)}")
                for name in one.layers:
                    st.markdown(f"→ {inert(name)}")
    with differing:
        if found.differing:
            _show_parameters(found, f"differing {key}", only_differing=True)
        else:
            st.caption("No parameter that can be compared differs. Two engines have other words for most of them.")


def _show_parameters(found: Detail, key: str, *, only_differing: bool) -> None:
    rows = parameter_rows(found, only_differing=only_differing)
    frame = pd.DataFrame(list(rows))
    styled = frame.style.apply(lambda row: [_HIGHLIGHT if row["≠"] else ""] * len(row), axis=1)
    st.dataframe(
        styled,
        key=key,
        hide_index=True,
        placeholder="–",
        height="content",
        column_config={
            "≠": st.column_config.TextColumn(width=30, help="The sides differ in this parameter."),
            "Parameter": st.column_config.TextColumn(width=150),
        },
    )
    row_cards(rows, len(rows), key)


_TABLE_PX = 620
_MOST_COLOURED = 500
"""Rows; with more the colours would cost more time than the table."""
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


def show_layers(found: ComparedLayers, looks: Looks) -> None:
    """Draw the table of layers; filters and rows draw nothing else anew."""
    st.caption("  \n".join(map(inert, sentences(found.pair))))
    st.fragment(_show_layers)(found, looks)


def _show_layers(found: ComparedLayers, looks: Looks) -> None:
    filters = tuple(one for one in map(parse_filter, address.repeated(address.FILTERS)) if one)
    _ask_filter(filters)
    _show_filters(filters)
    shown = ordered(matching(found.pair.rows, filters), RowOrder(_asked_order()))
    chosen = _chosen(found)
    total = len(found.pair.rows)
    counted = f"{len(shown)} of {count_of(total, 'row')}" if len(shown) < total else count_of(total, "row")
    hint = "" if chosen else " · select one: how each side ran it, what was fused and what differs is told below"
    with st.container(horizontal=True, horizontal_alignment="distribute", vertical_alignment="center"):
        st.caption(f"{counted}{hint}", width="content")
        choose = partial(_choose_row, (found.pair.first.id, found.pair.second.id))
        show_steps("layer", [row.order for row in shown], chosen.order if chosen else None, choose)
    _show_table(found, shown, chosen)
    if chosen is not None:
        show_details(found.pair, chosen, looks)


def _ask_filter(filters: Sequence[Filter]) -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        field = FilterField(
            st.selectbox(
                "Filter by", list(FilterField), format_func=lambda one: FIELD_NAMES[one], key=_FIELD, width=170
            )
        )
        conditions = conditions_of(field)
        condition = st.selectbox(
            "Condition",
            list(conditions),
            format_func=lambda one: CONDITION_NAMES[one],
            key=f"{_CONDITION} {field}",
            width=190,
        )
        if needs_value(FilterCondition(condition)):
            st.text_input("Value", key=_VALUE, width=170, on_change=partial(_add_filter, filters, field))
        st.button("Add filter", icon=":material/filter_alt:", on_click=partial(_add_filter, filters, field))
        st.selectbox("Order", list(RowOrder), key=address.ORDER, bind=address.BIND, width=190)
    if text := st.session_state.pop(_PROBLEM, None):
        st.warning(inert(text), icon=":material/info:")


def _asked_order() -> str:
    return str(st.session_state.get(address.ORDER) or RowOrder.SLOWEST)


def _add_filter(filters: Sequence[Filter], field: FilterField) -> None:
    condition = FilterCondition(st.session_state[f"{_CONDITION} {field}"])
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
    rows = found.table.loc[list(orders)]
    styled = rows.style.apply(verdict_styles, axis=None, subset=["Δ (ms)", "Verdict"])
    st.dataframe(
        styled if len(orders) <= _MOST_COLOURED else rows,
        key=choosing.follow_row(key, orders.index(chosen.order) if chosen and chosen.order in orders else None),
        hide_index=True,
        placeholder="–",
        height="content" if len(orders) <= 16 else _TABLE_PX,
        column_config=COLUMNS,
        on_select=partial(_row_selected, key, orders, (found.pair.first.id, found.pair.second.id)),
        selection_mode=["single-row", "single-cell"],
        alt="Layers of A and B: select a row for its details",
    )
    row_cards([row.to_dict() for _, row in rows.head(MOST_CARDS).iterrows()], len(orders), key, columns=COLUMNS)


def _row_selected(key: str, orders: tuple[int, ...], profile_ids: tuple[str, str]) -> None:
    row = choosing.selected_row(key)
    if row is None or row >= len(orders):
        address.forget(address.ROW)
        return
    _choose_row(profile_ids, orders[row])


def _choose_row(profile_ids: tuple[str, str], order: int) -> None:
    """Open a row. Its number means something in these two profiles only, so the address names them, too."""
    address.put(address.ROW, str(order))
    for letter, identity in zip("AB", profile_ids, strict=True):
        address.put(address.PROFILES[letter], identity[:ID_CHARACTERS])


def show_types(found: ComparedLayers, looks: Looks) -> None:
    """Draw where the difference comes from, and the layer types; a check mark draws nothing else anew."""
    st.markdown("**Where the difference comes from**, by type of layer")
    figure = waterfall_figure(found.pair.types)
    if figure is None:
        st.info("No layer was timed on both sides.")
    else:
        alt = "The time of all layers of A, what each type of layer takes more or less in B, and the time of B"
        chart(figure, "waterfall", name="difference", alt=alt)
    st.fragment(_show_types)(found, looks)


def show_precisions(found: ComparedLayers, looks: Looks) -> None:
    """Draw the time by precision, and what follows what, within each side and from A to B."""
    pair = found.pair
    sides = {"A": precision_shares(pair.first.layers), "B": precision_shares(pair.second.layers)}
    left, right = st.columns([2, 3], gap="large")
    with left:
        figure = precision_figure(sides, looks)
        if figure is not None:
            chart(figure, "precisions", name="precisions", alt="Share of time by precision, A and B")
    with right:
        table(share_rows(sides), "precision shares", columns=_columns())
        st.caption("Each layer counts for the precision it ran in itself. Words of the engines, made comparable.")
    st.markdown("**From A to B**, over the rows that both executed")
    table(transition_rows(pair.transitions), "transitions", columns=_columns())
    for letter, profile, column in zip("AB", (pair.first, pair.second), st.columns(2, gap="large"), strict=True):
        with column:
            st.markdown(f"**From layer to layer in {letter}**, in the order of execution")
            if rows := follower_rows(profile.layers):
                table(rows, f"followers {letter}")
            else:
                st.caption("Fewer than two layers were executed.")


def _show_types(found: ComparedLayers, looks: Looks) -> None:
    words = Words(
        st.segmented_control(
            "Types in", list(Words), required=True, default=Words.MODEL, key=address.WORDS, bind=address.BIND
        )
    )
    types = found.pair.types if words is Words.MODEL else found.pair.engine_types
    excluded = set(address.repeated(address.EXCLUDED))
    left, right = st.columns([3, 2], gap="large")
    with left:
        names, rows = tuple(one.type for one in types), type_rows(types, excluded)
        key = f"types {hash((found.pair.first.id, found.pair.second.id, names))}"
        st.data_editor(
            list(rows),
            key=key,
            hide_index=True,
            placeholder="–",
            disabled=[heading for heading in _columns() if heading != INCLUDED] + ["Type"],
            column_config=_columns(),
            height="content" if len(types) <= 16 else 600,
            on_change=partial(_types_edited, key, names),
            alt="Layer types with their time in A and B",
        )
        row_cards(rows, len(types), key, columns=_columns())
        st.caption(
            "Time: the sum of the layers' mean times in one inference, measured with counters on. A type that a side "
            "does not have is –, which is not 0. Click a heading to sort."
        )
    with right:
        st.markdown("**Distribution chart**")
        figure = distribution_figure(types, excluded, looks)
        if figure is None:
            st.info("No type is included: tick one in the table.")
        else:
            chart(figure, "distribution", name="distribution", alt="Share of the time by layer type, A and B")
        if sentence := hidden_sentence(types, excluded):
            st.caption(inert(sentence))


def _types_edited(key: str, names: tuple[str, ...]) -> None:
    edited = st.session_state[key]["edited_rows"]
    address.put(address.EXCLUDED, excluded_after(names, address.repeated(address.EXCLUDED), edited))


def _columns() -> dict[str, object]:
    columns: dict[str, object] = {
        INCLUDED: st.column_config.CheckboxColumn(
            "Include", width=70, help="Include to distribution chart. Without it the other bars grow; the shares stay."
        ),
        "Rows": _NUMBER(help="Rows of layers that both executed."),
        "Time A (ms)": _NUMBER(format="%.3f"),
        "Time B (ms)": _NUMBER(format="%.3f"),
        "Ratio": _NUMBER(format="%.3f", help="B ÷ A: below 1, B takes less time."),
    }
    for letter in "AB":
        columns |= {
            f"{letter} (ms)": _NUMBER(format="%.3f", width=75),
            f"{letter} (%)": _NUMBER(format="%.1f", width=60, help=f"Of the time of all layers of {letter}."),
            f"{letter} layers": st.column_config.Column(width=125, help="How many layers were timed, by precision."),
        }
    return columns
