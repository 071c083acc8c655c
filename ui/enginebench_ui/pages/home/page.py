"""What was measured last and what it answered, what runs now, which targets there are, and what can be done next."""

from dataclasses import replace

import streamlit as st

from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import open_jobs
from enginebench_controller.records import Search, Target, TargetSnapshot
from enginebench_controller.verdicts.gate.words import headline
from enginebench_controller.verdicts.host_words import processor_of
from enginebench_ui.pages import (
    BENCHMARK,
    BENCHMARKS,
    COMPARE,
    JOBS,
    NEW_BENCHMARK,
    NEW_PROFILE,
    OF_SEARCH,
    PROFILES,
    TARGETS,
)
from enginebench_ui.shared import reading
from enginebench_ui.shared.benchmarks import BenchmarkView, benchmark_views
from enginebench_ui.shared.following import follow_jobs
from enginebench_ui.shared.searches import search_sentence
from enginebench_ui.shared.showing import benchmark_card, nothing_measured, show_answers
from enginebench_ui.shared.targets import available_names
from enginebench_ui.shared.text import SEARCH_NOUNS, count_of, inert, instant

MOST_ANSWERS = 4
MOST_EARLIER = 5
MOST_TARGETS = 5


def show() -> None:
    """Draw the page."""
    left, right = st.columns([2, 3], vertical_alignment="center")
    left.title("enginebench", anchor=False)
    with right, st.container(horizontal=True, horizontal_alignment="right"):
        st.page_link(NEW_BENCHMARK, label="Measure something", icon=":material/add_chart:")
        st.page_link(NEW_PROFILE, label="Profile layers", icon=":material/add_notes:")
        st.page_link(COMPARE, label="Compare", icon=":material/compare_arrows:")
    with reading.banner_on_error():
        views = benchmark_views(reading.listed("", 1 + MOST_EARLIER, 1).listed, search_sentence)
        targets, snapshots = reading.targets()
    main, side = st.columns([5, 2], gap="large")
    with main:
        if views:
            _show_measured(views)
        else:
            nothing_measured()
    with side:
        _show_running()
        _show_targets(targets, snapshots)


def _show_measured(views: tuple[BenchmarkView, ...]) -> None:
    """The newest benchmarks, with the answers of the first that has any: a ladder, say, has none."""
    st.header("Benchmarks measured last", anchor=False)
    is_answered = False
    for view in views:
        is_told_below = not is_answered and view.search is not None
        benchmark_card(replace(view, said="") if is_told_below else view)
        is_answered = is_answered or _show_answer(view)
    with st.container(horizontal=True):
        st.page_link(BENCHMARKS, label="All benchmarks", icon=":material/speed:")
        st.page_link(PROFILES, label="All profiles", icon=":material/bar_chart:")


def _show_answer(view: BenchmarkView) -> bool:
    if view.search is not None:
        return _show_search(view.search)
    with reading.banner_on_error():
        gated, answers = reading.gated(view.id), reading.answers(view.id)
    if gated is not None:
        with st.container(border=True, key="answer"):
            st.markdown(f":material/gavel: **{inert(headline(gated))}**")
        return True
    show_answers(answers[:MOST_ANSWERS], view.name)
    if more := answers[MOST_ANSWERS:]:
        label = f"{count_of(len(more), 'more answer')}"
        st.page_link(BENCHMARK, label=label, icon=":material/arrow_forward:", query_params={"id": view.id})
    return bool(answers)


def _show_search(search: Search) -> bool:
    """What a search has come to; False where that has no answer yet."""
    sentence = search_sentence(search)
    if sentence is None:
        return False
    with st.container(border=True, key="answer"):
        st.markdown(f":material/conversion_path: **{inert(sentence)}**")
        label = f"The whole {SEARCH_NOUNS[search.kind]}"
        icon = ":material/arrow_forward:"
        st.page_link(OF_SEARCH[search.kind], label=label, icon=icon, query_params={"id": search.id})
    return True


def _show_running() -> None:
    st.header("Running", anchor=False)
    if open_jobs(default_home()):
        follow_jobs(lambda job: not job.state.has_ended)
    else:
        st.caption("Nothing runs that was started from these pages.")
    st.page_link(JOBS, label="All jobs", icon=":material/pending_actions:")


def _show_targets(targets: tuple[Target, ...], snapshots: tuple[TargetSnapshot, ...]) -> None:
    st.header("Targets", anchor=False)
    seen = {one.target: one for one in snapshots}
    names = list(dict.fromkeys((*(one.name for one in targets), *seen)))
    for name in names[:MOST_TARGETS]:
        with st.container(border=True):
            st.markdown(f"**{inert(name)}**")
            if (snapshot := seen.get(name)) is None:
                st.caption("Never seen yet.")
                continue
            engines = ", ".join(available_names(snapshot.engines)) or "no engine available"
            processor = processor_of(snapshot.host) or "unknown processor"
            st.caption(inert(f"{engines} · {processor} · {instant(snapshot.seen_at_unix_ns)}"))
    more = len(names) - MOST_TARGETS
    st.page_link(
        TARGETS, label=f"And {more:,} more targets" if more > 0 else "Targets and engines", icon=":material/dns:"
    )


show()
