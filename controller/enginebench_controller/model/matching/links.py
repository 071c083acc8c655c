"""Which groups of two profiles belong in one row."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from enginebench_controller.model.matching.joined import MatchedProfile
from enginebench_controller.model.matching.words import is_light

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
