"""What matching and joining bring: groups of layers and nodes, rows of profiles; read back from the store, too.

The model's file is not needed: a profile brings the nodes of its graph with it, so that imported ones compare too.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from enginebench_controller.graph.source_graph import SourceGraph, SourceNode, Tensor
from enginebench_controller.records import Layer, LayerState, Profile, ProfileNode


class LayerCategory(StrEnum):
    """What a layer is to the model: a part of it, or something the engine added for itself."""

    MATCHED = "matched"
    REORDER = "reorder"
    CONVERT = "convert"
    DATA = "data"
    ENGINE_MADE = "engine_made"


ADDED = (LayerCategory.REORDER, LayerCategory.CONVERT)
"""What engines add to a model, to bring its data into their own forms."""


class NodeState(StrEnum):
    """How it is known where a source node went.

    NAMED: the engine says so. INFERRED: it stands where the engine can only have fused it into this group. FOLDED: it
    depends on no input, so it was computed ahead of time. UNMATCHED: nothing tells.
    """

    NAMED = "named"
    INFERRED = "inferred"
    FOLDED = "folded"
    UNMATCHED = "unmatched"


def is_executed(layer: Layer) -> bool:
    """Whether it ran."""
    return layer.state == LayerState.EXECUTED


def mean_layer_ns(layer: Layer) -> int | None:
    """The mean time over the profiled inferences, in whole nanoseconds; None for a layer without times."""
    return round(sum(layer.time_ns) / len(layer.time_ns)) if layer.time_ns else None


def total_ns(layers: Iterable[Layer]) -> int:
    """The sum of the layers' mean times: whole numbers, so that parts of it add up exactly."""
    return sum(mean_layer_ns(layer) or 0 for layer in layers)


@dataclass(frozen=True)
class LayerGroup:
    """Layers (by position in the profile) that together run these nodes (by index), and no others."""

    layers: tuple[int, ...]
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Matching:
    """Groups are disjoint in layers and in nodes. `categories` has one entry a layer, `nodes` one a source node.

    Times are sums of mean layer times, and `matched_ns` + `unmatched_ns` is `total_ns` exactly.
    `largest_group_share` is of the nodes that are not folded: near 1, a group that swallowed the model proves nothing.
    """

    groups: tuple[LayerGroup, ...]
    categories: tuple[LayerCategory, ...]
    nodes: tuple[NodeState, ...]
    total_ns: int
    matched_ns: int
    unmatched_ns: int
    largest_group_share: float

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


@dataclass(frozen=True)
class MatchedProfile:
    """A profile's layers with the graph they were matched to, and the engine that gave them their names, if known."""

    graph: SourceGraph
    layers: Sequence[Layer]
    matching: Matching
    engine: str | None = None


@dataclass(frozen=True)
class RowPart:
    """One profile's part of a row: layers by position, source nodes by index, and the layers' mean time together.

    Without layers, `nodes` are this model's counterparts of the row's nodes, and `state` tells why nothing ran them:
    OPTIMIZED_AWAY (they depend on no input), NOT_EXECUTED, ABSENT (this model has no such node), or NO_DATA (there are
    layers of which nobody knows what they ran). With layers, NO_DATA says that they ran and told no time.
    """

    layers: tuple[int, ...]
    nodes: tuple[int, ...]
    time_ns: int | None
    state: LayerState


@dataclass(frozen=True)
class Row:
    """Layers that run the same part of the model, one side a profile in the order given.

    A layer that is no part of the model, such as a reorder, has a row of its own that tells its category. `exact`:
    the sides run the very same nodes; otherwise one side fused a light node with a neighbour in another row.
    """

    sides: tuple[RowPart, ...]
    category: LayerCategory
    exact: bool

    @property
    def is_joined(self) -> bool:
        """Whether every side executed it."""
        return all(side.state is LayerState.EXECUTED for side in self.sides)


