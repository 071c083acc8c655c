"""One benchmark, named by `?id=…`: a cell of it, how it scales with cores and batch, and how it went over time."""

import streamlit as st

from enginebench_controller.stats.scaling import Axis
from enginebench_ui import reading
from enginebench_ui.benchmark_page import reading as kept
from enginebench_ui.benchmark_page.actions import follow_own_jobs
from enginebench_ui.benchmark_page.baseline import show_baseline
from enginebench_ui.benchmark_page.controls import choose_lines
from enginebench_ui.benchmark_page.gate import show_gate
from enginebench_ui.benchmark_page.heading import show_heading, show_warnings
from enginebench_ui.benchmark_page.overview import show_overview
from enginebench_ui.benchmark_page.scaling import show_scaling
from enginebench_ui.benchmark_page.trend import show_trend
from enginebench_ui.choosing import choose_view
from enginebench_ui.pages import BENCHMARKS
from enginebench_ui.showing import show_answers
from enginebench_ui.views.benchmark.whole import WholeBenchmark

VIEWS = {"baseline": "Baseline", "cores": "Core scaling", "batches": "Batch size scaling", "trend": "Trend"}


def show() -> None:
    """Draw the page."""
    st.page_link(BENCHMARKS, label="All benchmarks", icon=":material/arrow_back:")
    benchmark_id = st.query_params.get("id", "")
    if not benchmark_id:
        st.info("No benchmark is chosen; take one from the list.")
        return
    with reading.banner_on_error():
        benchmark = kept.whole(benchmark_id)
        show_heading(benchmark)
        follow_own_jobs(benchmark.id)
    if not benchmark.measurements:
        st.info("Nothing has been measured in this benchmark yet. Measurements appear here as they are stored.")
        return
    with reading.banner_on_error():
        if (gated := kept.gated(benchmark.id)) is not None:
            show_gate(gated)
        else:
            show_answers(kept.answers(benchmark.id))
    show_warnings(benchmark)
    st.fragment(show_views)(benchmark)
    show_overview(benchmark)


def show_views(benchmark: WholeBenchmark) -> None:
    """Draw what changes with each choice, and nothing else."""
    if not any(line.has_numbers for line in benchmark.lines):
        st.info("There is nothing to draw: no measurement has numbers.")
        return
    with reading.banner_on_error():
        choice = choose_lines(benchmark)
    bar = st.container(horizontal=True, vertical_alignment="bottom")
    with bar:
        view = choose_view("View", VIEWS, "view", default="baseline")
    if view == "baseline":
        show_baseline(choice, bar)
    elif view == "trend":
        show_trend(choice, bar)
    else:
        show_scaling(choice, Axis.CORES if view == "cores" else Axis.BATCH, bar)


show()
