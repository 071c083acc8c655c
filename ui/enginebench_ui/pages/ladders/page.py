"""Ladders: one model made faster step by step, as the notebooks' bar chart, for any model and target."""

from collections.abc import Sequence

import streamlit as st

from enginebench_controller.plan.plan import LadderKind
from enginebench_controller.store.benchmarks import LadderEntry
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.ladder import Ladder, ladder_of
from enginebench_ui.pages import BENCHMARK
from enginebench_ui.pages.ladders.shapes import (
    Measure,
    alternative,
    bars,
    best_sentence,
    choices,
    ladder_figure,
    ladder_rows,
    model_of,
    narrowed,
    rung_rows,
    target_of,
)
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import select_rows, told
from enginebench_ui.shared.showing import RATE, chart, nothing_yet, table, warn_unlike
from enginebench_ui.shared.text import count_of, inert, instant


@reading.kept(2)
def read_ladders(store: Store) -> tuple[LadderEntry, ...]:
    """Return all ladders, newest first."""
    return store.ladders()


@reading.kept(16)
def read_ladder(store: Store, benchmark_id: str) -> Ladder:
    """Return one ladder with all its rungs. Raises `InputError` when there is none."""
    benchmark = store.benchmark(benchmark_id)
    return ladder_of(benchmark, store.measurements(benchmark.id, with_blocks=True), store.models())


BIND = "query-params"
COMMAND = "enginebench ladder throughput zoo:mobilenet_v2\nenginebench ladder latency model.onnx --target nuc"

_NUMBER = st.column_config.NumberColumn
_TEXT = st.column_config.TextColumn
LIST_COLUMNS = {"Model": _TEXT(width="medium"), "Rungs with numbers": _TEXT(help="The others say why they have none.")}
RUNG_COLUMNS = {
    "Rung": _TEXT(width=170, pinned=True),
    "Throughput (FPS)": _NUMBER(format=RATE, help="Images ÷ seconds of wall clock, the first inference excluded."),
    "± (FPS)": _NUMBER(format=RATE, help="Half of the 95 % interval."),
    "First inference (ms)": _NUMBER(format="%.1f", help="Measured apart, right after compiling; in no other number."),
    "Per image (ms)": _NUMBER(format="%.3f", help="Wall clock ÷ images."),
    "Median latency (ms)": _NUMBER(format="%.3f", help="Of one inference; a bigger batch takes longer."),
    "On the one before": _TEXT(help="What it gained on the rung below that has numbers; ≈ within the noise."),
    "On the first": _TEXT(help="×2.00 is twice as fast as the first rung."),
    "Engine": _TEXT(width="small"),
    "Precision": _TEXT(help="What the engine really executed in, and how that is known."),
    "Remarks": _TEXT(width="large", help="Why there are no numbers, and what to know before trusting them."),
}


def show() -> None:
    """Draw the page."""
    st.title("Ladders", anchor=False)
    with reading.banner_on_error():
        entries = read_ladders()
    if not entries:
        nothing_yet("No ladder has been climbed yet. These take a model and apply one trick after the other:", COMMAND)
        return
    st.caption(
        "One model, faster step by step: each rung applies one more trick, and is measured like everything else. "
        "A rung that the target does not have is named with its reason."
    )
    found = _narrowed(entries)
    if not found:
        st.info("No ladder is of this model, target and kind.", icon=":material/search_off:")
        return
    _show_ladder(_chosen(found))


def _narrowed(entries: Sequence[LadderEntry]) -> tuple[LadderEntry, ...]:
    there = choices(entries)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        model = st.selectbox("Model", there.models, index=None, placeholder="All models", key="model", bind=BIND)
        target = st.selectbox("Target", there.targets, index=None, placeholder="All targets", key="target", bind=BIND)
        kinds = [kind.value for kind in LadderKind]
        kind = st.selectbox("Ladder", kinds, index=None, placeholder="Both ladders", key="ladder", bind=BIND)
    return narrowed(entries, model, target, kind)


def _chosen(found: Sequence[LadderEntry]) -> LadderEntry:
    """The ladder that the address names, else the newest; selecting a row puts it there."""
    ids = [one.benchmark.id for one in found]
    wanted = st.query_params.get("id")
    if wanted and wanted not in ids:
        st.warning(f"The ladder {inert(wanted)} is not in this list; the newest is shown.", icon=":material/warning:")
    place = ids.index(wanted) if wanted in ids else 0
    ticked = select_rows(
        ladder_rows(found),
        ids,
        [ids[place]],
        "ladders",
        mode="single-row-required",
        columns=LIST_COLUMNS,
        alt="Ladders, newest first",
    )
    told("ladders", ticked)
    chosen = found[ids.index(ticked[0]) if ticked else place]
    if wanted != chosen.benchmark.id:
        st.query_params["id"] = chosen.benchmark.id
    return chosen


def _show_ladder(entry: LadderEntry) -> None:
    with reading.banner_on_error():
        ladder = read_ladder(entry.benchmark.id)
    st.header(f"{inert(model_of(entry))} on {inert(target_of(entry))}", anchor=False)
    with st.container(horizontal=True, vertical_alignment="center"):
        facts = (f"{ladder.kind} ladder", instant(entry.benchmark.created_at_unix_ns), entry.benchmark.id)
        st.caption(" · ".join(map(inert, facts)), width="content")
        label = "All of its measurements"
        st.page_link(BENCHMARK, label=label, icon=":material/speed:", query_params={"id": entry.benchmark.id})
    warn_unlike(ladder.remarks)
    st.markdown(f"**Best:** {inert(best_sentence(ladder))}")
    st.fragment(_show_charts)(ladder)
    table(rung_rows(ladder), key=f"rungs {entry.benchmark.id}", columns=RUNG_COLUMNS)
    st.caption(f"{count_of(len(ladder.rungs), 'rung')}. Blank figures are unknown, never zero.")


def _show_charts(ladder: Ladder) -> None:
    speeds = [Measure.THROUGHPUT, Measure.LATENCY]
    default = Measure(ladder.kind.value)
    shown = st.segmented_control(
        "Bars show", speeds, required=True, default=default, key="bars", bind=BIND, label_visibility="collapsed"
    )
    left, right = st.columns([3, 2], gap="large")
    for column, measure in ((left, Measure(shown)), (right, Measure.FIRST_INFERENCE)):
        with column:
            drawn = bars(ladder, measure)
            name = f"ladder-{measure.value.replace(' ', '-')}"
            st.markdown(f"**{measure.value.capitalize()}**")
            chart(ladder_figure(drawn, measure, reading.engine_looks()), key=name, alt=alternative(drawn, measure))
    st.caption("Whiskers: 95 % interval. Then: on the rung before (≈ within the noise), and ×: as fast as the first.")


show()
