"""The notebook's bar chart: a bar a rung with its words above it, so that it reads on a telephone, too."""

import html
import textwrap
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from enginebench_controller.stats.change import factor_words
from enginebench_ui.views.ladders.rungs import Bar, Measure
from enginebench_ui.views.magnitudes import number
from enginebench_ui.views.palette import SERIES

ROW_PX = 60
_FRAME_PX = 70
_BAR, _BEST, _WHISKER = SERIES[4], SERIES[0], SERIES[1]
_THICKNESS = 0.4
_ABOVE_BAR = 0.22
_LETTERS_IN_A_LINE = 48
"""That fit beside each other on a screen of 390 pixels."""
_LINES_OF_A_REASON = 2

_AXES = {
    Measure.THROUGHPUT: "images per second (longer is better)",
    Measure.LATENCY: "median latency in ms (shorter is better)",
    Measure.FIRST_INFERENCE: "first inference in ms (shorter is better)",
}
_UNITS = {Measure.THROUGHPUT: "FPS", Measure.LATENCY: "ms", Measure.FIRST_INFERENCE: "ms"}


def ladder_figure(bars: Sequence[Bar], measure: Measure) -> go.Figure:
    """Draw the bars, the lowest rung on top. A rung without a value has no bar but its reason in words."""
    unit = _UNITS[measure]
    figure = go.Figure(
        go.Bar(
            x=[bar.value for bar in bars],
            y=list(range(len(bars))),
            orientation="h",
            width=_THICKNESS,
            marker_color=[_BEST if bar.is_best else _BAR for bar in bars],
            customdata=[html.escape(bar.title) for bar in bars],
            hovertemplate=f"%{{customdata}}: %{{x:,.4~r}} {unit}<extra></extra>",
        )
    )
    figure.add_trace(_whiskers(bars))
    for row, bar in enumerate(bars):
        figure.add_annotation(**_words(row - _ABOVE_BAR, _heading(bar, unit), anchor="bottom"))
        if bar.value is None:
            figure.add_annotation(**_words(row, f"<i>{_wrapped(bar.missing)}</i>", anchor="middle"))
    figure.update_xaxes(title=_AXES[measure], range=[0, _end(bars)], fixedrange=True)
    figure.update_yaxes(visible=False, range=[len(bars) - 0.5, -0.7], fixedrange=True)
    height = ROW_PX * len(bars) + _FRAME_PX
    return figure.update_layout(height=height, margin={"l": 10, "r": 10, "t": 10, "b": 10}, showlegend=False)


def alternative(bars: Sequence[Bar], measure: Measure) -> str:
    """Say what the chart shows, for those who do not see it."""
    told = (f"{bar.title} {_value(bar, _UNITS[measure])}" for bar in bars)
    return f"{_AXES[measure]}: {'; '.join(told)}"


def _heading(bar: Bar, unit: str) -> str:
    title = f"<b>{html.escape(bar.title)}</b>"
    if bar.value is None:
        return title
    factor = None if bar.factor is None else factor_words(bar.factor)
    best = "best" if bar.is_best else None
    return "  ·  ".join(filter(None, [f"{title}  {_value(bar, unit)}", bar.gain, factor, best]))


def _value(bar: Bar, unit: str) -> str:
    return bar.missing if bar.value is None else f"{number(bar.value)} {unit}"


def _wrapped(text: str) -> str:
    lines = textwrap.wrap(
        text, _LETTERS_IN_A_LINE, max_lines=_LINES_OF_A_REASON, placeholder=" …", break_long_words=True
    )
    return "<br>".join(map(html.escape, lines))


def _words(row: float, text: str, *, anchor: str) -> dict[str, Any]:
    place = {"x": 0, "xref": "paper", "xanchor": "left", "y": row, "yref": "y", "yanchor": anchor}
    return {**place, "text": text, "showarrow": False, "align": "left", "font": {"size": 13}}


def _whiskers(bars: Sequence[Bar]) -> go.Scatter:
    """Only where there is an interval: Plotly draws a tick for one that is unknown."""
    known = [
        (row, bar.value, bar.low, bar.high)
        for row, bar in enumerate(bars)
        if bar.value is not None and bar.low is not None and bar.high is not None
    ]
    return go.Scatter(
        x=[value for _, value, _, _ in known],
        y=[row for row, _, _, _ in known],
        mode="markers",
        marker={"opacity": 0},
        hoverinfo="skip",
        error_x={
            "array": [max(0.0, high - value) for _, value, _, high in known],
            "arrayminus": [max(0.0, value - low) for _, value, low, _ in known],
            "color": _WHISKER,
            "thickness": 2,
            "width": 5,
        },
    )


def _end(bars: Sequence[Bar]) -> float:
    """Where the axis ends: a little beyond the longest bar or whisker."""
    reached = [max(bar.value, bar.high or 0.0) for bar in bars if bar.value is not None]
    return 1.04 * max(reached, default=1.0)
