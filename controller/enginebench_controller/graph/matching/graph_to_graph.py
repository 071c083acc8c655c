"""Which node of one graph is which of another: a version with other names, weights, precision or batch."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping

from enginebench_controller.graph.matching.algorithms import common_subsequence, increasing
from enginebench_controller.graph.matching.dataflow import DataFlow, NodeNames
from enginebench_controller.graph.matching.kinds import INVISIBLE, family, is_light
from enginebench_controller.graph.source_graph import SourceGraph, SourceNode

_TELLING = ("axis", "dilations", "group", "kernel_shape", "perm", "strides")
"""Attributes that make two nodes of one type different, and that versions of a model keep."""


class Appearance:
    """A graph seen without the nodes of the `hidden` types, and without those that are folded.

    `nodes` are the visible ones in the file's order. `before` and `after` see through hidden ones.
    """

    def __init__(self, flow: DataFlow, hidden: Collection[str]) -> None:
        self.flow = flow
        self._hidden = [flow.folded[node.index] or node.op_type in hidden for node in flow.graph.nodes]
        self.nodes = [node.index for node in flow.graph.nodes if not self._hidden[node.index]]
        behind = self._seen_through()
        self.before = {node: [behind[name] for name in flow.reads[node] if name in behind] for node in self.nodes}
        self.after: dict[int, list[int]] = {node: [] for node in self.nodes}
        for node, producers in self.before.items():
            for producer in producers:
                self.after[producer].append(node)
        self.families = {node: family(flow.op_type(node)) for node in self.nodes}
        self.looks = {node: self._look(flow.graph.nodes[node]) for node in self.nodes}

    def whole(self) -> dict[int, Hashable]:
        """What each node looks like together with all that it depends on and all that depends on it."""
        in_order = sorted(self.nodes, key=self.flow.rank.__getitem__)
        upstream: dict[int, int] = {}
        for node in in_order:
            upstream[node] = hash((self.looks[node], tuple(upstream.get(one, 0) for one in self.before[node])))
        downstream: dict[int, int] = {}
        for node in reversed(in_order):
            uses = sorted((downstream.get(one, 0), self.before[one].index(node)) for one in self.after[node])
            downstream[node] = hash((self.looks[node], tuple(uses)))
        return {node: (upstream[node], downstream[node]) for node in self.nodes}

    def _seen_through(self) -> dict[str, int]:
        """The visible node behind each tensor, looking through the first inputs of hidden ones."""
        behind: dict[str, int] = {}
        for node in self.flow.order:
            inputs = self.flow.graph.nodes[node].inputs
            seen = node if not self._hidden[node] else behind.get(inputs[0]) if inputs else None
            if seen is not None and not self.flow.folded[node]:
                behind.update(dict.fromkeys(self.flow.graph.nodes[node].outputs, seen))
        return behind

    def _look(self, node: SourceNode) -> Hashable:
        """Its family, the shape of its result for one item, and what its attributes say beyond the default of one."""
        shape = node.output_shapes[0] if node.output_shapes else None
        attributes = ((name, node.attributes[name]) for name in _TELLING if name in node.attributes)
        telling = tuple((name, value) for name, value in attributes if not _is_one(value))
        return family(node.op_type), self._per_item(shape), telling

    def _per_item(self, shape: tuple[int, ...] | None) -> tuple[int, ...] | None:
        batch = self.flow.graph.batch
        if not shape or batch < 1 or shape[0] % batch:
            return shape
        return (shape[0] // batch, *shape[1:])


def _is_one(value: object) -> bool:
    return value == 1 or (isinstance(value, tuple) and all(one == 1 for one in value))


_ENOUGH = 0.5
"""Two graphs are versions of one model when this part of the smaller one's working nodes is found in the other."""

_MOST = 0.9
"""The part of the smaller graph that structure must explain to be trusted more than names that explain less."""


def correspond(one: SourceGraph, other: SourceGraph) -> Mapping[int, int]:
    """The nodes of `one` that are in `other`, by index; partial, and no node of either occurs twice.

    Names come first, of nodes, weights and tensors, also with something added (`conv1_quant`). What they leave open is
    found by structure: nodes that look the same with all around them, neighbours of nodes already found, and aligned
    orders between those. QuantizeLinear, DequantizeLinear, Identity and Dropout are seen through where only one graph
    has them. Graphs that have little in common correspond in what their names say, and no further; and names that
    were only counted up anew (`Conv_12`) yield to structure where it explains both graphs without them.
    """
    if one.nodes == other.nodes:
        return {node.index: node.index for node in one.nodes}
    search = _Search(one, other)
    search.by_names()
    named = dict(search.found)
    search.by_structure()
    if search.agreement() < _MOST:
        nameless = _Search(one, other)
        nameless.by_structure()
        if nameless.agreement() >= _MOST:
            return nameless.found
    return search.found if search.is_enough() else named


