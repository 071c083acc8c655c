"""Layer types of both sides: time, share and number, and the distribution chart of those that are included."""

import html
from collections.abc import Collection, Sequence
from enum import StrEnum

import plotly.graph_objects as go

from enginebench_controller.comparing.layer_types import TypeRow, TypeSide
from enginebench_controller.comparing.profiles import precisions
from enginebench_ui.views.compare_chart import COLOURS
from enginebench_ui.views.dress import margins
from enginebench_ui.views.text import Row, cells, milliseconds, percent

INCLUDED = "Include to distribution chart"
MOST_BARS = 30
"""More types than that are left to the table."""

_LONGEST_LABEL = 24
_BAR_PX = 40
_ROOM = 1.25
"""The axis ends this far beyond the longest bar, for the percentage behind it."""


class Words(StrEnum):
    """Whose words types are named in."""

    MODEL = "Model's operators"
    ENGINE = "Engine's types"


def type_rows(types: Sequence[TypeRow], excluded: Collection[str]) -> tuple[Row, ...]:
    """Return a table row a type, from most to least time of either side. A side without the type has no numbers."""
    return tuple(
        {INCLUDED: one.type not in excluded, **cells({"Type": one.type, **_cells(one.first, "A")})}
        | cells(_cells(one.second, "B"))
        for one in types
    )


def excluded_after(types: Sequence[str], excluded: Collection[str], edited: dict[int, dict[str, bool]]) -> list[str]:
    """Return the excluded types after check marks were edited, by row as the data editor tells it."""
    left_out = set(excluded)
    for place, change in edited.items():
        if INCLUDED in change and place < len(types):
            (left_out.discard if change[INCLUDED] else left_out.add)(types[place])
    return [name for name in types if name in left_out]


def distribution_figure(types: Sequence[TypeRow], excluded: Collection[str]) -> go.Figure | None:
    """Draw the share of each included type as bars of A and B, the longest over the whole width; None without any.

    What stands behind a bar is its share of all time, whatever is included.
    """
    shown = [one for one in types if one.type not in excluded][:MOST_BARS]
    if not shown:
        return None
    figure = go.Figure(
        [_bars("A", shown, [one.first for one in shown]), _bars("B", shown, [one.second for one in shown])]
    )
    longest = max((side.share or 0.0 for one in shown for side in (one.first, one.second)), default=0.0)
    figure.update_xaxes(title="share of the time of all layers", tickformat=".0%", range=[0, (longest or 1.0) * _ROOM])
    figure.update_yaxes(autorange="reversed", type="category", ticksuffix=" ")
    return figure.update_layout(
        barmode="group",
        bargap=0.3,
        height=110 + _BAR_PX * len(shown),
        margin=margins(40),
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
    )


def hidden_sentence(types: Sequence[TypeRow], excluded: Collection[str]) -> str | None:
    """Say how much of the time the chart leaves out; None where it shows all."""
    left_out = [one for one in types if one.type in excluded]
    if not left_out:
        return None
    shares = [
        sum(side.share or 0.0 for side in sides)
        for sides in zip(*((one.first, one.second) for one in left_out), strict=True)
    ]
    gone = f"{shares[0]:.1%} of A's time, {shares[1]:.1%} of B's"
    return f"The chart leaves out {len(left_out)} of {len(types)} types: {gone}."


def _cells(side: TypeSide, letter: str) -> Row:
    return {
        f"{letter} (ms)": milliseconds(side.time_ns),
        f"{letter} (%)": percent(side.share),
        f"{letter} layers": precisions(side.precisions) or None,
    }


def _bars(letter: str, types: Sequence[TypeRow], sides: Sequence[TypeSide]) -> go.Bar:
    return go.Bar(
        name=letter,
        orientation="h",
        y=[_short(one.type) for one in types],
        x=[side.share for side in sides],
        marker_color=COLOURS[letter],
        text=["" if side.share is None else f"{side.share:.1%}" for side in sides],
        textposition="outside",
        cliponaxis=False,
        hovertemplate=f"{letter}: %{{x:.2%}} of the time<extra>%{{y}}</extra>",
    )


def _short(name: str) -> str:
    return html.escape(name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…")
