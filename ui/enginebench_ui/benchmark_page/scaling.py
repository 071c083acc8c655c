"""Core scaling and batch size scaling: three figures along one axis, with the other one fixed."""

from collections.abc import Mapping

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from enginebench_controller.stats.scaling import Axis, Figure
from enginebench_ui import reading
from enginebench_ui.benchmark_page.controls import Choice, choose_batch, choose_cores
from enginebench_ui.benchmark_page.remarks import show_remarks
from enginebench_ui.pages import NEW_BENCHMARK
from enginebench_ui.showing import chart, table
from enginebench_ui.views.benchmark.baseline import remarks_on
from enginebench_ui.views.benchmark.figures import UNITS, Lens
from enginebench_ui.views.benchmark.scaling import HEADINGS, extremes, gaps, scaling_of, scaling_rows
from enginebench_ui.views.benchmark.scaling_figures import scaling_figure
from enginebench_ui.views.text import inert

IDEALS: Mapping[Axis, str] = {
    Axis.CORES: "Ideal: with twice the cores, half the time. Efficiency is the speed-up ÷ by how much the cores grew.",
    Axis.BATCH: "Ideal: a larger batch takes no longer than the smallest. No gain: each item takes as long as there. "
    "Efficiency is the speed-up of an item ÷ by how much the batch grew.",
}
FLAGS = {"cores": "--cores 1,2", "batch": "--batch 1,4,16"}

_PERCENT = st.column_config.NumberColumn(format="%.2f", help="Half of the 95 % interval.")
_SPEED_UP = st.column_config.NumberColumn(format="%.2f×", help="Against the smallest size that has numbers.")
_EFFICIENCY = st.column_config.NumberColumn(format="%.0f", help="Speed-up ÷ by how much the size has grown.")
COLUMNS = {
    "ms/item": st.column_config.NumberColumn(format="%.4f"),
    "ms/batch": st.column_config.NumberColumn(format="%.3f"),
    "± (%)": _PERCENT,
    "Speed-up": _SPEED_UP,
    "Speed-up, range": st.column_config.TextColumn(help="What both intervals allow."),
    "Efficiency (%)": _EFFICIENCY,
    "items/s": st.column_config.NumberColumn(format="%.1f"),
    "items/s ± (%)": _PERCENT,
    "items/s, speed-up": _SPEED_UP,
    "items/s, efficiency (%)": _EFFICIENCY,
    "Remarks": st.column_config.TextColumn(width="large"),
}


def show_scaling(choice: Choice, axis: Axis, bar: DeltaGenerator) -> None:
    """Draw the view; its drop-down stands in the `bar`."""
    with bar:
        fixed = choose_batch(choice) if axis is Axis.CORES else choose_cores(choice)
    sizes = choice.base.cores if axis is Axis.CORES else choice.base.batches
    if len(sizes) < 2:
        _show_single(choice, axis)
    with reading.banner_on_error():
        lens = choice.lens()
    for column, figure in zip(st.columns(len(Figure), gap="medium"), Figure, strict=True):
        with column:
            _show_figure(choice, axis, fixed, figure, lens)
    st.caption(f"{IDEALS[axis]} Bars at the points are 95 % intervals; a cross marks a cell without numbers.")
    _show_gaps(choice, axis, fixed)
    table(scaling_rows(choice.lines, axis, fixed, lens), "scaling", columns=COLUMNS)
    shown = [(size, fixed) if axis is Axis.BATCH else (fixed, size) for size in sizes]
    show_remarks(remarks_on(choice.lines, shown, lens), "on these numbers")


def _show_figure(choice: Choice, axis: Axis, fixed: int, figure: Figure, lens: Lens) -> None:
    scalings = {line.key: scaling_of(line, axis, fixed, figure, lens) for line in choice.lines}
    st.subheader(UNITS[figure], anchor=False)
    st.caption(inert(extremes(scalings[choice.base.key])))
    drawn = scaling_figure(scalings, choice.looks)
    if drawn is None:
        st.info("No cell here has numbers.")
    else:
        chart(drawn, f"scaling-{figure}", alt=f"{UNITS[figure]} by {HEADINGS[axis].lower()}, with the ideal line")


def _show_gaps(choice: Choice, axis: Axis, fixed: int) -> None:
    for gap in gaps(choice.lines, axis, fixed):
        st.caption(f":material/close: **{inert(gap.line)}**, {inert(gap.cell)}: {inert(gap.reason)}")


def _show_single(choice: Choice, axis: Axis) -> None:
    what = "number of cores" if axis is Axis.CORES else "batch"
    st.info(f"Only one {what} was measured with {inert(choice.base.label)}; a curve needs two.", icon=":material/info:")
    st.code(f"enginebench run MODEL {FLAGS[axis.value]}", language="shell")
    st.page_link(NEW_BENCHMARK, label="Measure more", icon=":material/add_chart:")
