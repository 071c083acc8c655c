"""Matching the executed layers of a profile to the nodes of the model as given.

An engine may name a fused layer by its end alone: OpenVINO's FullyConnected by its Add, DeepSparse's convolution by its
BatchNormalization. What holds the work is then before a named node, and nothing else reads it. (Logic synthesis calls
this the maximum fanout-free cone: Cong and Ding, "On area/depth trade-off in LUT-based FPGA technology mapping", 1994.)
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from enginebench_controller.graph.matching.claims import (
    ExecutedGraph,
    Ownership,
    between,
    claim_nodes,
    kin,
    share_nodes,
)
from enginebench_controller.graph.matching.dataflow import DataFlow
from enginebench_controller.graph.matching.kinds import (
    hosts,
    is_light,
    is_main,
    is_rearrangement,
    precedes,
    unmatched_category,
)
from enginebench_controller.graph.matching.matched import (
    LayerCategory,
    LayerGroup,
    Matching,
    NodeState,
    total_ns,
)
from enginebench_controller.graph.source_graph import SourceGraph
from enginebench_controller.records import Layer

Owners = dict[int, int]


def place_cones(flow: DataFlow, owners: Owners) -> None:
    """Give each named light node's group the work that only this node needs, with what lies between."""
    results = set(flow.graph.outputs)
    kept = {node.index for node in flow.graph.nodes if not results.isdisjoint(node.outputs)}
    for node, group in sorted(owners.items(), key=lambda item: flow.rank[item[0]]):
        if is_light(flow.op_type(node)):
            owners |= dict.fromkeys(_working(flow, _cone(flow, owners, node, kept)), group)


def _cone(flow: DataFlow, owners: Owners, tip: int, kept: Collection[int]) -> list[int]:
    """Nodes without an owner whose output goes nowhere but, over each other, to `tip`; in the order of the data.

    Nothing is taken from behind a convolution and its like: that can as well have run in a layer nobody named.
    """
    cone = {tip}
    waiting = list(flow.before[tip])
    while waiting:
        node = waiting.pop()
        if node in cone or node in owners or node in kept or not cone.issuperset(flow.after[node]):
            continue
        cone.add(node)
        waiting.extend(() if is_main(flow.op_type(node)) else flow.before[node])
    return sorted(cone - {tip}, key=flow.rank.__getitem__)


def _working(flow: DataFlow, cone: list[int]) -> list[int]:
    """Those that hold work, and what comes after them; light nodes before belong to whoever made their input."""
    working: set[int] = set()
    for node in cone:
        if not is_light(flow.op_type(node)) or not working.isdisjoint(flow.before[node]):
            working.add(node)
    return [node for node in cone if node in working]


def place_nodes(flow: DataFlow, tensors: ExecutedGraph, ownership: Ownership) -> None:
    """Give nodes without an owner to the group they can only be in; others stay without.

    First what lies between the tensors that a group reads and writes, and work that only one group needs. Then, one
    by one, nodes that engines fuse into the one beside them: those that prepare data (DequantizeLinear, Pad) into the
    one that reads it, the others into the one whose output they read, unless that only moves or pools data: then also
    into the one that reads it.
    """
    for group in list(ownership.layers_of):
        for node in covered(flow, tensors, ownership, group):
            ownership.of_node.setdefault(node, group)
    place_cones(flow, ownership.of_node)
    _Placing(flow, tensors, ownership).place()


def covered(flow: DataFlow, tensors: ExecutedGraph, ownership: Ownership, group: int) -> list[int]:
    """The unowned nodes that a group must contain to make what it writes of what it reads.

    Where it is not known what it reads, these are the nodes between those it claims.
    """
    layers = ownership.layers_of[group]
    written = {name for layer in layers for name in tensors.written(layer)}
    reads = [tensors.read(layer) for layer in layers]
    walk = _Walk(flow, tensors, ownership, group, {name for names, _ in reads for name in names} - written)
    claimed = ownership.claimed_by(group)
    ends = {flow.writer[name] for name in written if name in flow.writer} | claimed
    if all(complete for _, complete in reads):
        found = walk.back_from(ends)
        if walk.bounded:
            return [node for node in found if node not in ownership.of_node]
    first = min((flow.rank[node] for node in claimed), default=len(flow.order))
    between = _descendants(flow, walk.back_from(ends, first), claimed)
    return [node for node in between if node not in ownership.of_node]


