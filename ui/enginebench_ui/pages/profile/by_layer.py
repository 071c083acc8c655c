"""Layer summaries and layer results under one switch of figure and scale, and one layer in full."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.verdicts.pruning.estimate import Series
from enginebench_controller.verdicts.pruning.prospects import Saving
from enginebench_ui.pages.profile import netron
from enginebench_ui.pages.profile.shapes.details import layer_details, part_size, sparsity_figure
from enginebench_ui.pages.profile.shapes.layers import Dataset, LayerView, Scale
from enginebench_ui.pages.profile.shapes.results import Drawing, LayerForms, largest_text, layer_figure
from enginebench_ui.pages.profile.shapes.types import heading, type_figure, type_rows, type_views
from enginebench_ui.shared import reading
from enginebench_ui.shared.charts import NEUTRAL
from enginebench_ui.shared.choosing import follow_row, selected_row
from enginebench_ui.shared.keys import show_steps
from enginebench_ui.shared.showing import chart, row_cards, table
from enginebench_ui.shared.text import count_of, inert


@dataclass(frozen=True)
class Viewed:
    """The model that nodes belong to, by its digest."""

    digest: str


@dataclass(frozen=True)
class Shown:
    """What both sections show: the figures to choose from, and the layers, their forms and savings for one of them.

    `savings` are None where nothing is known of pruning; `saving_basis` says what they are for.
    """

    key: str
    datasets: Mapping[str, Dataset]
    layers: Callable[[Dataset], tuple[LayerView, ...]]
    forms: Callable[[Dataset], LayerForms]
    savings: Callable[[Dataset], Mapping[int, Saving] | None]
    saving_basis: Callable[[Dataset], str]
    viewed: Viewed
    series: Series | None = None
    noun: str = "layer"
    colour: str = NEUTRAL


def show_viewer(viewed: Viewed, nodes: Sequence[str]) -> None:
    """Draw the button that starts Netron over the model's file, then the link to it."""
    if netron.program() is None:
        st.caption("To look at this node in its graph, install Netron beside enginebench, then reload the page:")
        st.code(netron.INSTALL, language="shell")
        return
    library = reading.library()
    try:
        model = library.main_path(library.resolve(viewed.digest))
        if st.button("Open in Netron", icon=":material/account_tree:", key="start netron"):
            netron.start(model)
    except EnginebenchError as error:
        st.caption(f"Netron cannot show it: {inert(str(error))}")
        return
    if (url := netron.running(model)) is not None:
        st.link_button("Netron is running: show the graph", url, icon=":material/open_in_new:")
        st.caption(
            "Find the node there with Ctrl+F. It runs on the machine of these pages and listens to that machine only; "
            "its page is its makers' own and may report its use to them."
        )
        for name in nodes[:3]:
            st.code(name, language=None)
        if st.button("Stop Netron", key="stop netron"):
            netron.stop(model)
            st.rerun(scope="fragment")


def show_details(layer: LayerView | None, shown: Shown) -> None:
    """Draw a layer, or how to choose one."""
    with st.container(border=True):
        if layer is None:
            st.markdown(f"**No {shown.noun} is selected**")
            st.caption(
                "Select one in the table: what ran, which nodes it stands for, and where it stands is told here."
            )
            return
        found = layer_details(layer)
        st.markdown(f"**{inert(found.title)}**")
        _show_facts(found.identity)
        _show_facts(found.figures)
        if shown.series is not None:
            _show_sparsities(layer, shown.series, shown.colour)
        if found.engine:
            with st.expander("In the engine's own words" if shown.noun == "layer" else "Attributes"):
                _show_facts(found.engine)
        if found.nodes:
            show_viewer(shown.viewed, found.nodes)


def _show_facts(found: Sequence[tuple[str, str]]) -> None:
    st.markdown("  \n".join(f":gray[{inert(heading)}]\u2002{inert(value)}" for heading, value in found))


def _show_sparsities(layer: LayerView, series: Series, colour: str) -> None:
    figure = sparsity_figure(layer, series, colour)
    if figure is None:
        return
    size = part_size(layer, series)
    st.caption(f"Measured with zeros imposed: its part of the model, {count_of(size, 'node')}, the same in every pass.")
    chart(
        figure, "sparsities", name="layer-sparsities", alt="Time of this layer's part of the model over zeros imposed"
    )


BIND = "query-params"
_TABLE_PX = 520
_MOST_WITHOUT_SCROLLING = 13


def show_types(shown: Shown) -> None:
    """Draw the time, or another figure, by type of layer; its switches draw nothing else anew."""
    st.fragment(_show_types)(shown)


def show_results(shown: Shown) -> None:
    """Draw every layer, as a chart and a table; a selected row shows the layer in full, and draws nothing else anew."""
    st.fragment(_show_results)(shown)


