"""How the figures of lines scale with cores or batch: the table, the extremes, the gaps, and drawn."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any

import plotly.graph_objects as go

from enginebench_controller.records import Measurement
from enginebench_controller.records.measurement import half_width
from enginebench_controller.stats.scaling import Axis, Quantity, ScaledPoint, Scaling, ScalingPoint, scale
from enginebench_controller.verdicts.doubts import status_words
from enginebench_ui.pages.benchmark.shapes.figures import UNITS, Lens, figure_of, quantities
from enginebench_ui.pages.benchmark.shapes.lines import LEGEND, GridCell, Line, LineLook
from enginebench_ui.pages.benchmark.shapes.measurements import ending
from enginebench_ui.shared.charts import NOISE, margins, value_axis
from enginebench_ui.shared.text import Row, cells, count_of, in_percent, number, times_text

HEADINGS: Mapping[Axis, str] = {Axis.CORES: "Cores", Axis.BATCH: "Batch"}


@dataclass(frozen=True)
class Gap:
    """A cell without numbers: which, of which line, and why, in words."""

    line: str
    cell: str
    reason: str


def scaling_of(line: Line, axis: Axis, fixed: int, figure: Quantity, lens: Lens) -> Scaling:
    """Return how a figure of a line scales along an axis while the other stays at `fixed`."""
    points = []
    for size, measurement in _along(line, axis, fixed):
        found = figure_of(measurement, figure, lens)
        points.append(ScalingPoint(size, found.value, found.low, found.high))
    return scale(points, axis, figure)


def scaling_rows(lines: Sequence[Line], axis: Axis, fixed: int, lens: Lens) -> tuple[Row, ...]:
    """Return a row a size of each line, with speed-up and efficiency against the smallest size that has numbers."""
    silent = {UNITS[one] for one in Quantity} - {UNITS[one] for one in drawn_quantities(axis, fixed)}
    every = (row for line in lines for row in _rows(line, axis, fixed, lens))
    return tuple(cells({name: value for name, value in row.items() if name not in silent}) for row in every)


def drawn_quantities(axis: Axis, fixed: int) -> tuple[Quantity, ...]:
    """Return the figures that say different things along an axis while the other size stays at `fixed`."""
    return tuple(Quantity) if axis is Axis.BATCH else quantities(fixed)


def extremes(scaling: Scaling) -> str:
    """Name the best and the worst point, and which may be so as well: "Best: 4 cores, 1.234 ms/item (speed-up 1.90×),
    or 2 cores, which cannot be told from it. Worst: …"; or why it cannot be done.
    """
    if scaling.best is None or scaling.worst is None:
        known = "No" if scaling.base is None else "One"
        return f"{known} point with numbers: nothing to compare."
    if doubt := _doubt(scaling.best, scaling.worst):
        best, worst = (_named(point, scaling) for point in (scaling.best, scaling.worst))
        return f"It cannot be told which is best, as {doubt}: {best}, beside {worst}."
    best, worst = (_named_with_rivals(point, scaling) for point in (scaling.best, scaling.worst))
    return f"Best: {best}. Worst: {worst}."


def _rivals(point: ScaledPoint, scaling: Scaling) -> list[ScaledPoint]:
    """The other points with a value that may be as good, or as bad: nothing tells them from this one."""
    others = (one for one in scaling.points if one.value is not None and one.size != point.size)
    return [one for one in others if _doubt(point, one)]


def _doubt(one: ScaledPoint, other: ScaledPoint) -> str | None:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return "not both have an interval"
    return None if one.high < other.low or other.high < one.low else "their intervals overlap"


def gaps(lines: Sequence[Line], axis: Axis, fixed: int) -> tuple[Gap, ...]:
    """Return the cells that have no numbers, with the reason."""
    return tuple(
        Gap(line.label, size_text(axis, size), _reason(measurement))
        for line in lines
        for size, measurement in _along(line, axis, fixed)
        if measurement is None or measurement.latency is None
    )


def size_text(axis: Axis, size: int) -> str:
    """Name a place on an axis: "batch 4", "2 cores"."""
    return f"batch {size}" if axis is Axis.BATCH else count_of(size, "core")


def _along(line: Line, axis: Axis, fixed: int) -> Iterator[tuple[int, Measurement | None]]:
    sizes = line.batches if axis is Axis.BATCH else line.cores
    for size in sizes:
        cell: GridCell = (size, fixed) if axis is Axis.BATCH else (fixed, size)
        yield size, line.cells.get(cell)


def _reason(measurement: Measurement | None) -> str:
    if measurement is None:
        return "not measured"
    failure = measurement.failure
    return f"{ending(failure)}: {failure.message}" if failure else measurement.status.value


def _named_with_rivals(point: ScaledPoint, scaling: Scaling) -> str:
    rivals = [size_text(scaling.axis, one.size) for one in _rivals(point, scaling)]
    named = _named(point, scaling)
    return f"{named}, or {' or '.join(rivals)}, which cannot be told from it" if rivals else named


def _named(point: ScaledPoint, scaling: Scaling) -> str:
    is_base = scaling.base is not None and point.size == scaling.base.size
    bounds = "" if is_base or (between := _range(point)) is None else f", {between}"
    gained = "" if point.speed_up is None else f" (speed-up {times_text(point.speed_up)}{bounds})"
    return f"{size_text(scaling.axis, point.size)}, {number(point.value)} {UNITS[scaling.figure]}{gained}"


def _rows(line: Line, axis: Axis, fixed: int, lens: Lens) -> Iterator[Row]:
    scaled = {figure: scaling_of(line, axis, fixed, figure, lens) for figure in Quantity}
    for place, (size, measurement) in enumerate(_along(line, axis, fixed)):
        points = {figure: scaling.points[place] for figure, scaling in scaled.items()}
        time, rate = points[Quantity.TIME_PER_BATCH], points[Quantity.ITEMS_PER_S]
        yield {
            "Line": line.label,
            HEADINGS[axis]: size,
            "ms/item": points[Quantity.TIME_PER_ITEM].value,
            "ms/batch": time.value,
            "± (%)": in_percent(_half_width(time)),
            "Speed-up": time.speed_up,
            "Speed-up, range": _range(time),
            "Efficiency (%)": in_percent(time.efficiency),
            "items/s": rate.value,
            "items/s ± (%)": in_percent(_half_width(rate)),
            "items/s, speed-up": rate.speed_up,
            "items/s, efficiency (%)": in_percent(rate.efficiency),
            "Point": place_among(points[Quantity.TIME_PER_ITEM], scaled[Quantity.TIME_PER_ITEM]),
            "Status": status_words(measurement) if measurement else "not measured",
            "Remarks": _remarks(measurement, lens),
        }


def _half_width(point: ScaledPoint) -> float | None:
    if point.low is None or point.high is None or not point.value:
        return None
    return half_width(point.low, point.high, point.value) / point.value


def _range(point: ScaledPoint) -> str | None:
    if point.speed_up_low is None or point.speed_up_high is None:
        return None
    return f"{number(point.speed_up_low)} to {number(point.speed_up_high)}"


def place_among(point: ScaledPoint, scaling: Scaling) -> str | None:
    """Say whether a point is the best or the worst of its scaling, where it can be told from all others."""
    place = "best" if point is scaling.best else "worst" if point is scaling.worst else None
    return None if _rivals(point, scaling) else place


def _remarks(measurement: Measurement | None, lens: Lens) -> str | None:
    if measurement is None:
        return None
    if measurement.failure:
        return _reason(measurement)
    return "; ".join(lens.remarks(measurement)) or None


HEIGHT_PX = 430

_REFERENCE_POINTS = 40
_HEADROOM = 1.15
_MOST_BEYOND = 1.6
"""Up to so many times the largest value the ideal line and intervals are kept in sight; more would flatten the rest."""


def scaling_figure(
    scalings: Mapping[str, Scaling], looks: Mapping[str, LineLook], *, with_legend: bool = True
) -> go.Figure | None:
    """Draw a figure along its axis for each line, with the ideal of the first; None where nothing has a value.

    `scalings` and `looks` are by the lines' keys. A point without a value is a gap, marked on the axis. Figures that
    stand beside each other need one legend, and keep its room.
    """
    known = {key: one for key, one in scalings.items() if one.base is not None}
    if not known:
        return None
    first = next(iter(scalings.values()))
    values = [point.value for one in known.values() for point in one.points if point.value]
    vertical = value_axis(UNITS[first.figure], values)
    ground = min(values) / _HEADROOM if "type" in vertical else 0.0
    top = _top(known.values())
    sizes = sorted({point.size for one in scalings.values() for point in one.points})
    traces = [
        *_references(first if first.base is not None else next(iter(known.values()))),
        *(_points(scaling, looks[key], named=scaling is first) for key, scaling in scalings.items()),
        *(gap for key, scaling in scalings.items() for gap in _gaps(scaling, looks[key], ground)),
    ]
    # In one go: each of Plotly's own updates of a layout takes as long as all of it.
    layout = {
        "xaxis": _sizes_axis(first, sizes),
        "yaxis": {**vertical, "range": [log10(ground), log10(top)] if ground else [0, top]},
        "height": HEIGHT_PX,
        "margin": margins(30, legend_rows=3),
        "legend": LEGEND,
        "showlegend": with_legend,
    }
    return go.Figure(traces, layout)


def _points(scaling: Scaling, look: LineLook, *, named: bool) -> go.Scatter:
    points = scaling.points
    most = max((point.value for point in points if point.value is not None), default=None)
    return go.Scatter(
        x=[point.size for point in points],
        y=[point.value for point in points],
        error_y={
            "type": "data",
            "array": [_reach(point.high, point.value) for point in points],
            "arrayminus": [_reach(point.value, point.low) for point in points],
            "thickness": 1.5,
            "width": 4,
        },
        text=[place_among(point, scaling) or "" for point in points] if named else None,
        # Where the line does not go on from there: it comes up to its highest point, and down to its lowest.
        textposition=["top center" if point.value == most else "bottom center" for point in points],
        name=look.name,
        mode="lines+markers+text" if named else "lines+markers",
        connectgaps=False,
        line={"color": look.colour, "width": look.width},
        marker={"symbol": look.symbol, "size": 9, "color": look.colour},
        customdata=[[times_text(point.speed_up), _percents(point.efficiency)] for point in points],
        hovertemplate=(
            f"%{{x}}: %{{y:,.4~r}} {UNITS[scaling.figure]}<br>speed-up %{{customdata[0]}}, "
            "efficiency %{customdata[1]}<extra>%{fullData.name}</extra>"
        ),
    )


def _reach(high: float | None, low: float | None) -> float | None:
    return None if high is None or low is None else max(0.0, high - low)


def _percents(share: float | None) -> str:
    return "unknown" if share is None else f"{share:.0%}"


def _gaps(scaling: Scaling, look: LineLook, ground: float) -> Iterator[go.Scatter]:
    """Mark the sizes that have no value, at the foot of the chart."""
    missing = [point.size for point in scaling.points if point.value is None]
    if missing:
        yield go.Scatter(
            x=missing,
            y=[ground] * len(missing),
            name=f"{look.name}: no numbers",
            mode="markers",
            cliponaxis=False,
            marker={"symbol": "x", "size": 11, "color": look.colour},
            hovertemplate="%{x}: no numbers<extra>%{fullData.name}</extra>",
        )


def _references(scaling: Scaling) -> Iterator[go.Scatter]:
    """The ideal line of the base, and for batches, whose ideal no machine reaches, that of no gain as well."""
    if scaling.base is None:
        return
    yield _reference(scaling, ideal=True)
    if scaling.axis is Axis.BATCH:
        yield _reference(scaling, ideal=False)


def _reference(scaling: Scaling, *, ideal: bool) -> go.Scatter:
    begin, end = (scaling.base.size if scaling.base else 1), scaling.points[-1].size
    sizes = [begin * (end / begin) ** (step / _REFERENCE_POINTS) for step in range(_REFERENCE_POINTS + 1)]
    value_at = scaling.ideal if ideal else scaling.without_gain
    return go.Scatter(
        x=sizes,
        y=[value_at(size) for size in sizes],
        name="ideal" if ideal else "no gain",
        mode="lines",
        hoverinfo="skip",
        line={"color": NOISE, "width": 2, "dash": "dash" if ideal else "dot"},
    )


def _top(scalings: Iterable[Scaling]) -> float:
    """How far up the chart reaches: to the largest value, and to intervals and the ideal where these are near."""
    known = list(scalings)
    largest = max(point.value or 0.0 for one in known for point in one.points)
    ideal = max(known[0].ideal(point.size) or 0.0 for point in known[0].points)
    highest = max(point.high or 0.0 for one in known for point in one.points)
    return _HEADROOM * max(largest, min(max(ideal, highest), _MOST_BEYOND * largest))


def _sizes_axis(scaling: Scaling, sizes: Sequence[int]) -> dict[str, Any]:
    ticks = {"tickvals": sizes, "ticktext": [str(size) for size in sizes]}
    return {"type": "log", **ticks, "title": scaling.axis.value}
