"""The list of benchmarks, newest first, each a link to its own page."""

import streamlit as st

from enginebench_ui import reading
from enginebench_ui.pages import BENCHMARK
from enginebench_ui.views.benchmarks import BenchmarkView, benchmark_views
from enginebench_ui.views.text import count_of, inert

PAGE_SIZE = 25


def show() -> None:
    """Draw the page."""
    st.title("Benchmarks")
    with reading.banner_on_error():
        entries = reading.benchmarks()
    if not entries:
        _show_how_to_begin()
        return
    search = st.text_input("Search", placeholder="Name, id, model, engine or target", icon=":material/search:")
    found = benchmark_views(entries, search)
    st.caption(count_of(len(found), "benchmark") + (f" of {len(entries)}" if len(found) < len(entries) else ""))
    _show_list(found)


def _show_how_to_begin() -> None:
    st.info("Nothing has been measured yet. Either of these puts a first benchmark here:", icon=":material/info:")
    st.code("enginebench demo\nenginebench run model.onnx --engine onnxruntime,openvino --batch 1,4", language="bash")


def _show_list(found: tuple[BenchmarkView, ...]) -> None:
    most = st.session_state.setdefault("most_benchmarks", PAGE_SIZE)
    for view in found[:most]:
        _show_entry(view)
    if len(found) > most and st.button(f"Show {min(PAGE_SIZE, len(found) - most)} more"):
        st.session_state["most_benchmarks"] = most + PAGE_SIZE
        st.rerun()


def _show_entry(view: BenchmarkView) -> None:
    with st.container(border=True):
        left, right = st.columns([3, 1], vertical_alignment="center")
        with left:
            label = f"**{inert(view.name) or 'unnamed'}**"
            st.page_link(BENCHMARK, label=label, query_params={"id": view.id})
            facts = (view.created, view.covered, view.id, view.note)
            st.caption(" · ".join(inert(fact) for fact in facts if fact))
        with right, st.container(horizontal=True, horizontal_alignment="right"):
            for text, colour in view.tallies:
                st.badge(text, color=colour)


show()
