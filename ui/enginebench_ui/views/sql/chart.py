"""An answer as a chart: one column along, one up, one for colours."""

import html
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pandas as pd
import plotly.graph_objects as go
from pandas.api.types import is_bool_dtype, is_datetime64_any_dtype, is_integer_dtype, is_numeric_dtype

from enginebench_ui.views.dress import margins
from enginebench_ui.views.palette import NOISE, SERIES

MOST_POINTS = 5_000
MOST_COLOURS = len(SERIES)
HEIGHT_PX = 460
OTHERS = "others"
UNKNOWN = "unknown"
_LONGEST_LABEL = 40


class ChartKind(StrEnum):
    """How the rows are drawn."""

    BARS = "bars"
    LINES = "lines"
    POINTS = "points"


@dataclass(frozen=True)
class Axes:
    """Which columns are drawn, and how; `colour` None draws all in one."""

    kind: ChartKind
    x: str
    y: str
    colour: str | None = None


def number_columns(frame: pd.DataFrame) -> tuple[str, ...]:
    """Return the columns that hold numbers."""
    return tuple(name for name in frame.columns if _is_number(frame[name]))


def default_axes(frame: pd.DataFrame) -> Axes | None:
    """Return what is worth a first look: texts along, and up what was measured rather than what it is grouped by.

    None without any number to draw.
    """
    numbers = number_columns(frame)
    if frame.empty or not numbers:
        return None
    texts = [name for name in frame.columns if name not in numbers]
    x = (texts or list(numbers))[0]
    y = _first([name for name in numbers if not is_integer_dtype(frame[name])], x) or _first(numbers, x) or numbers[0]
    groups = [name for name in frame.columns if name not in (x, y) and (name in texts or is_integer_dtype(frame[name]))]
    colour = next((name for name in groups if frame[name].nunique() <= MOST_COLOURS), None) if texts else None
    by = [name for name in (x, colour) if name]
    kind = ChartKind.BARS if texts and not frame.duplicated(by).any() else ChartKind.POINTS
    return Axes(kind, x, y, colour)


def _first(names: Sequence[str], other: str) -> str | None:
    return next((name for name in names if name != other), None)


def answer_figure(frame: pd.DataFrame, axes: Axes) -> go.Figure:
    """Draw the first `MOST_POINTS` rows that have a number to draw."""
    rows = frame[frame[axes.y].notna() & frame[axes.x].notna()].head(MOST_POINTS)
    figure = go.Figure()
    for name, colour, series in _coloured(rows, axes.colour):
        figure.add_trace(_trace(series, axes, name, colour))
    figure.update_xaxes(title=_label(axes.x), type=_axis(frame[axes.x]), automargin=True)
    figure.update_yaxes(title=_label(axes.y), rangemode="tozero" if axes.kind is ChartKind.BARS else "normal")
    legend = {"orientation": "h", "yanchor": "bottom", "y": 1.02, "x": 0, "title": _label(axes.colour or "")}
    margin = margins(40)
    return figure.update_layout(
        height=HEIGHT_PX, barmode="group", margin=margin, legend=legend, showlegend=axes.colour is not None
    )


def remarks(frame: pd.DataFrame, axes: Axes) -> tuple[str, ...]:
    """Say what the chart does not show as one would expect."""
    drawn = frame[frame[axes.y].notna() & frame[axes.x].notna()]
    left_out = len(frame) - len(drawn)
    by = [name for name in (axes.x, axes.colour) if name]
    overlaid = axes.kind is ChartKind.BARS and bool(drawn.duplicated(by).any())
    many = axes.colour is not None and frame[axes.colour].nunique(dropna=False) > MOST_COLOURS
    return tuple(
        sentence
        for holds, sentence in (
            (len(drawn) > MOST_POINTS, f"The first {MOST_POINTS:,} rows are drawn."),
            (left_out > 0, f"{left_out:,} rows without a value on an axis are not drawn."),
            (overlaid, "Several rows share a place, and their bars lie over each other: use GROUP BY, or points."),
            (many, f"There are more colours than can be told apart: the rarest are “{OTHERS}”."),
        )
        if holds
    )


def _is_number(values: "pd.Series[Any]") -> bool:
    return is_numeric_dtype(values) and not is_bool_dtype(values)


def _axis(values: "pd.Series[Any]") -> str:
    if is_datetime64_any_dtype(values):
        return "date"
    return "linear" if _is_number(values) else "category"


def _coloured(rows: pd.DataFrame, colour: str | None) -> list[tuple[str, str, pd.DataFrame]]:
    """Name, colour and rows of each series; beyond the colours there are, the rarest share one."""
    if colour is None:
        return [("", SERIES[0], rows)]
    names = rows[colour].astype("string").fillna(UNKNOWN)
    frequent = list(names.value_counts().index)
    if len(frequent) > MOST_COLOURS:
        names = names.where(names.isin(frequent[: MOST_COLOURS - 1]), OTHERS)
    ordered = list(dict.fromkeys(names))
    colours = {name: NOISE if name == OTHERS else SERIES[place % MOST_COLOURS] for place, name in enumerate(ordered)}
    return [(name, colours[name], rows[names == name]) for name in ordered]


def _trace(rows: pd.DataFrame, axes: Axes, name: str, colour: str) -> go.Bar | go.Scatter:
    as_text = _axis(rows[axes.x]) == "category"
    x = [_label(str(value)) for value in rows[axes.x]] if as_text else rows[axes.x]
    # Plotly reads a few HTML tags in every text; values come from elsewhere.
    shared: dict[str, Any] = {"x": list(x), "y": list(rows[axes.y]), "name": _label(name), "marker": {"color": colour}}
    if axes.kind is ChartKind.BARS:
        return go.Bar(**shared)
    return go.Scatter(**shared, mode="lines+markers" if axes.kind is ChartKind.LINES else "markers")


def _label(text: str) -> str:
    short = text if len(text) <= _LONGEST_LABEL else text[: _LONGEST_LABEL - 1] + "…"
    return html.escape(short)
