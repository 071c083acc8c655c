"""Work that only one group can have done: nodes whose every reader is in that group.

An engine may name a fused layer by its end alone: OpenVINO's FullyConnected by its Add, DeepSparse's convolution by its
BatchNormalization. What holds the work is then before a named node, and nothing else reads it. (Logic synthesis calls
this the maximum fanout-free cone: Cong and Ding, "On area/depth trade-off in LUT-based FPGA technology mapping", 1994.)
"""

from collections.abc import Collection

from enginebench_controller.model.matching.dataflow import DataFlow
from enginebench_controller.model.matching.words import is_light, is_main

Owners = dict[int, int]


def place_cones(flow: DataFlow, owners: Owners) -> None:
    """Give each named light node's group the work that only this node needs, with what lies between."""
    results = set(flow.graph.outputs)
    kept = {node.index for node in flow.graph.nodes if not results.isdisjoint(node.outputs)}
    for node, group in sorted(owners.items(), key=lambda item: flow.rank[item[0]]):
        if is_light(flow.op_type(node)):
            owners |= dict.fromkeys(_working(flow, _cone(flow, owners, node, kept)), group)


def _cone(flow: DataFlow, owners: Owners, tip: int, kept: Collection[int]) -> list[int]:
    """Nodes without an owner whose output goes nowhere but, over each other, to `tip`; in the order of the data.

    Nothing is taken from behind a convolution and its like: that can as well have run in a layer nobody named.
    """
    cone = {tip}
    waiting = list(flow.before[tip])
    while waiting:
        node = waiting.pop()
        if node in cone or node in owners or node in kept or not cone.issuperset(flow.after[node]):
            continue
        cone.add(node)
        waiting.extend(() if is_main(flow.op_type(node)) else flow.before[node])
    return sorted(cone - {tip}, key=flow.rank.__getitem__)


def _working(flow: DataFlow, cone: list[int]) -> list[int]:
    """Those that hold work, and what comes after them; light nodes before belong to whoever made their input."""
    working: set[int] = set()
    for node in cone:
        if not is_light(flow.op_type(node)) or not working.isdisjoint(flow.before[node]):
            working.add(node)
    return [node for node in cone if node in working]
