"""Which configuration to deploy: what is asked for in four fields, the answer, the front, and what was tried."""

import json
import shlex
from dataclasses import replace

import streamlit as st

from enginebench_controller.files.verdicts.recommendations import (
    recommendation_answer,
    recommendation_html,
    recommendation_markdown,
    recommendation_toml,
)
from enginebench_controller.home import home_to_read
from enginebench_controller.plan.recommend import Goal, LatencyLimit, make_order
from enginebench_controller.records import LOCAL_TARGET, Search, SearchKind
from enginebench_controller.runs.searches.recommending import so_far
from enginebench_controller.store.searches import digests_of
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.recommend.answer import OneForAll, Recommendation, Recommendations, command_label
from enginebench_controller.verdicts.recommend.answer import read_answer as read_stored
from enginebench_controller.verdicts.recommend.search import SearchOutcome
from enginebench_ui.pages import NEW_BENCHMARK
from enginebench_ui.pages.recommend.shapes import (
    GOALS,
    RecommendForm,
    alternative,
    arguments,
    asked_words,
    front_figure,
    gain_rows,
    latency_heading,
    refusals,
    tried_rows,
)
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_one, choose_several
from enginebench_ui.shared.order_fields import address_of, device_labels, engine_labels, plain_names, target_labels
from enginebench_ui.shared.order_form import choose_model, labels_of_models
from enginebench_ui.shared.searches import (
    choose_search,
    follow_searches,
    show_open,
    show_refusal,
    show_steps,
    start_search,
)
from enginebench_ui.shared.showing import RATE, chart, nothing_yet, share_button, table
from enginebench_ui.shared.text import count_of, inert, shortened

BIND = "query-params"
COMMAND = "enginebench recommend model.onnx --max-latency 'p95<20ms'"
ICONS = {
    SearchOutcome.FOUND: ":material/trophy:",
    SearchOutcome.NOTHING: ":material/block:",
    SearchOutcome.CANNOT_TELL: ":material/help:",
    SearchOutcome.UNCONFIRMED: ":material/hourglass_empty:",
}
_NUMBER = st.column_config.NumberColumn
_TEXT = st.column_config.TextColumn
COLUMNS = {
    "Configuration": _TEXT(width="large", pinned=True),
    "Items/s": _NUMBER(format=RATE),
    "Peak memory (MB)": _NUMBER(format="%.0f"),
    "Why": _TEXT(width="large", help="What speaks against it, with the 95 % interval."),
    "Processes": _NUMBER(help="So many ran; what is known of one without any is by its likes."),
    "On the front": _TEXT(help="Nothing that was measured is faster and does more."),
}


def choose_wish() -> RecommendForm:
    """Let a person say what is sought in four fields, and more where it is unfolded; tells what is wrong with each."""
    columns = st.columns([4, 3, 3, 2])
    with columns[0]:
        model = choose_model(labels_of_models())
    limit = columns[1].text_input(
        "Latency limit",
        key="max_latency",
        bind=BIND,
        placeholder="none",
        help="A percentile, such as p95<20ms; 20ms alone is of the median.",
    )
    with columns[2]:
        goal = choose_one(
            "Goal", {one.value: said for one, said in GOALS.items()}, "goal", default=Goal.THROUGHPUT.value
        )
    budget = columns[3].text_input("Budget", key="budget", bind=BIND, placeholder="5m", help="How long to measure.")
    models = () if model is None else (model,)
    four = RecommendForm(models, max_latency=limit, goal=Goal(goal), budget=budget)
    wrong = refusals(four)
    for column, name in ((columns[1], "max_latency"), (columns[3], "budget")):
        with column:
            show_refusal(wrong.get(name))
    with st.expander("More to choose", icon=":material/tune:"):
        return _choose_more(four)


def _choose_more(four: RecommendForm) -> RecommendForm:
    known, seen = reading.targets()
    left, right = st.columns(2)
    with left:
        target = choose_one("Target", target_labels(known), "target", default=LOCAL_TARGET)
        snapshots = [one for one in seen if one.target == target]
        asked = st.query_params.get("engine", "").split(",")
        engines = choose_several(
            "Engines", engine_labels(snapshots, asked), "engine", default=(), placeholder="all that read the model"
        )
        devices = choose_several(
            "Devices",
            device_labels(snapshots, engines),
            "device",
            default=(),
            placeholder="each engine's CPU, or its first device",
        )
        versions = st.toggle("Versions made of the model (INT8, pruned …) take part", key="versions", bind=BIND)
    with right:
        memory = st.text_input("Memory limit", key="max_memory", bind=BIND, placeholder="none", help="Such as 500MB.")
        show_refusal(refusals(RecommendForm(max_memory=memory)).get("max_memory"))
        leave = st.number_input("Cores to leave to others", 0, 1024, 0, key="leave_cores", bind=BIND)
        among = st.text_input(
            "Only among",
            key="among",
            bind=BIND,
            placeholder="batch=1,4; cores=2",
            help="Narrows the search: batch, cores, streams, precision, load, hint, requests.",
        )
        show_refusal(refusals(RecommendForm(among=among)).get("among"))
        shape = st.text_input(
            "Shapes",
            key="shape",
            bind=BIND,
            placeholder="ids=1x128, mask=1x128",
            help="For inputs with open dimensions, which otherwise take usual sizes.",
        )
        show_refusal(refusals(RecommendForm(shape=shape)).get("shape"))
    more = replace(four, target=target, engines=engines, devices=devices, versions=versions)
    return replace(more, max_memory=memory, leave_cores=leave, among=among, shape=shape)


