"""One cell of a benchmark: its cards, how it compares with the same cell of other lines, and its latencies drawn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from enginebench_controller.records import Load, Measurement, Status
from enginebench_controller.stats.comparison import PRACTICAL, Comparison, Verdict
from enginebench_controller.stats.scaling import Quantity
from enginebench_controller.store.samples import LEVEL_RATIO, LatencyCurve
from enginebench_controller.verdicts.doubts import Mark, marks, status_words
from enginebench_controller.verdicts.pairing import Compared
from enginebench_ui.pages.benchmark.shapes.figures import UNITS, CellRemark, Lens, figure_of, interval_text, quantities
from enginebench_ui.pages.benchmark.shapes.lines import LEGEND, MARGINS, GridCell, Line, LineLook, latency_axis
from enginebench_ui.pages.benchmark.shapes.measurements import ending
from enginebench_ui.shared.charts import NOISE
from enginebench_ui.shared.text import Row, cells, count_of, in_milliseconds, in_percent, number, readback

_INCONCLUSIVE = "A wider interval, less time or fewer iterations than was asked for."
_VERDICTS = {
    Verdict.FASTER: "faster",
    Verdict.SLOWER: "slower",
    Verdict.SAME: f"the same, to {PRACTICAL:.0%}",
    Verdict.INCONCLUSIVE: "within noise",
}
_UNTOLD = "cannot be told"
_NEAR = 1.1
"""Figures that are no further apart need no word."""


@dataclass(frozen=True)
class CellCard:
    """One figure of a cell: "ms/item", "0.8123", where it lies, and what it is."""

    unit: str
    value: str
    interval: str
    explanation: str


@dataclass(frozen=True)
class CellView:
    """A cell of the line that the page is based on: its cards, how it ended, and what to know before trusting it.

    Without numbers there are no cards, and `missing` says why in words.
    """

    cards: tuple[CellCard, ...]
    status: Status | None
    remarks: tuple[str, ...]
    effective: str
    missing: str = ""
    marks: tuple[Mark, ...] = ()


def cell_view(line: Line, cell: GridCell, lens: Lens) -> CellView:
    """Return the cell of a line; one that was not measured says so."""
    measurement = line.cells.get(cell)
    if measurement is None:
        return CellView((), None, (), "", f"{cell_text(cell)} was not measured with {line.label}.")
    if measurement.latency is None:
        return CellView((), measurement.status, (), "", _missing(line, cell, measurement))
    unsure = (_INCONCLUSIVE,) if measurement.status is Status.INCONCLUSIVE else ()
    return CellView(
        tuple(_card(measurement, figure, lens) for figure in quantities(cell[0])),
        measurement.status,
        unsure + lens.remarks(measurement),
        _effective(measurement),
        marks=marks(measurement),
    )


def comparison_rows(
    base: Line,
    others: Sequence[Line],
    cell: GridCell,
    compared: Mapping[str, Compared],
    lens: Lens,
) -> tuple[Row, ...]:
    """Return a row for the base and each line beside it; `compared` with the base, by the other's measurement id."""
    return tuple(_comparison_row(line, base, cell, compared, lens) for line in (base, *others))


def remarks_on(lines: Sequence[Line], shown: Sequence[GridCell], lens: Lens) -> tuple[CellRemark, ...]:
    """Return all that is to be known of cells of lines that have numbers, each with the line's and the cell's name."""
    found = ((line, cell, line.cells.get(cell)) for line in lines for cell in shown)
    return tuple(
        CellRemark(f"{line.label}, {cell_text(cell).lower()}", sentence)
        for line, cell, measurement in found
        if measurement is not None and measurement.latency is not None
        for sentence in lens.remarks(measurement)
    )


def unlike(compared: Iterable[Compared]) -> tuple[str, ...]:
    """Return a sentence for each way in which what is compared was not the same work on equal terms."""
    return tuple(dict.fromkeys(remark for one in compared for remark in one.remarks))


def distribution_rows(lines: Sequence[Line], cell: GridCell) -> tuple[Row, ...]:
    """Return, for the same cell of each line, a row of what its latencies are in ms; None where too few tell."""
    shown = ((line, line.cells[cell]) for line in lines if cell in line.cells)
    return tuple(cells(_distribution(line, one)) for line, one in shown if one.latency is not None)


