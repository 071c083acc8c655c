"""How the figures of lines scale with cores or batch, drawn against the ideal."""

from collections.abc import Iterable, Mapping, Sequence

import plotly.graph_objects as go

from enginebench_controller.stats.scaling import Axis, Scaling
from enginebench_ui.views.benchmark.drawing import LEGEND, Look
from enginebench_ui.views.benchmark.figures import UNITS
from enginebench_ui.views.benchmark.scaling import place_among
from enginebench_ui.views.dress import margins
from enginebench_ui.views.magnitudes import times_text
from enginebench_ui.views.palette import NOISE

HEIGHT_PX = 430

_REFERENCE_POINTS = 40
_HEADROOM = 1.15
_MOST_BEYOND = 1.6
"""Up to so many times the largest value the ideal line and intervals are kept in sight; more would flatten the rest."""


def scaling_figure(scalings: Mapping[str, Scaling], looks: Mapping[str, Look]) -> go.Figure | None:
    """Draw a figure along its axis for each line, with the ideal of the first; None where nothing has a value.

    `scalings` and `looks` are by the lines' keys. A point without a value is a gap, marked on the axis.
    """
    known = {key: one for key, one in scalings.items() if one.base is not None}
    if not known:
        return None
    first = next(iter(scalings.values()))
    figure = go.Figure()
    _add_references(figure, first if first.base is not None else next(iter(known.values())))
    for key, scaling in scalings.items():
        figure.add_trace(_points(scaling, looks[key], named=scaling is first))
    for key, scaling in scalings.items():
        _add_gaps(figure, scaling, looks[key])
    sizes = sorted({point.size for one in scalings.values() for point in one.points})
    _lay_out(figure, first, sizes, _top(known.values()))
    return figure


def _points(scaling: Scaling, look: Look, *, named: bool) -> go.Scatter:
    points = scaling.points
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
        textposition="top center",
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


def _add_gaps(figure: go.Figure, scaling: Scaling, look: Look) -> None:
    """Mark the sizes that have no value, at the foot of the chart."""
    missing = [point.size for point in scaling.points if point.value is None]
    if missing:
        figure.add_trace(
            go.Scatter(
                x=missing,
                y=[0] * len(missing),
                name=f"{look.name}: no numbers",
                mode="markers",
                cliponaxis=False,
                marker={"symbol": "x", "size": 11, "color": look.colour},
                hovertemplate="%{x}: no numbers<extra>%{fullData.name}</extra>",
            )
        )


def _add_references(figure: go.Figure, scaling: Scaling) -> None:
    """The ideal line of the base, and for batches, whose ideal no machine reaches, that of no gain as well."""
    if scaling.base is None:
        return
    figure.add_trace(_reference(scaling, ideal=True))
    if scaling.axis is Axis.BATCH:
        figure.add_trace(_reference(scaling, ideal=False))


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


def _lay_out(figure: go.Figure, scaling: Scaling, sizes: Sequence[int], top: float) -> None:
    axis = {"type": "log", "tickvals": sizes, "ticktext": [str(size) for size in sizes], "title": scaling.axis.value}
    figure.update_xaxes(axis)
    figure.update_yaxes(title=UNITS[scaling.figure], range=[0, top])
    figure.update_layout(height=HEIGHT_PX, margin=margins(30, legend_rows=3), legend=LEGEND, showlegend=True)
