"""What every chart wears: what colours mean, and the fonts and colours of the pages, light or dark.

Most are of Okabe and Ito, "Color Universal Design" (2008).

Streamlit would give them by a template, made anew for each of the two times that it hands a figure to Plotly. Plotly
compares templates by identity only, takes the second for another chart, and draws all of it once more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io

from enginebench_controller.files.palette import HUES
from enginebench_ui.shared.text import isolated, turns

SERIES = HUES
"""For series that have no order and no meaning of their own, such as types of layers. Engines have looks of theirs."""

SWEET_SPOT = "#0072B2"
"""The point with the best throughput within the latency threshold."""

NEUTRAL = "#5C6F82"
"""What is counted in a model, and is no engine's."""

BETTER = "#009E73"
WORSE = "#D55E00"
NOISE = "#999999"
"""Within noise, unknown, or of no concern."""


_FONT = '"Source Sans", sans-serif'
_SMALL_PX, _MEDIUM_PX, _LARGE_PX = 12, 14, 16


@dataclass(frozen=True)
class Theme:
    """The colours of what is no data: ground, letters, headings, and the lines of a grid."""

    ground: str
    letters: str
    strong: str
    lines: str


# Those of Streamlit's own light and dark theme. The ground is not left transparent, for charts are saved, too.
LIGHT = Theme(ground="#ffffff", letters="#585755", strong="#2f2d2b", lines="#e8e5e2")
DARK = Theme(ground="#171614", letters="#c8c5c3", strong="#edebe8", lines="#3a3834")


def margins(top_px: int, *, legend_rows: int = 0) -> dict[str, int]:
    """Room from the start for what mostly stands around two axes of numbers, and for rows of a legend below them.

    Axes and legends that need more take it (`automargin`), but then Plotly lays the whole figure out once more.
    """
    return {"l": 82, "r": 10, "t": top_px, "b": 98 + 23 * legend_rows if legend_rows else 66}


MOST_LINEAR = 20
"""Values that span more are drawn on a logarithmic axis: on a linear one the smallest would lie on the ground."""


_TICKS = [mantissa * 10.0**exponent for exponent in range(-6, 13) for mantissa in (1, 2, 5)]
LOG_AXIS: Mapping[str, Any] = {
    "type": "log",
    "tickvals": _TICKS,
    "ticktext": [f"{one:,.0f}" if one >= 1 else f"{one:.6f}".rstrip("0") for one in _TICKS],
}
"""Plotly's own ticks between powers of ten are digits without their place, a 2 behind 10 for 20."""


def value_axis(title: str, values: Iterable[float | None]) -> dict[str, Any]:
    """Return the axis of values that begins at 0, or a logarithmic one where they span too much for that.

    None is there with a 0 among them, which a logarithmic axis has no place for.
    """
    known = [value for value in values if value is not None]
    if known and min(known) > 0 and max(known) > MOST_LINEAR * min(known):
        return {"title": f"{title} (log)", **LOG_AXIS}
    return {"title": title, "rangemode": "tozero"}


def dress(figure: go.Figure, palette: Theme) -> None:
    """Give a figure the palette and the fonts of the pages; what it has settled itself, it keeps."""
    plotly.io.templates.default = None  # Plotly gives the default to every layout that is set, also to this one
    own = figure.layout.to_plotly_json()
    own.pop("template", None)
    worn = _beneath(own, _layout(palette))
    for key in {"xaxis", "yaxis", *own}:
        if key.startswith("xaxis"):
            worn[key] = _beneath(own.get(key, {}), _x_axis(palette))
        elif key.startswith("yaxis"):
            worn[key] = _beneath(own.get(key, {}), _y_axis(palette))
    figure.layout = _with_names_isolated(worn)
    for trace in figure.data:
        for key in _NAMES:
            if key in trace and _turns(told := trace[key]):
                trace[key] = _with_names_isolated(told)


_NAMES = ("name", "text", "hovertext", "customdata", "x", "y")
"""Where traces have what a person reads; places on an axis of names, too."""


def _with_names_isolated(value: Any) -> Any:
    """Isolate every text, at any depth; what has none that needs it is returned as it is."""
    if isinstance(value, dict):
        return {key: _with_names_isolated(one) for key, one in value.items()}
    if not _turns(value):
        return value
    return isolated(value) if isinstance(value, str) else [_with_names_isolated(one) for one in value]


def _turns(value: Any) -> bool:
    """Whether a text, or any in a list, at any depth, has something that is written from right to left."""
    if isinstance(value, str):
        return turns(value)
    if isinstance(value, np.ndarray):
        return value.dtype.kind == "O" and any(map(_turns, value))
    if isinstance(value, list | tuple):
        # Thousands of numbers and names in a chart of layers: no call for each of them.
        return any(turns(one) if type(one) is str else type(one) in _LISTS and _turns(one) for one in value)
    return isinstance(value, dict) and any(map(_turns, value.values()))


_LISTS = (list, tuple, dict, np.ndarray)


def _beneath(own: Mapping[str, Any], general: Mapping[str, Any]) -> dict[str, Any]:
    """Fill what `own` leaves open, at any depth."""
    both = {key: _beneath(own[key], general[key]) for key in own.keys() & general.keys() if isinstance(own[key], dict)}
    return {**general, **own, **both}


def _layout(palette: Theme) -> dict[str, Any]:
    letters = {"color": palette.letters, "family": _FONT, "size": _SMALL_PX}
    return {
        "font": letters,
        "title": {"font": {"family": _FONT, "size": _LARGE_PX, "color": palette.strong}, "xanchor": "left", "x": 0},
        "legend": {"font": {"size": _SMALL_PX, "color": palette.strong}, "valign": "top"},
        "paper_bgcolor": palette.ground,
        "plot_bgcolor": palette.ground,
        "margin": {"pad": 8, "r": 0, "l": 0},
        "hoverlabel": {"bgcolor": palette.ground, "bordercolor": palette.lines, "font": letters},
    }


def _axis(palette: Theme) -> dict[str, Any]:
    # Not those of ticks and of minor lines: Plotly takes a colour for the wish to have them.
    return {"gridcolor": palette.lines, "zerolinecolor": palette.lines, "automargin": True}


def _x_axis(palette: Theme) -> dict[str, Any]:
    return {
        **_axis(palette),
        "showgrid": False,
        "zeroline": False,
        "title": {"font": {"size": _MEDIUM_PX}, "standoff": 20},
    }


def _y_axis(palette: Theme) -> dict[str, Any]:
    return {
        **_axis(palette),
        "ticklabelposition": "outside",
        "title": {"font": {"size": _MEDIUM_PX}, "standoff": 24},
    }