def _show_types(shown: Shown) -> None:
    with _switches():
        dataset, scale = _switch(shown)
    st.caption(dataset.explained)
    layers = shown.layers(dataset)
    savings = shown.savings(dataset)
    views = type_views(layers, dataset, savings)
    left, right = st.columns(2, gap="medium")
    with left:
        figure = type_figure(views, dataset, scale, shown.colour)
        if figure is None:
            st.info(f"{dataset.label} is not known of any {shown.noun}.")
        else:
            chart(figure, "types", name="layer-summaries", alt=f"{dataset.label} by type of {shown.noun}")
            if any(view.is_engine_made for view in views):
                st.caption("\\* grey: engine-made, or handed to ONNX Runtime; the model did not ask for it as such.")
    with right:
        table(type_rows(views, dataset, with_savings=bool(savings)), "type rows", columns=_columns(dataset))
        if savings:
            st.caption(shown.saving_basis(dataset))


def _show_results(shown: Shown) -> None:
    with _switches():
        dataset, scale = _switch(shown)
        drawing = Drawing(
            st.segmented_control("Draw as", list(Drawing), required=True, default=Drawing.LINE, key="draw", bind=BIND)
        )
        forms = shown.forms(dataset)
        layers = forms.layers
        chosen = _chosen(layers)
        positions = [layer.position for layer in layers]
        show_steps(shown.noun, positions, chosen.position if chosen else None, _choose_layer)
    st.caption("  \n".join(filter(None, (dataset.explained, inert(largest_text(layers, dataset))))))
    position = chosen.position if chosen else None
    figure = layer_figure(layers, dataset, scale, drawing, position, shown.colour, forms.hovers)
    if figure is None:
        st.info(f"{dataset.label} is not known of any {shown.noun}.")
    else:
        chart(figure, "layers", name="layer-results", alt=f"{dataset.label} of every {shown.noun}, by depth")
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _show_table(shown, forms, dataset, chosen)
    with right:
        show_details(chosen, shown)


def _switches() -> AbstractContextManager[object]:
    row: AbstractContextManager[object] = st.container(horizontal=True, gap="medium", vertical_alignment="bottom")
    return row


def _switch(shown: Shown) -> tuple[Dataset, Scale]:
    labels = list(shown.datasets)
    label = st.selectbox("Figure", labels, key="data", bind=BIND, width=180, on_change=_forget_layer)
    scale = st.segmented_control("Scale", list(Scale), required=True, default=Scale.VALUES, key="scale", bind=BIND)
    return shown.datasets.get(label or labels[0], shown.datasets[labels[0]]), Scale(scale)


def _forget_layer() -> None:
    """Another figure may come from another pass, whose layers are others."""
    st.query_params.pop("layer", None)


def _chosen(layers: Sequence[LayerView]) -> LayerView | None:
    """The layer that the address names; the table follows it."""
    wished = st.query_params.get("layer")
    return next((layer for layer in layers if str(layer.position) == wished), None)


def _show_table(shown: Shown, forms: LayerForms, dataset: Dataset, chosen: LayerView | None) -> None:
    key = f"layers {shown.key} {dataset.label}"
    positions = [layer.position for layer in forms.layers]
    st.dataframe(
        forms.frame,
        key=follow_row(key, positions.index(chosen.position) if chosen else None),
        hide_index=True,
        placeholder="–",
        column_config=_columns(dataset),
        height=_TABLE_PX if len(positions) > _MOST_WITHOUT_SCROLLING else "content",
        on_select=partial(_layer_selected, key, positions),
        selection_mode=["single-row", "single-cell"],
        alt=f"{shown.noun}s in the order of execution: select one for its details",
    )
    row_cards(forms.cards, len(positions), key, columns=_columns(dataset))


def _layer_selected(key: str, positions: Sequence[int]) -> None:
    row = selected_row(key)
    if row is None or row >= len(positions):
        _forget_layer()
    else:
        _choose_layer(positions[row])


def _choose_layer(position: int) -> None:
    st.query_params["layer"] = str(position)


def _columns(dataset: Dataset) -> Mapping[str, object]:
    number = st.column_config.NumberColumn
    value = "%.3f" if dataset.is_time else "%d" if dataset.unit == "nodes" else "compact"
    return {
        "#": number(width="small", pinned=True, help="Its place in the order of execution."),
        "Layer": st.column_config.TextColumn(width=190),
        "Type": st.column_config.TextColumn(width=120),
        "ONNX id": st.column_config.TextColumn(width="medium"),
        "Weight": st.column_config.TextColumn(width="medium"),
        "Kernel": st.column_config.TextColumn(width=130),
        heading(dataset): number(format=value, help=dataset.explained),
        "± (%)": number(
            format="%.1f", help="Half of the mean's 95 % interval over the inferences of this pass, in per cent of it."
        ),
        "Share (%)": number(format="%.1f"),
        "Of roof (%)": number(
            format="%.0f", help="Of what this engine can attain with such work here. Above 100: see the layer's remark."
        ),
        "FLOPs": number(format="compact", help="Of the nodes that it stands for; a multiply-add is 2, zeros count."),
        "Saves (ms)": number(format="%.3f", help="Estimated, of the dense pass with zeros imposed."),
        "Saves (%)": number(format="%.1f", help="Estimated, of this type's time in the dense pass."),
        "Known": number(help="Of how many of the layers the figure is known; the sum is over these."),
        "Note": st.column_config.TextColumn(width="medium"),
    }
