"""The rows of two profiles: layers that run the same part of the model, and which of the two takes less time for it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from enginebench_controller.graph.matching.kinds import family, is_light
from enginebench_controller.graph.matching.matched import Join, LayerCategory, Row, RowPart
from enginebench_controller.records import Layer, LayerState, Profile, ProfileNode
from enginebench_controller.stats.intervals import LEVEL
from enginebench_controller.stats.layers import Mean, MeanRatio, compare_means, half_width, mean_time

_PLAIN = {
    "float": "f32",
    "float32": "f32",
    "fp32": "f32",
    "float16": "f16",
    "fp16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "double": "f64",
    "float64": "f64",
    "uint8": "u8",
    "quint8": "u8",
    "int8": "i8",
    "qint8": "i8",
    "s8": "i8",
    "int32": "i32",
    "s32": "i32",
    "int64": "i64",
    "s64": "i64",
}


@cache
def plain_precision(word: str) -> str:
    """One word for a precision, whoever says it; an unknown word stays as it is."""
    return _PLAIN.get(word.lower(), word.lower())


def joint_precision(words: Iterable[str]) -> str:
    """The precisions of layers that stand in one row, each once, in their order; "" where none is known."""
    return "+".join(dict.fromkeys(plain_precision(word) for word in words if word))


def operator(profiles: tuple[Profile, Profile], row: Row) -> str:
    """The ONNX operator of the node that does most of a row's work, in all precisions the same word.

    For what is no part of the model its category: "reorder", "convert", "data" or "engine made". Where no graph is
    known the engine's own word.
    """
    if row.category is not LayerCategory.MATCHED:
        return row.category.value.replace("_", " ")
    node = dominant_node(profiles, row)
    if node is not None:
        return family(node.op_type)
    return next(
        profile.layers[position].type
        for profile, side in zip(profiles, row.sides, strict=True)
        for position in side.layers
    )


def dominant_node(profiles: tuple[Profile, Profile], row: Row) -> ProfileNode | None:
    """The node of a row with most work; None where none is known."""
    return node_with_most_work(_nodes(profiles, row))


def node_with_most_work(nodes: Iterable[ProfileNode]) -> ProfileNode | None:
    """The first of those with most operations, among those that engines do not fuse into others where there are any.

    A QuantizeLinear over a large tensor has more operations than the pooling behind it, and still is no more than that.
    None of none.
    """
    return max(nodes, key=lambda node: (not is_light(node.op_type), node.flops or 0), default=None)


def _nodes(profiles: tuple[Profile, Profile], row: Row) -> Iterator[ProfileNode]:
    """Of the first profile, or of the second where the first has none."""
    for profile, side in zip(profiles, row.sides, strict=True):
        if side.nodes and profile.nodes:
            yield from (profile.nodes[node] for node in side.nodes)
            return


class LayerVerdict(StrEnum):
    """What the second profile's side of a row is, compared with the first's."""

    BETTER = "better"
    WORSE = "worse"
    WITHIN_NOISE = "within noise"


@dataclass(frozen=True)
class LayerDifference:
    """A parameter of the run that two layers do not share, in the engine's words; None where one lacks it."""

    parameter: str
    first: str | None
    second: str | None


@dataclass(frozen=True)
class RowSide:
    """One profile's part of a row. `state` tells why there is no time; `peak_share` is that of the attainable peak.

    `half_width_ns` is of the mean's 95 % interval over the inferences of the pass. `time_ns` is that of `timed_layers`
    of them. `layers`, `types` and `kernels` are
    the engine's own words, `precision` is made comparable ("u8+f32" where the layers differ).
    """

    state: LayerState
    layers: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    precision: str = ""
    nodes: tuple[str, ...] = ()
    time_ns: int | None = None
    timed_layers: int = 0
    half_width_ns: float | None = None
    share: float | None = None
    peak_share: float | None = None

    @property
    def ran(self) -> bool:
        """Whether it was executed, with a time or without one."""
        return self.state is LayerState.EXECUTED or (self.state is LayerState.NO_DATA and bool(self.layers))


@dataclass(frozen=True)
class LayerRow:
    """Layers of two profiles that run the same source nodes; `operator` is the type of the node with most work.

    Reorders and what else an engine adds have rows of their own, with their category. `contribution_ns` is by how much
    the row makes the second profile's layers slower than the first's: over all rows it adds up to the difference of
    their totals, exactly. `difference_ns` and `ratio` need a time on both sides. `exact`: both run the very same nodes.
    """

    order: int
    name: str
    operator: str
    category: LayerCategory
    first: RowSide
    second: RowSide
    contribution_ns: int
    difference_ns: int | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p_value: float | None = None
    verdict: LayerVerdict | None = None
    exact: bool = True
    differences: tuple[LayerDifference, ...] = ()

    @property
    def is_joined(self) -> bool:
        """Whether both executed it."""
        return self.first.state is self.second.state is LayerState.EXECUTED

    @property
    def is_of_first(self) -> bool:
        """Whether the first executed it, and nothing that the second executed is known to be the same."""
        return self.first.state is LayerState.EXECUTED and not self.second.ran

    @property
    def is_of_second(self) -> bool:
        """Whether the second executed it, and nothing that the first executed is known to be the same."""
        return self.second.state is LayerState.EXECUTED and not self.first.ran

    @property
    def outcome(self) -> str:
        """The verdict, or why there is none."""
        if self.verdict is not None:
            return self.verdict.value
        if self.is_joined:
            return "no spread to tell by"
        sides = ((self.first, "A"), (self.second, "B"))
        return ", ".join(_missing(side, which) for side, which in sides if side.state is not LayerState.EXECUTED)

    @property
    def slowest_ns(self) -> int:
        """The time of the side that took longer, for sorting."""
        return max(self.first.time_ns or 0, self.second.time_ns or 0)


