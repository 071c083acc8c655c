"""From claims to groups: who keeps a node that several layers claim. Layers are known by their place in the order."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from enginebench_controller.model.matching.claims import Claims, Nodes
from enginebench_controller.model.matching.components import Components
from enginebench_controller.model.matching.dataflow import DataFlow
from enginebench_controller.model.matching.words import is_light


class Ownership:
    """Groups while nodes are being given to them. A group is known by its layer that runs first.

    `last_layer` is the one of each group that runs last, those that did not run left out.
    """

    def __init__(self, groups: Iterable[Sequence[int]], owners: Mapping[int, int]) -> None:
        self.layers_of: dict[int, list[int]] = {min(group): sorted(group) for group in groups}
        self.group_of = {layer: first for first, group in self.layers_of.items() for layer in group}
        self.of_node = {node: self.group_of[layer] for node, layer in owners.items()}
        self._claimed: dict[int, set[int]] = defaultdict(set)
        for node, group in self.of_node.items():
            self._claimed[group].add(node)
        self.last_layer = {first: max(group) for first, group in self.layers_of.items()}

    def claimed_by(self, group: int) -> set[int]:
        """The nodes that the group's layers claimed."""
        return self._claimed[group]

    def add_idle(self, layer: int, nodes: Iterable[int]) -> None:
        """Give a layer that did not run what nobody else has; without any, it joins the group that has most of it."""
        free = [node for node in nodes if node not in self.of_node]
        if free:
            self.layers_of[layer] = [layer]
            self.last_layer[layer] = layer
            self.of_node |= dict.fromkeys(free, layer)
            self._claimed[layer] = set(free)
        owners = [self.of_node[node] for node in nodes]
        owner = layer if free else max(sorted(set(owners)), key=owners.count)
        self.group_of[layer] = owner
        if not free:
            self.layers_of[owner].append(layer)


def share_nodes(flow: DataFlow, claims: Claims) -> Ownership:
    """Groups of the executed layers with the nodes they claim, disjoint; then those of layers that did not run.

    Layers that share a node which holds work are one group. A light node, such as a QuantizeLinear that two
    convolutions read, goes to the layer that has nothing else, or to the first to run: linking all that share one
    would chain a whole INT8 model together.
    """
    claimants = _claimants(claims.executed)
    links = Components(claims.executed)
    owners: dict[int, int] = {}
    for node, sharing in claimants.items():
        keeping = _keepers(flow, claims.executed, claimants, sharing) if is_light(flow.op_type(node)) else sharing
        for layer in keeping[1:]:
            links.link(layer, keeping[0])
        owners[node] = keeping[0]
    ownership = Ownership(_linked(links, owners), owners)
    for layer, nodes in claims.idle.items():
        ownership.add_idle(layer, sorted(nodes))
    return ownership


def _claimants(claims: Nodes) -> dict[int, list[int]]:
    found: dict[int, list[int]] = defaultdict(list)
    for layer, nodes in claims.items():
        for node in sorted(nodes):
            found[node].append(layer)
    return found


def _keepers(flow: DataFlow, claims: Nodes, claimants: Mapping[int, list[int]], sharing: list[int]) -> list[int]:
    """Of the layers that share a light node: those that have nothing else, or the first."""
    poor = [
        layer
        for layer in sharing
        if all(is_light(flow.op_type(node)) and len(claimants[node]) > 1 for node in claims[layer])
    ]
    return poor or sharing[:1]


def _linked(links: Components[int], owners: Mapping[int, int]) -> list[list[int]]:
    """The groups that own a node; a layer whose nodes all went to others is left out."""
    kept = set(owners.values())
    return [group for group in links.groups() if kept & set(group)]
