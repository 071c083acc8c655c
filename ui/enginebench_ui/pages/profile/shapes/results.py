"""Layer results: every layer in the order of execution, as a line or bars, and as a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from enginebench_controller.records import LayerState
from enginebench_ui.pages.profile.shapes.layers import (
    Dataset,
    LayerView,
    Scale,
    as_percent,
    legend_entry,
    total,
    type_colours,
)
from enginebench_ui.pages.profile.shapes.types import heading
from enginebench_ui.shared.charts import NEUTRAL, NOISE, SERIES, margins
from enginebench_ui.shared.text import (
    UNKNOWN,
    Row,
    cells,
    drawn_text,
    magnitude,
    milliseconds_text,
    percent_text,
    shortened,
)

MOST_MARKS = 400
"""With more layers than this, bars and markers are thinner than a pixel, and each would still cost its drawing: then
the outline is drawn, as a single line."""

HEIGHT_PX = 420
_HOVER_NAME = 48


class Drawing(StrEnum):
    """How layers are drawn; the words stand on the page and in its address."""

    LINE = "Line"
    BARS = "Bars"


def layer_figure(
    layers: Sequence[LayerView],
    dataset: Dataset,
    scale: Scale,
    drawing: Drawing,
    chosen: int | None = None,
    colour: str = NEUTRAL,
    hovers: Sequence[str] | None = None,
) -> go.Figure | None:
    """Draw the figure of each layer by its depth, a gap where it is unknown; None when nothing is known.

    `chosen` is the position of the layer that is marked, `colour` that of the engine, `hovers` what `hover_text` says
    of each, where that is known already.
    """
    values = _scaled(layers, dataset, scale)
    if not any(value is not None for value in values):
        return None
    hovers = hovers or [hover_text(layer, dataset) for layer in layers]
    if len(layers) > MOST_MARKS:
        figure = go.Figure([_outline(layers, values, hovers, drawing, colour)])
    elif drawing is Drawing.BARS:
        figure = go.Figure(list(_bars(layers, values, hovers, dataset)))
    else:
        figure = go.Figure([_line(layers, values), *_marks(layers, values, hovers, dataset)])
    _mark_chosen(figure, layers, values, chosen)
    figure.update_xaxes(title="layer, in the order of execution", range=[0.2, len(layers) + 0.8], tickformat="d")
    figure.update_yaxes(title=_unit(dataset, scale), automargin=True, **_value_axis(values, dataset, scale))
    return figure.update_layout(
        height=HEIGHT_PX,
        margin=margins(12),
        legend={"orientation": "h", "yanchor": "top", "y": -0.2, "x": 0},
        barmode="overlay",
        hovermode="closest" if len(layers) <= MOST_MARKS else "x",
    )


@dataclass(frozen=True, eq=False)
class LayerForms:
    """A figure of layers in the forms that take as long to make as all else of an answer: a table, cards, and hovers.

    `frame` has a row a layer, `cards` are the first of these rows, `hovers` what a chart says of each.
    """

    layers: tuple[LayerView, ...]
    frame: pd.DataFrame
    cards: tuple[Row, ...]
    hovers: tuple[str, ...]


def layer_forms(layers: tuple[LayerView, ...], dataset: Dataset, most_cards: int) -> LayerForms:
    """Return all of them, with at most so many cards."""
    rows = layer_rows(layers, dataset)
    hovers = tuple(hover_text(layer, dataset) for layer in layers)
    return LayerForms(layers, pd.DataFrame(list(rows)), rows[:most_cards], hovers)


def layer_rows(layers: Sequence[LayerView], dataset: Dataset) -> tuple[Row, ...]:
    """Return a table row a layer, in the order of execution; columns that hold nothing at all are left out."""
    whole = total(layers, dataset.value)
    rows = [_row(layer, dataset, whole) for layer in layers]
    told = {name for row in rows for name, value in row.items() if value is not None}
    always = {"#", "Layer", heading(dataset)}
    return tuple(cells({name: value for name, value in row.items() if name in told | always}) for row in rows)


def largest_text(layers: Sequence[LayerView], dataset: Dataset, most: int = 3) -> str:
    """Name the layers that have most of a figure, with their shares of the whole; empty where there are no more."""
    whole = total(layers, dataset.value)
    known = [(value, layer.name) for layer in layers if (value := dataset.value(layer))]
    if not whole or len(known) <= most:
        return ""
    first = sorted(known, reverse=True)[:most]
    return "Largest: " + ", ".join(f"{shortened(name)} ({percent_text(value / whole)})" for value, name in first)


def hover_text(layer: LayerView, dataset: Dataset) -> str:
    """Return what a chart says of a layer, in Plotly's few tags of HTML."""
    facts = (
        ("", f"<b>#{layer.depth} {_escaped(layer.name)}</b>"),
        ("", f"{_escaped(layer.type)}{f', {layer.made_by}' if layer.made_by else ''}"),
        ("", _value_text(layer, dataset)),
        ("ONNX id", _few(layer.nodes)),
        ("weight", _few(layer.weights)),
        ("precision", _escaped(layer.precision)),
        ("kernel", _escaped(layer.kernel)),
        ("of its roofline", roof_text(layer)),
    )
    return "<br>".join(f"{name}: {text}" if name else text for name, text in facts if text)


