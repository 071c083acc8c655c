"""Joining matched profiles: of other engines, versions, batches or machines.

Layers that run nodes of the model are joined by these. What engines made for themselves, such as reorders, are
strangers to it: of these it is to be found which are the same thing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.graph.matching.algorithms import Components
from enginebench_controller.graph.matching.dataflow import DataFlow
from enginebench_controller.graph.matching.graph_to_graph import correspond
from enginebench_controller.graph.matching.kinds import is_light, is_rearrangement, may_move
from enginebench_controller.graph.matching.matched import (
    ADDED,
    Join,
    LayerCategory,
    MatchedProfile,
    NodeState,
    Row,
    RowPart,
    is_executed,
    mean_layer_ns,
)
from enginebench_controller.records import LayerState

Link = tuple[int, int]


def group_links(one: MatchedProfile, other: MatchedProfile, nodes: Mapping[int, int]) -> Iterator[Link]:
    """Pairs of groups that run the same nodes; `nodes` maps those of the one graph to the other's.

    Engines fuse light nodes differently, one with what comes before, the other with what comes after. A pair that has
    nothing else in common is left out where both have a partner they share work with, or else a model with a chain of
    such nodes would end up in one row. A group without such a partner keeps the one it shares most with.
    """
    shared = _shared(one, other, nodes)
    strong = {link for link, together in shared.items() if any(_works(one, other, nodes, node) for node in together)}
    yield from strong
    with_work = [{link[side] for link in strong} for side in (0, 1)]
    yield from dict.fromkeys(
        best
        for side in (0, 1)
        for group, best in _best(shared, side).items()
        if group not in with_work[side] and best not in strong
    )


def _shared(one: MatchedProfile, other: MatchedProfile, nodes: Mapping[int, int]) -> dict[Link, list[int]]:
    """The first profile's nodes that two groups have in common."""
    found: dict[Link, list[int]] = defaultdict(list)
    for node, counterpart in nodes.items():
        ours, theirs = one.matching.group_of_node[node], other.matching.group_of_node[counterpart]
        if ours is not None and theirs is not None:
            found[ours, theirs].append(node)
    return found


def _works(one: MatchedProfile, other: MatchedProfile, nodes: Mapping[int, int], node: int) -> bool:
    types = one.graph.nodes[node].op_type, other.graph.nodes[nodes[node]].op_type
    return not all(is_light(op_type) for op_type in types)


def _best(shared: Mapping[Link, list[int]], side: int) -> dict[int, Link]:
    """For each group of a side the link with the most nodes; of equals the first."""
    found: dict[int, Link] = {}
    for link, together in sorted(shared.items()):
        best = found.get(link[side])
        if best is None or len(together) > len(shared[best]):
            found[link[side]] = link
    return found


Item = tuple[int, int]
"""A profile's number and that of one of its groups."""

_Kind = tuple[LayerCategory, str | int, str]
"""A layer's category, its engine (without one the side: nobody knows whose words these are), and its type."""


@dataclass(frozen=True)
class _Stranger:
    """A thing that is no part of the model: its places by side, in each profile's layers."""

    kind: _Kind
    places: Mapping[int, int]


def join(first: MatchedProfile, *others: MatchedProfile) -> Join:
    """Put profiles side by side; each of the others is compared with the first.

    Rows are in the order in which the first profile runs them, then what only the others have.
    """
    return _Joining([first, *others]).join()


