"""The experiments of both sides as points: which is A or B, which are drawn, where the sweet spot is, and the chart."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import log10
from typing import Any

import plotly.graph_objects as go

from enginebench_controller.files.palette import SideLook, letters_on
from enginebench_controller.records.configuration import cores_in_words
from enginebench_controller.records.measurement import half_width
from enginebench_controller.stats.scaling import OperatingPoint, best_point, sweet_spot
from enginebench_controller.store.models import Experiment
from enginebench_ui.shared.charts import SWEET_SPOT, margins, value_axis
from enginebench_ui.shared.text import Row, cells, count_of, drawn_text, in_milliseconds, in_percent, instant, number

LETTERS = ("A", "B")

Looks = Mapping[str, SideLook]
"""How the sides are drawn, by letter."""

ID_CHARACTERS = 12
"""An id in an address is the start of the whole one."""

NO_POINT = "none"
"""Instead of an id: a person took the point away."""

DRAWN, NOT_DRAWN = "☑", "☐"


@dataclass(frozen=True)
class ShownSide:
    """One side of the comparison. `chosen` is its point A or B, `drawn` what the chart shows, `spot` its sweet spot.

    `lost` is the id that an address names although nothing here has it; "" where there is none such.
    """

    letter: str
    experiments: tuple[Experiment, ...]
    chosen: Experiment | None
    drawn: tuple[Experiment, ...]
    spot: Experiment | None
    lost: str = ""


def side(
    letter: str, experiments: Sequence[Experiment], named: str, hidden: Collection[str], threshold_ms: float | None
) -> ShownSide:
    """Make a side: `named` is the start of the id of its point, or `NO_POINT`, or "" for the one of most throughput.

    `hidden` are starts of ids of experiments that are not drawn. The sweet spot is sought among those that are.
    """
    drawn = tuple(one for one in experiments if has_numbers(one) and one.id[:ID_CHARACTERS] not in hidden)
    threshold_ns = None if threshold_ms is None else _as_shown_ns(threshold_ms * 1e6)
    spot = sweet_spot(map(_operating_point, drawn), threshold_ns)
    is_here = not named or named == NO_POINT or any(one.id.startswith(named) for one in experiments)
    return ShownSide(
        letter=letter,
        experiments=tuple(experiments),
        chosen=_chosen(experiments, drawn, named),
        drawn=drawn,
        spot=_with_id(drawn, spot.id if spot else None),
        lost="" if is_here else named,
    )


def alike(sides: tuple[ShownSide, ShownSide], named: Collection[str]) -> tuple[ShownSide, ShownSide]:
    """The sides at points of one configuration, where both have such: else a difference is that of how they were run.

    The letters that are `named` have the point that a person chose, and keep it.
    """
    one, other = sides
    shared = {_work(each) for each in one.drawn} & {_work(each) for each in other.drawn}
    if one.letter in named and other.letter in named:
        return sides
    if one.letter in named:
        return one, _at(other, one.chosen)
    if other.letter in named:
        return _at(one, other.chosen), other
    anchor = next((each for each in (one.chosen, other.chosen) if each is not None and _work(each) in shared), None)
    if anchor is None:
        anchor = _fastest([each for each in one.drawn if _work(each) in shared])
    return _at(one, anchor), _at(other, anchor)


def _at(side: ShownSide, anchor: Experiment | None) -> ShownSide:
    """The side at its fastest point of the anchor's configuration, if it has one there."""
    if anchor is None or (side.chosen is not None and _work(side.chosen) == _work(anchor)):
        return side
    found = _fastest([one for one in side.drawn if _work(one) == _work(anchor)])
    return side if found is None else replace(side, chosen=found)


def _work(one: Experiment) -> tuple[object, ...]:
    """What is done at a time, on how much of the machine: the axes that engines and versions of a model have alike."""
    return one.batch, one.cores, one.cluster, one.streams, one.requests, one.load, one.hint, one.precision


def has_numbers(experiment: Experiment) -> bool:
    """Whether there is a point to draw."""
    return experiment.latency_ns is not None and experiment.throughput_items_per_s is not None