def show_form() -> None:
    """Show what is asked for, and the button that starts the search as a job."""
    with st.container(border=True, key="order", gap="small"):
        wish = choose_wish()
        wrong = refusals(wish)
        can_start = bool(wish.models) and not wrong
        words = arguments(replace(wish, models=plain_names(wish.models, reading.versions())))
        with st.container(horizontal=True, vertical_alignment="center"):
            if st.button("Search", type="primary", icon=":material/play_arrow:", disabled=not can_start, key="run"):
                start_search(f"Recommend {shortened(words[-1])}", words)
            if can_start:
                st.code(shlex.join(("enginebench", *words)), language=None, wrap_lines=True)
            else:
                # In words here, too: where it stands may be folded up.
                why = f"Put right what is wrong above: {next(iter(wrong.values()), '')}"
                st.caption(inert(why) if wish.models else "Choose a model to begin with.")


@reading.kept(8, "Reading what was measured …")
def read_answer(store: Store, search_id: str) -> Recommendation | Recommendations | None:
    """Return the answer, or the best so far of a search without one; None where nothing was measured yet."""
    search = store.search(search_id)
    return so_far(home_to_read(), search) if search.answer is None else read_stored(search.answer)


def show_search(search: Search) -> None:
    """Show what a search has come to; of one that is under way only that."""
    steps = reading.steps_of(search.id)
    if search.answer is None and show_open(search, f"{count_of(len(steps), 'step')} so far."):
        show_steps(steps)
        return
    with reading.banner_on_error():
        found = read_answer(search.id)
        limit = make_order(search.order).latency_limit
    if found is None:
        st.caption("Nothing was measured yet.")
        return
    if isinstance(found, Recommendations):
        found = choose_target(search, found)
    show_answer(search, found)
    if not found.tried:
        return
    left, right = st.columns([7, 4], gap="large")
    with left:
        _show_front(found, limit)
    with right:
        _show_gains(found)
    st.header("What was tried", anchor=False)
    columns = COLUMNS | {latency_heading(limit): _NUMBER(format="%.3f")}
    table(tried_rows(found, limit), f"tried {search.id}", columns=columns)
    show_steps(steps)


def choose_target(search: Search, found: Recommendations) -> Recommendation:
    """Show what is said of all targets together, and return the answer of the one that is chosen."""
    with st.container(border=True, key="for-all", gap="small"):
        st.markdown(f"{ICONS[found.for_all.outcome]} **{inert(found.sentence)}**")
        show_command(found.for_all)
        st.download_button(
            "All targets (JSON)",
            lambda: json.dumps(recommendation_answer(search, found), indent=2),
            f"enginebench-recommend-{search.id}-all.json",
            "application/json",
            icon=":material/data_object:",
            on_click="ignore",
        )
    names = [one.target for one in found.targets]
    chosen = st.segmented_control("Target", names, default=names[0], required=True, key=f"target {search.id}")
    return found.targets[names.index(chosen)]


def show_answer(search: Search, found: Recommendation) -> None:
    """Show the sentence, the command that repeats it, and what can be done with it."""
    with st.container(border=True, key="answer", gap="small"):
        st.markdown(f"{ICONS[found.outcome]} **{inert(found.sentence)}**")
        show_command(found)
        if found.remarks:
            st.caption("  \n".join(map(inert, found.remarks)))
        with st.container(horizontal=True, vertical_alignment="center"):
            _show_uses(search, found)


def show_command(found: Recommendation | OneForAll) -> None:
    """Show the command that measures it again, and whether that is what is recommended."""
    if found.command is not None:
        if label := command_label(found.outcome):
            st.caption(label)
        st.code(found.command, language=None, wrap_lines=True)


def _show_uses(search: Search, found: Recommendation) -> None:
    plan = recommendation_toml(found)
    if found.plan is not None and plan is not None:
        st.page_link(
            NEW_BENCHMARK,
            label="Use it",
            icon=":material/edit:",
            # A file's name says nothing to a form that knows versions, and the file may hold another one by now.
            query_params=address_of({**found.plan, "digests": digests_of(reading.steps_of(search.id))}),
            help="A new benchmark with this configuration filled in.",
        )
        st.download_button("Plan", plan, "plan.toml", "application/toml", icon=":material/download:", on_click="ignore")
    share_button(lambda: recommendation_html(search, found), f"recommend-{search.id}")
    with st.popover("Export", icon=":material/download:"):
        name = f"enginebench-recommend-{search.id}"
        st.download_button(
            "Answer (Markdown)",
            lambda: recommendation_markdown(search, found),
            f"{name}.md",
            "text/markdown",
            icon=":material/article:",
            on_click="ignore",
        )
        st.download_button(
            "Everything (JSON)",
            lambda: json.dumps(recommendation_answer(search, found), indent=2),
            f"{name}.json",
            "application/json",
            icon=":material/data_object:",
            on_click="ignore",
        )


def _show_front(found: Recommendation, limit: LatencyLimit | None) -> None:
    figure = front_figure(found, limit, reading.engine_looks())
    if figure is None:
        st.caption("There is nothing to draw: no point has numbers.")
        return
    st.header("Latency and throughput", anchor=False)
    chart(figure, "front", name="recommend-front", alt=alternative(found, limit))


def _show_gains(found: Recommendation) -> None:
    rows = gain_rows(found)
    if rows:
        st.header("What it gains", anchor=False)
        table(rows, "gains")
        st.caption("The default of an engine: batch 1, all cores, one request after the other, no hint.")


def show() -> None:
    """Draw the page."""
    st.title("Recommend", anchor=False)
    with reading.banner_on_error():
        show_form()
        follow_searches(SearchKind.RECOMMEND)
        found = reading.searches(SearchKind.RECOMMEND)
        if not found:
            nothing_yet("No configuration was searched for yet. The form above does it, or in a shell:", COMMAND)
            return
        show_search(choose_search(found, asked_words))


show()
