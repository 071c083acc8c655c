"""In which precisions the layers of each side ran, and where one follows another.

A layer counts for its own precision alone, also where the one before it ran in another.
"""

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from enginebench_controller.comparing.layer_types import Transition
from enginebench_controller.comparing.precisions import plain_precision
from enginebench_controller.records import Layer, LayerState
from enginebench_controller.stats.profiles import mean_ns
from enginebench_ui.views.compare_chart import COLOURS
from enginebench_ui.views.dress import margins
from enginebench_ui.views.text import UNKNOWN, Row, milliseconds, percent


@dataclass(frozen=True)
class PrecisionShare:
    """The timed layers of one precision: their time in nanoseconds, its share, and their number."""

    precision: str
    time_ns: float
    share: float | None
    layers: int


def precision_shares(layers: Iterable[Layer]) -> tuple[PrecisionShare, ...]:
    """Return the time by precision, most first; what the engine does not tell is "unknown"."""
    timed = [(_precision(layer), time) for layer in layers if (time := mean_ns(layer)) is not None]
    total = sum(time for _, time in timed)
    groups: dict[str, list[float]] = {}
    for name, time in timed:
        groups.setdefault(name, []).append(time)
    found = [
        PrecisionShare(name, sum(own), sum(own) / total if total else None, len(own)) for name, own in groups.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.time_ns, one.precision)))


def followers(layers: Iterable[Layer]) -> dict[tuple[str, str], int]:
    """Count, in the order of execution, how often an executed layer of one precision is followed by one of another.

    Layers of the same precision that follow each other count, too.
    """
    ran = sorted((one for one in layers if one.state is LayerState.EXECUTED), key=lambda one: one.order)
    names = [_precision(layer) for layer in ran]
    return dict(Counter(itertools.pairwise(names)))


def follower_rows(layers: Iterable[Layer]) -> tuple[Row, ...]:
    """Return the matrix of `followers`: a row the precision of a layer, a column that of the next one."""
    counts = followers(layers)
    names = sorted({name for pair in counts for name in pair})
    return tuple(
        {"From": before} | {f"to {after}": counts.get((before, after), 0) for after in names} for before in names
    )


def share_rows(sides: Mapping[str, Sequence[PrecisionShare]]) -> tuple[Row, ...]:
    """Return a table row a precision, with time, share and number of layers of each side."""
    names = dict.fromkeys(one.precision for shares in sides.values() for one in shares)
    rows: list[Row] = []
    for name in names:
        row: Row = {"Precision": name}
        for letter, shares in sides.items():
            own = next((one for one in shares if one.precision == name), None)
            row[f"{letter} (ms)"] = milliseconds(own.time_ns if own else None)
            row[f"{letter} (%)"] = percent(own.share if own else None)
            row[f"{letter} layers"] = own.layers if own else None
        rows.append(row)
    return tuple(rows)


def precision_figure(sides: Mapping[str, Sequence[PrecisionShare]]) -> go.Figure | None:
    """Draw the share of each precision as bars of A and B; None where nothing was timed."""
    names = list(dict.fromkeys(one.precision for shares in sides.values() for one in shares))
    if not names:
        return None
    figure = go.Figure([_bars(letter, shares, names) for letter, shares in sides.items()])
    figure.update_xaxes(title="share of the time of all layers", tickformat=".0%", range=[0, 1.15])
    figure.update_yaxes(autorange="reversed", type="category", ticksuffix=" ")
    return figure.update_layout(
        barmode="group",
        bargap=0.3,
        height=110 + 46 * len(names),
        margin=margins(40),
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
    )


def transition_rows(transitions: Iterable[Transition]) -> tuple[Row, ...]:
    """Return what became of precisions from A to B, over the rows that both executed; most time of A first."""
    groups: dict[tuple[str, str], list[Transition]] = {}
    for one in transitions:
        groups.setdefault((one.first or UNKNOWN, one.second or UNKNOWN), []).append(one)
    sums = [
        (pair, sum(one.first_ns for one in own), sum(one.second_ns for one in own), own) for pair, own in groups.items()
    ]
    return tuple(
        {
            "In A": first,
            "In B": second,
            "Rows": sum(one.rows for one in own),
            "Operators": ", ".join(dict.fromkeys(one.operator for one in own)),
            "Time A (ms)": milliseconds(first_ns),
            "Time B (ms)": milliseconds(second_ns),
            "Ratio": second_ns / first_ns if first_ns else None,
        }
        for (first, second), first_ns, second_ns, own in sorted(sums, key=lambda one: (-one[1], one[0]))
    )


def _precision(layer: Layer) -> str:
    return plain_precision(layer.precision) or UNKNOWN


def _bars(letter: str, shares: Sequence[PrecisionShare], names: Sequence[str]) -> go.Bar:
    own = {one.precision: one.share for one in shares}
    return go.Bar(
        name=letter,
        orientation="h",
        y=list(names),
        x=[own.get(name) for name in names],
        marker_color=COLOURS[letter],
        text=["" if own.get(name) is None else f"{own[name]:.1%}" for name in names],
        textposition="outside",
        cliponaxis=False,
        hovertemplate=f"{letter}: %{{x:.2%}} of the time in %{{y}}<extra></extra>",
    )
