"""A model's nodes with the work in them, as records that profiles have too; and profiles led back to these nodes.

Fusion is there to keep what lies between its nodes out of memory. So a tensor that the group makes and nobody else
reads counts nothing, one that several of its nodes read counts once, and weights and all others count as `flops` has
it for each node.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from enginebench_controller.errors import ModelError
from enginebench_controller.graph.flops.counting import bytes_read, model_cost, node_costs
from enginebench_controller.graph.flops.work import ModelCost, NodeCost, sum_or_none
from enginebench_controller.graph.matching.layers_to_nodes import match_layers
from enginebench_controller.graph.matching.matched import Matching
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.graph.source_graph import SourceGraph, SourceNode
from enginebench_controller.models.inputs.binding import GivenShapes, given_shapes
from enginebench_controller.records import (
    Configuration,
    Coverage,
    Layer,
    ModelVersion,
    ModelWork,
    Profile,
    ProfileNode,
)


@dataclass(frozen=True)
class CountedModel:
    """The nodes of a model's graph with the work of each, for `batch` items.

    `assumptions` are sentences about what had to be chosen, such as sizes that the model leaves open.
    """

    batch: int
    nodes: tuple[ProfileNode, ...]
    work: ModelWork
    assumptions: tuple[str, ...] = ()


def counted_model(path: Path, batch: int | None = None) -> CountedModel:
    """Count an ONNX file without running it; None as `batch` is the model's own, or 1. Raises `ModelError`."""
    graph = read_source_graph(path, {}, batch)
    costs = node_costs(graph)
    nodes = tuple(counted_node(node, cost) for node, cost in zip(graph.nodes, costs, strict=True))
    return CountedModel(graph.batch, nodes, counted_work(model_cost(graph, costs)), graph.assumptions)


def counted_node(node: SourceNode, cost: NodeCost) -> ProfileNode:
    """The node with its work; it is matched to nothing."""
    return ProfileNode(
        index=node.index,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        inputs=node.inputs,
        outputs=node.outputs,
        weights=node.weights,
        output_shapes=node.output_shapes,
        attributes=node.attributes,
        folded=node.folded,
        macs=cost.macs,
        flops=cost.flops,
        parameters=cost.parameters,
        nonzero_parameters=cost.nonzero_parameters,
        weight_bytes=cost.weight_bytes,
        activation_bytes=cost.activation_bytes,
        method=cost.method.value,
    )


def counted_work(total: ModelCost) -> ModelWork:
    """The totals of a model."""
    return ModelWork(
        macs=total.macs,
        flops=total.flops,
        parameters=total.parameters,
        nonzero_parameters=total.nonzero_parameters,
        weight_bytes=total.weight_bytes,
        activation_bytes=total.activation_bytes,
        coverage=None if total.coverage_percent is None else total.coverage_percent / 100,
    )


@dataclass(frozen=True)
class GroupWork:
    """Operations (1 MAC is 2) and bytes moved in one inference; None where any node's are unknown."""

    flops: int | None
    data_bytes: int | None


class GroupCounting:
    """Counts groups of nodes of one graph; `costs` are those of its nodes."""

    def __init__(self, graph: SourceGraph, costs: Sequence[NodeCost]) -> None:
        self._graph = graph
        self._costs = costs
        self._reads = Counter(name for node in graph.nodes for name in set(node.inputs) if name)
        self._reads.update(graph.outputs)

    def work(self, nodes: Sequence[int]) -> GroupWork:
        """The work of the nodes with these indexes."""
        members = [(self._graph.nodes[node], self._costs[node]) for node in nodes if not self._graph.nodes[node].folded]
        return GroupWork(
            flops=sum_or_none([cost.flops for _, cost in members]),
            data_bytes=self._data_bytes([node for node, _ in members], [cost for _, cost in members]),
        )

    def _data_bytes(self, nodes: Sequence[SourceNode], costs: Sequence[NodeCost]) -> int | None:
        moved = sum_or_none([cost.activation_bytes for cost in costs] + [cost.weight_bytes for cost in costs])
        if moved is None or len(nodes) == 1:
            return moved
        if any(node.bodies for node in nodes):
            return None  # what bodies move is counted with them, and cannot be told apart
        twice = sum_or_none([self._counted_twice(name, nodes) for name in self._between(nodes)])
        return None if twice is None else moved - twice

    def _between(self, nodes: Sequence[SourceNode]) -> set[str]:
        made = {name for node in nodes for name in node.outputs if name}
        reads = Counter(name for node in nodes for name in set(node.inputs) if name)
        return {name for name, times in reads.items() if name in made or times > 1}

    def _counted_twice(self, name: str, nodes: Sequence[SourceNode]) -> int | None:
        """The bytes of a tensor that its nodes count beyond what crosses the border."""
        if self._graph.weight(name) is not None:
            return 0
        tensor = self._graph.tensors.get(name)
        size = None if tensor is None else tensor.size_bytes
        reads = [bytes_read(self._graph, node, name) for node in nodes if name in node.inputs]
        read = sum_or_none(reads)
        if size is None or read is None:
            return None
        if not any(name in node.outputs for node in nodes):
            return read - min(read, size)
        leaves = self._reads[name] > len(reads)
        return read if leaves else read + size


