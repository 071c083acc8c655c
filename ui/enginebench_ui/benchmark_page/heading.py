"""The head of the page: which benchmark this is, how it went, and what a reader must know before any number."""

import streamlit as st

from enginebench_ui.benchmark_page import reading as kept
from enginebench_ui.benchmark_page.actions import show_actions
from enginebench_ui.pages import BENCHMARK
from enginebench_ui.views.benchmark.whole import WholeBenchmark
from enginebench_ui.views.magnitudes import benchmark_title, tallies
from enginebench_ui.views.measurements import FailureView
from enginebench_ui.views.text import count_of, inert, instant

_MOST_FAILURES = 3


def show_heading(benchmark: WholeBenchmark) -> None:
    """Show name, facts, tallies, the benchmarks it is linked with, and what can be done."""
    own = benchmark.bundle.benchmark
    left, right = st.columns([3, 2], vertical_alignment="center")
    with left:
        st.title(inert(benchmark_title(own.name)), anchor=False)
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        show_actions(benchmark)
    facts = [own.id, instant(own.created_at_unix_ns)] + ["imported"] * own.imported
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(" · ".join(map(inert, facts)), width="content")
        for text, colour in tallies(one.status for one in benchmark.measurements):
            st.badge(text, color=colour)
    _show_links(benchmark)


def show_warnings(benchmark: WholeBenchmark) -> None:
    """Show where engines did not really run the same, and what failed."""
    for sentence in benchmark.unequal:
        st.warning(f"Not a comparison of equals: {inert(sentence)}", icon=":material/balance:")
    for wrong, sentence in benchmark.wrong:
        st.error(f"**≠ outputs: {inert(wrong)}** {inert(sentence)}", icon=":material/error:")
    for failure in benchmark.failures[:_MOST_FAILURES]:
        _show_failure(failure)
    if others := benchmark.failures[_MOST_FAILURES:]:
        with st.expander(f"{count_of(len(others), 'more failure')}", icon=":material/error:"):
            for failure in others:
                _show_failure(failure)


def _show_links(benchmark: WholeBenchmark) -> None:
    before = benchmark.bundle.benchmark.rerun_of
    reruns = kept.relatives(benchmark.id).reruns
    if not before and not reruns:
        return
    with st.container(horizontal=True):
        if before:
            st.page_link(
                BENCHMARK, label=f"Re-run of {inert(before)}", icon=":material/replay:", query_params={"id": before}
            )
        for one in reruns:
            label = f"Re-run on {instant(one.created_at_unix_ns)}: {inert(one.id)}"
            st.page_link(BENCHMARK, label=label, icon=":material/arrow_forward:", query_params={"id": one.id})


def _show_failure(failure: FailureView) -> None:
    st.error(f"**{inert(failure.heading)}** {inert(failure.message)}", icon=":material/error:")
    with st.expander("The engine's own words, and what was to be measured"):
        for configuration in failure.configurations:
            st.text(configuration)
        if failure.detail:
            st.code(failure.detail, language=None, wrap_lines=True)