class _Joining:
    """`_forth[k]` maps the first graph's nodes to those of graph k, `_back[k]` the other way round."""

    def __init__(self, profiles: Sequence[MatchedProfile]) -> None:
        self._profiles = profiles
        self._forth = [correspond(profiles[0].graph, profile.graph) for profile in profiles]
        self._back = [{there: here for here, there in forth.items()} for forth in self._forth]

    def join(self) -> Join:
        components = self._components()
        rows = [*(self._row(items) for items in components), *self._stranger_rows(components)]
        sides = range(len(self._profiles))
        joined = [row for row in rows if row.is_joined]
        return Join(
            rows=tuple(sorted(rows, key=self._order)),
            total_ns=tuple(profile.matching.total_ns for profile in self._profiles),
            joined_ns=tuple(sum(row.sides[side].time_ns or 0 for row in joined) for side in sides),
            largest_share=max((self._largest_share(side, joined) for side in sides), default=0.0),
        )

    def _components(self) -> list[list[Item]]:
        components: Components[Item] = Components(
            (side, group)
            for side, profile in enumerate(self._profiles)
            for group in range(len(profile.matching.groups))
        )
        for side, profile in enumerate(self._profiles[1:], start=1):
            for ours, theirs in group_links(self._profiles[0], profile, self._forth[side]):
                components.link((0, ours), (side, theirs))
        return components.groups()

    def _row(self, items: Sequence[Item]) -> Row:
        nodes = [self._nodes(side, items) for side in range(len(self._profiles))]
        known = self._in_first(nodes)
        sides = tuple(self._side(side, items, nodes[side], known) for side in range(len(self._profiles)))
        return Row(sides, LayerCategory.MATCHED, self._is_exact(nodes))

    def _nodes(self, side: int, items: Sequence[Item]) -> set[int]:
        groups = self._profiles[side].matching.groups
        return {node for which, group in items if which == side for node in groups[group].nodes}

    def _in_first(self, nodes: Sequence[set[int]]) -> set[int]:
        """The row's nodes in the first graph, from all sides."""
        return {self._back[side][node] for side, held in enumerate(nodes) for node in held if node in self._back[side]}

    def _side(self, side: int, items: Sequence[Item], nodes: set[int], known: set[int]) -> RowPart:
        profile = self._profiles[side]
        groups = [profile.matching.groups[group] for which, group in items if which == side]
        layers = tuple(sorted(layer for group in groups for layer in group.layers))
        if layers:
            return _present(profile, layers, tuple(sorted(nodes)))
        missing = tuple(sorted(self._forth[side][node] for node in known if node in self._forth[side]))
        return RowPart((), missing, None, _why_missing(profile, missing))

    def _is_exact(self, nodes: Sequence[set[int]]) -> bool:
        """Whether no side's node has its counterpart elsewhere than on the other sides."""
        here = nodes[0]
        return all(
            all(forth[node] in there for node in here if node in forth)
            and all(back[node] in here for node in there if node in back)
            for there, forth, back in zip(nodes[1:], self._forth[1:], self._back[1:], strict=True)
        )

    def _stranger_rows(self, components: Sequence[Sequence[Item]]) -> Iterator[Row]:
        """A row for each layer that is no part of the model."""
        rows: list[dict[int, int]] = [{} for _ in self._profiles]
        for row, items in enumerate(components):
            for side, group in items:
                rows[side][group] = row
        found = _strangers(self._profiles, rows)
        alike: dict[_Kind, set[frozenset[int]]] = defaultdict(set)
        for one in found:
            alike[one.kind].add(frozenset(one.places))
        groups = {frozenset(side for side, _ in items) for items in components}
        computed = groups.union(*(sides for kind, sides in alike.items() if kind[0] is LayerCategory.ENGINE_MADE))
        for one in found:
            # What an engine computes may be whatever another one does; what it adds is what it calls so.
            may_be = computed if one.kind[0] is LayerCategory.ENGINE_MADE else alike[one.kind]
            sides = (
                _present(profile, (one.places[side],), ())
                if side in one.places
                else RowPart((), (), None, self._why_no_stranger(side, one, may_be))
                for side, profile in enumerate(self._profiles)
            )
            yield Row(tuple(sides), category=one.kind[0], exact=True)

    def _why_no_stranger(self, side: int, one: _Stranger, may_be: Iterable[frozenset[int]]) -> LayerState:
        """Absent only where nothing here may be it: of all that `may_be` so, the sides that have each."""
        nodes = self._profiles[side].graph.nodes
        category, _, type_ = one.kind
        is_known = (
            all(self._profiles[place].graph.nodes for place in (side, *one.places))
            and not any(side in sides and sides.isdisjoint(one.places) for sides in may_be)
            and not (may_move(category, type_) and any(is_rearrangement(node.op_type) for node in nodes))
        )
        return LayerState.ABSENT if is_known else LayerState.NO_DATA

    def _largest_share(self, side: int, rows: Sequence[Row]) -> float:
        folded = DataFlow(self._profiles[side].graph).folded
        sizes = (sum(not folded[node] for node in row.sides[side].nodes) for row in rows)
        return max(sizes, default=0) / max(folded.count(False), 1)

    def _order(self, row: Row) -> tuple[int, int]:
        side = next(number for number, one in enumerate(row.sides) if one.layers)
        return side, min(self._profiles[side].layers[layer].order for layer in row.sides[side].layers)


def _present(profile: MatchedProfile, layers: tuple[int, ...], nodes: tuple[int, ...]) -> RowPart:
    times = [mean_layer_ns(profile.layers[layer]) for layer in layers]
    known = [time for time in times if time is not None]
    states = {profile.layers[layer].state for layer in layers}
    if known:
        return RowPart(layers, nodes, sum(known), LayerState.EXECUTED)
    if LayerState.EXECUTED in states:
        return RowPart(layers, nodes, None, LayerState.NO_DATA)
    away = states == {LayerState.OPTIMIZED_AWAY}
    return RowPart(layers, nodes, None, LayerState.OPTIMIZED_AWAY if away else LayerState.NOT_EXECUTED)


def _why_missing(profile: MatchedProfile, nodes: Sequence[int]) -> LayerState:
    """Why no layer of this profile runs these nodes of its graph."""
    if not nodes:
        return LayerState.ABSENT if profile.graph.nodes else LayerState.NO_DATA
    if all(profile.matching.nodes[node] is NodeState.FOLDED for node in nodes):
        return LayerState.OPTIMIZED_AWAY
    only_move = all(is_rearrangement(profile.graph.nodes[node].op_type) for node in nodes)
    may_be = (
        is_executed(layer)
        for layer, category in zip(profile.layers, profile.matching.categories, strict=True)
        if category is LayerCategory.ENGINE_MADE or (only_move and may_move(category, layer.type))
    )
    return LayerState.NO_DATA if any(may_be) else LayerState.NOT_EXECUTED