def lost_sentence(one: ShownSide) -> str | None:
    """Say that the point which an address names is not there, as of a link to what was removed; None where it is."""
    if not one.lost:
        return None
    instead = "another one is shown" if one.chosen else "none is shown"
    return f"There is no measurement {one.lost} of project {one.letter} in this store; {instead}."


def lacking(one: ShownSide) -> str | None:
    """Say why a side has no point, and what to do; None where it has one."""
    if one.chosen is not None and has_numbers(one.chosen):
        return None
    if one.chosen is not None:
        why = f": {one.chosen.failure}" if one.chosen.failure else ""
        return f"{one.letter} has no point: the chosen experiment has no numbers ({one.chosen.status}{why})."
    if not one.experiments:
        return f"{one.letter} has no point: nothing of this project was measured yet."
    if not any(map(has_numbers, one.experiments)):
        return f"{one.letter} has no point: none of its experiments came to numbers."
    return f"{one.letter} has no point: select a row in its table."


def spot_sentence(one: ShownSide, threshold_ms: float | None) -> str | None:
    """Say where a side's sweet spot is, or that there is none; None without a threshold."""
    if not threshold_ms:
        return None
    if one.spot is None:
        return f"{one.letter} has no sweet spot: none of its points stays within {threshold_ms:,.10g} ms."
    also = f", which is {one.letter}" if one.chosen is not None and one.spot.id == one.chosen.id else ""
    rate, latency = one.spot.throughput_items_per_s, in_milliseconds(one.spot.latency_ns)
    return f"{one.letter}'s sweet spot{also}: {number(rate)} items/s at {latency:,.3f} ms ({point_text(one.spot)})."


def point_text(experiment: Experiment) -> str:
    """Name an experiment within its project: "batch 4, 1 stream, 2 cores, f32, 4 requests in flight"."""
    streams = count_of(experiment.streams, "stream")
    cores = cores_in_words(experiment.cores, experiment.cluster)
    requests = f", {experiment.requests} requests in flight" if experiment.requests > 1 else ""
    return f"batch {experiment.batch}, {streams}, {cores}, {experiment.precision}{requests}"


def selected(hidden: Collection[str], experiment_id: str) -> frozenset[str]:
    """Return what stays hidden when an experiment becomes A or B: its point is drawn in any case."""
    return frozenset(hidden) - {experiment_id[:ID_CHARACTERS]}


def toggled(hidden: Collection[str], experiment_id: str) -> frozenset[str]:
    """Return what is hidden when the check mark of an experiment was clicked."""
    return frozenset(hidden) ^ {experiment_id[:ID_CHARACTERS]}


def experiment_rows(one: ShownSide) -> tuple[Row, ...]:
    """Return a table row an experiment; axes in which all are alike are left out but for the most common.

    What tells two experiments apart stands before their numbers.
    """
    varying = {
        heading: read for heading, read in _SOMETIMES.items() if len({read(entry) for entry in one.experiments}) > 1
    }
    return tuple(cells(_row(one, entry, varying)) for entry in one.experiments)


_SOMETIMES: Mapping[str, Callable[[Experiment], object]] = {
    "Precision": lambda one: one.precision,
    "Load": lambda one: one.load,
    "Hint": lambda one: one.hint,
    "In flight": lambda one: one.requests,
    "Options": lambda one: one.options,
    "Version": lambda one: one.engine_version,
    "Earlier": lambda one: one.earlier,
}


def _row(one: ShownSide, entry: Experiment, varying: Mapping[str, Callable[[Experiment], object]]) -> Row:
    return {
        "Drawn": DRAWN if entry in one.drawn else NOT_DRAWN if has_numbers(entry) else None,
        "Point": _mark(one, entry),
        "Batch": entry.batch,
        "Streams": entry.streams,
        "Cores": entry.cores,
        **{heading: read(entry) for heading, read in varying.items()},
        "Items/s": entry.throughput_items_per_s,
        "Median (ms)": in_milliseconds(entry.latency_ns),
        "Status": f"{entry.status}: {entry.failure}" if entry.failure else entry.status.value,
        "Input set": entry.input_set,
        "± items/s (%)": in_percent(
            _half_width(
                entry.throughput_low_items_per_s, entry.throughput_high_items_per_s, entry.throughput_items_per_s
            )
        ),
        "± ms (%)": in_percent(_half_width(entry.latency_low_ns, entry.latency_high_ns, entry.latency_ns)),
        "Measured": None if entry.started_at_unix_ns is None else instant(entry.started_at_unix_ns),
    }