@dataclass(frozen=True)
class Join:
    """Rows in which every layer of every profile stands exactly once, so that times add up to the totals.

    `total_ns` and `joined_ns` (in rows that every side executed) have one entry a profile. `largest_share` is the
    largest part of a model's nodes, folded ones left out, that stands in one joined row: near 1, a join tells nothing.
    """

    rows: tuple[Row, ...]
    total_ns: tuple[int, ...]
    joined_ns: tuple[int, ...]
    largest_share: float

    @property
    def coverage(self) -> tuple[float | None, ...]:
        """The part of each profile's time in joined rows; None where no time was measured."""
        return tuple(
            joined / total if total else None for joined, total in zip(self.joined_ns, self.total_ns, strict=True)
        )

    @property
    def joined_rows(self) -> int:
        """How many rows every side executed."""
        return sum(row.is_joined for row in self.rows)

    @property
    def exact_rows(self) -> int:
        """How many of them run the very same nodes."""
        return sum(row.is_joined and row.exact for row in self.rows)


def matched_profile(profile: Profile) -> MatchedProfile:
    """The profile with the graph it was matched to; without a graph none of its layers stands for a node."""
    graph = _graph(profile.nodes, profile.configuration.batch)
    return MatchedProfile(graph, profile.layers, _matching(profile), profile.engine.name)


def named_profile(profile: Profile) -> MatchedProfile:
    """A profile without a graph as if each layer were a node of its own: joined by the names that its engine gives."""
    nodes = tuple(
        SourceNode(position, layer.name, layer.type, "", (), (), output_shapes=layer.output_shapes)
        for position, layer in enumerate(profile.layers)
    )
    groups = tuple(LayerGroup((position,), (position,)) for position in range(len(nodes)))
    total = total_ns(profile.layers)
    largest = 1 / len(nodes) if nodes else 0.0
    matching = Matching(
        groups=groups,
        categories=(LayerCategory.MATCHED,) * len(nodes),
        nodes=(NodeState.NAMED,) * len(nodes),
        total_ns=total,
        matched_ns=total,
        unmatched_ns=0,
        largest_group_share=largest,
    )
    return MatchedProfile(SourceGraph(nodes, (), ()), profile.layers, matching)


def _graph(nodes: Sequence[ProfileNode], batch: int) -> SourceGraph:
    written = {name for node in nodes for name in node.outputs if name}
    weights = {name for node in nodes for name in node.weights}
    read = dict.fromkeys(name for node in nodes for name in node.inputs if name)
    shapes = {
        name: Tensor(None, shape)
        for node in nodes
        for name, shape in zip(node.outputs, node.output_shapes, strict=False)
    }
    return SourceGraph(
        nodes=tuple(map(_node, nodes)),
        inputs=tuple(name for name in read if name not in written and name not in weights),
        outputs=(),
        tensors=shapes,
        batch=batch,
    )


def _node(node: ProfileNode) -> SourceNode:
    return SourceNode(
        index=node.index,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        inputs=node.inputs,
        outputs=node.outputs,
        weights=node.weights,
        output_shapes=node.output_shapes,
        attributes=node.attributes,
        folded=node.folded,
    )


def _matching(profile: Profile) -> Matching:
    matched = {layer.group for layer in profile.layers if layer.group is not None}
    numbers = {group: number for number, group in enumerate(sorted(matched))}
    layers: list[list[int]] = [[] for _ in numbers]
    nodes: list[list[int]] = [[] for _ in numbers]
    for position, layer in enumerate(profile.layers):
        if layer.group is not None:
            layers[numbers[layer.group]].append(position)
    for node in profile.nodes:
        if node.group is not None and node.group in numbers:
            nodes[numbers[node.group]].append(node.index)
    total = total_ns(profile.layers)
    matched_ns = total_ns(layer for layer in profile.layers if layer.group is not None)
    return Matching(
        groups=tuple(LayerGroup(tuple(own), tuple(held)) for own, held in zip(layers, nodes, strict=True)),
        categories=tuple(map(_category, profile.layers)),
        nodes=tuple(NodeState(node.state) if node.state else NodeState.UNMATCHED for node in profile.nodes),
        total_ns=total,
        matched_ns=matched_ns,
        unmatched_ns=total - matched_ns,
        largest_group_share=profile.coverage.largest_group_share if profile.coverage else 0.0,
    )


def _category(layer: Layer) -> LayerCategory:
    return LayerCategory(layer.category) if layer.category else LayerCategory.ENGINE_MADE
