"""Both sides by type of layer and by precision, with their charts, and the settings in which they differ.

A layer counts for its own precision alone, also where the one before it ran in another.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import plotly.graph_objects as go

from enginebench_controller.files.palette import SideLook
from enginebench_controller.records import Layer, LayerState
from enginebench_controller.stats.layers import mean_ns
from enginebench_controller.verdicts.layers.profiles import ProfileComparison, Transition, TypeRow, TypeSide, precisions
from enginebench_controller.verdicts.layers.rows import plain_precision
from enginebench_controller.verdicts.layers.summary import SettingDifference, letter
from enginebench_ui.pages.compare.shapes.points import Looks
from enginebench_ui.shared.charts import BETTER, NEUTRAL, NOISE, WORSE, margins
from enginebench_ui.shared.text import UNKNOWN, Row, cells, drawn_text, in_milliseconds, in_percent

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


def distribution_figure(types: Sequence[TypeRow], excluded: Collection[str], looks: Looks) -> go.Figure | None:
    """Draw the share of each included type as bars of A and B, the longest over the whole width; None without any.

    What stands behind a bar is its share of all time, whatever is included.
    """
    shown = [one for one in types if one.type not in excluded][:MOST_BARS]
    if not shown:
        return None
    bars = [
        _type_bars("A", looks["A"], shown, [one.first for one in shown]),
        _type_bars("B", looks["B"], shown, [one.second for one in shown]),
    ]
    longest = max((side.share or 0.0 for one in shown for side in (one.first, one.second)), default=0.0)
    shares = {"title": "share of the time of all layers", "tickformat": ".0%", "range": [0, (longest or 1.0) * _ROOM]}
    layout = {
        "xaxis": shares,
        "yaxis": {"autorange": "reversed", "type": "category", "ticksuffix": " "},
        "barmode": "group",
        "bargap": 0.3,
        "height": 110 + _BAR_PX * len(shown),
        "margin": margins(40),
        "legend": {"orientation": "h", "yanchor": "bottom", "y": 1.0, "x": 0},
    }
    return go.Figure(bars, layout)


MOST_STEPS = 10
"""Types with a step of their own in the waterfall; those that change least share one."""


def waterfall_figure(types: Sequence[TypeRow]) -> go.Figure | None:
    """Draw the time of A's layers, what each type takes more or less in B, and B's time; None where one has none."""
    times = [[side.time_ns or 0 for side in (one.first, one.second)] for one in types]
    first_ns, second_ns = (sum(own[place] for own in times) for place in (0, 1))
    if not first_ns or not second_ns:
        return None
    steps = sorted(
        ((one.type, own[1] - own[0]) for one, own in zip(types, times, strict=True) if own[0] != own[1]),
        key=lambda step: -abs(step[1]),
    )
    rest = steps[MOST_STEPS:]
    shown = [*steps[:MOST_STEPS], *([(f"{len(rest)} other types", sum(step for _, step in rest))] if rest else [])]
    values = [first_ns, *(step for _, step in shown), second_ns]
    drawn = go.Waterfall(
        x=["A", *(_short(name) for name, _ in shown), "B"],
        y=[value / 1e6 for value in values],
        measure=["absolute", *["relative"] * len(shown), "total"],
        text=[f"{value / 1e6:{'+' if 0 < place <= len(shown) else ''}.3f}" for place, value in enumerate(values)],
        textposition="outside",
        cliponaxis=False,
        increasing={"marker": {"color": WORSE}},
        decreasing={"marker": {"color": BETTER}},
        totals={"marker": {"color": NEUTRAL}},
        connector={"line": {"color": NOISE, "width": 1}},
        hovertemplate="%{x}: %{text} ms<extra></extra>",
    )
    layout = {
        "xaxis": {"type": "category"},
        "yaxis": {"title": "Σ layers (ms)", "rangemode": "tozero"},
        "height": 300,
        "margin": margins(24),
        "showlegend": False,
    }
    return go.Figure([drawn], layout)


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
        f"{letter} (ms)": in_milliseconds(side.time_ns),
        f"{letter} (%)": in_percent(side.share),
        f"{letter} layers": precisions(side.precisions) or None,
    }


def _type_bars(letter: str, look: SideLook, types: Sequence[TypeRow], sides: Sequence[TypeSide]) -> go.Bar:
    return go.Bar(
        name=letter,
        orientation="h",
        y=[_short(one.type) for one in types],
        x=[side.share for side in sides],
        marker={"color": look.colour, "pattern": {"shape": look.pattern}},
        text=["" if side.share is None else f"{side.share:.1%}" for side in sides],
        textposition="outside",
        cliponaxis=False,
        hovertemplate=f"{letter}: %{{x:.2%}} of the time<extra>%{{y}}</extra>",
    )


def _short(name: str) -> str:
    return drawn_text(name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…")


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
        for side, shares in sides.items():
            own = next((one for one in shares if one.precision == name), None)
            row[f"{side} (ms)"] = in_milliseconds(own.time_ns if own else None)
            row[f"{side} (%)"] = in_percent(own.share if own else None)
            row[f"{side} layers"] = own.layers if own else None
        rows.append(row)
    return tuple(rows)


def precision_figure(sides: Mapping[str, Sequence[PrecisionShare]], looks: Looks) -> go.Figure | None:
    """Draw the share of each precision as bars of A and B; None where nothing was timed."""
    names = list(dict.fromkeys(one.precision for shares in sides.values() for one in shares))
    if not names:
        return None
    figure = go.Figure([_precision_bars(letter, looks[letter], shares, names) for letter, shares in sides.items()])
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
            "Time A (ms)": in_milliseconds(first_ns),
            "Time B (ms)": in_milliseconds(second_ns),
            "Ratio": second_ns / first_ns if first_ns else None,
        }
        for (first, second), first_ns, second_ns, own in sorted(sums, key=lambda one: (-one[1], one[0]))
    )


def _precision(layer: Layer) -> str:
    return plain_precision(layer.precision) or UNKNOWN


def _precision_bars(letter: str, look: SideLook, shares: Sequence[PrecisionShare], names: Sequence[str]) -> go.Bar:
    own = {one.precision: one.share for one in shares}
    return go.Bar(
        name=letter,
        orientation="h",
        y=[drawn_text(name) for name in names],
        x=[own.get(name) for name in names],
        marker={"color": look.colour, "pattern": {"shape": look.pattern}},
        text=["" if own.get(name) is None else f"{own[name]:.1%}" for name in names],
        textposition="outside",
        cliponaxis=False,
        hovertemplate=f"{letter}: %{{x:.2%}} of the time in %{{y}}<extra></extra>",
    )


def setting_rows(settings: Sequence[SettingDifference]) -> tuple[Row, ...]:
    """Return a table row a setting that is not the same on both sides."""
    return tuple(
        cells({"Setting": one.setting} | {letter(place): value for place, value in enumerate(one.values)})
        for one in settings
    )


def advice_lines(comparison: ProfileComparison) -> tuple[str, ...]:
    """Return a line a piece of advice, with the side it is for."""
    places = {one.id: letter(place) for place, one in enumerate(comparison.profiles)}
    return tuple(f"{places[one.profile_id]}: {one.sentence}: {one.remedy}" for one in comparison.advice)