def roof_text(layer: LayerView) -> str:
    """Return the share of what the layer could attain, with what bounds it: "45 % (memory)"; empty if unknown."""
    place = layer.place
    if place is None or place.share is None:
        return ""
    bound = f" ({place.bound.value}-bound)" if place.bound else ""
    return f"{percent_text(place.share, 0)}{bound}{', dense-equivalent' if place.dense_equivalent else ''}"


def _row(layer: LayerView, dataset: Dataset, whole: float | None) -> Row:
    place = layer.place
    return {
        "#": layer.depth,
        "Layer": layer.name,
        "Type": layer.type,
        heading(dataset): dataset.value(layer),
        "± (%)": _half_width(layer) if dataset.is_time else None,
        "Share (%)": as_percent(dataset.value(layer), whole),
        "Precision": layer.precision or None,
        "Kernel": layer.kernel or None,
        "Of roof (%)": None if place is None or place.share is None else 100 * place.share,
        "Bound by": place.bound.value if place is not None and place.bound is not None else None,
        "ONNX id": ", ".join(layer.nodes) or None,
        "Weight": ", ".join(layer.weights) or None,
        **({} if dataset.label == "FLOPS" else {"FLOPs": layer.flops}),
        "Origin": layer.made_by or None,
        "State": layer.state.value.replace("_", " "),
    }


def _half_width(layer: LayerView) -> float | None:
    if layer.interval is None or not layer.time_ns:
        return None
    return 100 * (layer.interval.high - layer.time_ns) / layer.time_ns  # its low end stops at 0, whatever this is


def _value_text(layer: LayerView, dataset: Dataset) -> str:
    value = dataset.value(layer)
    if value is None:
        return f"{dataset.label}: {UNKNOWN} ({layer.state.value.replace('_', ' ')})"
    if not dataset.is_time:
        return magnitude(value, f" {dataset.unit}" if dataset.unit in ("nodes", "parameters") else dataset.unit)
    half, share = _half_width(layer), layer.share
    more = (f"±{half:.0f} %" if half is not None else "", percent_text(share) if share is not None else "")
    return " · ".join(filter(None, (milliseconds_text(layer.time_ns), *more)))


