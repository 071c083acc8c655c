"""What control flow and model-local functions cost: their bodies, as often as they are certain to run.

If: the branch that a constant condition takes, or the cost of both where it is the same; else unknown. Loop: body ×
trip count, where that is constant and nothing ends the loop before; else unknown. Scan: body × length of its sequences.
A function costs what its nodes cost.
"""

from enginebench_controller.model.flops.work import UnknownWorkError, Work
from enginebench_controller.model.source_graph import SourceGraph

Runs = dict[str, int]
"""The bodies that run, by attribute, and how often."""


def runs(work: Work) -> Runs:
    """The bodies that run. Raises `UnknownWorkError` where that is not certain."""
    match work.node.op_type:
        case "If":
            return {_branch(work): 1}
        case "Loop":
            return {"body": _trips(work)}
        case "Scan":
            return {"body": _length(work)}
    return {"function": 1}


def _branch(work: Work) -> str:
    condition = work.graph.constants.get(work.node.inputs[0])
    if condition is None:
        raise UnknownWorkError("the condition depends on the data")
    return "then_branch" if condition[0] else "else_branch"


def _trips(work: Work) -> int:
    trips = work.graph.constants.get(work.node.inputs[0]) if work.has_input(0) else None
    body = work.node.bodies.get("body")
    if trips is None or body is None or not _always_continues(work, body):
        raise UnknownWorkError("the trip count depends on the data")
    return max(trips[0], 0)


def _always_continues(work: Work, body: SourceGraph) -> bool:
    """The condition is true at first and stays so: constant, or handed on unchanged."""
    starts = not work.has_input(1) or work.graph.constants.get(work.node.inputs[1]) == (1,)
    name = body.outputs[0]
    makers = {output: node for node in body.nodes for output in node.outputs}
    while name in makers and makers[name].op_type == "Identity":
        name = makers[name].inputs[0]
    return starts and (body.constants.get(name) == (1,) or name == body.inputs[1])


def _length(work: Work) -> int:
    count = work.integer("num_scan_inputs")
    sequence = work.input(len(work.node.inputs) - count)
    axis = work.integers("scan_input_axes", (0,) * count)[0]
    return sequence[axis]
