"""The list of performance profiles: baselines by name, the FLOPS profile of every model, and pruning passes."""

import time
from collections.abc import Callable

import streamlit as st

from enginebench_controller.errors import ModelError
from enginebench_controller.records import ModelVersion
from enginebench_controller.store.store import Store
from enginebench_ui.pages import NEW_PROFILE, PROFILE, PROJECTS
from enginebench_ui.pages.profiles.shapes import ListedKind, Listing, baselines, sweep_passes, theoretical, work_text
from enginebench_ui.shared import reading
from enginebench_ui.shared.showing import RATE, nothing_yet, row_cards
from enginebench_ui.shared.text import count_of

BIND = "query-params"
MOST_WITHOUT_SCROLLING = 15
SCROLLING_PX = 600
COUNTING_S = 2.0
"""How long the list of FLOPS profiles counts models that nobody has counted yet; the next look goes on."""
COLUMNS = {
    "Name": st.column_config.TextColumn(width=150),
    "Model": st.column_config.TextColumn(width=150),
    "Median (ms)": st.column_config.NumberColumn(
        format="%.3f", help="Measured: the median of single inferences without the engine's counters."
    ),
    "Items/s": st.column_config.NumberColumn(format=RATE, help="Batch ÷ median."),
    "Matched (%)": st.column_config.NumberColumn(
        format="%.1f", help="The share of the layers' time that was led back to nodes of the model."
    ),
    "Dense (ms)": st.column_config.NumberColumn(
        format="%.3f", help="Measured: the median of the dense pass, with the engine's counters."
    ),
    "FLOPs": st.column_config.TextColumn(
        help="Counted at the model's own batch, a multiply-add is 2; empty where it is unknown or not counted yet."
    ),
    "Size (MB)": st.column_config.NumberColumn(format="%.1f"),
}
EXPLAINED = {
    ListedKind.BASELINE: "What an engine needed for each layer of a model. Select a row to open the profile.",
    ListedKind.FLOPS: "What a model asks for in theory, counted without running it. Select a row to open the profile.",
    ListedKind.PRUNING: "A model timed with more and more weights taken for zero. Select a row to open the dense pass.",
}


def show() -> None:
    """Draw the page."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.title("Performance profiles", anchor=False, width="content")
        st.page_link(NEW_PROFILE, label="New profile", icon=":material/add:")
    with st.container(horizontal=True, gap="medium"):
        kind = ListedKind(
            st.segmented_control(
                "Show", list(ListedKind), required=True, default=ListedKind.BASELINE, key="show", bind=BIND
            )
        )
        search = st.text_input("Search", placeholder="Name, model, engine or target", key="q", bind=BIND)
    with reading.banner_on_error():
        listing, anything = _listing(kind, search)
    if anything:
        _show_listing(kind, listing)
    else:
        _show_how_to_begin(kind)


def _counting() -> Callable[[ModelVersion], str | None]:
    """Counts models until the page has waited long enough; what was counted once is known from then on."""
    until_s = time.monotonic() + COUNTING_S

    def flops(model: ModelVersion) -> str | None:
        if time.monotonic() > until_s:
            return None
        try:
            return _flops(model.digest, model)
        except ModelError:
            return None

    return flops


@reading.kept_for_good(1_000)
def _flops(store: Store, digest: str, _model: ModelVersion) -> str | None:
    """What stands in the list, of more models than are kept as counted with their nodes."""
    return work_text(reading.theory(_model, None))


def _listing(kind: ListedKind, search: str) -> tuple[Listing, bool]:
    """What to list, and whether there would be anything without the search."""
    if kind is ListedKind.FLOPS:
        models = reading.known_models()
        return theoretical(models, search, _counting()), bool(models)
    entries = reading.profile_entries()
    shape = baselines if kind is ListedKind.BASELINE else sweep_passes
    found = shape(entries, search)
    return found, found.total > 0 or shape(entries).total > 0


def _show_listing(kind: ListedKind, listing: Listing) -> None:
    shown = f", the newest {len(listing.rows)} are shown" if len(listing.rows) < listing.total else ""
    st.caption(f"{EXPLAINED[kind]} {count_of(listing.total, 'row')}{shown}.")
    if not listing.rows:
        st.info("Nothing fits the search.", icon=":material/search_off:")
        return
    event = st.dataframe(
        list(listing.rows),
        hide_index=True,
        placeholder="–",
        column_config=COLUMNS,
        height="content" if len(listing.rows) <= MOST_WITHOUT_SCROLLING else SCROLLING_PX,
        on_select="rerun",
        selection_mode=["single-row", "single-cell"],
        # Other rows are another widget: a place that was clicked means nothing among them.
        key=f"profiles {kind} {hash(tuple(map(repr, listing.queries)))}",
        alt=f"{kind} profiles",
    )
    row_cards(listing.rows, len(listing.rows), f"profiles {kind}", columns=COLUMNS)
    row = next((place for place, _ in event.selection.cells), next(iter(event.selection.rows), None))
    if row is not None and row < len(listing.queries):
        st.switch_page(PROFILE, query_params=listing.queries[row])


def _show_how_to_begin(kind: ListedKind) -> None:
    if kind is ListedKind.FLOPS:
        nothing_yet(
            "No model is known yet. Every ONNX model has a FLOPS profile as soon as it is added:",
            "enginebench models add model.onnx",
            PROJECTS,
            "Projects",
        )
    elif kind is ListedKind.BASELINE:
        nothing_yet(
            "Nothing has been profiled yet. This times every layer of a model:",
            "enginebench profile model.onnx --engine onnxruntime,openvino --name baseline",
            NEW_PROFILE,
            "New profile",
        )
    else:
        nothing_yet(
            "No model has been timed with zeros imposed on its weights yet. DeepSparse can do that:",
            "enginebench prospects pruning model.onnx",
            NEW_PROFILE,
            "New profile",
        )


show()
