"""A source graph as matching sees it: how data flows through it, and which node a name of an engine's stands for."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from enginebench_controller.graph.source_graph import SourceGraph, SourceNode

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


_SEPARATOR = re.compile(r"[_/.:#$@,\- ]")
_LETTER = re.compile(r"[A-Za-z]")


class NodeNames:
    """The labels, output tensors and weights of a graph, each with its node."""

    def __init__(self, flow: DataFlow) -> None:
        self._nodes = _by_weight(flow) | flow.writer | {node.name: node.index for node in flow.graph.nodes}

    def exact(self, name: str) -> int | None:
        """The node of this label, output tensor or weight, in this order."""
        return self._nodes.get(name)

    def resolve(self, name: str) -> int | None:
        """The node that a name stands for which the engine may have extended, such as `conv1_bn_nchwc`.

        The longest beginning counts that is a name of the graph. What is cut off must hold a letter: `Relu_97` is not
        another word for the `Relu` of a graph that numbers its nodes.
        """
        found = (self._nodes.get(part) for part in _beginnings(name))
        return next((node for node in found if node is not None), None)


def _by_weight(flow: DataFlow) -> dict[str, int]:
    """Weights that one node reads."""
    readers: dict[str, set[int]] = {}
    for node in flow.graph.nodes:
        if not flow.folded[node.index]:
            for weight in node.weights:
                readers.setdefault(weight, set()).add(node.index)
    return {weight: next(iter(nodes)) for weight, nodes in readers.items() if len(nodes) == 1}


def _beginnings(name: str) -> Iterator[str]:
    """The name, then what is left of it at each separator from the right; then so without its first word."""
    yield name
    for separator in reversed(list(_SEPARATOR.finditer(name, 1))):
        if _LETTER.search(name, separator.end()):
            yield name[: separator.start()]
    word, blank, rest = name.partition(" ")
    if word and blank and rest:
        yield from _beginnings(rest)
