"""Latencies drawn: one iteration after the other, their distribution beside them, and how many were done in time."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from enginebench_controller.records import Measurement
from enginebench_controller.store.latencies import LEVEL_RATIO, LatencyCurve
from enginebench_ui.views.benchmark.drawing import LEGEND, MARGINS, Look, latency_axis
from enginebench_ui.views.palette import NOISE

HEIGHT_PX = 420

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
    curves: Mapping[str, LatencyCurve], looks: Mapping[str, Look], disturbed: Sequence[Stretch] = ()
) -> go.Figure | None:
    """Draw latencies by iteration, and beside them how they are distributed; None without any.

    `curves` and `looks` are by the lines' keys; the first curve is the one whose processes and `disturbed` stretches
    are marked.
    """
    if not curves:
        return None
    figure = make_subplots(1, 2, shared_yaxes=True, column_widths=[0.8, 0.2], horizontal_spacing=0.02)
    for key, curve in curves.items():
        figure.add_trace(_iterations(curve, looks[key]), row=1, col=1)
        figure.add_trace(_levels(curve, looks[key]), row=1, col=2)
    _mark_processes(figure, next(iter(curves.values())))
    for begin, end in disturbed:
        figure.add_vrect(x0=begin, x1=end, row=1, col=1, fillcolor=NOISE, opacity=0.25, line_width=0, layer="below")
    least = min(float(curve.quantiles_ns[0]) for curve in curves.values()) / 1e6
    most = max(float(curve.quantiles_ns[-1]) for curve in curves.values()) / 1e6
    axis = dict(latency_axis(least, most))
    figure.update_yaxes(axis)
    figure.update_yaxes(title=axis["title"], row=1, col=1)
    figure.update_yaxes(title=None, row=1, col=2)
    figure.update_xaxes(title="iteration", row=1, col=1)
    figure.update_xaxes(title="share", tickformat=".0%", nticks=3, rangemode="tozero", row=1, col=2)
    return figure.update_layout(height=HEIGHT_PX, margin=MARGINS, legend=LEGEND, showlegend=True)


def shares_figure(curves: Mapping[str, LatencyCurve], looks: Mapping[str, Look]) -> go.Figure | None:
    """Draw which share of the inferences was done within a latency; None without any."""
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


def _iterations(curve: LatencyCurve, look: Look) -> go.Scatter:
    # Between two processes the line is broken: a new one begins with a fresh memory layout.
    gaps = np.searchsorted(curve.iterations, [start for start in curve.process_starts if start])
    return go.Scatter(
        x=np.insert(curve.iterations.astype(np.float64), gaps, np.nan),
        y=np.insert(curve.latency_ns / 1e6, gaps, np.nan),
        name=look.name,
        legendgroup=look.name,
        mode="lines",
        line={"color": look.colour, "width": 1},
        connectgaps=False,
        hovertemplate="iteration %{x:.0f}: %{y:,.4~r} ms<extra>%{fullData.name}</extra>",
    )


def _levels(curve: LatencyCurve, look: Look) -> go.Scatter:
    latency_ms, share = _outline(*_grouped(curve))
    return go.Scatter(
        x=share,
        y=latency_ms,
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
    size = max(1, round(np.log(high / low) / np.log(LEVEL_RATIO) / (2 * np.cbrt(curve.samples))))
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


def _shares(curve: LatencyCurve, look: Look) -> go.Scatter:
    return go.Scatter(
        x=curve.quantiles_ns / 1e6,
        y=np.linspace(0, 1, curve.quantiles_ns.size),
        name=look.name,
        mode="lines",
        line={"shape": "hv", "color": look.colour, "width": 2},
        hovertemplate="%{y:.1%} within %{x:,.4~r} ms<extra>%{fullData.name}</extra>",
    )


def _mark_processes(figure: go.Figure, curve: LatencyCurve) -> None:
    starts = curve.process_starts if len(curve.process_starts) > 1 else ()
    for place, start in enumerate(starts):
        figure.add_vline(
            x=start,
            row=1,
            col=1,
            line={"color": NOISE, "width": 1, "dash": "dot"},
            annotation={"text": f"process {place + 1}", "font_size": 11, "xanchor": "left"},
            annotation_position="top",
        )
