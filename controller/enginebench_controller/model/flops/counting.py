"""Counts the nodes of a source graph, and their totals with the share of nodes that they cover."""

from collections import Counter as Multiset
from collections.abc import Iterable, Sequence
from dataclasses import replace

from enginebench_controller.model.flops import control_flow
from enginebench_controller.model.flops.cost import Method, ModelCost, NodeCost, total
from enginebench_controller.model.flops.counters import (
    BODIES,
    COUNTED,
    MOVES_DATA,
    PACKED,
    READS_A_PART,
    UNKNOWN,
    WITHOUT_PRODUCTS,
    key_of,
)
from enginebench_controller.model.flops.stored import parameters, reads_packed_weights, weights
from enginebench_controller.model.flops.work import UnknownWorkError, Work
from enginebench_controller.model.source_graph import SourceGraph, SourceNode


def node_costs(graph: SourceGraph) -> tuple[NodeCost, ...]:
    """The cost of each node, in the graph's order. Reads the weights, one at a time. Raises `ModelError` as they do."""
    read = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
    return tuple(_cost(graph, node, read) for node in graph.nodes)


def model_cost(graph: SourceGraph, costs: Sequence[NodeCost]) -> ModelCost:
    """The totals of `costs`, which are those of `graph`."""
    unknown = [(operator(node), cost) for node, cost in zip(graph.nodes, costs, strict=True) if cost.flops is None]
    known = [cost.flops for cost in costs if cost.flops is not None]
    macs = total(cost.macs for cost in costs)
    learnt = {one.name: one for node in graph.nodes for one in parameters(graph, node)}.values()
    read = {one.name: one for node in graph.nodes for one in weights(graph, node)}.values()
    packed = reads_packed_weights(graph)
    return ModelCost(
        macs=macs,
        flops=sum(known) if known and macs is not None else None,
        parameters=None if packed else total(one.tensor.elements for one in learnt),
        nonzero_parameters=None if packed else total(one.nonzero for one in learnt),
        weight_bytes=total(one.stored_bytes for one in read),
        activation_bytes=total(cost.activation_bytes for cost in costs),
        nodes=len(costs),
        known_nodes=len(known),
        unknown_operators=dict(Multiset(name for name, _ in unknown).most_common()),
        unknown_reasons=_reasons(unknown),
        known_macs=sum(cost.macs for cost in costs if cost.macs is not None),
        at_most=any(cost.method is Method.AT_MOST for cost in costs),
    )


def _reasons(unknown: Iterable[tuple[str, NodeCost]]) -> dict[str, str]:
    """Why, by operator, the first of its reasons."""
    found: dict[str, str] = {}
    for name, cost in unknown:
        found.setdefault(name, cost.reason)
    return found


def operator(node: SourceNode) -> str:
    """The operator, with its domain where that is not ai.onnx."""
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _cost(graph: SourceGraph, node: SourceNode, read: set[str]) -> NodeCost:
    if node.folded:
        return NodeCost(0, 0, 0, 0, 0, 0, Method.ZERO)
    learnt = parameters(graph, node)
    packed = key_of(node) in PACKED
    cost = NodeCost(
        macs=None,
        flops=None,
        parameters=None if packed else total(one.tensor.elements for one in learnt),
        nonzero_parameters=None if packed else total(one.nonzero for one in learnt),
        weight_bytes=_weight_bytes(graph, node),
        activation_bytes=_activation_bytes(graph, node, read),
        method=Method.UNKNOWN,
    )
    if key_of(node) in WITHOUT_PRODUCTS:
        cost = replace(cost, macs=0)
    try:
        return _with_work(cost, Work(node, graph))
    except UnknownWorkError as error:
        return replace(cost, reason=str(error))
    except (LookupError, ValueError, ZeroDivisionError):
        return replace(cost, reason="its inputs do not fit its operator", contradicts=True)


def _with_work(cost: NodeCost, work: Work) -> NodeCost:
    key = key_of(work.node)
    if key in BODIES or "function" in work.node.bodies:
        return control_flow.with_bodies(cost, work, node_costs)
    if key in MOVES_DATA:
        return replace(cost, macs=0, flops=0, method=Method.ZERO)
    if key not in COUNTED:
        raise UnknownWorkError(UNKNOWN.get(key, "nothing is known of this operator"))
    count = COUNTED[key](work)
    return replace(cost, macs=count.macs, flops=count.flops, method=Method.COUNTED)


def _weight_bytes(graph: SourceGraph, node: SourceNode) -> int | None:
    sizes = [one.stored_bytes for one in weights(graph, node)]
    made = _size(graph, node.outputs[0]) if key_of(node) in READS_A_PART else None
    return total(size if made is None or size is None else min(size, made) for size in sizes)


def _activation_bytes(graph: SourceGraph, node: SourceNode, read: set[str]) -> int | None:
    taken = [name for name in node.inputs if name and graph.weight(name) is None]
    # An output that nobody reads, such as Dropout's mask, is not written.
    made = [name for name in node.outputs if name in read and name]
    return total(_size(graph, name) for name in dict.fromkeys((*taken, *made)))


def _size(graph: SourceGraph, name: str) -> int | None:
    tensor = graph.tensors.get(name)
    return None if tensor is None else tensor.size_bytes
