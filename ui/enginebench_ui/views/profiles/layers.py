"""What stands in a profile's charts and tables: a layer that an engine ran, or a node of the model in theory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from enginebench_controller.model.layer_rooflines import rooflines
from enginebench_controller.model.matching import LayerCategory
from enginebench_controller.model.roofline import Roofline
from enginebench_controller.prospects.parts import HANDED_OVER
from enginebench_controller.records import Interval, LayerState, Peak, Profile, ProfileNode
from enginebench_controller.stats import profiles as figures

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
        parameters=_sum(node.parameters for node in held) if held else None,
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
        data_bytes=_sum((node.weight_bytes, node.activation_bytes)),
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


def _sum(values: Iterable[int | None]) -> int | None:
    found = list(values)
    return None if None in found else sum(value for value in found if value is not None)