class _Search:
    """The pairs found so far, and the ways of finding more."""

    def __init__(self, one: SourceGraph, other: SourceGraph) -> None:
        self.found: dict[int, int] = {}
        self._taken: set[int] = set()
        hidden = _hidden(one, other)
        self._flows = DataFlow(one), DataFlow(other)
        self._one, self._other = (Appearance(flow, hidden) for flow in self._flows)

    def by_names(self) -> None:
        """Labels, weights and tensors as they are, then with something added to them."""
        labels = {node.name: node.index for node in self._flows[0].graph.nodes}
        names = NodeNames(self._flows[0])
        self._by_name(lambda node: [node.name], labels.get)
        self._by_name(lambda node: node.weights, names.exact)
        self._by_name(lambda node: node.outputs, names.exact)
        self._by_name(lambda node: (node.name, *node.weights), names.resolve)

    def by_structure(self) -> None:
        """What names leave open, from the certain to the likely."""
        self._by_whole()
        self._by_neighbours()
        self._by_order(self._one.looks, self._other.looks)
        self._by_neighbours()
        if self.is_enough():
            self._by_look()
            self._by_order(self._one.families, self._other.families)

    def is_enough(self) -> bool:
        """Whether the graphs have so much in common that they are versions of one model."""
        working = [_working(side) for side in (self._one, self._other)]
        return len(self.found.keys() & working[0]) >= _ENOUGH * min(len(nodes) for nodes in working)

    def agreement(self) -> float:
        """The part of the smaller graph whose nodes look like their counterparts."""
        looks, others = self._one.looks, self._other.looks
        alike = sum(looks[one] == others.get(other) for one, other in self.found.items() if one in looks)
        return alike / max(min(len(looks), len(others)), 1)

    def _by_name(self, names_of: Callable[[SourceNode], Iterable[str]], resolve: Callable[[str], int | None]) -> None:
        pairs = []
        for node in self._flows[1].graph.nodes:
            if node.index not in self._taken:
                found = (resolve(name) for name in names_of(node) if name)
                matches = {one for one in found if one is not None and self._is_same(one, node)}
                pairs += [(one, node.index) for one in matches if len(matches) == 1]
        self._add_certain(pairs)

    def _is_same(self, one: int, node: SourceNode) -> bool:
        """Whether a node of the first graph can be one of the same name. A number for a name means little."""
        candidate = self._flows[0].graph.nodes[one]
        if one in self.found or family(candidate.op_type) != family(node.op_type):
            return False
        return not candidate.name.isdecimal() or self._one.looks.get(one) == self._other.looks.get(node.index)

    def _by_whole(self) -> None:
        """Nodes that look the same with all that is around them; alike ones in their order, where they are as many."""
        ours, theirs = _by_look(self._one.whole()), _by_look(self._other.whole())
        for look, nodes in ours.items():
            if len(nodes) == len(theirs.get(look, ())):
                self._add_free(zip(nodes, theirs[look], strict=True))

    def _by_neighbours(self) -> None:
        """From each pair to what stands alone in its look before or after both."""
        waiting = [(one, other) for one, other in self.found.items() if one in self._one.looks]
        while waiting:
            one, other = waiting.pop()
            if other in self._other.looks:
                pairs = [
                    *self._alike(self._one.before[one], self._other.before[other]),
                    *self._alike(self._one.after[one], self._other.after[other]),
                ]
                waiting += self._add_free(pairs)

    def _by_look(self) -> None:
        """What is left and alone in its look, such as one of two branches that the graphs list in another order."""
        self._add_free(list(self._alike(self._one.nodes, self._other.nodes)))

    def _alike(self, ours: Iterable[int], theirs: Iterable[int]) -> Iterator[tuple[int, int]]:
        """Of these nodes the pairs of one look that nothing else here has."""
        mine = _by_look({node: self._one.looks[node] for node in ours if node not in self.found})
        others = _by_look({node: self._other.looks[node] for node in theirs if node not in self._taken})
        for look, nodes in mine.items():
            if len(nodes) == len(others.get(look, ())) == 1:
                yield nodes[0], others[look][0]

    def _by_order(self, ours: Mapping[int, Hashable], theirs: Mapping[int, Hashable]) -> None:
        """Align the orders between the pairs that are in the same order on both sides."""
        visible = ((one, other) for one, other in sorted(self.found.items()) if one in ours and other in theirs)
        fixed = increasing(list(visible))
        last_one, last_other = len(self._flows[0].graph.nodes), len(self._flows[1].graph.nodes)
        begin = (-1, -1)
        for end in [*fixed, (last_one, last_other)]:
            mine = [node for node in range(begin[0] + 1, end[0]) if node in ours and node not in self.found]
            others = [node for node in range(begin[1] + 1, end[1]) if node in theirs and node not in self._taken]
            common = common_subsequence([ours[node] for node in mine], [theirs[node] for node in others])
            self._add_free((mine[left], others[right]) for left, right in common)
            begin = end

    def _add_certain(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Add the pairs whose first node occurs once."""
        wanted: dict[int, list[int]] = defaultdict(list)
        for one, other in pairs:
            wanted[one].append(other)
        self._add_free((one, others[0]) for one, others in wanted.items() if len(others) == 1)

    def _add_free(self, pairs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Add the pairs of which neither side is found yet, and return them."""
        added = []
        for one, other in pairs:
            if one not in self.found and other not in self._taken:
                self.found[one] = other
                self._taken.add(other)
                added.append((one, other))
        return added


def _hidden(one: SourceGraph, other: SourceGraph) -> set[str]:
    """The types to see through: those of which one of the graphs has none."""
    types = [{node.op_type for node in graph.nodes} for graph in (one, other)]
    return set(INVISIBLE - (types[0] & types[1]))


def _working(side: Appearance) -> set[int]:
    """The nodes that hold the work; all of them where none does."""
    return {node for node in side.nodes if not is_light(side.flow.op_type(node))} or set(side.nodes)


def _by_look(looks: Mapping[int, Hashable]) -> dict[Hashable, list[int]]:
    found: dict[Hashable, list[int]] = defaultdict(list)
    for node, look in looks.items():
        found[look].append(node)
    return found
