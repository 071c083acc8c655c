"""Baseline: one cell, with its cards, the same cell of other lines, and every latency."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from enginebench_controller.comparing.cells import compare_cells
from enginebench_controller.comparing.pairing import Compared, planned_processes
from enginebench_controller.store.latencies import LatencyCurve
from enginebench_ui import reading
from enginebench_ui.benchmark_page import reading as kept
from enginebench_ui.benchmark_page.controls import Choice, choose_batch, choose_cores
from enginebench_ui.benchmark_page.remarks import show_remarks
from enginebench_ui.showing import chart, table
from enginebench_ui.views.benchmark.baseline import (
    Card,
    CellView,
    cell_text,
    cell_view,
    comparison_rows,
    distribution_rows,
    remarks_on,
    unlike,
)
from enginebench_ui.views.benchmark.latency_figures import (
    disturbed_stretches,
    iterations_figure,
    shares_figure,
    thinned,
)
from enginebench_ui.views.benchmark.lines import Cell, Line
from enginebench_ui.views.magnitudes import STATUS_COLOURS
from enginebench_ui.views.text import inert

_MS = st.column_config.NumberColumn(format="%.3f")
_PERCENT = st.column_config.NumberColumn(format="%.2f", help="Half of the 95 % interval.")
COMPARISON_COLUMNS = {
    "": st.column_config.TextColumn(width="small"),
    "ms/item": st.column_config.NumberColumn(format="%.4f"),
    "ms/batch": _MS,
    "± (%)": _PERCENT,
    "items/s": st.column_config.NumberColumn(format="%.1f"),
    "items/s ± (%)": _PERCENT,
    "Time ÷ base": st.column_config.NumberColumn(
        format="%.3f", help="Its median latency ÷ that of the base: below 1 it is faster."
    ),
    "It is": st.column_config.TextColumn(help="Corrected for the number of lines; a difference under 1 % is none."),
    "Remarks": st.column_config.TextColumn(width="large"),
}


def show_baseline(choice: Choice, bar: DeltaGenerator) -> None:
    """Draw the view; its drop-downs stand in the `bar`."""
    with bar:
        cell: Cell = (choose_batch(choice), choose_cores(choice))
    with reading.banner_on_error():
        lens = choice.lens()
        view = cell_view(choice.base, cell, lens)
        compared = _compare(choice, cell)
    st.subheader(f"{inert(cell_text(cell))}: {inert(choice.base.label)}", anchor=False)
    _show_cell(view)
    if choice.beside:
        for sentence in unlike(compared.values()):
            st.warning(f"Not a comparison of equals: {inert(sentence)}", icon=":material/balance:")
        table(comparison_rows(choice.base, choice.beside, cell, compared, lens), "cell", columns=COMPARISON_COLUMNS)
        show_remarks(remarks_on(choice.beside, [cell], lens), "on those beside it")
    _show_latencies(choice, cell)


def _compare(choice: Choice, cell: Cell) -> dict[str, Compared]:
    """How each of the others compares with the base, by measurement id; those without numbers are left out."""
    first = choice.base.cells.get(cell)
    found = [line.cells[cell] for line in choice.beside if cell in line.cells]
    others = [one for one in found if one.latency is not None]
    if first is None or first.latency is None or not others:
        return {}
    paired = [one.id for one in (first, *others) if one.interleaving_group is not None]
    planned = planned_processes(
        kept.whole(id_).bundle.benchmark for id_ in {one.benchmark_id for one in (first, *others)}
    )
    compared = compare_cells(first, others, kept.blocks(paired), reading.models(), planned)
    return {one.second.id: one for one in compared}


def _show_cell(view: CellView) -> None:
    if view.missing:
        st.error(inert(view.missing), icon=":material/error:") if view.status else st.info(inert(view.missing))
        return
    for column, card in zip(st.columns(len(view.cards)), view.cards, strict=True):
        with column:
            _show_card(card)
    with st.container(horizontal=True, vertical_alignment="center"):
        if view.status:
            st.badge(view.status.value, color=STATUS_COLOURS[view.status])
        st.caption(inert(view.effective), width="content")
    if view.remarks:
        st.caption("  \n".join(f":material/flag: {inert(remark)}" for remark in view.remarks))


def _show_card(card: Card) -> None:
    with st.container(border=True):
        st.metric(card.unit, card.value, help=card.explanation)
        st.caption(inert(card.interval))


def _show_latencies(choice: Choice, cell: Cell) -> None:
    curves = _curves(choice, cell)
    base = choice.base.cells.get(cell)
    disturbed = disturbed_stretches(base) if base and choice.base.key in curves else ()
    figure = iterations_figure(curves, choice.looks, disturbed)
    if figure is None:
        st.info("No raw samples were kept for this cell.")
        return
    st.subheader("Latency of each iteration", anchor=False)
    st.caption(_caption(curves, is_disturbed=bool(disturbed)))
    chart(figure, "iterations", alt="Latency by iteration, with its distribution beside it")
    left, right = st.columns([2, 3], gap="large")
    with left:
        st.subheader("Done within a latency", anchor=False)
        st.caption("Further left is better, steeper is steadier.")
        chart(shares_figure(curves, choice.looks), "shares", alt="The share of inferences done within a latency")
    with right:
        st.subheader("Distribution (ms/batch)", anchor=False)
        st.caption("Empty where too few samples stand behind a percentile; outliers lie outside Tukey's fences.")
        rows = distribution_rows(choice.lines, cell)
        headings = {heading for row in rows for heading in row} - {"Line"}
        table(rows, "distribution", columns=dict.fromkeys(headings, _MS))


def _curves(choice: Choice, cell: Cell) -> dict[str, LatencyCurve]:
    """The curves of a cell by line; those of each benchmark are read at once."""
    found: dict[str, LatencyCurve] = {}
    with reading.banner_on_error():
        for benchmark in filter(None, (choice.benchmark, choice.other)):
            own = {line.key: line.cells[cell].id for line in _of(choice, benchmark.id) if cell in line.cells}
            curves = kept.curves(list(own.values()), benchmark)
            found |= {key: curves[identity] for key, identity in own.items() if identity in curves}
    return {line.key: found[line.key] for line in choice.lines if line.key in found}


def _of(choice: Choice, benchmark_id: str) -> list[Line]:
    return [line for line in choice.lines if line.benchmark_id == benchmark_id]


def _caption(curves: dict[str, LatencyCurve], *, is_disturbed: bool) -> str:
    first = next(iter(curves.values()))
    said = ["Right of it, their distribution: the share of the samples for each 1 % of latency."]
    if thinned(curves):
        said.insert(
            0,
            f"Of each 1/600 of the iterations only the fastest and the slowest are drawn ({first.samples:,} "
            "samples in all): no peak is lost.",
        )
    if is_disturbed:
        said.append("Grey: the machine was busy with something else as well.")
    return " ".join(said)
