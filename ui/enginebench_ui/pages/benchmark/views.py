"""What a benchmark measured: many targets together, or of one a cell, its scaling with cores or batch, and a trend."""

from collections.abc import Mapping, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from enginebench_controller.records import Measurement
from enginebench_controller.stats.scaling import Axis, Quantity
from enginebench_controller.store.samples import LatencyCurve
from enginebench_controller.verdicts.across import work_of
from enginebench_controller.verdicts.alerts import Findings, history_words
from enginebench_controller.verdicts.pairing import Compared, compare_cells, planned_processes
from enginebench_ui.pages import NEW_BENCHMARK
from enginebench_ui.pages.benchmark import stored
from enginebench_ui.pages.benchmark.controls import ChosenLines, choose_batch, choose_cores, show_remarks
from enginebench_ui.pages.benchmark.shapes.across import across_rows, headline, labels_of, spread_figure, works
from enginebench_ui.pages.benchmark.shapes.cell import (
    CellCard,
    CellView,
    cell_text,
    cell_view,
    comparison_rows,
    distribution_rows,
    disturbed_stretches,
    iterations_figure,
    remarks_on,
    shares_figure,
    thinned,
    unlike,
)
from enginebench_ui.pages.benchmark.shapes.figures import UNITS, Lens, quantities
from enginebench_ui.pages.benchmark.shapes.lines import GridCell, Line
from enginebench_ui.pages.benchmark.shapes.scaling import (
    HEADINGS,
    drawn_quantities,
    extremes,
    gaps,
    scaling_figure,
    scaling_of,
    scaling_rows,
)
from enginebench_ui.pages.benchmark.shapes.trend import (
    Track,
    TrendLens,
    alert_rows,
    tracks,
    trend_figure,
    trend_rows,
    unlike_hosts,
)
from enginebench_ui.pages.benchmark.shapes.whole import WholeBenchmark
from enginebench_ui.shared import reading
from enginebench_ui.shared.choosing import choose_one, choose_view
from enginebench_ui.shared.showing import RATE, chart, table, warn_unlike
from enginebench_ui.shared.text import STATUS_COLOURS, count_of, inert

_KIND, _ALL = "", ""
TARGET_COLUMNS = {
    "Median (ms)": st.column_config.NumberColumn(format="%.3f", help="Of the targets' median latencies."),
    "10 % (ms)": st.column_config.NumberColumn(format="%.3f", help="A tenth of the targets takes no longer."),
    "90 % (ms)": st.column_config.NumberColumn(format="%.3f", help="Nine tenths of the targets take no longer."),
    "Doubtful": st.column_config.NumberColumn(help="On how many it was disturbed, inconclusive or otherwise doubtful."),
}


def show_across(benchmark: WholeBenchmark) -> str:
    """Show all targets together; returns the one that was chosen to be looked at, "" for none."""
    with reading.banner_on_error():
        measured = sorted({one.target for one in benchmark.measurements})
        labels = {one.name: one.labels for one in reading.targets()[0]}
        keys = labels_of([labels.get(name, {}) for name in measured])
        found = stored.across(benchmark.id, _KIND)
    odd = {one.target: one.ratio for one in found.odd}
    with st.container(border=True, key="verdict", gap="small"):
        st.markdown(f":material/dns: **{inert(headline(found))}**")
        for sentence in found.sentences:
            st.caption(inert(sentence))
    every = works(benchmark.measurements)
    left, middle, right = st.columns(3)
    with left:
        chosen = choose_one("Work", dict(zip(map(str, range(len(every))), every, strict=True)), "work", default="0")
    with middle:
        label = choose_one("Together by", {_KIND: "kind of machine"} | {key: key for key in keys}, "by", default=_KIND)
    with right:
        named = {name: f"{name} ({odd[name]:.2f}× its kind)" for name in odd} | {
            name: name for name in measured if name not in odd
        }
        target = choose_one("Look at one", {_ALL: "all targets"} | named, "target", default=_ALL, scope=benchmark.id)
    if target:
        return target
    drawn = every[int(chosen)]
    same = [one for one in benchmark.measurements if work_of(one) == drawn]
    apart = tuple(dict.fromkeys([*odd, *(one.target for one in found.odd_once if one.work == drawn)]))
    with reading.banner_on_error():
        figure = spread_figure(same, stored.groups(benchmark.id, label), apart, reading.engine_looks())
        chart(figure, "across", name=f"{benchmark.id}-targets", alt=headline(found))
        table(across_rows(stored.across(benchmark.id, label)), "across", columns=TARGET_COLUMNS)
    return _ALL


