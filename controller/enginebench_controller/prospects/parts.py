"""The parts of a model that several passes over it have in common, with their time in each.

An engine cuts a model differently when its weights are mostly zero: what was one layer may be two, or the other way
round. Parts are the finest sets of source nodes that no pass cuts through, so that times of all passes compare.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.records import Layer, Profile, ProfileNode
from enginebench_controller.stats.profiles import mean_ns

HANDED_OVER = "ORT"
"""The type of a layer that DeepSparse leaves to the ONNX Runtime within it, which gains nothing from zeros."""


@dataclass(frozen=True)
class Part:
    """Source nodes by index, and what ran them in each pass; a pass that timed no layer of theirs has None.

    `times_ns` are sums of the layers' mean times in one inference. `types` are the engine's words in the first pass.
    """

    nodes: tuple[int, ...]
    times_ns: tuple[float | None, ...]
    types: tuple[str, ...] = ()
    handed_over: bool = False


def parts_of(passes: Sequence[Profile]) -> tuple[Part, ...]:
    """The parts of passes over one graph, in its order. Raises `ValueError` where the graphs differ."""
    if len({_graph(one.nodes) for one in passes}) > 1:
        raise ValueError("passes over different graphs have no parts in common")
    held = [_nodes_by_group(one.nodes) for one in passes]
    found = _joined(nodes for groups in held for nodes in groups.values())
    layers = [_layers_by_group(one.layers) for one in passes]
    return tuple(_part(nodes, passes, layers) for nodes in sorted(found))


def _graph(nodes: Sequence[ProfileNode]) -> tuple[tuple[str, str], ...]:
    return tuple((node.op_type, node.name) for node in nodes)


def _nodes_by_group(nodes: Iterable[ProfileNode]) -> dict[int, list[int]]:
    groups: dict[int, list[int]] = defaultdict(list)
    for node in nodes:
        if node.group is not None:
            groups[node.group].append(node.index)
    return groups


def _joined(sets: Iterable[Sequence[int]]) -> list[tuple[int, ...]]:
    """The unions of all sets that overlap, directly or by way of others."""
    parent: dict[int, int] = {}

    def root(node: int) -> int:
        while parent.setdefault(node, node) != node:
            parent[node] = node = parent[parent[node]]
        return node

    for members in sets:
        for node in members:
            parent[root(node)] = root(members[0])
    unions: dict[int, list[int]] = defaultdict(list)
    for node in sorted(parent):
        unions[root(node)].append(node)
    return [tuple(members) for members in unions.values()]


def _part(
    nodes: tuple[int, ...], passes: Sequence[Profile], layers_by_group: Sequence[Mapping[int, Sequence[Layer]]]
) -> Part:
    layers = [
        [layer for group in _groups(one, nodes) for layer in held.get(group, ())]
        for one, held in zip(passes, layers_by_group, strict=True)
    ]
    return Part(
        nodes=nodes,
        times_ns=tuple(map(_time_ns, layers)),
        types=tuple(dict.fromkeys(layer.type for layer in layers[0])) if layers else (),
        handed_over=any(layer.type == HANDED_OVER for of_pass in layers for layer in of_pass),
    )


def _groups(profile: Profile, nodes: Iterable[int]) -> list[int]:
    """The groups that these nodes are in, each once."""
    found = dict.fromkeys(profile.nodes[node].group for node in nodes)
    return [group for group in found if group is not None]


def _layers_by_group(layers: Iterable[Layer]) -> Mapping[int, Sequence[Layer]]:
    groups: dict[int, list[Layer]] = defaultdict(list)
    for layer in layers:
        if layer.group is not None:
            groups[layer.group].append(layer)
    return groups


def _time_ns(layers: Iterable[Layer]) -> float | None:
    times = [time for time in map(mean_ns, layers) if time is not None]
    return sum(times) if times else None
