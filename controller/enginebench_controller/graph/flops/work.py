"""What a count looks at, a node with the sizes of its tensors, and what it brings: costs, and their totals."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from enginebench_controller.graph.source_graph import SourceGraph, SourceNode
from enginebench_controller.records.profile import CountMethod


@dataclass(frozen=True)
class NodeCost:
    """What a node takes, once for the graph's batch. None is unknown, never nothing.

    `macs` are multiply-adds of products, `flops` all operations (2 for a multiply-add). `parameters` are the elements
    of its weights, `weight_bytes` what it reads of them as stored, `activation_bytes` its other inputs and its outputs,
    each once. A node that depends on no input costs nothing, since engines compute it ahead of time. AT_MOST: the data
    decides between branches, of which the larger counts. `reason` says why the operations are unknown; `macs` can be
    known all the same, of an operator that multiplies no matrices. `contradicts`: the node cannot run in these shapes.
    """

    macs: int | None
    flops: int | None
    parameters: int | None
    nonzero_parameters: int | None
    weight_bytes: int | None
    activation_bytes: int | None
    method: CountMethod
    reason: str = ""
    contradicts: bool = False

    @property
    def intensity(self) -> float | None:
        """Operations for every byte of weights and activations."""
        return _intensity(self.flops, self.weight_bytes, self.activation_bytes)


@dataclass(frozen=True)
class ModelCost:
    """Totals. `macs` are None unless they are known for every node: the unknown one may have most of them.

    Where they are known, `flops` are those of the nodes whose operations are; only operators without products are then
    left out. `at_most`: of some branches the larger one counts. A weight that several nodes share is counted once in
    parameters and weight bytes. `activation_bytes` are None unless they are known for every node. `known_macs` are
    those of the nodes that are known. `unknown_operators` counts the nodes whose operations are not known, by operator,
    and `unknown_reasons` says why.
    """

    macs: int | None
    flops: int | None
    parameters: int | None
    nonzero_parameters: int | None
    weight_bytes: int | None
    activation_bytes: int | None
    nodes: int
    known_nodes: int
    unknown_operators: Mapping[str, int] = field(default_factory=dict)
    unknown_reasons: Mapping[str, str] = field(default_factory=dict)
    known_macs: int = 0
    at_most: bool = False

    @property
    def coverage_percent(self) -> float | None:
        """Share of the nodes whose operations are known; None for a model without nodes."""
        return 100 * self.known_nodes / self.nodes if self.nodes else None

    @property
    def intensity(self) -> float | None:
        """Operations for every byte of weights and activations; None unless all of them are known."""
        if self.unknown_operators:
            return None
        return _intensity(self.flops, self.weight_bytes, self.activation_bytes)


def sum_or_none(values: Iterable[int | None]) -> int | None:
    """The sum; None if any of the values is."""
    summed = 0
    for value in values:
        if value is None:
            return None
        summed += value
    return summed


def _intensity(flops: int | None, weight_bytes: int | None, activation_bytes: int | None) -> float | None:
    if flops is None or weight_bytes is None or activation_bytes is None or not weight_bytes + activation_bytes:
        return None
    return flops / (weight_bytes + activation_bytes)


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
