"""One row of layers, opened beside the table."""

import pandas as pd
import streamlit as st

from enginebench_controller.comparing.layer_rows import LayerRow
from enginebench_controller.comparing.profiles import ProfilePair
from enginebench_ui.showing import chart
from enginebench_ui.views.compare_details import Detail, detail, parameter_rows
from enginebench_ui.views.compare_fusing import fusing_figure
from enginebench_ui.views.text import inert

_HIGHLIGHT = "background-color: rgba(230, 159, 0, 0.28)"
"""Seen on light and dark; the sign ≠ beside it says the same."""


def show_details(pair: ProfilePair, row: LayerRow | None) -> None:
    """Draw a row, or how to choose one."""
    with st.container(border=True):
        if row is None:
            st.markdown("**No layer is selected**")
            st.caption(
                "Select a row of the table: how each side ran it, what was fused, and what differs is told here."
            )
            return
        found = detail(pair, row)
        st.markdown(f"**{inert(found.heading)}**")
        st.caption(inert(found.summary))
        for notice in found.notices:
            st.warning(inert(notice), icon=":material/info:")
        _show_parts(found, str(row.order))


def _show_parts(found: Detail, key: str) -> None:
    execution, fusing, differing = st.tabs(["Execution", "Fusing", f"Differing ({len(found.differing)})"])
    with execution:
        _show_parameters(found, f"execution {key}", only_differing=False)
    with fusing:
        for one in found.fusing:
            st.markdown(f"**{inert(one.sentence)}**")
            figure = fusing_figure(one)
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