_MS = st.column_config.NumberColumn(format="%.3f")
_PERCENT = st.column_config.NumberColumn(format="%.2f", help="Half of the 95 % interval.")
COMPARISON_COLUMNS = {
    "": st.column_config.TextColumn(width="small"),
    "ms/item": st.column_config.NumberColumn(format="%.4f"),
    "ms/batch": _MS,
    "± (%)": _PERCENT,
    "items/s": st.column_config.NumberColumn(format=RATE),
    "items/s ± (%)": _PERCENT,
    "Time ÷ base": st.column_config.NumberColumn(
        format="%.3f", help="Its median latency ÷ that of the base: below 1 it is faster."
    ),
    "It is": st.column_config.TextColumn(help="Corrected for the number of lines; a difference under 1 % is none."),
    "Remarks": st.column_config.TextColumn(width="large"),
}


def show_baseline(choice: ChosenLines, bar: DeltaGenerator) -> None:
    """Draw the view; its drop-downs stand in the `bar`."""
    with bar:
        cell: GridCell = (choose_batch(choice), choose_cores(choice))
    with reading.banner_on_error():
        lens = choice.lens()
        view = cell_view(choice.base, cell, lens)
        compared = _compare(choice, cell)
    st.header(f"{inert(cell_text(cell))}: {inert(choice.base.label)}", anchor=False)
    _show_cell(view)
    if choice.beside:
        warn_unlike(unlike(compared.values()))
        table(comparison_rows(choice.base, choice.beside, cell, compared, lens), "cell", columns=COMPARISON_COLUMNS)
        show_remarks(remarks_on(choice.beside, [cell], lens), "on those beside it")
    _show_latencies(choice, cell)


def _compare(choice: ChosenLines, cell: GridCell) -> dict[str, Compared]:
    """How each of the others compares with the base, by measurement id; those without numbers are left out."""
    first = choice.base.cells.get(cell)
    found = [line.cells[cell] for line in choice.beside if cell in line.cells]
    others = [one for one in found if one.latency is not None]
    if first is None or first.latency is None or not others:
        return {}
    paired = [one.id for one in (first, *others) if one.interleaving_group is not None]
    bundles = [stored.whole(id_).bundle for id_ in {one.benchmark_id for one in (first, *others)}]
    planned = planned_processes(one.benchmark for one in bundles)
    snapshots = {one.benchmark.id: one.snapshots for one in bundles}
    compared = compare_cells(first, others, stored.blocks(paired), reading.models(), planned, snapshots)
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
        for mark in view.marks:
            st.badge(mark.value, color="orange")
        st.caption(inert(view.effective), width="content")
    if view.remarks:
        st.caption("  \n".join(f":material/flag: {inert(remark)}" for remark in view.remarks))


def _show_card(card: CellCard) -> None:
    with st.container(border=True):
        st.metric(card.unit, card.value, help=card.explanation)
        st.caption(inert(card.interval))


def _show_latencies(choice: ChosenLines, cell: GridCell) -> None:
    curves = _curves(choice, cell)
    base = choice.base.cells.get(cell)
    disturbed = disturbed_stretches(base) if base and choice.base.key in curves else ()
    figure = iterations_figure(curves, choice.looks, disturbed)
    if figure is None:
        st.info("No raw samples were kept for this cell.")
        return
    st.header("Latency of each iteration", anchor=False)
    st.caption(_caption(curves, is_disturbed=bool(disturbed)))
    chart(figure, "iterations", alt="Latency by iteration, with its distribution beside it")
    left, right = st.columns([2, 3], gap="large")
    with left:
        st.header("Done within a latency", anchor=False)
        st.caption("Further left is better, steeper is steadier.")
        chart(shares_figure(curves, choice.looks), "shares", alt="The share of inferences done within a latency")
    with right:
        st.header("Distribution (ms/batch)", anchor=False)
        st.caption("Empty where too few samples stand behind a percentile; outliers lie outside Tukey's fences.")
        rows = distribution_rows(choice.lines, cell)
        headings = {heading for row in rows for heading in row} - {"Line"}
        table(rows, "distribution", columns=dict.fromkeys(headings, _MS))


