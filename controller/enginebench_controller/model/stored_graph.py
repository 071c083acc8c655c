"""Matched profiles as the store keeps them, in the form in which they are joined.

The model's file is not needed: a profile brings the nodes of its graph with it, so that imported ones compare too.
"""

from collections.abc import Sequence

from enginebench_controller.model.matching import Group, LayerCategory, MatchedProfile, Matching, NodeState
from enginebench_controller.model.matching.matched import total_ns
from enginebench_controller.model.source_graph import SourceGraph, SourceNode
from enginebench_controller.model.tensors import Tensor
from enginebench_controller.records import Layer, Profile, ProfileNode


def matched_profile(profile: Profile) -> MatchedProfile:
    """The profile with the graph it was matched to; without a graph none of its layers stands for a node."""
    return MatchedProfile(_graph(profile.nodes, profile.configuration.batch), profile.layers, _matching(profile))


def named_profile(profile: Profile) -> MatchedProfile:
    """A profile without a graph as if each layer were a node of its own: joined by the names that its engine gives."""
    nodes = tuple(
        SourceNode(position, layer.name, layer.type, "", (), (), output_shapes=layer.output_shapes)
        for position, layer in enumerate(profile.layers)
    )
    groups = tuple(Group((position,), (position,)) for position in range(len(nodes)))
    total = total_ns(profile.layers)
    largest = 1 / len(nodes) if nodes else 0.0
    matching = Matching(
        groups=groups,
        categories=(LayerCategory.MATCHED,) * len(nodes),
        nodes=(NodeState.NAMED,) * len(nodes),
        total_ns=total,
        matched_ns=total,
        unmatched_ns=0,
        largest_group_share=largest,
    )
    return MatchedProfile(SourceGraph(nodes, (), ()), profile.layers, matching)


def _graph(nodes: Sequence[ProfileNode], batch: int) -> SourceGraph:
    written = {name for node in nodes for name in node.outputs if name}
    weights = {name for node in nodes for name in node.weights}
    read = dict.fromkeys(name for node in nodes for name in node.inputs if name)
    shapes = {
        name: Tensor(None, shape)
        for node in nodes
        for name, shape in zip(node.outputs, node.output_shapes, strict=False)
    }
    return SourceGraph(
        nodes=tuple(map(_node, nodes)),
        inputs=tuple(name for name in read if name not in written and name not in weights),
        outputs=(),
        tensors=shapes,
        batch=batch,
    )


def _node(node: ProfileNode) -> SourceNode:
    return SourceNode(
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
    )


def _matching(profile: Profile) -> Matching:
    matched = {layer.group for layer in profile.layers if layer.group is not None}
    numbers = {group: number for number, group in enumerate(sorted(matched))}
    layers: list[list[int]] = [[] for _ in numbers]
    nodes: list[list[int]] = [[] for _ in numbers]
    for position, layer in enumerate(profile.layers):
        if layer.group is not None:
            layers[numbers[layer.group]].append(position)
    for node in profile.nodes:
        if node.group is not None and node.group in numbers:
            nodes[numbers[node.group]].append(node.index)
    total = total_ns(profile.layers)
    matched_ns = total_ns([layer for layer in profile.layers if layer.group is not None])
    return Matching(
        groups=tuple(Group(tuple(own), tuple(held)) for own, held in zip(layers, nodes, strict=True)),
        categories=tuple(map(_category, profile.layers)),
        nodes=tuple(NodeState(node.state) if node.state else NodeState.UNMATCHED for node in profile.nodes),
        total_ns=total,
        matched_ns=matched_ns,
        unmatched_ns=total - matched_ns,
        largest_group_share=profile.coverage.largest_group_share if profile.coverage else 0.0,
    )


def _category(layer: Layer) -> LayerCategory:
    return LayerCategory(layer.category) if layer.category else LayerCategory.ENGINE_MADE
