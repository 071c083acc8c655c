"""What matching brings: which executed layers stand for which source nodes, and what that leaves over."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Protocol

from enginebench_controller.records import LayerState


class LayerCategory(StrEnum):
    """What a layer is to the model: a part of it, or something the engine added for itself."""

    MATCHED = "matched"
    REORDER = "reorder"
    CONVERT = "convert"
    DATA = "data"
    ENGINE_MADE = "engine_made"


class NodeState(StrEnum):
    """How it is known where a source node went.

    NAMED: the engine says so. INFERRED: it stands where the engine can only have fused it into this group. FOLDED: it
    depends on no input, so it was computed ahead of time. UNMATCHED: nothing tells.
    """

    NAMED = "named"
    INFERRED = "inferred"
    FOLDED = "folded"
    UNMATCHED = "unmatched"


class Layer(Protocol):
    """What matching reads of an executed layer; the records of profiles have it."""

    @property
    def name(self) -> str:
        """The engine's name for it, unique in a profile."""

    @property
    def type(self) -> str:
        """The engine's word for what it does."""

    @property
    def order(self) -> int:
        """Its place in the order of execution."""

    @property
    def state(self) -> str:
        """Executed, not executed or optimized away."""

    @property
    def time_ns(self) -> tuple[int, ...]:
        """One entry a profiled inference; none unless it was executed, or where the engine told none."""

    @property
    def output_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Sizes of its outputs, in the engine's order of dimensions."""

    @property
    def source_nodes(self) -> tuple[str, ...]:
        """Nodes, tensors or weights of the source graph that the engine names as its origin."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Tensors it reads, in the graph that the engine runs."""

    @property
    def outputs(self) -> tuple[str, ...]:
        """Tensors it writes, in the graph that the engine runs."""


def is_executed(layer: Layer) -> bool:
    """Whether it ran."""
    return layer.state == LayerState.EXECUTED


def mean_layer_ns(layer: Layer) -> int | None:
    """The mean time over the profiled inferences, in whole nanoseconds; None for a layer without times."""
    return round(sum(layer.time_ns) / len(layer.time_ns)) if layer.time_ns else None


def total_ns(layers: Sequence[Layer]) -> int:
    """The sum of the layers' mean times: whole numbers, so that parts of it add up exactly."""
    return sum(mean_layer_ns(layer) or 0 for layer in layers)


@dataclass(frozen=True)
class Group:
    """Layers (by position in the profile) that together run these nodes (by index), and no others."""

    layers: tuple[int, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Matching:
    """Groups are disjoint in layers and in nodes. `categories` has one entry a layer, `nodes` one a source node.

    Times are sums of mean layer times, and `matched_ns` + `unmatched_ns` is `total_ns` exactly.
    `largest_group_share` is of the nodes that are not folded: near 1, a group that swallowed the model proves nothing.
    """

    groups: tuple[Group, ...]
    categories: tuple[LayerCategory, ...]
    nodes: tuple[NodeState, ...]
    total_ns: int
    matched_ns: int
    unmatched_ns: int
    largest_group_share: float

    @property
    def matched_share(self) -> float | None:
        """The matched part of the time; None where no time was measured."""
        return self.matched_ns / self.total_ns if self.total_ns else None

    @cached_property
    def group_of_layer(self) -> tuple[int | None, ...]:
        """The group of each layer by position."""
        found = {layer: number for number, group in enumerate(self.groups) for layer in group.layers}
        return tuple(found.get(layer) for layer in range(len(self.categories)))

    @cached_property
    def group_of_node(self) -> tuple[int | None, ...]:
        """The group of each source node by index."""
        found = {node: number for number, group in enumerate(self.groups) for node in group.nodes}
        return tuple(found.get(node) for node in range(len(self.nodes)))
