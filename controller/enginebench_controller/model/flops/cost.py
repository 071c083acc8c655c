"""The records of a count: one for every node, and the totals of a model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class Method(StrEnum):
    """How the operations of a node are known."""

    COUNTED = "counted"
    AT_MOST = "at most"
    ZERO = "zero by nature"
    UNKNOWN = "unknown"


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
    method: Method
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


def total(values: Iterable[int | None]) -> int | None:
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
