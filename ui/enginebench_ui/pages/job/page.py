"""One job, named by `?id=…`: how far it is, cell by cell, what comes of it, and how to end it."""

import time

import streamlit as st

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import cancel, job, log_tail, open_jobs, remove, start_job
from enginebench_controller.jobs.record import Job, JobState, MadeKind
from enginebench_controller.plan.plan import make_plan
from enginebench_ui.pages import BENCHMARK, JOB, JOBS, OF_SEARCH, PROFILE, PROFILES, PROJECTS
from enginebench_ui.shared import reading
from enginebench_ui.shared.following import compare_link
from enginebench_ui.shared.jobs import JobView, job_view, made_kinds
from enginebench_ui.shared.showing import RATE, table
from enginebench_ui.shared.text import count_of, inert

LOG_LINES = 40
MOST_LINKS = 8
COLUMNS = {
    "State": st.column_config.TextColumn(width=110, pinned=True),
    "Batch": st.column_config.NumberColumn(width="small"),
    "Cores": st.column_config.NumberColumn(width="small"),
    "Median (ms)": st.column_config.NumberColumn(
        format="%.3f", help="Of all its latencies; intervals stand on its own page."
    ),
    "Items/s": st.column_config.NumberColumn(format=RATE),
    "What": st.column_config.TextColumn("What it does, or why it failed", width="large"),
}


def show() -> None:
    """Draw the page."""
    st.page_link(JOBS, label="All jobs", icon=":material/arrow_back:")
    named = st.query_params.get("id", "")
    if not named:
        st.info("No job is chosen; take one from the list.", icon=":material/info:")
        return
    with reading.banner_on_error():
        found = job(default_home(), named)
    left, right = st.columns([3, 2], vertical_alignment="center")
    left.title(inert(found.title) or "unnamed", anchor=False)
    # Not in the part that is drawn anew every second: that would close a question before it is answered.
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        _show_buttons(found)
    is_active = not found.state.has_ended
    st.fragment(_show_now, run_every=1.0 if is_active else None)(found.id, was_active=is_active)


def _show_now(identity: str, *, was_active: bool) -> None:
    try:
        found = job(default_home(), identity)
    except EnginebenchError as error:  # somebody else has just removed it
        st.error(inert(str(error)), icon=":material/error:")
        return
    if was_active and found.state.has_ended:
        st.rerun()
    with reading.banner_on_error():
        others = open_jobs(default_home()) if found.state is JobState.QUEUED else ()
        view = job_view(found, time.time_ns(), reading.headlines(found.benchmarks), others)
    _show_state(view)
    with st.container(horizontal=True, gap="medium"):
        _show_made(found, view)
    _show_failures(view)
    if view.cell_rows:
        table(view.cell_rows, "cells", columns=COLUMNS)
    for note in view.notes:
        st.caption(f":material/info: {inert(note)}")
    _show_log(found)


def _show_state(view: JobView) -> None:
    word, colour, symbol = view.badge
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(word, color=colour, icon=symbol)
        for text, tally_colour in view.tallies:
            st.badge(text, color=tally_colour)
        st.caption(inert(view.facts), width="content")
    if view.is_active:
        st.progress(view.share or 0.0, text=inert(view.progress or view.explanation))
        st.caption(inert(view.doing))
    elif view.explanation:
        st.caption(view.explanation)


def _show_buttons(found: Job) -> None:
    if not found.state.has_ended:
        label = "Cancel at once" if found.cancelling else "Cancel"
        with st.popover(label, icon=":material/cancel:", key=label):
            st.write("What is being measured now is given up. What was finished is stored and stays.")
            if st.button("Cancel the job", type="primary", icon=":material/cancel:", key="cancel_job"):
                cancel(found)
                st.rerun()
        return
    if st.button("Run it again", icon=":material/replay:", key="again", help="As a new job; this one stays."):
        _start_again(found)
    if st.button("Remove from the list", icon=":material/delete:", key="remove", help="What it made stays."):
        with reading.banner_on_error():
            remove(found)
        st.switch_page(JOBS)


def _start_again(found: Job) -> None:
    with reading.banner_on_error():
        plan = None if found.plan is None else make_plan(found.plan, "the plan of this job")
        begun = start_job(default_home(), found.title, found.arguments, plan, compare_with=found.compare_with)
    st.switch_page(JOB, query_params={"id": begun.id})


def _show_made(found: Job, view: JobView) -> None:
    made = made_kinds(view.made)
    for identity in made.get(MadeKind.BENCHMARK, ()):
        label = "Results so far" if view.is_active else "**Show the results**"
        st.page_link(BENCHMARK, label=label, icon=":material/speed:", query_params={"id": identity})
        if found.compare_with:
            query = {"id": identity, "with": found.compare_with}
            label = f"Beside benchmark {inert(found.compare_with)}"
            st.page_link(BENCHMARK, label=label, icon=":material/compare_arrows:", query_params=query)
        if not view.is_active:
            compare_link(identity)
    for identity in made.get(MadeKind.SEARCH, ()):
        _show_search(identity, view)
    _show_profiles(made.get(MadeKind.PROFILE, []))
    for digest in made.get(MadeKind.MODEL, ()):
        label = f"Model version {digest[:12]}"
        st.page_link(PROJECTS, label=label, icon=":material/deployed_code:", query_params={"model": digest})


def _show_search(identity: str, view: JobView) -> None:
    search = reading.search_or_none(identity)
    if search is not None:
        label = "The search" if view.is_active else "**Show the answer**" if search.answer else "The best so far"
        icon = ":material/conversion_path:"
        st.page_link(OF_SEARCH[search.kind], label=label, icon=icon, query_params={"id": search.id})


def _show_profiles(identities: list[str]) -> None:
    for number, identity in enumerate(identities[:MOST_LINKS], start=1):
        label = "Show the profile" if len(identities) == 1 else f"Profile {number}"
        st.page_link(PROFILE, label=label, icon=":material/layers:", query_params={"id": identity})
    if len(identities) > MOST_LINKS:
        label = f"and {count_of(len(identities) - MOST_LINKS, 'more profile')}"
        st.page_link(PROFILES, label=label, icon=":material/layers:")


def _show_failures(view: JobView) -> None:
    for reason, titles in view.failures:
        st.error(inert(reason), icon=":material/error:")
        with st.expander(f"{count_of(len(titles), 'cell')} ended so"):
            for title in titles:
                st.text(title)


def _show_log(found: Job) -> None:
    printed = log_tail(found, LOG_LINES)
    if found.state in (JobState.FAILED, JobState.LOST):
        st.markdown("**What it said last**")
        st.code(printed or "nothing", language=None, wrap_lines=True)
    elif printed:
        with st.expander("What it printed", icon=":material/terminal:"):
            st.code(printed, language=None)


show()
