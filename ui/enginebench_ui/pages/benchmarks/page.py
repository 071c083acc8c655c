"""The list of benchmarks, newest first, each a link to its own page."""

import streamlit as st

from enginebench_controller.store.benchmarks import BenchmarkPage
from enginebench_ui.pages import NEW_BENCHMARK
from enginebench_ui.shared import reading
from enginebench_ui.shared.benchmarks import benchmark_views, found_text
from enginebench_ui.shared.searches import search_sentence
from enginebench_ui.shared.showing import benchmark_card, nothing_measured
from enginebench_ui.shared.text import REMOVED, benchmark_title, inert

PAGE_SIZE = 20


def show() -> None:
    """Draw the page."""
    left, right = st.columns([3, 1], vertical_alignment="center")
    left.title("Benchmarks", anchor=False)
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        st.page_link(NEW_BENCHMARK, label="Add benchmark", icon=":material/add_chart:")
    _tell_what_was_removed()
    with reading.banner_on_error():
        total = reading.listed("", PAGE_SIZE, 1).total
    if not total:
        nothing_measured()
        return
    search = st.text_input(
        "Search",
        placeholder="Name, id, model, engine or target",
        icon=":material/search:",
        key="search",
        bind="query-params",
        on_change=_show_first_page,
    )
    _show_found(search or "")


def _show_found(search: str) -> None:
    with reading.banner_on_error():
        found = reading.listed(search, PAGE_SIZE, 1)
        pages = max(1, -(-found.found // PAGE_SIZE))
        st.caption(found_text(found))
        place = st.container()
        number = _choose_page(pages)
        shown = found if number == 1 else reading.listed(search, PAGE_SIZE, number)
    with place:
        _show_list(shown, search)


def _choose_page(pages: int) -> int:
    if pages == 1:
        return 1
    with st.container(horizontal_alignment="center"):
        return int(st.pagination(pages, key="page", bind="query-params"))


def _show_first_page() -> None:
    st.session_state.pop("page", None)
    st.query_params.pop("page", None)


def _show_list(page: BenchmarkPage, search: str) -> None:
    if not page.listed:
        st.info(
            f"No benchmark has {inert(search)} in its name, id, models, engines or targets.", icon=":material/info:"
        )
    for view in benchmark_views(page.listed, search_sentence):
        benchmark_card(view)


def _tell_what_was_removed() -> None:
    name = st.session_state.pop(REMOVED, None)
    if name is not None:
        st.toast(f"Removed {inert(benchmark_title(name))}.", icon=":material/delete:")


show()