def cell_text(cell: GridCell) -> str:
    """Name a cell: "Batch 4 on 2 cores"."""
    return f"Batch {cell[0]} on {count_of(cell[1], 'core')}"


def _missing(line: Line, cell: GridCell, measurement: Measurement) -> str:
    failure = measurement.failure
    why = f"{ending(failure)}. {failure.message}" if failure else str(measurement.status)
    return f"{cell_text(cell)} has no numbers with {line.label}: {why}"


def _card(measurement: Measurement, figure: Quantity, lens: Lens) -> CellCard:
    found = figure_of(measurement, figure, lens)
    latency = f"{lens.statistic.capitalize()} latency of an inference"
    explanations = {
        Quantity.TIME_PER_ITEM: f"{latency} ÷ its batch of {measurement.configuration.batch}.",
        Quantity.TIME_PER_BATCH: f"{latency}, which is of a whole batch.",
        Quantity.ITEMS_PER_S: "Items of the whole steady state by wall clock, not the inverse of a latency.",
    }
    apart = _apart(measurement) if figure is Quantity.ITEMS_PER_S else ""
    below = " · ".join(filter(None, (interval_text(found.interval), apart)))
    return CellCard(UNITS[figure], number(found.value), below, explanations[figure])


def _apart(measurement: Measurement) -> str:
    """Why items/s are not what the batch ÷ the median latency comes to; "" where they are, to a tenth."""
    asked, latency, rate = measurement.configuration, measurement.latency, measurement.throughput_items_per_s
    if latency is None or not rate:
        return ""
    in_flight = rate / asked.batch * latency.median_ns / 1e9  # Little's law
    if 1 / _NEAR < in_flight < _NEAR:
        return ""
    if asked.arrivals is not None:
        return f"{asked.arrivals.rate_per_s:g} requests/s arrive, and a latency counts the wait"
    if asked.load is not Load.SYNC:
        return f"{count_of(asked.requests, 'request')} in flight, {in_flight:.2g} at work on average"
    return f"the mean latency, {latency.mean_ns / 1e6:.3g} ms, is not the median: some take much longer or shorter"


def _effective(measurement: Measurement) -> str:
    got = measurement.effective
    words = (f"precision {readback(got.precision)}", f"threads {readback(got.threads)}")
    samples = measurement.latency.samples if measurement.latency else 0
    count = len(measurement.processes)
    processes = "1 process" if count == 1 else f"{count} processes"
    return " · ".join(filter(None, (*words, f"{samples:,} inferences in {processes}", got.preparation)))


def _comparison_row(
    line: Line,
    base: Line,
    cell: GridCell,
    compared: Mapping[str, Compared],
    lens: Lens,
) -> Row:
    measurement = line.cells.get(cell)
    values = {figure: figure_of(measurement, figure, lens) for figure in Quantity}
    found = compared[measurement.id].comparison if measurement and measurement.id in compared else None
    return cells(
        {
            "": "based on" if line is base else "",
            "Line": line.label,
            **{UNITS[one]: values[one].value for one in quantities(cell[0]) if one is Quantity.TIME_PER_ITEM},
            "ms/batch": values[Quantity.TIME_PER_BATCH].value,
            "± (%)": in_percent(values[Quantity.TIME_PER_BATCH].half_width),
            "items/s": values[Quantity.ITEMS_PER_S].value,
            "items/s ± (%)": in_percent(values[Quantity.ITEMS_PER_S].half_width),
            "Time ÷ base": found.ratio if found else None,
            "95 % interval": f"{found.low:.3f} to {found.high:.3f}" if found and found.low and found.high else None,
            "It is": _told(found) if found else None,
            "Status": status_words(measurement) if measurement else "not measured",
            "Remarks": _remarks(measurement, found.note if found else "", lens),
        }
    )


def _told(found: Comparison) -> str:
    """The verdict; without a ratio there is no interval either that a difference could lie within."""
    return _UNTOLD if found.ratio is None else _VERDICTS[found.verdict]


def _remarks(measurement: Measurement | None, note: str, lens: Lens) -> str | None:
    if measurement is None:
        return None
    failed = (ending(measurement.failure),) if measurement.failure else ()
    return "; ".join(filter(None, (*failed, *lens.remarks(measurement), note))) or None


