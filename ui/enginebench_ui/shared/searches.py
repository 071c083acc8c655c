"""Searches on pages: which page shows one, its sentence, and how one is begun, chosen, followed and gone on with."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import streamlit as st

from enginebench_controller.errors import StoreError
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import start_job
from enginebench_controller.jobs.record import Job
from enginebench_controller.records import Benchmark, Search, SearchKind
from enginebench_controller.runs.searches.holding import is_held
from enginebench_controller.store.searches import search_of
from enginebench_controller.verdicts.bisect.answer import stored_answer
from enginebench_controller.verdicts.bisect.words import headline
from enginebench_ui.pages import BENCHMARK, OF_SEARCH
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_one
from enginebench_ui.shared.following import follow_jobs
from enginebench_ui.shared.text import SEARCH_NOUNS, count_of, inert, instant, shortened

_LONGEST_NAME = 60


def shown_name(search: Search) -> str:
    """What a list calls a search: its name, without the middle of a long one."""
    return shortened(search.name, _LONGEST_NAME)


def search_sentence(search: Search) -> str | None:
    """What a search has come to, in a sentence; None while it has no answer, and of what a newer enginebench says."""
    if search.answer is not None and search.kind is SearchKind.RECOMMEND:
        return str(search.answer["sentence"])
    with suppress(StoreError):  # the page of the search tells it
        answer = stored_answer(search)
        return None if answer is None else headline(answer)
    return None


def step_link(benchmark: Benchmark) -> None:
    """Show the way from a step to its search; nothing for other benchmarks."""
    search = reading.search_or_none(search_of(benchmark))
    if search is not None:
        place = benchmark.plan["search"]["step"] + 1
        label = f"Step {place} of the {SEARCH_NOUNS[search.kind]} {inert(search.name)}"
        icon = ":material/conversion_path:"
        st.page_link(OF_SEARCH[search.kind], label=label, icon=icon, query_params={"id": search.id})


def choose_search(found: Sequence[Search], words_of: Callable[[Search], str]) -> Search:
    """Let a person choose one of these, the newest by default; `words_of` says what was asked for beside the name."""
    by_id = {one.id: one for one in found}
    asked = st.query_params.get("id")
    if asked and asked not in by_id:
        st.warning(f"There is no search {inert(asked)} here; the newest is shown.", icon=":material/warning:")
    labels = {
        one.id: " · ".join(filter(None, (shown_name(one), words_of(one), instant(one.created_at_unix_ns), one.id)))
        for one in found
    }
    return by_id[choose_one("Shown", labels, "id", default=found[0].id)]


def start_search(title: str, arguments: Sequence[str]) -> None:
    """Start a search as a job; the page then shows the newest."""
    with reading.banner_on_error():
        start_job(default_home(), title, arguments)
    st.query_params.pop("id", None)
    st.rerun()


def follow_searches(kind: SearchKind) -> None:
    """Show the jobs that carry out searches of a kind."""
    ids = {one.id for one in reading.searches(kind)}

    def belongs(job: Job) -> bool:
        return job.kind == kind.value or any(one in ids for one in job.searches)

    follow_jobs(belongs)


def show_open(search: Search, so_far: str) -> bool:
    """Say of a search without an answer whether it is under way or can be gone on with; True where it is under way."""
    if is_held(default_home(), search.id):
        st.info(f"This search is under way: its answer appears here. {inert(so_far)}", icon=":material/pending:")
        return True
    with st.container(horizontal=True, vertical_alignment="center"):
        st.warning(f"This search was interrupted before its answer. {inert(so_far)}", icon=":material/pause:")
        help_text = f"`enginebench resume {search.id}` does the same."
        if st.button("Go on with it", icon=":material/resume:", help=help_text):
            start_search(f"Going on with {search.name}", ["resume", search.id])
    return False


def show_steps(steps: Sequence[Benchmark], noun: str = "step") -> None:
    """Show the way to the benchmarks that a search is a chain of."""
    if not steps:
        return
    with st.expander(f"{count_of(len(steps), noun)}, each a benchmark", icon=":material/speed:"):
        for number, one in enumerate(steps, start=1):
            label = f"{number}. {inert(shortened(one.plan['search']['title'], 100))}"
            st.page_link(BENCHMARK, label=label, query_params={"id": one.id})


def show_refusal(sentence: str | None) -> None:
    """Say below a field what is wrong with it, in the words of the command."""
    if sentence:
        st.error(inert(sentence), icon=":material/error:")