class _Walk:
    """A walk against the flow of data that ends at a group's inputs. `bounded`: it came to no other end."""

    def __init__(
        self, flow: DataFlow, tensors: ExecutedGraph, ownership: Ownership, group: int, inputs: set[str]
    ) -> None:
        self._flow, self._tensors, self._ownership = flow, tensors, ownership
        self._group, self._inputs = group, inputs
        self.bounded = True

    def back_from(self, ends: Iterable[int], first: int | None = None) -> list[int]:
        """The nodes passed, in the order of the data; none that comes before the place `first` in it.

        Without `first` it stops where it leaves its bounds.
        """
        seen = {node for node in ends if not self._flow.folded[node]}
        waiting = list(seen)
        while waiting and (self.bounded or first is not None):
            for node in self._behind(waiting.pop()):
                if node not in seen and self._flow.rank[node] >= (first or 0):
                    seen.add(node)
                    waiting.append(node)
        return sorted(seen, key=self._flow.rank.__getitem__)

    def _behind(self, node: int) -> Iterator[int]:
        for name in self._flow.reads[node]:
            writer = self._flow.writer.get(name)
            if name in self._inputs or (writer is not None and self._flow.folded[writer]):
                continue
            if writer is None:
                self.bounded &= name not in self._flow.graph.inputs
            elif self._is_elsewhere(name, writer):
                self.bounded = False
            else:
                yield writer

    def _is_elsewhere(self, name: str, writer: int) -> bool:
        other = self._tensors.writers.get(name)
        if other is not None and self._ownership.group_of.get(other) != self._group:
            return True
        return self._ownership.of_node.get(writer, self._group) != self._group


def _descendants(flow: DataFlow, nodes: list[int], roots: set[int]) -> list[int]:
    """Of `nodes`, in the order of the data, those that depend on one of `roots`."""
    found = set(roots)
    for node in nodes:
        if any(before in found for before in flow.before[node]):
            found.add(node)
    return [node for node in nodes if node in found]


class _Placing:
    """The rules for a node by its neighbours."""

    def __init__(self, flow: DataFlow, tensors: ExecutedGraph, ownership: Ownership) -> None:
        self._flow, self._tensors, self._ownership = flow, tensors, ownership
        self._hosts = {owner for node, owner in ownership.of_node.items() if hosts(flow.op_type(node))}

    def place(self) -> None:
        """Go over all nodes without an owner, with the data and against it."""
        forth = [node for node in self._flow.order if self._is_open(node)]
        back = forth[::-1]
        self._give((node for node in back if precedes(self._flow.op_type(node))), self._reader)
        self._give(forth, self._host)
        settled = self._settled(forth)
        self._give((node for node in back if node in settled), self._reader)
        self._give(forth, self._producer)

    def _is_open(self, node: int) -> bool:
        light = is_light(self._flow.op_type(node))
        return light and not self._flow.folded[node] and node not in self._ownership.of_node

    def _give(self, nodes: Iterable[int], owner_of: Callable[[int], int | None]) -> None:
        for node in nodes:
            if node not in self._ownership.of_node and (owner := owner_of(node)) is not None:
                self._ownership.of_node[node] = owner

    def _settled(self, forth: Iterable[int]) -> set[int]:
        """The nodes without an owner that no work comes before of which nobody knows where it went."""
        found: set[int] = set()
        for node in forth:
            unknown = (before for before in self._flow.before[node] if before not in self._ownership.of_node)
            if node not in self._ownership.of_node and found.issuperset(unknown):
                found.add(node)
        return found

    def _host(self, node: int) -> int | None:
        """The producer, if it is one that calculates: pooling or moving data does nothing for others on the way."""
        group = self._producer(node)
        return group if group in self._hosts or is_rearrangement(self._flow.op_type(node)) else None

    def _producer(self, node: int) -> int | None:
        """The group whose output the node reads: of several the last to run, since only then all inputs are there.

        Where one of them is unknown, it may be that one.
        """
        if not self._ownership.of_node.keys() >= set(self._flow.before[node]):
            return None
        groups = [group for name in self._flow.reads[node] for group in self._on_the_way(name)]
        return max(groups, key=self._ownership.last_layer.__getitem__, default=None)

    def _on_the_way(self, name: str) -> Iterator[int]:
        """The group that can hold a reader of this tensor."""
        writer = self._flow.writer.get(name)
        if writer is None or self._flow.folded[writer]:
            return
        if name not in self._tensors.writers:
            if writer in self._ownership.of_node:
                yield self._ownership.of_node[writer]
            return
        # A layer writes this very tensor, so its reader runs in a layer that reads it.
        groups = {self._ownership.group_of.get(layer) for layer in self._tensors.readers[name]} - {None}
        if len(groups) == 1:
            yield from (group for group in groups if group is not None)

    def _reader(self, node: int) -> int | None:
        """The group that reads the node's output: of several the first to run."""
        found = (self._ownership.of_node.get(after) for after in self._flow.after[node])
        return min(
            (group for group in found if group is not None), key=self._ownership.last_layer.__getitem__, default=None
        )


