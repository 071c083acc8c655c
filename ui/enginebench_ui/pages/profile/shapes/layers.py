"""What stands in a profile's charts and tables: layers or nodes, which figure of them, and a colour for each type."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from enginebench_controller.graph.flops.work import sum_or_none
from enginebench_controller.graph.matching.matched import LayerCategory
from enginebench_controller.graph.roofline import Roofline, rooflines
from enginebench_controller.records import Interval, LayerState, Peak, Profile, ProfileNode
from enginebench_controller.stats import layers as figures
from enginebench_controller.verdicts.pruning.estimate import HANDED_OVER
from enginebench_ui.shared.charts import NOISE, SERIES

_MADE_BY = {
    LayerCategory.REORDER: "engine-made: reorder",
    LayerCategory.CONVERT: "engine-made: convert",
    LayerCategory.DATA: "engine-made: data",
    LayerCategory.ENGINE_MADE: "engine-made",
}
_BY_ONNX_RUNTIME = "run by ONNX Runtime"


@dataclass(frozen=True)
class LayerView:
    """One layer, or node. Names are those of files and engines: raw, to be made inert where they are shown.

    `position` is its place among the profile's layers or the graph's nodes, `depth` its place in the order of execution
    counted from 1. `nodes` are the ONNX names of what it stands for, `made_by` says whose it is if not the model's.
    Times are nanoseconds of one inference; None is unknown.
    """

    position: int
    depth: int
    name: str
    type: str
    state: LayerState = LayerState.EXECUTED
    made_by: str = ""
    handed_over: bool = False
    nodes: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    precision: str = ""
    kernel: str = ""
    time_ns: float | None = None
    interval: Interval | None = None
    share: float | None = None
    flops: int | None = None
    parameters: int | None = None
    data_bytes: int | None = None
    calls: int | None = None
    output_shapes: tuple[tuple[int, ...] | None, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    details: Mapping[str, str] = field(default_factory=dict)
    place: Roofline | None = None


def layer_views(profile: Profile, peaks: Sequence[Peak] = ()) -> tuple[LayerView, ...]:
    """Return the layers in the order of execution."""
    places = rooflines(profile, peaks)
    total = figures.total_ns(profile.layers)
    nodes = _nodes_by_group(profile.nodes)
    order = sorted(range(len(profile.layers)), key=lambda position: (profile.layers[position].order, position))
    return tuple(
        _layer(profile, position, depth, total, places[position], nodes)
        for depth, position in enumerate(order, start=1)
    )


def node_views(nodes: Iterable[ProfileNode]) -> tuple[LayerView, ...]:
    """Return the nodes that run, in the graph's order; those that are folded away before do not."""
    running = [node for node in nodes if not node.folded]
    return tuple(_node(node, depth) for depth, node in enumerate(running, start=1))


def _layer(
    profile: Profile,
    position: int,
    depth: int,
    total_ns: float | None,
    place: Roofline | None,
    nodes: Mapping[int, Sequence[ProfileNode]],
) -> LayerView:
    layer = profile.layers[position]
    held = nodes.get(layer.group, ()) if layer.group is not None else ()
    time = figures.mean_ns(layer)
    handed_over = layer.type == HANDED_OVER
    return LayerView(
        position=position,
        depth=depth,
        name=layer.name,
        type=layer.type,
        state=layer.state,
        made_by=_BY_ONNX_RUNTIME if handed_over else _made_by(layer.category),
        handed_over=handed_over,
        nodes=tuple(node.name for node in held) or layer.source_nodes,
        weights=tuple(dict.fromkeys(name for node in held for name in node.weights)),
        precision=layer.precision,
        kernel=layer.kernel,
        time_ns=time,
        interval=figures.interval(layer),
        share=figures.ratio(time, total_ns),
        flops=layer.flops,
        parameters=sum_or_none(node.parameters for node in held) if held else None,
        data_bytes=layer.data_bytes,
        calls=layer.calls if layer.time_ns else None,
        output_shapes=layer.output_shapes,
        inputs=layer.inputs,
        outputs=layer.outputs,
        details=layer.parameters,
        place=place,
    )


def _node(node: ProfileNode, depth: int) -> LayerView:
    return LayerView(
        position=node.index,
        depth=depth,
        name=node.name,
        type=f"{node.domain}.{node.op_type}" if node.domain else node.op_type,
        nodes=(node.name,),
        weights=node.weights,
        flops=node.flops,
        parameters=node.parameters,
        data_bytes=sum_or_none((node.weight_bytes, node.activation_bytes)),
        output_shapes=node.output_shapes,
        inputs=tuple(name for name in node.inputs if name),
        outputs=tuple(name for name in node.outputs if name),
        details={name: str(value) for name, value in node.attributes.items()},
    )


def _made_by(category: str) -> str:
    return _MADE_BY.get(LayerCategory(category), "") if category else ""


