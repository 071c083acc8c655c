"""Matching the executed layers of a profile to the nodes of the model as given."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from enginebench_controller.model.matching.between import between
from enginebench_controller.model.matching.claims import claim_nodes
from enginebench_controller.model.matching.dataflow import DataFlow
from enginebench_controller.model.matching.kinship import kin
from enginebench_controller.model.matching.matched import (
    Group,
    Layer,
    LayerCategory,
    Matching,
    NodeState,
    mean_layer_ns,
    total_ns,
)
from enginebench_controller.model.matching.placing import place_nodes
from enginebench_controller.model.matching.sharing import Ownership, share_nodes
from enginebench_controller.model.matching.words import unmatched_category
from enginebench_controller.model.source_graph import SourceGraph


def match_layers(graph: SourceGraph, layers: Sequence[Layer]) -> Matching:
    """Map layers of any engine to disjoint sets of source nodes, going by names, tensors and place.

    The order of `layers` does not matter, only that of execution which they state. Times are conserved exactly.
    """
    flow = DataFlow(graph)
    ranked = sorted(range(len(layers)), key=lambda position: (layers[position].order, layers[position].name))
    in_order = [layers[position] for position in ranked]
    claims = claim_nodes(flow, in_order)
    told = {**claims.executed, **kin(flow, in_order, claims)}
    told |= between(flow, in_order, told)
    ownership = share_nodes(flow, replace(claims, executed=told))
    guessed = (nodes for layer, nodes in told.items() if layer not in claims.executed)
    named = frozenset(ownership.of_node).difference(*guessed)
    place_nodes(flow, claims.tensors, ownership)
    groups = _groups(ownership, ranked)
    matched = {layer for group in groups for layer in group.layers}
    matched_ns = sum(mean_layer_ns(layers[layer]) or 0 for layer in matched)
    total = total_ns(layers)
    return Matching(
        groups=groups,
        categories=tuple(
            LayerCategory.MATCHED if position in matched else unmatched_category(layer.type)
            for position, layer in enumerate(layers)
        ),
        nodes=tuple(_state(flow, named, ownership.of_node, node.index) for node in graph.nodes),
        total_ns=total,
        matched_ns=matched_ns,
        unmatched_ns=total - matched_ns,
        largest_group_share=_largest_share(flow, groups),
    )


def _groups(ownership: Ownership, ranked: Sequence[int]) -> tuple[Group, ...]:
    nodes: dict[int, list[int]] = defaultdict(list)
    for node, group in sorted(ownership.of_node.items()):
        nodes[group].append(node)
    found = [
        Group(tuple(sorted(ranked[layer] for layer in ownership.layers_of[group])), tuple(held))
        for group, held in nodes.items()
    ]
    return tuple(sorted(found, key=lambda group: group.nodes))


def _state(flow: DataFlow, named: frozenset[int], owners: Mapping[int, int], node: int) -> NodeState:
    if node in named:
        return NodeState.NAMED
    if node in owners:
        return NodeState.INFERRED
    return NodeState.FOLDED if flow.folded[node] else NodeState.UNMATCHED


def _largest_share(flow: DataFlow, groups: Sequence[Group]) -> float:
    """Of the nodes that do something when the model runs: folded ones would make a giant group look smaller."""
    live = flow.folded.count(False)
    sizes = (sum(not flow.folded[node] for node in group.nodes) for group in groups)
    return max(sizes, default=0) / live if live else 0.0
