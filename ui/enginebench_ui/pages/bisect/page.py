"""Which version made it worse: a form for a bisect of versions, the answer, and the way that led there."""

import json
import shlex
from dataclasses import replace

import streamlit as st

from enginebench_controller.files.palette import OWN_ENGINES
from enginebench_controller.files.verdicts.bisects import bisect_document, bisect_markdown
from enginebench_controller.home import home_to_read
from enginebench_controller.plan.bisect import METRICS, make_order
from enginebench_controller.plan.plan import GateMetric
from enginebench_controller.records import LOCAL_TARGET, Search, SearchKind
from enginebench_controller.runs.searches.bisecting import gates_so_far, progress_of
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.bisect.answer import BisectAnswer, BisectGate, stored_answer
from enginebench_controller.verdicts.bisect.decision import BisectFinding
from enginebench_controller.verdicts.bisect.words import headline, remarks
from enginebench_ui.pages.bisect.shapes import BisectForm, arguments, gate_rows, layer_rows, refusals, way, way_html
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_one
from enginebench_ui.shared.order_fields import engine_labels, plain_names
from enginebench_ui.shared.order_form import choose_model, labels_of_models
from enginebench_ui.shared.searches import (
    choose_search,
    follow_searches,
    show_open,
    show_refusal,
    show_steps,
    shown_name,
    start_search,
)
from enginebench_ui.shared.showing import nothing_yet, table
from enginebench_ui.shared.text import inert, shortened

BIND = "query-params"
COMMAND = "enginebench bisect model.onnx --engine onnxruntime --good 1.20.0 --bad 1.22.0"
ICONS = {
    BisectFinding.CULPRIT: ":material/target:",
    BisectFinding.ONE_OF: ":material/target:",
    BisectFinding.NOT_APART: ":material/equal:",
    BisectFinding.EXCHANGED: ":material/swap_horiz:",
    BisectFinding.CANNOT_TELL: ":material/help:",
    BisectFinding.CANNOT_RUN: ":material/block:",
}
_NUMBER = st.column_config.NumberColumn
GATE_COLUMNS = {"Why not": st.column_config.TextColumn(width="large")}
LAYER_COLUMNS = {"Difference (ms)": _NUMBER(format="%+.3f"), "Share of it (%)": _NUMBER(format="%.0f")}


def choose_wish() -> BisectForm:
    """Let a person say which model, engine and versions; tells below each field what is wrong with it."""
    columns = st.columns([4, 3, 2, 2, 2])
    with columns[0]:
        model = choose_model(labels_of_models())
    with columns[1]:
        engine = choose_one("Engine", _engines(), "engine", default=OWN_ENGINES[0])
    good = columns[2].text_input("Good version", key="good", bind=BIND, placeholder="1.20.0", help="Still good.")
    bad = columns[3].text_input("Bad version", key="bad", bind=BIND, placeholder="1.22.0", help="Later, and worse.")
    worse = columns[4].text_input(
        "Worse by", key="worse", bind=BIND, placeholder="5%", help="From which difference on it counts."
    )
    wish = BisectForm(model or "", engine, good, bad, worse)
    wrong = refusals(wish, _engines())
    for column, name in zip(columns[1:], ("engine", "good", "bad", "worse"), strict=True):
        with column:
            show_refusal(wrong.get(name))
    with st.expander("More to choose", icon=":material/tune:"):
        return _choose_more(wish)


def _engines() -> dict[str, str]:
    """Those of ours, and others of this machine; their versions are what is to be said."""
    _, seen = reading.targets()
    here = engine_labels([one for one in seen if one.target == LOCAL_TARGET])
    return {name: name for name in (*OWN_ENGINES, *(one for one in here if "@" not in one))}


def _choose_more(wish: BisectForm) -> BisectForm:
    left, right = st.columns(2)
    with left:
        metrics = {one.value: one.value for one in METRICS}
        metric = choose_one("What has become worse", metrics, "metric", default=GateMetric.LATENCY.value)
    with right:
        help_text = "How long each gate measures at most, from 30s to 1h."
        budget = st.text_input("Budget of a gate", key="gate_budget", bind=BIND, placeholder="2m", help=help_text)
        show_refusal(refusals(BisectForm(budget=budget)).get("budget"))
    return replace(wish, metric=GateMetric(metric), budget=budget)


