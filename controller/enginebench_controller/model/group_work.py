"""The work of several nodes that run as one: their operations, and the bytes that cross the border of the group.

Fusion is there to keep what lies between its nodes out of memory. So a tensor that the group makes and nobody else
reads counts nothing, one that several of its nodes read counts once, and weights and all others count as `flops` has
it for each node.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from enginebench_controller.model.flops import NodeCost
from enginebench_controller.model.source_graph import SourceGraph, SourceNode


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
            flops=_sum([cost.flops for _, cost in members]),
            data_bytes=self._data_bytes([node for node, _ in members], [cost for _, cost in members]),
        )

    def _data_bytes(self, nodes: Sequence[SourceNode], costs: Sequence[NodeCost]) -> int | None:
        moved = _sum([cost.activation_bytes for cost in costs] + [cost.weight_bytes for cost in costs])
        if moved is None or len(nodes) == 1:
            return moved
        if any(node.bodies for node in nodes):
            return None  # what bodies move is counted with them, and cannot be told apart
        twice = _sum([self._counted_twice(name, nodes) for name in self._between(nodes)])
        return None if twice is None else moved - twice

    def _between(self, nodes: Sequence[SourceNode]) -> set[str]:
        made = {name for node in nodes for name in node.outputs if name}
        reads = Counter(name for node in nodes for name in set(node.inputs) if name)
        return {name for name, times in reads.items() if name in made or times > 1}

    def _counted_twice(self, name: str, nodes: Sequence[SourceNode]) -> int | None:
        """The bytes of a tensor that its nodes count beyond what crosses the border."""
        if self._graph.weight(name) is not None:
            return 0
        reads = sum(name in node.inputs for node in nodes)
        is_made = any(name in node.outputs for node in nodes)
        leaves = self._reads[name] > reads
        tensor = self._graph.tensors.get(name)
        size = None if tensor is None else tensor.size_bytes
        times = reads - 1 if not is_made else reads if leaves else reads + 1
        return None if size is None else times * size


def _sum(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
