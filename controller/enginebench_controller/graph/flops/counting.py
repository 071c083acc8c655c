"""Counts the nodes of a source graph, those of bodies as often as they run, and their totals with coverage.

If: the branch that a constant condition takes, else the larger one, which is marked. Loop: body × trip count, where
that is constant and nothing ends the loop before; else unknown. Scan: body × length of its sequences. A function costs
what its nodes cost. A body without products has none, however often it runs.
"""

from collections import Counter as Multiset
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from enginebench_controller.graph.bodies import always_continues
from enginebench_controller.graph.flops.counters import (
    BODIES,
    COUNTED,
    MOVES_DATA,
    READS_A_PART,
    READS_NO_DATA,
    UNKNOWN,
    WITHOUT_PRODUCTS,
    key_of,
)
from enginebench_controller.graph.flops.parameters import (
    distinct,
    is_packed,
    parameters,
    reads_packed_weights,
    weights,
)
from enginebench_controller.graph.flops.work import ModelCost, NodeCost, UnknownWorkError, Work, sum_or_none
from enginebench_controller.graph.source_graph import SourceGraph, SourceNode
from enginebench_controller.records.profile import CountMethod

_WITHOUT_BATCH = 9
"""The opset from which on the sequences of a Scan have no batch and no lengths of their own."""

CostsOf = Callable[[SourceGraph], Sequence[NodeCost]]


def with_bodies(cost: NodeCost, work: Work, costs_of: CostsOf) -> NodeCost:
    """`cost` with what the node's bodies take; what they move of tensors counts each time, too."""
    if work.node.op_type == "If" and "then_branch" in work.node.bodies:
        branches = [_once(cost, work.node.bodies[name], costs_of) for name in _branches(work)]
        return branches[0] if len(branches) == 1 else _larger(*branches)
    (body,) = work.node.bodies.values()
    once = _once(cost, body, costs_of)
    try:
        return _repeated(once, _times(work, body))
    except UnknownWorkError as error:
        return replace(_repeated(once, None), reason=str(error))


def _once(cost: NodeCost, body: SourceGraph, costs_of: CostsOf) -> NodeCost:
    costs = costs_of(body)
    flops = sum_or_none(one.flops for one in costs)
    unknown = (f"{node.op_type} {node.name!r} in it: {one.reason}" for node, one in zip(body.nodes, costs, strict=True)
               if one.flops is None)  # fmt: skip
    at_most = any(one.method is CountMethod.AT_MOST for one in costs)
    return replace(
        cost,
        macs=sum_or_none(one.macs for one in costs),
        flops=flops,
        activation_bytes=sum_or_none(one.activation_bytes for one in costs),
        method=CountMethod.UNKNOWN if flops is None else CountMethod.AT_MOST if at_most else CountMethod.COUNTED,
        reason=next(unknown, ""),
        contradicts=any(one.contradicts for one in costs),
    )


def _branches(work: Work) -> Sequence[str]:
    condition = work.graph.constants.get(work.node.inputs[0])
    if condition is None:
        return "then_branch", "else_branch"
    return ("then_branch" if all(condition) else "else_branch",)


def _larger(one: NodeCost, other: NodeCost) -> NodeCost:
    """The most that either branch takes; marked unless they take the same. One that cannot run takes nothing.

    Such is the branch for another sample rate, whose frames have another length.
    """
    if one.contradicts != other.contradicts:
        runs = other if one.contradicts else one
        return replace(runs, method=CountMethod.UNKNOWN if runs.flops is None else CountMethod.AT_MOST)
    flops = _most(one.flops, other.flops)
    differs = (one.macs, one.flops) != (other.macs, other.flops)
    at_most = differs or CountMethod.AT_MOST in {one.method, other.method}
    return replace(
        one,
        macs=_most(one.macs, other.macs),
        flops=flops,
        activation_bytes=_most(one.activation_bytes, other.activation_bytes),
        method=CountMethod.UNKNOWN if flops is None else CountMethod.AT_MOST if at_most else CountMethod.COUNTED,
        reason=one.reason or other.reason,
    )


