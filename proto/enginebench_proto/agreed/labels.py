"""What to call each node of a graph as given: by these labels an engine's layers are matched with the model's nodes."""

from collections.abc import Iterable, Sequence
from typing import Protocol


class NodeLike(Protocol):
    """What is asked of a node; an `onnx.NodeProto` has it."""

    @property
    def name(self) -> str:
        """Empty where it has none."""

    @property
    def op_type(self) -> str:
        """The operator."""

    @property
    def output(self) -> Sequence[str]:
        """The names of its outputs; empty for one that is left out."""


def node_labels(nodes: Iterable[NodeLike]) -> tuple[str, ...]:
    """A label of its own for every node of a graph, in its order: its name, else its first output, else its operator.

    A label that is taken already gets "#" and the node's place added.
    """
    labels: dict[str, None] = {}
    for index, node in enumerate(nodes):
        label = node.name or next(filter(None, node.output), node.op_type)
        while label in labels:
            label = f"{label}#{index}"
        labels[label] = None
    return tuple(labels)