def _distribution(line: Line, measurement: Measurement) -> Row:
    latency = measurement.latency
    assert latency is not None  # noqa: S101  # asked before
    tails = {f"p{one.percent:g}": in_milliseconds(one.value_ns) for one in latency.percentiles if one.percent != 50}
    return {
        "Line": line.label,
        "Least": in_milliseconds(latency.min_ns),
        "Median": in_milliseconds(latency.median_ns),
        "Mean": in_milliseconds(latency.mean_ns),
        **tails,
        "Most": in_milliseconds(latency.max_ns),
        "SD": in_milliseconds(latency.sd_ns),
        "Outliers (%)": in_percent(latency.outliers / latency.samples if latency.samples else None),
    }


HEIGHT_PX = 420

_SHARES_AXIS: Mapping[str, Any] = {"tickformat": ".2~%", "nticks": 3, "rangemode": "tozero"}

Stretch = tuple[int, int]
"""Where iterations begin and end, counted from 0 over all processes."""


def disturbed_stretches(measurement: Measurement) -> tuple[Stretch, ...]:
    """Return where the machine was busy with something else as well; stretches that touch are one."""
    found: list[Stretch] = []
    begin = 0
    for block in sorted(measurement.blocks, key=lambda block: (block.process, block.index)):
        end = begin + block.iterations
        if block.disturbances:
            begin_of_run = found.pop()[0] if found and found[-1][1] == begin else begin
            found.append((begin_of_run, end))
        begin = end
    return tuple(found)


def iterations_figure(
    curves: Mapping[str, LatencyCurve], looks: Mapping[str, LineLook], disturbed: Sequence[Stretch] = ()
) -> go.Figure | None:
    """Draw latencies by iteration, and beside them how they are distributed; None without any.

    `curves` and `looks` are by the lines' keys; the first curve is the one whose processes and `disturbed` stretches
    are marked.
    """
    if not curves:
        return None
    starts = _starts(next(iter(curves.values())))
    least = min(float(curve.latency_ns.min()) for curve in curves.values()) / 1e6
    most = max(float(curve.latency_ns.max()) for curve in curves.values()) / 1e6
    axis = latency_axis(least, most)
    # Two charts that share an axis, settled in one go: make_subplots, add_vline and add_vrect take 30 ms for the same.
    layout = {
        "xaxis": {"anchor": "y", "domain": [0.0, 0.784], "title": "iteration"},
        "yaxis": {"anchor": "x", **axis},
        "xaxis2": {"anchor": "y2", "domain": [0.804, 1.0], "title": "share", **_SHARES_AXIS},
        "yaxis2": {"anchor": "x2", **axis, "matches": "y", "showticklabels": False, "title": None},
        "shapes": [*map(_line_at, starts), *(_band(begin, end) for begin, end in disturbed)],
        "annotations": [_name_at(start, f"process {place}") for place, start in enumerate(starts, start=1)],
        "height": HEIGHT_PX,
        "margin": MARGINS,
        "legend": LEGEND,
        "showlegend": True,
    }
    pairs = ((_iterations(curve, looks[key]), _levels(curve, looks[key])) for key, curve in curves.items())
    return go.Figure([trace for pair in pairs for trace in pair], layout)


def shares_figure(curves: Mapping[str, LatencyCurve], looks: Mapping[str, LineLook]) -> go.Figure | None:
    """Draw which share of the inferences that count was done within a latency; None without any."""
    if not curves:
        return None
    figure = go.Figure([_shares(curve, looks[key]) for key, curve in curves.items()])
    least = min(float(curve.quantiles_ns[0]) for curve in curves.values()) / 1e6
    most = max(float(curve.quantiles_ns[-1]) for curve in curves.values()) / 1e6
    figure.update_xaxes(dict(latency_axis(least, most)))
    figure.update_yaxes(title="share of inferences", tickformat=".0%", range=[0, 1.02])
    return figure.update_layout(height=HEIGHT_PX, margin=MARGINS, legend=LEGEND, showlegend=True)


def thinned(curves: Mapping[str, LatencyCurve]) -> bool:
    """Tell whether any curve leaves out samples that lie between the smallest and largest of their stretch."""
    return any(curve.samples > curve.iterations.size for curve in curves.values())


