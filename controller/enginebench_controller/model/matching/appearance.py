"""What a node looks like without its names, alone and among its neighbours, for comparing two graphs."""

from collections.abc import Collection, Hashable

from enginebench_controller.model.matching.dataflow import DataFlow
from enginebench_controller.model.matching.words import family
from enginebench_controller.model.source_graph import SourceNode

_TELLING = ("axis", "dilations", "group", "kernel_shape", "perm", "strides")
"""Attributes that make two nodes of one type different, and that versions of a model keep."""


class Appearance:
    """A graph seen without the nodes of the `hidden` types, and without those that are folded.

    `nodes` are the visible ones in the file's order. `before` and `after` see through hidden ones.
    """

    def __init__(self, flow: DataFlow, hidden: Collection[str]) -> None:
        self.flow = flow
        self._hidden = [flow.folded[node.index] or node.op_type in hidden for node in flow.graph.nodes]
        self.nodes = [node.index for node in flow.graph.nodes if not self._hidden[node.index]]
        behind = self._seen_through()
        self.before = {node: [behind[name] for name in flow.reads[node] if name in behind] for node in self.nodes}
        self.after: dict[int, list[int]] = {node: [] for node in self.nodes}
        for node, producers in self.before.items():
            for producer in producers:
                self.after[producer].append(node)
        self.families = {node: family(flow.op_type(node)) for node in self.nodes}
        self.looks = {node: self._look(flow.graph.nodes[node]) for node in self.nodes}

    def whole(self) -> dict[int, Hashable]:
        """What each node looks like together with all that it depends on and all that depends on it."""
        in_order = sorted(self.nodes, key=self.flow.rank.__getitem__)
        upstream: dict[int, int] = {}
        for node in in_order:
            upstream[node] = hash((self.looks[node], tuple(upstream.get(one, 0) for one in self.before[node])))
        downstream: dict[int, int] = {}
        for node in reversed(in_order):
            uses = sorted((downstream.get(one, 0), self.before[one].index(node)) for one in self.after[node])
            downstream[node] = hash((self.looks[node], tuple(uses)))
        return {node: (upstream[node], downstream[node]) for node in self.nodes}

    def _seen_through(self) -> dict[str, int]:
        """The visible node behind each tensor, looking through the first inputs of hidden ones."""
        behind: dict[str, int] = {}
        for node in self.flow.order:
            inputs = self.flow.graph.nodes[node].inputs
            seen = node if not self._hidden[node] else behind.get(inputs[0]) if inputs else None
            if seen is not None and not self.flow.folded[node]:
                behind.update(dict.fromkeys(self.flow.graph.nodes[node].outputs, seen))
        return behind

    def _look(self, node: SourceNode) -> Hashable:
        """Its family, the shape of its result for one item, and what its attributes say beyond the default of one."""
        shape = node.output_shapes[0] if node.output_shapes else None
        attributes = ((name, node.attributes[name]) for name in _TELLING if name in node.attributes)
        telling = tuple((name, value) for name, value in attributes if not _is_one(value))
        return family(node.op_type), self._per_item(shape), telling

    def _per_item(self, shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
        batch = self.flow.graph.batch
        if not shape or batch < 1 or shape[0] % batch:
            return shape
        return (shape[0] // batch, *shape[1:])


def _is_one(value: object) -> bool:
    return value == 1 or (isinstance(value, tuple) and all(one == 1 for one in value))
