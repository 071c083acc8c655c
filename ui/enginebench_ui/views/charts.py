"""The figures of one benchmark: throughput by batch, and how latencies are distributed."""

import html
from collections.abc import Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from enginebench_controller.records import Measurement
from enginebench_ui.views.series import series_colours, series_names, timed

ECDF_POINTS = 400
"""Points a curve is drawn with: more cannot be told apart on a screen, and a page must not carry every sample."""

Ecdf = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Latencies in ms and the shares of samples within them, both of the same shape."""

HEIGHT_PX = 420
MOST_PANELS_IN_A_ROW = 3

# Plotly's own ticks on a logarithmic axis leave half of a short range without a number.
_TICKS_MS = [mantissa * 10.0**exponent for exponent in range(-4, 6) for mantissa in (1, 1.5, 2, 3, 4, 5, 6, 8)]
_MARGINS = {"l": 10, "r": 10, "t": 40, "b": 10}
_LEGEND = {"orientation": "h", "yanchor": "top", "y": -0.22, "x": 0}


def throughput_figure(measurements: Sequence[Measurement]) -> go.Figure | None:
    """Draw items/s as bars, grouped by batch, a colour a series and a panel a model; None when nothing has numbers."""
    shown = timed(measurements)
    if not shown:
        return None
    names, models = series_names(shown), list(dict.fromkeys(one.model_name for one in shown))
    figure, panels = _panels(models)
    for series, colour in series_colours(names.values()).items():
        for model, (row, column) in panels.items():
            bars = [one for one in shown if names[one.id] == series and one.model_name == model]
            figure.add_trace(_bars(bars, series, colour, in_legend=model == models[0]), row=row, col=column)
    figure.update_xaxes(type="category", title="batch", categoryorder="array", categoryarray=_batches(shown))
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title="items/s", col=1)
    return figure.update_layout(barmode="group", margin=_MARGINS, legend=_LEGEND)


def latency_figure(
    chosen: Sequence[Measurement], shares: Mapping[str, Ecdf], benchmark: Sequence[Measurement]
) -> go.Figure | None:
    """Draw, for each chosen measurement, the share of inferences done within a latency; None without samples.

    `shares` maps ids of measurements to what `ecdf` gives for their samples. Names and colours are those within the
    whole `benchmark`. The axis is logarithmic, so that engines far apart and tails far out are both seen.
    """
    names = series_names(timed(benchmark))
    colours = series_colours(names.values())
    shown = [one for one in timed(chosen) if one.id in shares]
    if not shown:
        return None
    figure = go.Figure([_curve(names[one.id], shares[one.id], colours[names[one.id]]) for one in shown])
    figure.update_xaxes(type="log", title="latency (ms)", tickvals=_TICKS_MS, tickformat="~g")
    figure.update_yaxes(title="share of inferences", tickformat=".0%", range=[0, 1.02])
    return figure.update_layout(height=HEIGHT_PX, margin=_MARGINS, legend=_LEGEND, showlegend=True)


def ecdf(samples_ns: NDArray[np.int64], points: int = ECDF_POINTS) -> Ecdf:
    """Return (latency in ms, share done within it), both of shape (≤ points,) and rising from the least to the most.

    The share at the i-th of n sorted samples is i ÷ n; with more samples than points, evenly spaced ones are kept.
    """
    count = samples_ns.size
    ranks = np.unique(np.linspace(1, count, min(points, count)).round().astype(np.int64))
    return np.sort(samples_ns)[ranks - 1] / 1e6, ranks / count


def _panels(models: Sequence[str]) -> tuple[go.Figure, dict[str, tuple[int, int]]]:
    """Make a figure with a panel a model, and say in which row and column, counted from 1, each model is."""
    columns = min(len(models), MOST_PANELS_IN_A_ROW)
    rows = -(-len(models) // columns)
    figure = make_subplots(rows, columns, subplot_titles=[html.escape(model) for model in models])
    figure.update_layout(height=HEIGHT_PX * rows)
    return figure, {model: (index // columns + 1, index % columns + 1) for index, model in enumerate(models)}


def _bars(measurements: Sequence[Measurement], series: str, colour: str, *, in_legend: bool) -> go.Bar:
    return go.Bar(
        x=[str(one.configuration.batch) for one in measurements],
        y=[one.throughput_items_per_s for one in measurements],
        # Plotly reads a few HTML tags in every text; names from elsewhere must not speak it.
        name=html.escape(series),
        legendgroup=series,
        showlegend=in_legend,
        marker_color=colour,
        texttemplate="%{y:.3~s}",
        textposition="outside",
        cliponaxis=False,
        hovertemplate="batch %{x}: %{y:.1f} items/s<extra>%{fullData.name}</extra>",
    )


def _curve(series: str, curve: Ecdf, colour: str) -> go.Scatter:
    latency_ms, share = curve
    return go.Scatter(
        x=latency_ms,
        y=share,
        name=html.escape(series),
        mode="lines",
        line={"shape": "hv", "color": colour, "width": 2},
        hovertemplate="%{y:.1%} within %{x:.3f} ms<extra>%{fullData.name}</extra>",
    )


def _batches(measurements: Sequence[Measurement]) -> list[str]:
    return [str(batch) for batch in sorted({one.configuration.batch for one in measurements})]