def _iterations(curve: LatencyCurve, look: LineLook) -> go.Scatter:
    # Between two processes the line is broken: a new one begins with a fresh memory layout. A list, like all that is
    # drawn: of arrays Plotly takes every copy for other data, and draws the chart once more.
    gaps = np.searchsorted(curve.iterations, [start for start in curve.process_starts if start])
    return go.Scatter(
        x=_broken(curve.iterations.tolist(), gaps.tolist()),
        y=_broken((curve.latency_ns / 1e6).tolist(), gaps.tolist()),
        name=look.name,
        legendgroup=look.name,
        mode="lines",
        line={"color": look.colour, "width": 1},
        connectgaps=False,
        hovertemplate="iteration %{x:.0f}: %{y:,.4~r} ms<extra>%{fullData.name}</extra>",
    )


def _broken(values: list[float | None], gaps: Sequence[int]) -> list[float | None]:
    for gap in reversed(gaps):
        values.insert(gap, None)
    return values


def _levels(curve: LatencyCurve, look: LineLook) -> go.Scatter:
    latency_ms, share = _outline(*_grouped(curve))
    return go.Scatter(
        x=share,
        y=latency_ms,
        xaxis="x2",
        yaxis="y2",
        name=look.name,
        legendgroup=look.name,
        showlegend=False,
        mode="lines",
        fill="tozerox",
        line={"color": look.colour, "width": 1},
        hovertemplate="%{x:.2%} for each 1 % near %{y:,.4~r} ms<extra>%{fullData.name}</extra>",
    )


def _grouped(curve: LatencyCurve) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Levels put together in groups of a size, with the share of the samples for each level: few samples need few.

    As many groups within the middle 90 % as Rice's rule gives, 2·∛samples.
    """
    places = np.round(np.log(curve.levels_ns) / np.log(LEVEL_RATIO)).astype(np.int64)
    low, high = (max(1.0, float(np.quantile(curve.quantiles_ns, share))) for share in (0.05, 0.95))
    size = max(1, round(np.log(high / low) / np.log(LEVEL_RATIO) / (2 * np.cbrt(curve.counted))))
    groups, members = np.unique(places // size, return_inverse=True)
    return groups, np.bincount(members, curve.level_shares) / size, size


def _outline(groups: NDArray[np.int64], shares: NDArray[np.float64], size: int) -> tuple[list[float], list[float]]:
    """The outline of a histogram that stands on its side, in ms; where groups are left out it falls to zero."""
    corners = list(_corners(groups.tolist(), shares.tolist()))
    return [LEVEL_RATIO ** (place * size) / 1e6 for place, _ in corners], [share for _, share in corners]


def _corners(groups: Sequence[int], shares: Sequence[float]) -> Iterator[tuple[int, float]]:
    for place, (group, share) in enumerate(zip(groups, shares, strict=True)):
        if place == 0 or group > groups[place - 1] + 1:
            yield group, 0.0
        yield group, share
        yield group + 1, share
        if place + 1 == len(groups) or groups[place + 1] > group + 1:
            yield group + 1, 0.0


def _shares(curve: LatencyCurve, look: LineLook) -> go.Scatter:
    return go.Scatter(
        x=(curve.quantiles_ns / 1e6).tolist(),
        y=np.linspace(0, 1, curve.quantiles_ns.size).tolist(),
        name=look.name,
        mode="lines",
        line={"shape": "hv", "color": look.colour, "width": 2},
        hovertemplate="%{y:.1%} within %{x:,.4~r} ms<extra>%{fullData.name}</extra>",
    )


def _starts(curve: LatencyCurve) -> tuple[int, ...]:
    """Where each process begins; nothing of a single one."""
    return curve.process_starts if len(curve.process_starts) > 1 else ()


_FROM_TOP_TO_BOTTOM = {"xref": "x", "yref": "y domain", "y0": 0, "y1": 1}


def _line_at(start: int) -> dict[str, Any]:
    line = {"color": NOISE, "width": 1, "dash": "dot"}
    return {**_FROM_TOP_TO_BOTTOM, "type": "line", "x0": start, "x1": start, "line": line}


def _band(begin: int, end: int) -> dict[str, Any]:
    look = {"fillcolor": NOISE, "opacity": 0.25, "line": {"width": 0}, "layer": "below"}
    return {**_FROM_TOP_TO_BOTTOM, "type": "rect", "x0": begin, "x1": end, **look}


def _name_at(start: int, text: str) -> dict[str, Any]:
    place = {"x": start, "xref": "x", "xanchor": "left", "y": 1, "yref": "y domain", "yanchor": "bottom"}
    return {**place, "text": text, "font": {"size": 11}, "showarrow": False}
