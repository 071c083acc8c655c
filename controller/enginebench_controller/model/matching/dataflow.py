"""How data flows through a source graph: who writes and reads each tensor, and what depends on no input."""

from collections import defaultdict
from collections.abc import Iterable

from enginebench_controller.model.source_graph import SourceGraph, SourceNode

_SHAPE_READERS = frozenset({"Shape", "Size"})


class DataFlow:
    """Nodes by index, edges by tensor name; what a body of control flow reads, its node reads.

    `folded[node]`: it depends on no input's data. The shapes of a profiled run are fixed, so that also goes for what
    is computed from a known shape. `before` and `after` are the nodes beside a node, folded ones left out.
    `order` has every node after those it reads from.
    """

    def __init__(self, graph: SourceGraph) -> None:
        self.graph = graph
        self.writer = {name: node.index for node in graph.nodes for name in node.outputs if name}
        self.reads = [self._reads(node) for node in graph.nodes]
        self.readers: dict[str, list[int]] = defaultdict(list)
        for node, names in enumerate(self.reads):
            for name in names:
                self.readers[name].append(node)
        self.order = self._ordered()
        self.folded = self._fold()
        self.before = [self._live(self.writer.get(name) for name in names) for names in self.reads]
        self.after = [
            self._live(reader for name in node.outputs for reader in self.readers.get(name, ())) for node in graph.nodes
        ]
        self.rank = {node: rank for rank, node in enumerate(self.order)}

    def op_type(self, node: int) -> str:
        """The operator of a node."""
        return self.graph.nodes[node].op_type

    def _reads(self, node: SourceNode) -> tuple[str, ...]:
        """Its inputs, and what its bodies take from the graph around them."""
        names = dict.fromkeys(name for name in node.inputs if name)
        taken = (name for body in node.bodies.values() for name in body.inputs)
        names.update(dict.fromkeys(name for name in taken if name in self.writer or name in self.graph.inputs))
        return tuple(names)

    def _live(self, nodes: Iterable[int | None]) -> tuple[int, ...]:
        return tuple(dict.fromkeys(node for node in nodes if node is not None and not self.folded[node]))

    def _ordered(self) -> list[int]:
        """Topological order (Kahn), ties in the file's order; nodes of an impossible cycle come last."""
        waiting = [len({self.writer[name] for name in names if name in self.writer}) for names in self.reads]
        ready = [node for node, count in enumerate(waiting) if count == 0]
        for node in ready:
            followers = {reader for name in self.graph.nodes[node].outputs if name for reader in self.readers[name]}
            for follower in sorted(followers):
                waiting[follower] -= 1
                if waiting[follower] == 0:
                    ready.append(follower)
        return ready + [node for node, count in enumerate(waiting) if count > 0]

    def _fold(self) -> list[bool]:
        folded = [node.folded for node in self.graph.nodes]
        given = set(self.graph.inputs)
        for node in self.order:
            folded[node] = folded[node] or self._is_folded(node, folded, given)
        return folded

    def _is_folded(self, node: int, folded: list[bool], given: set[str]) -> bool:
        names = self.reads[node]
        if self.op_type(node) in _SHAPE_READERS:
            return all(self.graph.shape(name) is not None for name in names)
        writers = [self.writer.get(name) for name in names]
        # Weights alone do not make a node folded here: what makes something new every time reads nothing, too, and
        # the reader of the graph knows those.
        return any(writer is not None for writer in writers) and all(
            folded[writer] if writer is not None else name not in given
            for name, writer in zip(names, writers, strict=True)
        )
