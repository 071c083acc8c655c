"""From the names that engines use to the nodes of the source graph."""

import re
from collections.abc import Iterator

from enginebench_controller.model.matching.dataflow import DataFlow

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