def _mark(one: ShownSide, entry: Experiment) -> str | None:
    signs = [one.letter] * (entry == one.chosen) + ["sweet spot"] * (entry == one.spot)
    return " · ".join(signs) or None


def _half_width(low: float | None, high: float | None, middle: float | None) -> float | None:
    return None if low is None or high is None or not middle else half_width(low, high, middle) / middle


def _chosen(experiments: Sequence[Experiment], drawn: Sequence[Experiment], named: str) -> Experiment | None:
    if named == NO_POINT:
        return None
    if named and (found := next((one for one in experiments if one.id.startswith(named)), None)):
        return found
    return _fastest(drawn)


def _fastest(experiments: Sequence[Experiment]) -> Experiment | None:
    found = best_point(map(_operating_point, experiments))
    return _with_id(experiments, found.id if found else None)


def _operating_point(experiment: Experiment) -> OperatingPoint:
    latency_ns = None if experiment.latency_ns is None else _as_shown_ns(experiment.latency_ns)
    return OperatingPoint(experiment.id, latency_ns, experiment.throughput_items_per_s)


def _as_shown_ns(time_ns: float) -> float:
    """Round as the tables do, to 0.001 ms: so a threshold that was copied from there does not miss its own point."""
    return round(time_ns / 1e6, 3) * 1e6


def _with_id(experiments: Sequence[Experiment], identity: str | None) -> Experiment | None:
    return next((one for one in experiments if one.id == identity), None)


HEIGHT_PX = 460

_MARGINS = margins(30, legend_rows=2)
_LEGEND = {"orientation": "h", "yanchor": "top", "y": -0.26, "x": 0}
_ROOM = 1.12
"""The axes end this far beyond the outermost point, so that large marks are not cut."""
_ROOM_IN_LOG = 1.3
"""The same of a logarithmic axis, at both ends."""

DrawnTrace = Mapping[str, Any]

_HOVER = "%{customdata}<br>%{x:,.4~r} ms, %{y:,.4~r} items/s<extra>%{fullData.name}</extra>"


@dataclass(frozen=True)
class Curve:
    """The drawn experiments of one side that differ in batch, streams and requests only, and the fastest of them."""

    inferences: tuple[Experiment, ...]
    best: Experiment


def configurations(drawn: Sequence[Experiment]) -> tuple[Curve, ...]:
    """Group experiments by all but batch, streams and requests in flight; each group in the order of these."""
    groups: dict[tuple[object, ...], list[Experiment]] = defaultdict(list)
    for one in drawn:
        groups[one.cores, one.cluster, one.precision, one.hint, one.load, one.input_set, one.options].append(one)
    return tuple(
        Curve(
            tuple(sorted(group, key=lambda one: (one.batch, one.streams, one.requests, one.started_at_unix_ns or 0))),
            max(group, key=lambda one: (one.throughput_items_per_s or 0.0, -(one.latency_ns or 0.0), one.id)),
        )
        for group in groups.values()
    )


def points_figure(sides: Sequence[ShownSide], threshold_ms: float | None, looks: Looks) -> go.Figure | None:
    """Draw both sides on the same axes; None where there is no point at all."""
    drawn = [one for side in sides for one in side.drawn]
    if not drawn:
        return None
    # Plain dictionaries, handed over in one go: Plotly checks traces of its own a second time, and each of its updates
    # takes as long as the whole of a layout.
    traces = [trace for draw in (_lines, _marks) for side in sides for trace in draw(side, looks[side.letter])]
    across = _axis("median latency (ms)", [_ms(one) for one in drawn], threshold_ms)
    layout = {
        "xaxis": across,
        "yaxis": _axis("throughput (items/s)", [_rate(one) for one in drawn]),
        "height": HEIGHT_PX,
        "margin": _MARGINS,
        "legend": _LEGEND,
        "hovermode": "closest",
        **(_threshold(threshold_ms, in_log="type" in across) if threshold_ms else {}),
    }
    return go.Figure(traces, layout)


