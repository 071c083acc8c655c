"""The performance summary: layer types of both sides with the distribution chart, and the precisions they ran in."""

from functools import partial

import streamlit as st

from enginebench_ui.compare_page import address
from enginebench_ui.compare_page.reading import ComparedLayers
from enginebench_ui.showing import chart, table
from enginebench_ui.views.compare_precisions import (
    follower_rows,
    precision_figure,
    precision_shares,
    share_rows,
    transition_rows,
)
from enginebench_ui.views.compare_types import (
    INCLUDED,
    Words,
    distribution_figure,
    excluded_after,
    hidden_sentence,
    type_rows,
)
from enginebench_ui.views.text import inert

_NUMBER = st.column_config.NumberColumn


def show_types(found: ComparedLayers) -> None:
    """Draw the layer types; a check mark draws nothing else anew."""
    st.fragment(_show_types)(found)


def show_precisions(found: ComparedLayers) -> None:
    """Draw the time by precision, and what follows what, within each side and from A to B."""
    pair = found.pair
    sides = {"A": precision_shares(pair.first.layers), "B": precision_shares(pair.second.layers)}
    left, right = st.columns([2, 3], gap="large")
    with left:
        figure = precision_figure(sides)
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


def _show_types(found: ComparedLayers) -> None:
    words = Words(
        st.segmented_control(
            "Types in", list(Words), required=True, default=Words.MODEL, key=address.WORDS, bind=address.BIND
        )
    )
    types = found.pair.types if words is Words.MODEL else found.pair.engine_types
    excluded = set(address.repeated(address.EXCLUDED))
    left, right = st.columns([3, 2], gap="large")
    with left:
        names = tuple(one.type for one in types)
        key = f"types {hash((found.pair.first.id, found.pair.second.id, names))}"
        st.data_editor(
            list(type_rows(types, excluded)),
            key=key,
            hide_index=True,
            placeholder="–",
            disabled=[heading for heading in _columns() if heading != INCLUDED] + ["Type"],
            column_config=_columns(),
            height="content" if len(types) <= 16 else 600,
            on_change=partial(_types_edited, key, names),
            alt="Layer types with their time in A and B",
        )
        st.caption(
            "Time: the sum of the layers' mean times in one inference, measured with counters on. A type that a side "
            "does not have is –, which is not 0. Click a heading to sort."
        )
    with right:
        st.markdown("**Distribution chart**")
        figure = distribution_figure(types, excluded)
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