def match_layers(graph: SourceGraph, layers: Sequence[Layer]) -> Matching:
    """Map layers of any engine to disjoint sets of source nodes, going by names, tensors and place.

    The order of `layers` does not matter, only that of execution which they state. Times are conserved exactly.
    """
    flow = DataFlow(graph)
    ranked = sorted(range(len(layers)), key=lambda position: (layers[position].order, layers[position].name))
    in_order = [layers[position] for position in ranked]
    claims = claim_nodes(flow, in_order)
    told = {**claims.executed, **kin(flow, in_order, claims)}
    told |= between(flow, in_order, told)
    ownership = share_nodes(flow, replace(claims, executed=told))
    guessed = (nodes for layer, nodes in told.items() if layer not in claims.executed)
    named = frozenset(ownership.of_node).difference(*guessed)
    place_nodes(flow, claims.tensors, ownership)
    groups = _groups(ownership, ranked)
    matched = {layer for group in groups for layer in group.layers}
    matched_ns = total_ns(layers[layer] for layer in matched)
    total = total_ns(layers)
    return Matching(
        groups=groups,
        categories=tuple(
            LayerCategory.MATCHED if position in matched else unmatched_category(layer.type)
            for position, layer in enumerate(layers)
        ),
        nodes=tuple(_state(flow, named, ownership.of_node, node.index) for node in graph.nodes),
        total_ns=total,
        matched_ns=matched_ns,
        unmatched_ns=total - matched_ns,
        largest_group_share=_largest_share(flow, groups),
    )


def _groups(ownership: Ownership, ranked: Sequence[int]) -> tuple[LayerGroup, ...]:
    nodes: dict[int, list[int]] = defaultdict(list)
    for node, group in sorted(ownership.of_node.items()):
        nodes[group].append(node)
    found = [
        LayerGroup(tuple(sorted(ranked[layer] for layer in ownership.layers_of[group])), tuple(held))
        for group, held in nodes.items()
    ]
    return tuple(sorted(found, key=lambda group: group.nodes))


def _state(flow: DataFlow, named: frozenset[int], owners: Mapping[int, int], node: int) -> NodeState:
    if node in named:
        return NodeState.NAMED
    if node in owners:
        return NodeState.INFERRED
    return NodeState.FOLDED if flow.folded[node] else NodeState.UNMATCHED


def _largest_share(flow: DataFlow, groups: Sequence[LayerGroup]) -> float:
    """Of the nodes that do something when the model runs: folded ones would make a giant group look smaller."""
    live = flow.folded.count(False)
    sizes = (sum(not flow.folded[node] for node in group.nodes) for group in groups)
    return max(sizes, default=0) / live if live else 0.0