def show_form() -> None:
    """Show what is asked for, and the button that starts the bisect as a job."""
    with st.container(border=True, key="order", gap="small"):
        wish = choose_wish()
        can_start = wish.is_whole and not refusals(wish, _engines())
        (model,) = plain_names([wish.model], reading.versions())
        words = arguments(replace(wish, model=model))
        with st.container(horizontal=True, vertical_alignment="center"):
            if st.button("Bisect", type="primary", icon=":material/play_arrow:", disabled=not can_start, key="run"):
                start_search(f"Bisect {wish.engine} with {shortened(model)}", words)
            if can_start:
                st.code(shlex.join(("enginebench", *words)), language=None, wrap_lines=True)
            else:
                st.caption("Each version gets an environment of its own on this machine, which is removed afterwards.")


def show_search(search: Search) -> None:
    """Show what a bisect has come to; without an answer, how far it has come."""
    steps = reading.steps_of(search.id)
    answer = stored_answer(search)
    if answer is None:
        with reading.banner_on_error():
            gates, said = read_progress(search.id)
        show_open(search, said)
        order = make_order(search.order)
        with st.container(border=True, key="answer"):
            st.html(way_html(way(order.labels, gates, None)))
    else:
        gates = answer.gates
        show_answer(search, answer)
        show_layers(answer)
    if gates:
        st.header("Gates", anchor=False)
        table(gate_rows(gates, make_order(search.order).metric), f"gates {search.id}", columns=GATE_COLUMNS)
    show_steps(steps, "gate")


@reading.kept(8)
def read_progress(store: Store, search_id: str) -> tuple[tuple[BisectGate, ...], str]:
    """Return the gates so far of a bisect without an answer, and how far it has come in a sentence."""
    home, search = home_to_read(), store.search(search_id)
    return gates_so_far(home, search), progress_of(home, search)


def show_answer(search: Search, answer: BisectAnswer) -> None:
    """Show the sentence, the way, what to know, and the command."""
    with st.container(border=True, key="answer", gap="small"):
        st.markdown(f"{ICONS[answer.finding]} **{inert(headline(answer))}**")
        st.html(way_html(way(answer.candidates, answer.gates, answer.culprit)))
        meaning = "× is the time, or memory, of a candidate ÷ that of the good one, with its 95 % interval."
        st.caption("  \n".join(map(inert, (meaning, *remarks(answer)))))
        if answer.command:
            st.code(answer.command, language=None, wrap_lines=True)
        with st.container(horizontal=True):
            _show_downloads(search, answer)


def _show_downloads(search: Search, answer: BisectAnswer) -> None:
    name = f"enginebench-bisect-{search.id}"
    st.download_button(
        "Issue (Markdown)",
        lambda: bisect_markdown(answer),
        f"{name}.md",
        "text/markdown",
        icon=":material/article:",
        on_click="ignore",
        help="For the engine's project: machine, versions, layers, verdicts, the command.",
    )
    st.download_button(
        "Everything (JSON)",
        lambda: json.dumps(bisect_document(search, answer), indent=2),
        f"{name}.json",
        "application/json",
        icon=":material/data_object:",
        on_click="ignore",
    )


def show_layers(answer: BisectAnswer) -> None:
    """Show the layers that explain the difference."""
    if answer.layers:
        st.header("Layers that explain it", anchor=False)
        table(layer_rows(answer.layers), "layers", columns=LAYER_COLUMNS)
        st.caption("By profiles of both; the difference is that of the culprit, less that of the one before it.")


def what_is_bisected(search: Search) -> str:
    """Say from where to where, for the list, of a search whose name there does not: an old one, or one cut short."""
    order = make_order(search.order)
    ends = f"{order.labels[0]} to {order.labels[-1]}"
    return "" if ends in shown_name(search) else ends


def show() -> None:
    """Draw the page."""
    st.title("Bisect", anchor=False)
    with reading.banner_on_error():
        show_form()
        follow_searches(SearchKind.BISECT)
        found = reading.searches(SearchKind.BISECT)
        if not found:
            nothing_yet(
                "No bisect was carried out yet. The form above looks for the version that made a model slower; "
                "versions of a model and values of an option are bisected in a shell:",
                COMMAND,
            )
            return
        show_search(choose_search(found, what_is_bisected))


show()
