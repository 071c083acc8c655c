"""One row of layers opened: how each side ran it, in what the sides differ, and the drawing of what was fused."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from enginebench_controller.records import Layer, LayerState, Profile, ProfileNode
from enginebench_controller.verdicts.layers.profiles import ProfilePair
from enginebench_controller.verdicts.layers.rows import LayerRow, RowSide
from enginebench_controller.verdicts.words import milliseconds, percent
from enginebench_ui.pages.compare.shapes.layers import outcome
from enginebench_ui.shared.text import UNKNOWN, Row, cells, count_of, drawn_text

MOST_LISTED = 12
"""Of more source nodes or layers than that, the drawing shows the first and counts the rest."""

_NOT_RUN = {
    LayerState.NOT_EXECUTED: "This layer was not executed in {}: the engine ran nothing for its nodes.",
    LayerState.OPTIMIZED_AWAY: "This layer was not executed in {}: it depends on no input, so it was computed before.",
    LayerState.ABSENT: "This layer was not executed in {}: its model has no such nodes.",
    LayerState.NO_DATA: "There is no data for this layer in {}: nobody knows whether, or how long, it ran there.",
}

_SETTINGS = frozenset({"precision", "output shapes"})
_WORDS = frozenset({"engine's type", "kernel", "engine's layers"})
"""Another engine has other words for the same."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of the run on both sides, as text; None where a side has none. `differs`: the sides are not alike."""

    name: str
    first: str | None
    second: str | None
    differs: bool


@dataclass(frozen=True)
class Fusing:
    """What one side made of the model's nodes: `nodes` as (operator, name), and the `layers` that ran them."""

    letter: str
    nodes: tuple[tuple[str, str], ...]
    layers: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """How many became how many."""
        nodes, layers = count_of(len(self.nodes), "source node"), f"{len(self.layers)} executed"
        if not self.layers:
            return f"{self.letter}: {nodes} → nothing executed"
        return (
            f"{self.letter}: {nodes} → {layers}"
            if self.nodes
            else f"{self.letter}: {layers}, made by the engine itself"
        )


@dataclass(frozen=True)
class Detail:
    """A row, opened. `notices` say in words what a person must not miss, such as that a side did not execute it."""

    heading: str
    summary: str
    notices: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    fusing: tuple[Fusing, Fusing]

    @property
    def differing(self) -> tuple[Parameter, ...]:
        """The parameters in which the sides differ."""
        return tuple(one for one in self.parameters if one.differs)


def detail(pair: ProfilePair, row: LayerRow) -> Detail:
    """Open a row of a pair."""
    return Detail(
        heading=row.name,
        summary=_summary(row),
        notices=tuple(_notices(row)),
        parameters=tuple(_parameters(pair, row)),
        fusing=(_fusing("A", pair.first, row.first), _fusing("B", pair.second, row.second)),
    )


def _summary(row: LayerRow) -> str:
    if row.ratio is None:
        return f"{row.operator} · {outcome(row)}"
    bounds = (
        "" if row.ratio_low is None or row.ratio_high is None else f", 95 % {row.ratio_low:.3f} to {row.ratio_high:.3f}"
    )
    return f"{row.operator} · B ÷ A = {row.ratio:.3f}{bounds} · {outcome(row)}"


def _notices(row: LayerRow) -> Iterator[str]:
    for letter, side in (("A", row.first), ("B", row.second)):
        if side.state in _NOT_RUN:
            yield _NOT_RUN[side.state].format(letter)
    if row.is_joined and not row.exact:
        yield "The sides do not run the very same nodes here: one of them fused a light node into a neighbour's layer."


def _parameters(pair: ProfilePair, row: LayerRow) -> Iterator[Parameter]:
    sides = (row.first, row.second)
    layers = tuple(_layers(profile, side) for profile, side in zip((pair.first, pair.second), sides, strict=True))
    facts = [_facts(side, own) for side, own in zip(sides, layers, strict=True)]
    compared = {difference.parameter for difference in row.differences}
    comparable = _SETTINGS | (_WORDS if pair.first.engine.name == pair.second.engine.name else frozenset())
    for name in facts[0]:
        one, other = (fact[name] for fact in facts)
        differs = name in comparable and one != other and row.is_joined
        yield Parameter(name, one, other, differs or name in compared)
    for name in _parameter_names(layers):
        one, other = (_joint(own, name) for own in layers)
        yield Parameter(name, one, other, name in compared)