def _nodes_by_group(nodes: Iterable[ProfileNode]) -> dict[int, list[ProfileNode]]:
    found: dict[int, list[ProfileNode]] = {}
    for node in nodes:
        if node.group is not None:
            found.setdefault(node.group, []).append(node)
    return found


ReadValue = Callable[[LayerView], float | None]


class Scale(StrEnum):
    """How values are drawn; the words stand on the page and in its address."""

    VALUES = "Values"
    LOG = "Log"
    PERCENT = "Per cent"


@dataclass(frozen=True)
class Dataset:
    """One figure of every layer: its label, its unit in a table's heading and on an axis, and how to read it.

    `sparsity` is the share of zeros imposed in the pass that it comes from, None for the profile itself. `is_time` says
    that values are milliseconds. `of_a_type` is how layers of a type sum up: None as `value` does.
    """

    label: str
    unit: str
    value: ReadValue
    sparsity: float | None = None
    is_time: bool = False
    of_a_type: ReadValue | None = None
    explained: str = ""

    def type_value(self, layer: LayerView) -> float | None:
        """What the layer adds to its type."""
        return (self.of_a_type or self.value)(layer)


def time_ms(layer: LayerView) -> float | None:
    """The mean time in one inference, in milliseconds."""
    return None if layer.time_ns is None else layer.time_ns / 1e6


BASELINE = "Baseline ms"
_BASELINE = Dataset(BASELINE, "ms", time_ms, is_time=True, explained="Measured: the mean over the profiled inferences.")
_FLOPS = Dataset(
    "FLOPS", "FLOP", lambda layer: layer.flops, explained="Counted in the model: a multiply-add is 2, zeros count."
)
_COUNT = Dataset(
    "Count",
    "nodes",
    lambda layer: float(len(layer.nodes)),
    of_a_type=lambda _layer: 1.0,
    explained="How many layers a type has, and how many nodes of the model a layer stands for.",
)
_PARAMETERS = Dataset(
    "Parameters", "parameters", lambda layer: layer.parameters, explained="Elements of the weights that a node reads."
)
_BYTES = Dataset(
    "Bytes", "B", lambda layer: layer.data_bytes, explained="Weights and activations that a node moves, each once."
)


def measured_datasets(sparsities: Iterable[float]) -> Mapping[str, Dataset]:
    """Those of a profile that was run, by label; `sparsities` are the shares of zeros that passes imposed."""
    pruned = [_pruned(share) for share in sorted(set(sparsities)) if share]
    return {one.label: one for one in (_BASELINE, *pruned, _FLOPS, _COUNT)}


def theoretical_datasets() -> Mapping[str, Dataset]:
    """Those of a model that was only counted."""
    return {one.label: one for one in (_FLOPS, _PARAMETERS, _BYTES, _COUNT)}


def total(layers: Sequence[LayerView], value: ReadValue) -> float | None:
    """The sum of what is known; None where nothing is."""
    known = [found for layer in layers if (found := value(layer)) is not None]
    return sum(known) if known else None


def as_percent(value: float | None, whole: float | None) -> float | None:
    """A value as per cent of the whole; None where either is unknown."""
    return None if value is None or not whole else 100 * value / whole


def _pruned(sparsity: float) -> Dataset:
    return Dataset(
        f"Pruned {sparsity:g} ms",
        "ms",
        time_ms,
        sparsity=sparsity,
        is_time=True,
        explained=f"Measured with {100 * sparsity:g} % of every layer's weights taken for zero by the engine.",
    )


OTHERS = "other types"
ENGINE_MADE = "engine-made"
_MOST = 6
"""Types with a colour of their own; the seventh colour is for all others, and the eighth, grey, for the engine's."""


def type_colours(layers: Sequence[LayerView], dataset: Dataset) -> Mapping[str, str]:
    """Return a colour for each type, those with most of the figure first; after six they share one."""
    types = types_by_value(layers, dataset)
    made = {layer.type for layer in layers if layer.made_by}
    own = [name for name in types if name not in made]
    colours = dict(zip(own[:_MOST], SERIES, strict=False))
    return {name: NOISE if name in made else colours.get(name, SERIES[_MOST]) for name in types}


def legend_entry(name: str, colour: str) -> str:
    """The series of a chart that a type belongs to."""
    return {NOISE: ENGINE_MADE, SERIES[_MOST]: OTHERS}.get(colour, name)


def types_by_value(layers: Sequence[LayerView], dataset: Dataset) -> tuple[str, ...]:
    """Return the types, the one with most of the figure first, unknown ones last."""
    groups: dict[str, list[LayerView]] = {}
    for layer in layers:
        groups.setdefault(layer.type, []).append(layer)
    values = {name: total(members, dataset.type_value) for name, members in groups.items()}
    return tuple(sorted(groups, key=lambda name: (values[name] is None, -(values[name] or 0.0), name)))
