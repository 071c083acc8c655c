"""Latency and throughput of both sides in one chart: what each configuration reaches, A, B and the sweet spots."""

import html
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from enginebench_controller.store.experiments import Experiment
from enginebench_ui.views.compare_points import Side, point_text
from enginebench_ui.views.dress import margins
from enginebench_ui.views.palette import FIRST, SECOND, SWEET_SPOT

COLOURS = {"A": FIRST, "B": SECOND}
HEIGHT_PX = 460

_MARGINS = margins(30, legend_rows=2)
_LEGEND = {"orientation": "h", "yanchor": "top", "y": -0.26, "x": 0}
_ROOM = 1.12
"""The axes end this far beyond the outermost point, so that large marks are not cut."""

_HOVER = "%{customdata}<br>%{x:,.4~r} ms, %{y:,.4~r} items/s<extra>%{fullData.name}</extra>"


@dataclass(frozen=True)
class Configuration:
    """The drawn experiments of one side that differ in batch, streams and requests only, and the fastest of them."""

    inferences: tuple[Experiment, ...]
    best: Experiment


def configurations(drawn: Sequence[Experiment]) -> tuple[Configuration, ...]:
    """Group experiments by all but batch, streams and requests in flight; each group in the order of these."""
    groups: dict[tuple[object, ...], list[Experiment]] = defaultdict(list)
    for one in drawn:
        groups[one.cores, one.precision, one.hint, one.load, one.input_set, one.options].append(one)
    return tuple(
        Configuration(
            tuple(sorted(group, key=lambda one: (one.batch, one.streams, one.requests, one.started_at_unix_ns or 0))),
            max(group, key=lambda one: (one.throughput_items_per_s or 0.0, -(one.latency_ns or 0.0), one.id)),
        )
        for group in groups.values()
    )


def points_figure(sides: Sequence[Side], threshold_ms: float | None) -> go.Figure | None:
    """Draw both sides on the same axes; None where there is no point at all."""
    drawn = [one for side in sides for one in side.drawn]
    if not drawn:
        return None
    figure = go.Figure()
    for side in sides:
        _add_lines(figure, side)
    for side in sides:
        _add_marks(figure, side)
    if threshold_ms:
        figure.add_vline(
            threshold_ms,
            line={"color": SWEET_SPOT, "width": 1.5, "dash": "dot"},
            annotation={"text": f"≤ {threshold_ms:,.10g} ms", "font": {"size": 12}, "yanchor": "bottom", "y": 1},
        )
    figure.update_xaxes(title="median latency (ms)", range=[0, _ROOM * max(_ms(one) for one in drawn)])
    figure.update_yaxes(title="throughput (items/s)", range=[0, _ROOM * max(_rate(one) for one in drawn)])
    return figure.update_layout(height=HEIGHT_PX, margin=_MARGINS, legend=_LEGEND, hovermode="closest")


def _add_lines(figure: go.Figure, side: Side) -> None:
    found, colour = configurations(side.drawn), COLOURS[side.letter]
    for place, one in enumerate(found):
        figure.add_trace(
            _trace(
                one.inferences,
                f"{side.letter}: inferences within a configuration",
                mode="lines+markers",
                line={"color": colour, "width": 1.5},
                marker={"symbol": "circle", "size": 8, "color": colour},
                legendgroup=f"{side.letter} inferences",
                showlegend=not place,
            )
        )
    if found:
        figure.add_trace(
            _trace(
                sorted((one.best for one in found), key=_ms),
                f"{side.letter}: configurations, the best of each",
                mode="lines+markers",
                line={"color": colour, "width": 2, "dash": "dash"},
                marker={"symbol": "square", "size": 11, "color": colour},
            )
        )


def _add_marks(figure: go.Figure, side: Side) -> None:
    """Draw A or B with its letter, and the sweet spot: where they are the same point, blue with the letter."""
    is_spot = side.chosen is not None and side.spot is not None and side.chosen.id == side.spot.id
    if side.spot is not None and not is_spot:
        figure.add_trace(_mark(side, side.spot, f"sweet spot of {side.letter}", SWEET_SPOT, letter=False))
    if side.chosen is not None and side.chosen in side.drawn:
        name = f"{side.letter}, its sweet spot" if is_spot else side.letter
        figure.add_trace(_mark(side, side.chosen, name, SWEET_SPOT if is_spot else COLOURS[side.letter], letter=True))


def _mark(side: Side, one: Experiment, name: str, colour: str, *, letter: bool) -> go.Scatter:
    return _trace(
        [one],
        name,
        mode="markers+text" if letter else "markers",
        text=[side.letter] if letter else None,
        textposition="middle center",
        textfont={"color": "#FFFFFF" if colour == SWEET_SPOT else "#000000", "size": 14, "weight": "bold"},
        marker={
            "symbol": "circle",
            "size": 24 if letter else 17,
            "color": colour,
            "line": {"color": COLOURS[side.letter], "width": 3},
        },
    )


def _trace(shown: Sequence[Experiment], name: str, **style: object) -> go.Scatter:
    return go.Scatter(
        x=[_ms(one) for one in shown],
        y=[_rate(one) for one in shown],
        customdata=[html.escape(f"{point_text(one)}, {one.load}, {one.input_set}") for one in shown],
        name=name,
        hovertemplate=_HOVER,
        cliponaxis=False,
        **style,
    )


def _ms(one: Experiment) -> float:
    return (one.latency_ns or 0.0) / 1e6


def _rate(one: Experiment) -> float:
    return one.throughput_items_per_s or 0.0
