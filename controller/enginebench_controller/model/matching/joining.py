"""Joining matched profiles: of other engines, versions, batches or machines."""

from collections.abc import Iterator, Sequence

from enginebench_controller.model.matching.components import Components
from enginebench_controller.model.matching.correspondence import correspond
from enginebench_controller.model.matching.dataflow import DataFlow
from enginebench_controller.model.matching.joined import Join, MatchedProfile, Row, Side
from enginebench_controller.model.matching.links import group_links
from enginebench_controller.model.matching.matched import LayerCategory, NodeState, mean_layer_ns
from enginebench_controller.records import LayerState

Item = tuple[int, int]
"""A profile's number and that of one of its groups."""


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
        rows = [*(self._row(items) for items in self._components()), *self._unmatched_rows()]
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

    def _side(self, side: int, items: Sequence[Item], nodes: set[int], known: set[int]) -> Side:
        profile = self._profiles[side]
        groups = [profile.matching.groups[group] for which, group in items if which == side]
        layers = tuple(sorted(layer for group in groups for layer in group.layers))
        if layers:
            return _present(profile, layers, tuple(sorted(nodes)))
        missing = tuple(sorted(self._forth[side][node] for node in known if node in self._forth[side]))
        return Side((), missing, None, _why_missing(profile, missing))

    def _is_exact(self, nodes: Sequence[set[int]]) -> bool:
        """Whether no side's node has its counterpart elsewhere than on the other sides."""
        here = nodes[0]
        return all(
            all(forth[node] in there for node in here if node in forth)
            and all(back[node] in here for node in there if node in back)
            for there, forth, back in zip(nodes[1:], self._forth[1:], self._back[1:], strict=True)
        )

    def _unmatched_rows(self) -> Iterator[Row]:
        for side, profile in enumerate(self._profiles):
            for layer, group in enumerate(profile.matching.group_of_layer):
                if group is None:
                    own = _present(profile, (layer,), ())
                    absent = Side((), (), None, LayerState.ABSENT)
                    sides = tuple(own if which == side else absent for which in range(len(self._profiles)))
                    yield Row(sides, profile.matching.categories[layer], exact=True)

    def _largest_share(self, side: int, rows: Sequence[Row]) -> float:
        folded = DataFlow(self._profiles[side].graph).folded
        sizes = (sum(not folded[node] for node in row.sides[side].nodes) for row in rows)
        return max(sizes, default=0) / max(folded.count(False), 1)

    def _order(self, row: Row) -> tuple[int, int]:
        side = next(number for number, one in enumerate(row.sides) if one.layers)
        return side, min(self._profiles[side].layers[layer].order for layer in row.sides[side].layers)


def _present(profile: MatchedProfile, layers: tuple[int, ...], nodes: tuple[int, ...]) -> Side:
    times = [mean_layer_ns(profile.layers[layer]) for layer in layers]
    known = [time for time in times if time is not None]
    states = {profile.layers[layer].state for layer in layers}
    if known:
        return Side(layers, nodes, sum(known), LayerState.EXECUTED)
    if LayerState.EXECUTED in states:
        return Side(layers, nodes, None, LayerState.NO_DATA)
    away = states == {LayerState.OPTIMIZED_AWAY}
    return Side(layers, nodes, None, LayerState.OPTIMIZED_AWAY if away else LayerState.NOT_EXECUTED)


def _why_missing(profile: MatchedProfile, nodes: Sequence[int]) -> LayerState:
    """Why no layer of this profile runs these nodes of its graph."""
    if not nodes:
        return LayerState.ABSENT
    if all(profile.matching.nodes[node] is NodeState.FOLDED for node in nodes):
        return LayerState.OPTIMIZED_AWAY
    strangers = (
        layer.time_ns
        for layer, category in zip(profile.layers, profile.matching.categories, strict=True)
        if category is LayerCategory.ENGINE_MADE
    )
    return LayerState.NO_DATA if any(strangers) else LayerState.NOT_EXECUTED
