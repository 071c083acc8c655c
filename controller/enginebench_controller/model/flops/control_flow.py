"""What control flow and model-local functions cost: their bodies, as often as they run.

If: the branch that a constant condition takes, else the larger one, which is marked. Loop: body × trip count, where
that is constant and nothing ends the loop before; else unknown. Scan: body × length of its sequences. A function costs
what its nodes cost. A body without products has none, however often it runs.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from enginebench_controller.model.bodies import always_continues
from enginebench_controller.model.flops.cost import Method, NodeCost, total
from enginebench_controller.model.flops.work import UnknownWorkError, Work
from enginebench_controller.model.source_graph import SourceGraph

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
    flops = total(one.flops for one in costs)
    unknown = (f"{node.op_type} {node.name!r} in it: {one.reason}" for node, one in zip(body.nodes, costs, strict=True)
               if one.flops is None)  # fmt: skip
    at_most = any(one.method is Method.AT_MOST for one in costs)
    return replace(
        cost,
        macs=total(one.macs for one in costs),
        flops=flops,
        activation_bytes=total(one.activation_bytes for one in costs),
        method=Method.UNKNOWN if flops is None else Method.AT_MOST if at_most else Method.COUNTED,
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
        return replace(runs, method=Method.UNKNOWN if runs.flops is None else Method.AT_MOST)
    flops = _most(one.flops, other.flops)
    differs = (one.macs, one.flops) != (other.macs, other.flops)
    at_most = differs or Method.AT_MOST in {one.method, other.method}
    return replace(
        one,
        macs=_most(one.macs, other.macs),
        flops=flops,
        activation_bytes=_most(one.activation_bytes, other.activation_bytes),
        method=Method.UNKNOWN if flops is None else Method.AT_MOST if at_most else Method.COUNTED,
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
        method=Method.UNKNOWN if flops is None else once.method,
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