def _axis(title: str, values: Sequence[float], mark: float | None = None) -> Mapping[str, Any]:
    """The axis of all these values. A `mark` below all of them is in sight."""
    axis, least, most = value_axis(title, values), min(values), max(values)
    if "type" not in axis:
        return {"title": title, "range": [0, _ROOM * most]}
    ground = min(least, mark or least)
    return {**axis, "range": [log10(ground / _ROOM_IN_LOG), log10(most * _ROOM_IN_LOG)]}


def _threshold(ms: float, *, in_log: bool) -> Mapping[str, Any]:
    """A line from the ground to the top, and what it means above it."""
    line = {"color": SWEET_SPOT, "width": 1.5, "dash": "dot"}
    across = {"type": "line", "x0": ms, "x1": ms, "xref": "x", "y0": 0, "y1": 1, "yref": "y domain", "line": line}
    # What is written on a logarithmic axis stands, unlike points and shapes, at the power of ten.
    at = log10(ms) if in_log else ms
    place = {"x": at, "xref": "x", "xanchor": "left", "y": 1, "yref": "y domain", "yanchor": "bottom"}
    said = {"text": f"≤ {ms:,.10g} ms", "font": {"size": 12}, "showarrow": False, **place}
    return {"shapes": [across], "annotations": [said]}


def _lines(side: ShownSide, look: SideLook) -> Iterator[DrawnTrace]:
    found, colour = configurations(side.drawn), look.colour
    for place, one in enumerate(found):
        yield _trace(
            one.inferences,
            f"{side.letter}: inferences within a configuration",
            mode="lines+markers",
            line={"color": colour, "width": 1.5, "dash": look.dash},
            marker={"symbol": "circle" if look.dash == "solid" else "circle-open", "size": 8, "color": colour},
            legendgroup=f"{side.letter} inferences",
            showlegend=not place,
        )
    if found:
        yield _trace(
            sorted((one.best for one in found), key=_ms),
            f"{side.letter}: configurations, the best of each",
            mode="lines+markers",
            line={"color": colour, "width": 2, "dash": "dot"},
            marker={"symbol": "square" if look.dash == "solid" else "square-open", "size": 11, "color": colour},
        )


def _marks(side: ShownSide, look: SideLook) -> Iterator[DrawnTrace]:
    """A or B with its letter, and a ring around the sweet spot."""
    is_spot = side.chosen is not None and side.spot is not None and side.chosen.id == side.spot.id
    if side.spot is not None and not is_spot:
        yield _draw_mark(side, side.spot, f"sweet spot of {side.letter}", look, letter=False)
    if side.chosen is not None and side.chosen in side.drawn:
        name = f"{side.letter}, its sweet spot" if is_spot else side.letter
        yield _draw_mark(side, side.chosen, name, look, letter=True, is_spot=is_spot)


def _draw_mark(
    side: ShownSide, one: Experiment, name: str, look: SideLook, *, letter: bool, is_spot: bool = True
) -> DrawnTrace:
    return _trace(
        [one],
        name,
        mode="markers+text" if letter else "markers",
        text=[side.letter] if letter else None,
        textposition="middle center",
        textfont={"color": letters_on(look.colour), "size": 14, "weight": "bold"},
        marker={
            "symbol": "circle",
            "size": 24 if letter else 17,
            "color": look.colour if letter else "rgba(0, 0, 0, 0)",
            "line": {"color": SWEET_SPOT if is_spot else look.colour, "width": 4 if is_spot else 1},
        },
    )


def _trace(shown: Sequence[Experiment], name: str, **style: object) -> DrawnTrace:
    return {
        "type": "scatter",
        "x": [_ms(one) for one in shown],
        "y": [_rate(one) for one in shown],
        "customdata": [drawn_text(f"{point_text(one)}, {one.load}, {one.input_set}") for one in shown],
        "name": name,
        "hovertemplate": _HOVER,
        "cliponaxis": False,
        **style,
    }


def _ms(one: Experiment) -> float:
    return (one.latency_ns or 0.0) / 1e6


def _rate(one: Experiment) -> float:
    return one.throughput_items_per_s or 0.0
