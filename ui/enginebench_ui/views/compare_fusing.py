"""The drawing of what an engine fused: source nodes on the left, the layers that ran them on the right."""

import html
from collections.abc import Sequence

import plotly.graph_objects as go

from enginebench_ui.views.compare_chart import COLOURS
from enginebench_ui.views.compare_details import MOST_LISTED, Fusing

_LONGEST = 26
_ROW_PX = 34
_NODE, _LINE = "#999999", "#B0B0B0"


def fusing_figure(fusing: Fusing) -> go.Figure | None:
    """Draw n source nodes → m executed layers; None where there is nothing to draw on either hand."""
    nodes = _listed([f"{operator}: {name}" for operator, name in fusing.nodes])
    layers = _listed(list(fusing.layers))
    if not nodes or not layers:
        return None
    rows = max(len(nodes), len(layers))
    left, right = _heights(len(nodes), rows), _heights(len(layers), rows)
    figure = go.Figure(_lines(left, right))
    figure.add_trace(_boxes(nodes, 0.0, left, _NODE, "middle left", "source nodes"))
    figure.add_trace(_boxes(layers, 1.0, right, COLOURS[fusing.letter], "middle right", "executed layers"))
    figure.update_xaxes(visible=False, range=[-2.0, 3.0], fixedrange=True)
    figure.update_yaxes(visible=False, range=[rows - 0.5, -0.5], fixedrange=True)
    return figure.update_layout(
        height=30 + _ROW_PX * rows, margin={"l": 0, "r": 0, "t": 6, "b": 6}, showlegend=False, hovermode="closest"
    )


def _listed(names: Sequence[str]) -> list[str]:
    if len(names) <= MOST_LISTED:
        return list(names)
    return [*names[: MOST_LISTED - 1], f"and {len(names) - MOST_LISTED + 1} more"]


def _heights(count: int, rows: int) -> list[float]:
    return [(place + 0.5) * rows / count - 0.5 for place in range(count)]


def _lines(left: Sequence[float], right: Sequence[float]) -> go.Scatter:
    """From every node to every layer: which of several layers ran which node, engines do not tell."""
    ends = [(start, end) for start in left for end in right]
    return go.Scatter(
        x=[0.0, 1.0, None] * len(ends),
        y=[height for start, end in ends for height in (start, end, None)],
        mode="lines",
        line={"color": _LINE, "width": 1},
        hoverinfo="skip",
    )


def _boxes(names: Sequence[str], at: float, heights: Sequence[float], colour: str, where: str, what: str) -> go.Scatter:
    return go.Scatter(
        x=[at] * len(names),
        y=list(heights),
        mode="markers+text",
        marker={"symbol": "square", "size": 12, "color": colour},
        text=[f" {html.escape(_short(name))} " for name in names],
        textposition=where,
        textfont={"size": 12},
        customdata=[html.escape(name[:200]) for name in names],
        hovertemplate=f"%{{customdata}}<extra>{what}</extra>",
        cliponaxis=False,
    )


def _short(name: str) -> str:
    """The end of a name tells more than its start, which layers of one block share."""
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
