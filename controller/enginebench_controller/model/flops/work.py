"""What a counter looks at: one node with the sizes of its tensors."""

import math
from dataclasses import dataclass

from enginebench_controller.model.source_graph import SourceGraph, SourceNode

Shape = tuple[int, ...]


class UnknownWorkError(Exception):
    """A size that the count needs is not known."""


@dataclass(frozen=True)
class Count:
    """`macs`: multiply-adds of products (convolutions, matrix products); `flops`: all operations, 2 for each."""

    macs: int
    flops: int


def products(macs: int, others: int = 0) -> Count:
    """The count of so many multiply-adds and so many other operations."""
    return Count(macs, 2 * macs + others)


def operations(flops: int) -> Count:
    """The count of an operator that is no product."""
    return Count(0, flops)


@dataclass(frozen=True)
class Work:
    """A node in its graph. Every access raises `UnknownWorkError` where the size is unknown."""

    node: SourceNode
    graph: SourceGraph

    def has_input(self, place: int) -> bool:
        """True unless the input is left out."""
        return place < len(self.node.inputs) and bool(self.node.inputs[place])

    def input(self, place: int = 0) -> Shape:
        """The sizes of an input."""
        return self._known(self.node.inputs[place] if place < len(self.node.inputs) else "")

    def output(self, place: int = 0) -> Shape:
        """The sizes of an output."""
        return self._known(self.node.outputs[place] if place < len(self.node.outputs) else "")

    def inputs(self) -> list[Shape]:
        """The sizes of all inputs that are given."""
        return [self._known(name) for name in self.node.inputs if name]

    @property
    def input_size(self) -> int:
        """The number of elements of the first input."""
        return math.prod(self.input())

    @property
    def output_size(self) -> int:
        """The number of elements of the first output."""
        return math.prod(self.output())

    def integer(self, attribute: str, default: int | None = None) -> int:
        """An integer attribute."""
        value = self.node.attributes.get(attribute, default)
        if not isinstance(value, int):
            raise UnknownWorkError(f"no {attribute}")
        return value

    def integers(self, attribute: str, default: Shape | None = None) -> Shape:
        """An attribute of integers."""
        values = self.node.attributes.get(attribute, default)
        if not isinstance(values, tuple):
            raise UnknownWorkError(f"no {attribute}")
        return tuple(int(value) for value in values)

    def text(self, attribute: str, default: str = "") -> str:
        """An attribute of text."""
        return str(self.node.attributes.get(attribute, default))

    def _known(self, name: str) -> Shape:
        shape = self.graph.shape(name) if name else None
        if shape is None:
            raise UnknownWorkError(f"the shape of {name!r} is unknown")
        return shape