def _facts(side: RowSide, layers: Sequence[Layer]) -> dict[str, str | None]:
    shapes = ["×".join(map(str, shape)) for layer in layers for shape in layer.output_shapes]
    return {
        "state": side.state.value.replace("_", " "),
        "time (ms)": _known(milliseconds(side.time_ns), side.time_ns),
        "± (ms)": _known(milliseconds(side.half_width_ns), side.half_width_ns),
        "share of all layers (%)": _known(percent(side.share), side.share),
        "share of the attainable peak (%)": _known(percent(side.peak_share), side.peak_share),
        "precision": side.precision or None,
        "output shapes": ", ".join(shapes) or None,
        "engine's type": ", ".join(side.types) or None,
        "kernel": ", ".join(side.kernels) or None,
        "engine's layers": ", ".join(side.layers) or None,
        "calls": ", ".join(str(layer.calls) for layer in layers) or None,
        "place in the order of execution": ", ".join(str(layer.order) for layer in layers) or None,
    }


def _parameter_names(layers: Sequence[Sequence[Layer]]) -> list[str]:
    return sorted({name for own in layers for layer in own for name in layer.parameters})


def _joint(layers: Sequence[Layer], name: str) -> str | None:
    return "; ".join(dict.fromkeys(layer.parameters[name] for layer in layers if name in layer.parameters)) or None


def _layers(profile: Profile, side: RowSide) -> tuple[Layer, ...]:
    wanted = set(side.layers)
    return tuple(layer for layer in profile.layers if layer.name in wanted)


def _fusing(letter: str, profile: Profile, side: RowSide) -> Fusing:
    types = _types(profile.nodes, side.nodes)
    ran = side.layers if side.state in (LayerState.EXECUTED, LayerState.NO_DATA) else ()
    return Fusing(letter, tuple((types.get(name, UNKNOWN), name) for name in side.nodes), ran)


def _types(nodes: Sequence[ProfileNode], names: Sequence[str]) -> Mapping[str, str]:
    wanted = set(names)
    return {node.name: node.op_type for node in nodes if node.name in wanted}


def _known(text: str, value: float | None) -> str | None:
    return None if value is None else text


def parameter_rows(found: Detail, *, only_differing: bool) -> tuple[Row, ...]:
    """Return a table row a parameter, those that neither side has left out; a sign marks where the sides differ."""
    shown = found.differing if only_differing else found.parameters
    return tuple(
        cells({"≠": "≠" if one.differs else "", "Parameter": one.name, "A": one.first, "B": one.second})
        for one in shown
        if one.first is not None or one.second is not None
    )


_LONGEST = 26
_ROW_PX = 34
_NODE, _LINE = "#999999", "#B0B0B0"


def fusing_figure(fusing: Fusing, colour: str) -> go.Figure | None:
    """Draw n source nodes → m executed layers, in the colour of their side; None where either has nothing to draw."""
    nodes = _listed([f"{operator}: {name}" for operator, name in fusing.nodes])
    layers = _listed(list(fusing.layers))
    if not nodes or not layers:
        return None
    rows = max(len(nodes), len(layers))
    left, right = _heights(len(nodes), rows), _heights(len(layers), rows)
    figure = go.Figure(_lines(left, right))
    figure.add_trace(_boxes(nodes, 0.0, left, _NODE, "middle left", "source nodes"))
    figure.add_trace(_boxes(layers, 1.0, right, colour, "middle right", "executed layers"))
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
        text=[f" {drawn_text(_short(name))} " for name in names],
        textposition=where,
        textfont={"size": 12},
        customdata=[drawn_text(name[:200]) for name in names],
        hovertemplate=f"%{{customdata}}<extra>{what}</extra>",
        cliponaxis=False,
    )


def _short(name: str) -> str:
    """The end of a name tells more than its start, which layers of one block share."""
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
