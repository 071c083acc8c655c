"""One layer in full, beside the table."""

from collections.abc import Sequence

import streamlit as st

from enginebench_controller.prospects import Series
from enginebench_ui.profile_page.viewer import Viewed, show_viewer
from enginebench_ui.showing import chart
from enginebench_ui.views.profiles.details import layer_details, part_size, sparsity_figure
from enginebench_ui.views.profiles.layers import LayerView
from enginebench_ui.views.text import count_of, inert


def show_details(layer: LayerView | None, viewed: Viewed, series: Series | None, noun: str = "layer") -> None:
    """Draw a layer, or how to choose one."""
    with st.container(border=True):
        if layer is None:
            st.markdown(f"**No {noun} is selected**")
            st.caption(
                "Select one in the table: what ran, which nodes it stands for, and where it stands is told here."
            )
            return
        found = layer_details(layer)
        st.markdown(f"**{inert(found.title)}**")
        _show_facts(found.identity)
        _show_facts(found.figures)
        if series is not None:
            _show_sparsities(layer, series)
        if found.engine:
            with st.expander("In the engine's own words" if noun == "layer" else "Attributes"):
                _show_facts(found.engine)
        if found.nodes:
            show_viewer(viewed, found.nodes)


def _show_facts(found: Sequence[tuple[str, str]]) -> None:
    st.markdown("  \n".join(f":gray[{inert(heading)}]\u2002{inert(value)}" for heading, value in found))


def _show_sparsities(layer: LayerView, series: Series) -> None:
    figure = sparsity_figure(layer, series)
    if figure is None:
        return
    size = part_size(layer, series)
    st.caption(f"Measured with zeros imposed: its part of the model, {count_of(size, 'node')}, the same in every pass.")
    chart(
        figure, "sparsities", name="layer-sparsities", alt="Time of this layer's part of the model over zeros imposed"
    )
