"""Jobs followed on the page that started them: one line each, asked for once a second as long as one runs."""

import time
from collections.abc import Callable

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import Home, default_home
from enginebench_controller.jobs.control import jobs_since, log_tail, start_job
from enginebench_controller.jobs.record import Job
from enginebench_ui.pages import COMPARE, JOB, PROJECTS
from enginebench_ui.shared import reading
from enginebench_ui.shared.jobs import RECENT_NS, JobLine, job_line, recent
from enginebench_ui.shared.text import inert

Belongs = Callable[[Job], bool]


def start_followed(home: Home, title: str, arguments: tuple[str, ...]) -> None:
    """Start a job that the page follows; where it cannot be started the page says why, and goes on."""
    try:
        start_job(home, title, arguments)
    except EnginebenchError as error:
        st.error(inert(str(error)), icon=":material/error:")
    else:
        st.toast("Started; it goes on if you leave this page.", icon=":material/check:")


def follow_jobs(belongs: Belongs) -> None:
    """Show the jobs that belong here, also those that another tab or shell started; run the page anew as one ends."""
    running = {one.id for one in _found(belongs) if not one.state.has_ended}
    st.fragment(_show, run_every=1.0 if running else None)(belongs, running)


def _show(belongs: Belongs, running_before: set[str]) -> None:
    found = _found(belongs)
    for one in found:
        _show_line(job_line(one, log_tail(one, lines=1)))
    if running_before - {one.id for one in found if not one.state.has_ended}:  # one that has ended may belong no more
        st.rerun()


def _found(belongs: Belongs) -> tuple[Job, ...]:
    now = time.time_ns()
    return recent(filter(belongs, jobs_since(default_home(), now - RECENT_NS)), now)


def _show_line(line: JobLine) -> None:
    with st.container(border=True):
        st.page_link(JOB, label=inert(line.text), icon=line.icon, query_params={"id": line.id})
        if line.is_running:
            st.progress(line.share or 0.0)
        if line.model:
            query = {"model": line.model}
            st.page_link(PROJECTS, label="Show the version", icon=":material/account_tree:", query_params=query)
        if line.benchmark and not line.is_running:
            compare_link(line.benchmark)


def compare_link(benchmark_id: str) -> None:
    """Show the way to the comparison of what a benchmark measured, where that were two projects."""
    if query := reading.two_sides(benchmark_id):
        st.page_link(COMPARE, label="Compare the two", icon=":material/compare_arrows:", query_params=query)