def _curves(choice: ChosenLines, cell: GridCell) -> dict[str, LatencyCurve]:
    """The curves of a cell by line; those of each benchmark are read at once."""
    found: dict[str, LatencyCurve] = {}
    with reading.banner_on_error():
        for benchmark in filter(None, (choice.benchmark, choice.other)):
            own = {line.key: line.cells[cell].id for line in _of(choice, benchmark.id) if cell in line.cells}
            curves = stored.curves(list(own.values()), benchmark)
            found |= {key: curves[identity] for key, identity in own.items() if identity in curves}
    return {line.key: found[line.key] for line in choice.lines if line.key in found}


def _of(choice: ChosenLines, benchmark_id: str) -> list[Line]:
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
    if any(curve.counted < curve.samples for curve in curves.values()):
        said.append("Blocks that count for nothing, paused ones and those that were measured again, are not in it.")
    if is_disturbed:
        said.append("Grey: the machine was busy with something else as well.")
    return " ".join(said)


IDEALS: Mapping[Axis, str] = {
    Axis.CORES: "Ideal: with twice the cores, half the time. Efficiency is the speed-up ÷ by how much the cores grew.",
    Axis.BATCH: "Ideal: a larger batch takes no longer than the smallest. No gain: each item takes as long as there. "
    "Efficiency is the speed-up of an item ÷ by how much the batch grew.",
}
FLAGS = {"cores": "--cores 1,2", "batch": "--batch 1,4,16"}

_SPEED_UP = st.column_config.NumberColumn(format="%.2f×", help="Against the smallest size that has numbers.")
_EFFICIENCY = st.column_config.NumberColumn(format="%.0f", help="Speed-up ÷ by how much the size has grown.")
SCALING_COLUMNS = {
    "ms/item": st.column_config.NumberColumn(format="%.4f"),
    "ms/batch": st.column_config.NumberColumn(format="%.3f"),
    "± (%)": _PERCENT,
    "Speed-up": _SPEED_UP,
    "Speed-up, range": st.column_config.TextColumn(help="What both intervals allow."),
    "Efficiency (%)": _EFFICIENCY,
    "items/s": st.column_config.NumberColumn(format=RATE),
    "items/s ± (%)": _PERCENT,
    "items/s, speed-up": _SPEED_UP,
    "items/s, efficiency (%)": _EFFICIENCY,
    "Remarks": st.column_config.TextColumn(width="large"),
}


def show_scaling(choice: ChosenLines, axis: Axis, bar: DeltaGenerator) -> None:
    """Draw the view; its drop-down stands in the `bar`."""
    with bar:
        fixed = choose_batch(choice) if axis is Axis.CORES else choose_cores(choice)
    sizes = choice.base.cores if axis is Axis.CORES else choice.base.batches
    if len(sizes) < 2:
        _show_single(choice, axis)
    with reading.banner_on_error():
        lens = choice.lens()
    shown_figures = drawn_quantities(axis, fixed)
    for column, figure in zip(st.columns(len(shown_figures), gap="medium"), shown_figures, strict=True):
        with column:
            _show_figure(choice, axis, fixed, figure, lens, with_legend=figure is shown_figures[0])
    st.caption(f"{IDEALS[axis]} Bars at the points are 95 % intervals; a cross marks a cell without numbers.")
    _show_gaps(choice, axis, fixed)
    table(scaling_rows(choice.lines, axis, fixed, lens), "scaling", columns=SCALING_COLUMNS)
    shown = [(size, fixed) if axis is Axis.BATCH else (fixed, size) for size in sizes]
    show_remarks(remarks_on(choice.lines, shown, lens), "on these numbers")


def _show_figure(
    choice: ChosenLines, axis: Axis, fixed: int, figure: Quantity, lens: Lens, *, with_legend: bool
) -> None:
    scalings = {line.key: scaling_of(line, axis, fixed, figure, lens) for line in choice.lines}
    st.header(UNITS[figure], anchor=False)
    st.caption(f"**{inert(choice.base.label)}**: {inert(extremes(scalings[choice.base.key]))}")
    drawn = scaling_figure(scalings, choice.looks, with_legend=with_legend)
    if drawn is None:
        st.info("No cell here has numbers.")
    else:
        chart(drawn, f"scaling-{figure}", alt=f"{UNITS[figure]} by {HEADINGS[axis].lower()}, with the ideal line")


