"""A profile led back to the model as given: its graph, the work in it, and the nodes that each layer stands for."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from enginebench_controller.errors import ModelError
from enginebench_controller.model.binding import Shapes, given_shapes
from enginebench_controller.model.counted_model import counted_node, counted_work
from enginebench_controller.model.flops import ModelCost, NodeCost, model_cost, node_costs
from enginebench_controller.model.group_work import GroupCounting, GroupWork
from enginebench_controller.model.matching import Matching, match_layers
from enginebench_controller.model.source_graph import SourceGraph, SourceNode, read_source_graph
from enginebench_controller.records import (
    Configuration,
    Coverage,
    Layer,
    ModelVersion,
    Profile,
    ProfileNode,
)

FORMAT_WITH_A_GRAPH = "onnx"
_UNKNOWN_WORK = GroupWork(None, None)


@dataclass(frozen=True)
class Source:
    """A model's graph for one set of input shapes, with its work."""

    graph: SourceGraph
    costs: tuple[NodeCost, ...]
    total: ModelCost


class SourceAnalysis:
    """Leads profiles back to their models. A graph is read once for all profiles with the same inputs."""

    def __init__(self, file_paths: Callable[[ModelVersion], Sequence[Path]]) -> None:
        self._file_paths = file_paths
        self._known: dict[object, Source | str] = {}

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

    def _source(self, model: ModelVersion, configuration: Configuration) -> Source | str:
        shapes = given_shapes(configuration.inputs)
        key = (model.digest, configuration.batch, tuple(shapes.items()))
        if key not in self._known:
            self._known[key] = self._read(model, shapes, configuration.batch)
        return self._known[key]

    def _read(self, model: ModelVersion, shapes: Shapes, batch: int) -> Source | str:
        if model.format != FORMAT_WITH_A_GRAPH:
            return f"the format {model.format} has no ONNX graph to lead layers back to"
        try:
            graph = read_source_graph(self._file_paths(model)[0], shapes, batch)
            costs = node_costs(graph)
            return Source(graph, costs, model_cost(graph, costs))
        except ModelError as error:
            return f"the graph could not be read: {error}"


def matched(profile: Profile, source: Source) -> Profile:
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