_WORD = re.compile(r"[^\W\d_]+")
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_NUMBERED = re.compile(r"[A-Za-z]+_\d+")
"""OpenVINO numbers nodes that no one named by the operator, which is not the layer's type: Multiply_17731, Eltwise."""
_UNIQUE = "_token_"
"""ONNX Runtime puts it, with a number, behind a name that is taken."""
_NOBODYS = frozenset({"layer", "node", "unnamed"})

_MOVING = (*ADDED, LayerCategory.DATA)
_MOST_MOVERS = 8
"""So many move the same data one after the other; more of them are no profile of an engine."""


def _strangers(profiles: Sequence[MatchedProfile], rows: Sequence[Mapping[int, int]]) -> list[_Stranger]:
    """The layers outside of all groups; those of one engine are one thing where nothing else on a side could be it.

    `rows` has for each profile the row of each of its groups. A name tells where it holds more than the type's words
    and numbers; else a layer is known by the output of a row, or the input of the graph, that it moves, and its shapes.

    ONNX Runtime numbers them in an order that another process does not keep: of one model, "ReorderOutput" is behind c1
    in one and behind c2 in the next. OpenVINO says what it moves: "input_abcd_acdb_conv1".
    """
    known: dict[tuple[_Kind, Hashable], list[tuple[int, int]]] = defaultdict(list)
    found: list[_Stranger] = []
    for side, profile in enumerate(profiles):
        origins = _Origins(profile, rows[side])
        for place, group in enumerate(profile.matching.group_of_layer):
            if group is None:
                category, layer = profile.matching.categories[place], profile.layers[place]
                kind = (category, side if profile.engine is None else profile.engine, layer.type)
                is_told = not _is_numbered(layer.name, layer.type, category)
                identity = layer.name if is_told else origins.of(place)
                if identity is None:
                    found.append(_Stranger(kind, {side: place}))
                else:
                    known[kind, identity].append((side, place))
    return [*found, *(one for (kind, _), alike in known.items() for one in _told_apart(kind, alike))]


def _told_apart(kind: _Kind, alike: Sequence[tuple[int, int]]) -> Iterator[_Stranger]:
    """All of them as one, or each alone where a side has several and none tells which of them is the other side's."""
    is_one = max(Counter(side for side, _ in alike).values()) == 1
    for places in [alike] if is_one else [[one] for one in alike]:
        yield _Stranger(kind, dict(places))


def _is_numbered(name: str, type_: str, category: LayerCategory) -> bool:
    """Whether a name tells no more than what kind of layer it is, and a number."""
    parts = {part.lower() for part in _PART.findall(type_)}
    own = {type_.lower(), *parts, *category.split("_"), *_NOBODYS}
    tells_no_more = all(word.lower() in own for word in _WORD.findall(name))
    return tells_no_more or _UNIQUE in name or _NUMBERED.fullmatch(name) is not None


class _Origins:
    """Where what a profile's layers move comes from."""

    def __init__(self, profile: MatchedProfile, rows: Mapping[int, int]) -> None:
        self._layers, self._categories = profile.layers, profile.matching.categories
        self._inputs = frozenset(profile.graph.inputs)
        self._rows = [None if group is None else rows[group] for group in profile.matching.group_of_layer]
        executed = zip(self._rows, profile.layers, strict=True)
        self._sizes = Counter(row for row, layer in executed if is_executed(layer))
        self._makers = {
            name: (place, number)
            for place, layer in enumerate(profile.layers)
            for number, name in enumerate(layer.outputs)
        }

    def of(self, place: int) -> Hashable:
        """The row with the number of its output, or the name of the graph's input, that is moved, with the types of
        those that have moved it before, and the shapes that it gets; None where unknown.

        Of a row with several layers nobody knows which of them are each other's, nor what a stranger computes.
        """
        # Without the first dimension, for it is the batch's, and another batch's reorder is still the same thing.
        shapes = tuple(shape[1:] for shape in self._layers[place].output_shapes)
        before: list[str] = []
        while shapes and self._rows[place] is None and len(before) < _MOST_MOVERS:
            layer = self._layers[place]
            # A layer that reads nothing holds data: an input of the graph, or a weight.
            names = [name for name in layer.inputs or layer.outputs if name in self._makers or name in self._inputs]
            if self._categories[place] not in _MOVING or len(names) != 1:
                return None
            if not layer.inputs or names[0] not in self._makers:
                return (names[0], shapes, *before) if names[0] in self._inputs else None
            before.append(layer.type)
            place, number = self._makers[names[0]]
        row = self._rows[place]
        return (row, number, shapes, *before) if row is not None and self._sizes[row] == 1 else None