FORMAT_WITH_A_GRAPH = "onnx"
_UNKNOWN_WORK = GroupWork(None, None)


@dataclass(frozen=True)
class CountedGraph:
    """A model's graph for one set of input shapes, with its work."""

    graph: SourceGraph
    costs: tuple[NodeCost, ...]
    total: ModelCost


class SourceAnalysis:
    """Leads profiles back to their models. A graph is read once for all profiles with the same inputs."""

    def __init__(self, file_paths: Callable[[ModelVersion], Sequence[Path]]) -> None:
        self._file_paths = file_paths
        self._known: dict[object, CountedGraph | str] = {}

    def analysed(self, profile: Profile, model: ModelVersion) -> Profile:
        """The profile of this model with nodes, work and coverage, or with the reason why it has none.

        One without layers has nothing to lead back and is returned as it is.
        """
        if not profile.layers:
            return profile
        source = self._source(model, profile.configuration)
        if isinstance(source, str):
            return replace(profile, unmatched_reason=source)
        return matched(profile, source)

    def _source(self, model: ModelVersion, configuration: Configuration) -> CountedGraph | str:
        shapes = given_shapes(configuration.inputs)
        key = (model.digest, configuration.batch, tuple(shapes.items()))
        if key not in self._known:
            self._known[key] = self._read(model, shapes, configuration.batch)
        return self._known[key]

    def _read(self, model: ModelVersion, shapes: GivenShapes, batch: int) -> CountedGraph | str:
        if model.format != FORMAT_WITH_A_GRAPH:
            return f"the format {model.format} has no ONNX graph to lead layers back to"
        try:
            graph = read_source_graph(self._file_paths(model)[0], shapes, batch)
            costs = node_costs(graph)
            return CountedGraph(graph, costs, model_cost(graph, costs))
        except ModelError as error:
            return f"the graph could not be read: {error}"


def matched(profile: Profile, source: CountedGraph) -> Profile:
    """The profile with its layers matched to the nodes of its source, and with the work of these."""
    matching = match_layers(source.graph, profile.layers)
    work = _work_of_layers(profile.layers, matching, GroupCounting(source.graph, source.costs))
    return replace(
        profile,
        layers=tuple(
            _layer(layer, matching, position, work.get(position, _UNKNOWN_WORK))
            for position, layer in enumerate(profile.layers)
        ),
        nodes=tuple(_node(node, cost, matching) for node, cost in zip(source.graph.nodes, source.costs, strict=True)),
        work=counted_work(source.total),
        coverage=Coverage(matching.total_ns, matching.matched_ns, matching.unmatched_ns, matching.largest_group_share),
    )


def _work_of_layers(layers: Sequence[Layer], matching: Matching, counting: GroupCounting) -> dict[int, GroupWork]:
    """By position: the work of each group that has a single timed layer. Others share it in ways nobody knows."""
    timed = ((group, [layer for layer in group.layers if layers[layer].time_ns]) for group in matching.groups)
    return {found[0]: counting.work(group.nodes) for group, found in timed if len(found) == 1}


def _layer(layer: Layer, matching: Matching, position: int, work: GroupWork) -> Layer:
    return replace(
        layer,
        category=matching.categories[position].value,
        group=matching.group_of_layer[position],
        flops=work.flops,
        data_bytes=work.data_bytes,
    )


def _node(node: SourceNode, cost: NodeCost, matching: Matching) -> ProfileNode:
    return replace(
        counted_node(node, cost),
        state=matching.nodes[node.index].value,
        group=matching.group_of_node[node.index],
    )