def _few(names: Sequence[str], most: int = 3) -> str:
    shown = ", ".join(_escaped(name) for name in names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _escaped(text: str) -> str:
    return drawn_text(shortened(text, _HOVER_NAME))


def _scaled(layers: Sequence[LayerView], dataset: Dataset, scale: Scale) -> list[float | None]:
    values = [dataset.value(layer) for layer in layers]
    if scale is not Scale.PERCENT:
        return values
    whole = total(layers, dataset.value)
    return [as_percent(value, whole) for value in values]


_NEVER_RAN = frozenset({LayerState.NOT_EXECUTED, LayerState.OPTIMIZED_AWAY})
"""What never ran is no gap: one layer came right after another. A layer that ran untold is one."""


def _line(layers: Sequence[LayerView], values: Sequence[float | None]) -> go.Scatter:
    ran = [(layer.depth, value) for layer, value in zip(layers, values, strict=True) if layer.state not in _NEVER_RAN]
    return go.Scatter(
        x=[depth for depth, _ in ran],
        y=[value for _, value in ran],
        mode="lines",
        line={"color": NOISE, "width": 1.5},
        hoverinfo="skip",
        showlegend=False,
    )


def _outline(
    layers: Sequence[LayerView], values: Sequence[float | None], hovers: Sequence[str], drawing: Drawing, colour: str
) -> Mapping[str, Any]:
    """No trace yet: the figure makes one of it, and Plotly checks each of its values once instead of twice."""
    bars = {"line": {"color": colour, "width": 1, "shape": "hvh"}, "fill": "tozeroy"}
    told = zip(layers, values, hovers, strict=True)
    ran = [(layer.depth, value, hover) for layer, value, hover in told if layer.state not in _NEVER_RAN]
    return {
        "type": "scatter",
        "x": [depth for depth, _, _ in ran],
        "y": [value for _, value, _ in ran],
        "mode": "lines",
        "showlegend": False,
        **_with_hover([hover for _, _, hover in ran]),
        **(bars if drawing is Drawing.BARS else {"line": {"color": colour, "width": 1.2}}),
    }


def _bars(
    layers: Sequence[LayerView], values: Sequence[float | None], hovers: Sequence[str], dataset: Dataset
) -> list[go.Bar]:
    return [
        go.Bar(x=x, y=y, name=name, marker_color=colour, width=0.8, **_with_hover(texts))
        for name, colour, x, y, texts in _by_type(layers, values, hovers, dataset)
    ]


def _marks(
    layers: Sequence[LayerView], values: Sequence[float | None], hovers: Sequence[str], dataset: Dataset
) -> list[go.Scatter]:
    return [
        go.Scatter(x=x, y=y, name=name, mode="markers", marker={"color": colour, "size": 8}, **_with_hover(texts))
        for name, colour, x, y, texts in _by_type(layers, values, hovers, dataset)
    ]


DrawnSeries = tuple[str, str, list[int], list[float | None], list[str]]


def _by_type(
    layers: Sequence[LayerView], values: Sequence[float | None], hovers: Sequence[str], dataset: Dataset
) -> list[DrawnSeries]:
    """A series a type with a colour of its own, one for the other types, and one for what the engine made."""
    colours = type_colours(layers, dataset)
    found: dict[str, DrawnSeries] = {}
    for name, colour in colours.items():
        key = legend_entry(name, colour)
        found.setdefault(key, (drawn_text(shortened(key, 24)), colour, [], [], []))
    for layer, value, hover in zip(layers, values, hovers, strict=True):
        _, _, x, y, texts = found[legend_entry(layer.type, colours[layer.type])]
        if value is not None:
            x.append(layer.depth)
            y.append(value)
            texts.append(hover)
    return [series for series in found.values() if series[2]]


def _with_hover(texts: Sequence[str]) -> Mapping[str, Any]:
    return {"customdata": list(texts), "hovertemplate": "%{customdata}<extra></extra>"}


def _mark_chosen(
    figure: go.Figure, layers: Sequence[LayerView], values: Sequence[float | None], chosen: int | None
) -> None:
    for layer, value in zip(layers, values, strict=True):
        if layer.position == chosen and value is not None:
            ring = {"symbol": "circle-open", "size": 18, "color": SERIES[5], "line": {"width": 3}}
            marked = {"mode": "markers", "marker": ring, "hoverinfo": "skip", "name": "selected"}
            figure.add_trace(go.Scatter(x=[layer.depth], y=[value], **marked))


def _unit(dataset: Dataset, scale: Scale) -> str:
    if scale is Scale.PERCENT:
        return f"share of {dataset.label} (%)"
    return f"{dataset.unit}, logarithmic" if scale is Scale.LOG else dataset.unit


def _value_axis(values: Sequence[float | None], dataset: Dataset, scale: Scale) -> Mapping[str, Any]:
    if scale is Scale.LOG and any(values):
        return {"type": "log", "exponentformat": "SI", "dtick": 1}
    plain = dataset.is_time or scale is Scale.PERCENT
    return {"rangemode": "tozero", "tickformat": "" if plain else "~s"}