def _most(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else max(one, other)


def _repeated(once: NodeCost, times: int | None) -> NodeCost:
    flops = _product(once.flops, times)
    return replace(
        once,
        macs=_product(once.macs, times),
        flops=flops,
        activation_bytes=_product(once.activation_bytes, times),
        method=CountMethod.UNKNOWN if flops is None else once.method,
    )


def _product(one: int | None, times: int | None) -> int | None:
    """Nothing remains nothing, however often."""
    if 0 in {one, times}:
        return 0
    return None if one is None or times is None else one * times


def _times(work: Work, body: SourceGraph) -> int:
    match work.node.op_type:
        case "Loop" if "body" in work.node.bodies:
            return _trips(work, body)
        case "Scan" if "body" in work.node.bodies:
            return _length(work)
        case "SequenceMap" if "body" in work.node.bodies:
            raise UnknownWorkError("the length of a sequence depends on the data")
    return 1


def _trips(work: Work, body: SourceGraph) -> int:
    trips = work.graph.constants.get(work.node.inputs[0]) if work.has_input(0) else None
    starts = work.graph.constants.get(work.node.inputs[1]) if work.has_input(1) else (1,)
    if starts == (0,):
        return 0
    truths = {name: value == (1,) for name, value in body.constants.items()}
    made = ((node.op_type, node.inputs, node.outputs) for node in body.nodes)
    if trips is None:
        raise UnknownWorkError("the trip count depends on the data")
    if starts is None or not always_continues(made, body.outputs[0], body.inputs[1], truths):
        raise UnknownWorkError("the data may end the loop before its trip count")
    return max(trips[0], 0)


def _length(work: Work) -> int:
    if work.graph.opsets.get("", _WITHOUT_BATCH) < _WITHOUT_BATCH:
        raise UnknownWorkError("its sequences have lengths of their own")
    count = work.integer("num_scan_inputs")
    sequence = work.input(len(work.node.inputs) - count)
    axis = work.integers("scan_input_axes", (0,) * count)[0]
    return sequence[axis]


def node_costs(graph: SourceGraph) -> tuple[NodeCost, ...]:
    """The cost of each node, in the graph's order. Reads the weights, one at a time. Raises `ModelError` as they do."""
    read = {name for node in graph.nodes for name in node.inputs} | set(graph.outputs)
    return tuple(_cost(graph, node, read) for node in graph.nodes)


def model_cost(graph: SourceGraph, costs: Sequence[NodeCost]) -> ModelCost:
    """The totals of `costs`, which are those of `graph`."""
    unknown = [(operator(node), cost) for node, cost in zip(graph.nodes, costs, strict=True) if cost.flops is None]
    known = [cost.flops for cost in costs if cost.flops is not None]
    macs = sum_or_none(cost.macs for cost in costs)
    learnt = distinct(one for node in graph.nodes for one in parameters(graph, node))
    read = distinct(one for node in graph.nodes for one in weights(graph, node))
    packed = reads_packed_weights(graph)
    return ModelCost(
        macs=macs,
        flops=sum(known) if known and macs is not None else None,
        parameters=None if packed else sum_or_none(one.tensor.elements for one in learnt),
        nonzero_parameters=None if packed else sum_or_none(one.nonzero for one in learnt),
        weight_bytes=sum_or_none(one.stored_bytes for one in read),
        activation_bytes=sum_or_none(cost.activation_bytes for cost in costs),
        nodes=len(costs),
        known_nodes=len(known),
        unknown_operators=dict(Multiset(name for name, _ in unknown).most_common()),
        unknown_reasons=_reasons(unknown),
        known_macs=sum(cost.macs for cost in costs if cost.macs is not None),
        at_most=any(cost.method is CountMethod.AT_MOST for cost in costs),
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
        return NodeCost(0, 0, 0, 0, 0, 0, CountMethod.ZERO)
    learnt = parameters(graph, node)
    packed = is_packed(node)
    cost = NodeCost(
        macs=None,
        flops=None,
        parameters=None if packed else sum_or_none(one.tensor.elements for one in learnt),
        nonzero_parameters=None if packed else sum_or_none(one.nonzero for one in learnt),
        weight_bytes=_weight_bytes(graph, node),
        activation_bytes=_activation_bytes(graph, node, read),
        method=CountMethod.UNKNOWN,
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
        return with_bodies(cost, work, node_costs)
    if key in MOVES_DATA:
        return replace(cost, macs=0, flops=0, method=CountMethod.ZERO)
    if key not in COUNTED:
        raise UnknownWorkError(UNKNOWN.get(key, "nothing is known of this operator"))
    count = COUNTED[key](work)
    return replace(cost, macs=count.macs, flops=count.flops, method=CountMethod.COUNTED)


def _weight_bytes(graph: SourceGraph, node: SourceNode) -> int | None:
    sizes = [one.stored_bytes for one in weights(graph, node)]
    makes_a_part = key_of(node) in READS_A_PART and node.outputs  # a damaged file may name none
    made = _size(graph, node.outputs[0]) if makes_a_part else None
    return sum_or_none(size if made is None or size is None else min(size, made) for size in sizes)


def _activation_bytes(graph: SourceGraph, node: SourceNode, read: set[str]) -> int | None:
    taken = [name for name in dict.fromkeys(node.inputs) if name and graph.weight(name) is None]
    # An output that nobody reads, such as Dropout's mask, is not written.
    made = [name for name in dict.fromkeys(node.outputs) if name in read and name and name not in taken]
    return sum_or_none([*(bytes_read(graph, node, name) for name in taken), *(_size(graph, name) for name in made)])


def bytes_read(graph: SourceGraph, node: SourceNode, name: str) -> int | None:
    """The bytes of this input, which is no weight, that the node reads; None where they are unknown."""
    key, size = key_of(node), _size(graph, name)
    if key in READS_NO_DATA:
        return 0
    if key in READS_A_PART and node.inputs.index(name) == 0 and node.inputs.count(name) == 1 and node.outputs:
        made = _size(graph, node.outputs[0])
        return size if size is None or made is None else min(size, made)
    return size


def _size(graph: SourceGraph, name: str) -> int | None:
    tensor = graph.tensors.get(name)
    return None if tensor is None else tensor.size_bytes
