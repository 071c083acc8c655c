"""Which source nodes each layer claims: those that the engine names, and those whose output it writes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.model.matching.dataflow import DataFlow
from enginebench_controller.model.matching.executed_graph import ExecutedGraph
from enginebench_controller.model.matching.matched import Layer, LayerCategory, is_executed
from enginebench_controller.model.matching.naming import NodeNames
from enginebench_controller.model.matching.words import is_rearrangement, unmatched_category

Nodes = Mapping[int, frozenset[int]]

_MOVERS = frozenset({LayerCategory.REORDER, LayerCategory.CONVERT})


@dataclass(frozen=True)
class Claims:
    """The nodes that executed layers claim, by the layer's place in the order, and those of the other layers."""

    executed: Nodes
    idle: Nodes
    tensors: ExecutedGraph


def claim_nodes(flow: DataFlow, layers: Sequence[Layer]) -> Claims:
    """Read every layer's names; the layers are in the order of execution. Layers that only hold data claim nothing.

    A reorder or a conversion often bears the name of the layer it is made for: it claims no more than nodes that
    move or convert data themselves, and only where no layer that computes claims them. Of control flow and functions,
    which engines dissolve, it claims its part with the layers beside it.
    """
    names = NodeNames(flow)
    kinds = [unmatched_category(layer.type) for layer in layers]
    named = {
        position: _named(names, layer)
        for position, layer in enumerate(layers)
        if kinds[position] is not LayerCategory.DATA
    }
    moves = {
        position: _moves(flow, nodes, layers[position])
        for position, nodes in named.items()
        if kinds[position] in _MOVERS
    }
    tensors = ExecutedGraph(flow, layers, {position for position, nodes in moves.items() if not nodes})
    computing = {
        position: nodes | _ends(flow, tensors, position) for position, nodes in named.items() if position not in moves
    }
    executed, idle = _by_state(layers, computing)
    taken = frozenset[int]().union(*executed.values())
    left = {
        position: frozenset(node for node in nodes if node not in taken or flow.graph.nodes[node].bodies)
        for position, nodes in moves.items()
    }
    moving, still = _by_state(layers, left)
    return Claims(_ordered(executed | moving), _ordered(idle | still), tensors)


def _named(names: NodeNames, layer: Layer) -> frozenset[int]:
    nodes = (names.resolve(name) for name in layer.source_nodes)
    found = frozenset(node for node in nodes if node is not None)
    own = names.exact(layer.name)
    return found if found or own is None else frozenset({own})


def _ends(flow: DataFlow, tensors: ExecutedGraph, position: int) -> frozenset[int]:
    """The nodes whose output the layer writes under its name in the source graph."""
    return frozenset(flow.writer[name] for name in tensors.written(position) if name in flow.writer)


def _moves(flow: DataFlow, named: Iterable[int], layer: Layer) -> frozenset[int]:
    """The nodes that a layer which moves data stands for; none for one that the engine added."""
    return _rearranging(flow, {*named, *(flow.writer[name] for name in layer.outputs if name in flow.writer)})


def _rearranging(flow: DataFlow, nodes: Iterable[int]) -> frozenset[int]:
    return frozenset(node for node in nodes if is_rearrangement(flow.op_type(node)) or flow.graph.nodes[node].bodies)


def _by_state(layers: Sequence[Layer], claims: Nodes) -> tuple[dict[int, frozenset[int]], dict[int, frozenset[int]]]:
    executed = {position: nodes for position, nodes in claims.items() if is_executed(layers[position])}
    return executed, {position: nodes for position, nodes in claims.items() if position not in executed}


def _ordered(claims: Nodes) -> dict[int, frozenset[int]]:
    return {position: nodes for position, nodes in sorted(claims.items()) if nodes}