def _show_gaps(choice: ChosenLines, axis: Axis, fixed: int) -> None:
    for gap in gaps(choice.lines, axis, fixed):
        st.caption(f":material/close: **{inert(gap.line)}**, {inert(gap.cell)}: {inert(gap.reason)}")


def _show_single(choice: ChosenLines, axis: Axis) -> None:
    what = "number of cores" if axis is Axis.CORES else "batch"
    st.info(f"Only one {what} was measured with {inert(choice.base.label)}; a curve needs two.", icon=":material/info:")
    st.code(f"enginebench run MODEL {FLAGS[axis.value]}", language="shell")
    st.page_link(NEW_BENCHMARK, label="Measure more", icon=":material/add_chart:")


TREND_COLUMNS = {
    "Benchmark": st.column_config.LinkColumn(display_text=r"id=(.*)"),
    "ms/item": st.column_config.NumberColumn(format="%.4f"),
    "ms/batch": st.column_config.NumberColumn(format="%.3f"),
    "± (%)": _PERCENT,
    "items/s": st.column_config.NumberColumn(format=RATE),
    "items/s ± (%)": _PERCENT,
    "Time": st.column_config.TextColumn(help="The median time since ÷ that before."),
    "Beside reference": st.column_config.TextColumn(
        help="The same of the times as multiples of the reference work, where nothing else shows the change."
    ),
    "Change": st.column_config.TextColumn(help="The chosen figure ÷ that of the point before it with the same engine."),
    "Difference": st.column_config.TextColumn(
        help="Beyond noise where it is more than both intervals explain: the root of the sum of their squares."
    ),
    "Remarks": st.column_config.TextColumn(width="large"),
}


def show_trend(choice: ChosenLines, bar: DeltaGenerator) -> None:
    """Draw the view; its drop-downs stand in the `bar`."""
    with bar:
        cell = (choose_batch(choice), choose_cores(choice))
        figure = Quantity(
            choose_view(
                "Quantity",
                {one.value: UNITS[one] for one in quantities(cell[0])},
                "figure",
                default=Quantity.TIME_PER_BATCH.value,
            )
        )
    measurement = choice.base.cells.get(cell)
    if measurement is None:
        st.info(f"{inert(cell_text(cell))} was not measured with {inert(choice.base.label)}.")
        return
    with reading.banner_on_error():
        shown = tracks(stored.trend(measurement.id), {line.first.engine.name for line in choice.lines})
        if told := stored.left_out_of_trend(measurement.id):
            st.warning(inert(f"{told}."))
    lens = TrendLens(figure, choice.statistic, cell[0], choice.benchmark.id)
    _show_tracks(shown, lens)
    _show_alerts(measurement, [line.first.engine.name for line in choice.lines])


def _show_alerts(measurement: Measurement, engines: Sequence[str]) -> None:
    """Where the histories drawn above changed; nothing that no gate confirmed is called a regression."""
    found: Findings = ()
    with reading.banner_on_error():
        found = tuple(one for one in stored.trend_alerts(measurement.id) if one[0].history.engine in engines)
    if not found:
        return
    st.header("Changes")
    if rows := alert_rows(found):
        table(rows, "trend-alerts", columns=TREND_COLUMNS)
    elif any(not one.shortage for one, _ in found):
        st.caption("No level differs from the one before.")
    for one, _ in found:
        if one.shortage:
            st.caption(inert(f"{history_words(one.history)}: {one.shortage}."))


def _show_tracks(shown: tuple[Track, ...], lens: TrendLens) -> None:
    points = [point for track in shown for point in track.points]
    benchmarks = count_of(len({point.benchmark_id for point in points}), "benchmark")
    st.caption(
        f"The same model version, target and configuration in {benchmarks}, on the engines chosen above. Larger: this "
        "benchmark. Beside points: the engine's version, where it is another than before."
    )
    warn_unlike([sentence] if (sentence := unlike_hosts(shown)) else [])
    drawn = trend_figure(shown, lens, reading.engine_looks())
    if drawn is None:
        st.info("No measurement of this model and configuration has numbers.")
    else:
        chart(drawn, "trend", alt=f"{UNITS[lens.figure]} over time by engine")
    table(trend_rows(shown, lens), "trend-table", columns=TREND_COLUMNS)