PeakShares = Mapping[str, Sequence[float | None]]
"""By a profile's id the share of its attainable peak that each layer reached, None where unknown."""


def layer_rows(
    profiles: tuple[Profile, Profile], join: Join, peaks: PeakShares, practical: float
) -> tuple[LayerRow, ...]:
    """The rows of a join of two profiles, in its order, with verdicts corrected for the number of rows on both sides.

    A verdict needs a difference beyond noise and beyond `practical`, a share of the first's time.
    """
    comparisons = max(1, join.joined_rows)
    return tuple(_row(order, row, profiles, join, peaks, comparisons, practical) for order, row in enumerate(join.rows))


def _row(
    order: int,
    row: Row,
    profiles: tuple[Profile, Profile],
    join: Join,
    peaks: PeakShares,
    comparisons: int,
    practical: float,
) -> LayerRow:
    layers = [_layers(profile, side) for profile, side in zip(profiles, row.sides, strict=True)]
    means = [mean_time(of_side) for of_side in layers]
    first, second = (
        _side(profile, side, mean, total, peaks)
        for profile, side, mean, total in zip(profiles, row.sides, means, join.total_ns, strict=True)
    )
    found = _compared(means, comparisons) if row.is_joined else None
    return LayerRow(
        order=order,
        name=_name(profiles, row, layers),
        operator=operator(profiles, row),
        category=row.category,
        first=first,
        second=second,
        contribution_ns=(second.time_ns or 0) - (first.time_ns or 0),
        difference_ns=_difference(first, second),
        ratio=_ratio(first, second),
        ratio_low=found.low if found else None,
        ratio_high=found.high if found else None,
        p_value=found.p_value if found else None,
        verdict=_verdict(found, practical),
        exact=row.exact,
        differences=tuple(_differences(profiles, *layers)),
    )


def _layers(profile: Profile, side: RowPart) -> list[Layer]:
    return [profile.layers[position] for position in side.layers]


def _side(profile: Profile, side: RowPart, mean: Mean | None, total: int, peaks: PeakShares) -> RowSide:
    layers = _layers(profile, side)
    shares = peaks.get(profile.id, ())
    known = shares[side.layers[0]] if len(side.layers) == 1 and shares else None
    return RowSide(
        state=side.state,
        layers=tuple(layer.name for layer in layers),
        types=tuple(dict.fromkeys(layer.type for layer in layers)),
        kernels=tuple(dict.fromkeys(layer.kernel for layer in layers if layer.kernel)),
        precision=joint_precision(layer.precision for layer in layers if layer.time_ns),
        nodes=tuple(profile.nodes[node].name for node in side.nodes) if profile.nodes else (),
        time_ns=side.time_ns,
        timed_layers=sum(bool(layer.time_ns) for layer in layers),
        half_width_ns=half_width(mean) if mean else None,
        share=side.time_ns / total if side.time_ns is not None and total else None,
        peak_share=known,
    )


def _name(profiles: tuple[Profile, Profile], row: Row, layers: Sequence[Sequence[Layer]]) -> str:
    """The label of the source node with most work, else the name of the first layer."""
    node = dominant_node(profiles, row)
    return node.name if node else next(layer.name for of_side in layers for layer in of_side)


def _compared(means: Sequence[Mean | None], comparisons: int) -> MeanRatio | None:
    first, second = means
    return None if first is None or second is None else compare_means(first, second, comparisons)


def _difference(first: RowSide, second: RowSide) -> int | None:
    return None if first.time_ns is None or second.time_ns is None else second.time_ns - first.time_ns


def _ratio(first: RowSide, second: RowSide) -> float | None:
    return None if not first.time_ns or second.time_ns is None else second.time_ns / first.time_ns


def _verdict(found: MeanRatio | None, practical: float) -> LayerVerdict | None:
    """From a first time of 0 any difference is a large one."""
    if found is None:
        return None
    is_large = found.ratio is None or abs(found.ratio - 1) > practical
    if found.p_value > 1 - LEVEL or not is_large or not found.difference:
        return LayerVerdict.WITHIN_NOISE
    return LayerVerdict.WORSE if found.difference > 0 else LayerVerdict.BETTER


def _differences(
    profiles: tuple[Profile, Profile], first: Sequence[Layer], second: Sequence[Layer]
) -> Iterator[LayerDifference]:
    """What two layers of one engine's runs do not share. Another engine has other words for everything."""
    if len(first) != 1 or len(second) != 1:
        return
    one, other = first[0], second[0]
    if plain_precision(one.precision) != plain_precision(other.precision):
        yield LayerDifference("precision", one.precision or None, other.precision or None)
    if one.output_shapes and other.output_shapes and one.output_shapes != other.output_shapes:
        yield LayerDifference("output shapes", _shapes(one), _shapes(other))
    if profiles[0].engine.name != profiles[1].engine.name:
        return
    if one.kernel != other.kernel:
        yield LayerDifference("kernel", one.kernel or None, other.kernel or None)
    for parameter in sorted(one.parameters.keys() | other.parameters.keys()):
        if one.parameters.get(parameter) != other.parameters.get(parameter):
            yield LayerDifference(parameter, one.parameters.get(parameter), other.parameters.get(parameter))


def _shapes(layer: Layer) -> str:
    return ", ".join("×".join(map(str, shape)) for shape in layer.output_shapes)


def _missing(side: RowSide, which: str) -> str:
    if side.state is LayerState.NO_DATA:
        return f"no data in {which}"
    return f"{side.state.value.replace('_', ' ')} in {which}"
