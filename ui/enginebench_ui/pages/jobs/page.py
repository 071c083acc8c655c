"""All jobs, newest first: what runs now, and what came of what ran before."""

import time
from collections.abc import Sequence

import streamlit as st

from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import job_ids, jobs_with, open_jobs
from enginebench_controller.jobs.record import Job
from enginebench_ui.pages import JOB, NEW_BENCHMARK
from enginebench_ui.shared.jobs import JobView, job_view
from enginebench_ui.shared.showing import nothing_yet
from enginebench_ui.shared.text import inert

PAGE_SIZE = 20


def show() -> None:
    """Draw the page."""
    st.title("Jobs", anchor=False)
    st.caption("What was started from these pages. Jobs go on when the browser is closed or the pages are stopped.")
    if not job_ids(default_home()):
        nothing_yet(
            "Nothing was started from these pages yet. A benchmark can be started here, or in a shell:",
            "enginebench run model.onnx --engine onnxruntime,openvino --batch 1,4",
            NEW_BENCHMARK,
            "New benchmark",
        )
        return
    st.fragment(_show_list, run_every=1.0 if open_jobs(default_home()) else None)()


def _show_list() -> None:
    found = job_ids(default_home())  # of a thousand jobs those alone are read that are shown, and those that run
    pages = max(1, -(-len(found) // PAGE_SIZE))
    place = st.container()
    number = st.pagination(pages, key="page", bind="query-params") if pages > 1 else 1
    shown, others = found[PAGE_SIZE * (number - 1) : PAGE_SIZE * number], open_jobs(default_home())
    with place:
        for one in jobs_with(default_home(), shown):
            _show_entry(one, others)


def _show_entry(one: Job, others: Sequence[Job]) -> None:
    view = job_view(one, time.time_ns(), others=others)
    with st.container(border=True):
        left, right = st.columns([3, 1], vertical_alignment="center")
        with left:
            label = f"**{inert(view.title) or 'unnamed'}**"
            st.page_link(JOB, label=label, query_params={"id": view.id})
            st.caption(inert(view.facts))
        with right, st.container(horizontal=True, horizontal_alignment="right"):
            word, colour, symbol = view.badge
            st.badge(word, color=colour, icon=symbol)
            for text, tally_colour in view.tallies:
                st.badge(text, color=tally_colour)
        if view.is_active:
            _show_progress(view)


def _show_progress(view: JobView) -> None:
    st.progress(view.share or 0.0, text=inert(view.progress or view.explanation))
    if view.doing:
        st.caption(inert(view.doing))


show()
