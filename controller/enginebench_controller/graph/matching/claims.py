"""Which source nodes each layer claims, by name, tensor, kind or neighbours, and who keeps what several claim.

ONNX Runtime calls what it fuses "Gelu_token_4", and the blocked tensors that this reads and writes "reorder_token_9".
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.graph.matching.algorithms import Components
from enginebench_controller.graph.matching.dataflow import DataFlow, NodeNames
from enginebench_controller.graph.matching.kinds import is_light, is_rearrangement, plain, unmatched_category
from enginebench_controller.graph.matching.matched import LayerCategory, is_executed
from enginebench_controller.records import Layer


class ExecutedGraph:
    """The tensors that layers read and write, in the names of the source graph where they are its own.

    A layer that only moves data (`movers`, by place) makes no new tensor: what it writes stands for what it read.
    """

    def __init__(self, flow: DataFlow, layers: Sequence[Layer], movers: Collection[int]) -> None:
        self._own = flow.writer.keys() | set(flow.graph.inputs)
        self._layers = layers
        self._alias = _aliases(layers, movers, self._own)
        self._made = {name for layer in layers for name in layer.outputs}
        self.writers: dict[str, int] = {}
        self.readers: dict[str, set[int]] = defaultdict(set)
        for position in range(len(layers)):
            if position not in movers:
                self.writers.update(dict.fromkeys(self.written(position), position))
                for name in self.read(position)[0]:
                    self.readers[name].add(position)

    def written(self, position: int) -> list[str]:
        """The source graph's tensors that a layer writes."""
        names = (self._named(name) for name in self._layers[position].outputs)
        return [name for name in names if name in self._own]

    def read(self, position: int) -> tuple[list[str], bool]:
        """The source graph's tensors that a layer reads, and whether these are all but the weights."""
        names = [self._named(name) for name in self._layers[position].inputs if name]
        own = [name for name in names if name in self._own]
        # What no layer writes and the graph does not know is a weight, perhaps in a form of the engine's own.
        return own, bool(names) and not any(name in self._made for name in names if name not in self._own)

    def _named(self, name: str) -> str:
        return self._alias.get(name, name)


def _aliases(layers: Sequence[Layer], movers: Collection[int], own: Collection[str]) -> dict[str, str]:
    """Tensors of the engine's own that are one of the source graph's in another form, with that one's name."""
    alias: dict[str, str] = {}
    for position in sorted(movers):
        layer = layers[position]
        if len(layer.outputs) == 1 and layer.inputs:
            read, written = alias.get(layer.inputs[0], layer.inputs[0]), layer.outputs[0]
            if read in own and written not in own:
                alias[written] = read
            elif written in own and read not in own:
                alias[read] = written
    return alias


Nodes = Mapping[int, frozenset[int]]

_MOVERS = frozenset({LayerCategory.REORDER, LayerCategory.CONVERT})


@dataclass(frozen=True)
class Claims:
    """The nodes that executed layers claim, by the layer's place in the order, and those of the other layers."""

    executed: Nodes
    idle: Nodes
    tensors: ExecutedGraph


def claim_nodes(flow: DataFlow, layers: Sequence[Layer]) -> Claims:
    """Read every layer's names; the layers are in the order of execution. Layers that only hold data claim nothing.

    A reorder or a conversion often bears the name of the layer it is made for: it claims no more than nodes that
    move or convert data themselves, and only where no layer that computes claims them. Of control flow and functions,
    which engines dissolve, it claims its part with the layers beside it.
    """
    names = NodeNames(flow)
    kinds = [unmatched_category(layer.type) for layer in layers]
    named = {
        position: _named(names, layer)
        for position, layer in enumerate(layers)
        if kinds[position] is not LayerCategory.DATA
    }
    moves = {
        position: _moves(flow, nodes, layers[position])
        for position, nodes in named.items()
        if kinds[position] in _MOVERS
    }
    tensors = ExecutedGraph(flow, layers, {position for position, nodes in moves.items() if not nodes})
    computing = {
        position: nodes | _ends(flow, tensors, position) for position, nodes in named.items() if position not in moves
    }
    executed, idle = _by_state(layers, computing)
    taken = frozenset[int]().union(*executed.values())
    left = {
        position: frozenset(node for node in nodes if node not in taken or flow.graph.nodes[node].bodies)
        for position, nodes in moves.items()
    }
    moving, still = _by_state(layers, left)
    return Claims(_ordered(executed | moving), _ordered(idle | still), tensors)


def _named(names: NodeNames, layer: Layer) -> frozenset[int]:
    nodes = (names.resolve(name) for name in layer.source_nodes)
    found = frozenset(node for node in nodes if node is not None)
    own = names.exact(layer.name)
    return found if found or own is None else frozenset({own})


def _ends(flow: DataFlow, tensors: ExecutedGraph, position: int) -> frozenset[int]:
    """The nodes whose output the layer writes under its name in the source graph."""
    return frozenset(flow.writer[name] for name in tensors.written(position) if name in flow.writer)


def _moves(flow: DataFlow, named: Iterable[int], layer: Layer) -> frozenset[int]:
    """The nodes that a layer which moves data stands for; none for one that the engine added."""
    return _rearranging(flow, {*named, *(flow.writer[name] for name in layer.outputs if name in flow.writer)})


def _rearranging(flow: DataFlow, nodes: Iterable[int]) -> frozenset[int]:
    return frozenset(node for node in nodes if is_rearrangement(flow.op_type(node)) or flow.graph.nodes[node].bodies)


def _by_state(layers: Sequence[Layer], claims: Nodes) -> tuple[dict[int, frozenset[int]], dict[int, frozenset[int]]]:
    executed = {position: nodes for position, nodes in claims.items() if is_executed(layers[position])}
    return executed, {position: nodes for position, nodes in claims.items() if position not in executed}


def _ordered(claims: Nodes) -> dict[int, frozenset[int]]:
    return {position: nodes for position, nodes in sorted(claims.items()) if nodes}


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


def kin(flow: DataFlow, layers: Sequence[Layer], claims: Claims) -> dict[int, frozenset[int]]:
    """Nameless layers with the node of the same kind, where there are as many of the one as of the other.

    They are paired in the order of execution and of the data. Nodes that engines usually fuse are left out, and a kind
    whose pairs have outputs of different sizes: these are other layers than they seem.
    """
    strangers = _nameless(layers, claims)
    nodes = _unclaimed(flow, claims)
    found: dict[int, frozenset[int]] = {}
    for kind, alike in strangers.items():
        pairs = list(zip(alike, nodes.get(kind, ()), strict=False))
        same_number = len(alike) == len(nodes.get(kind, ()))
        if same_number and all(_fits(flow, layers[layer], node) for layer, node in pairs):
            found |= {layer: frozenset({node}) for layer, node in pairs}
    return found


def _nameless(layers: Sequence[Layer], claims: Claims) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for position, layer in enumerate(layers):
        if is_executed(layer) and position not in claims.executed:
            found[plain(layer.type)].append(position)
    return found


def _unclaimed(flow: DataFlow, claims: Claims) -> dict[str, list[int]]:
    claimed = frozenset[int]().union(*claims.executed.values(), *claims.idle.values())
    found: dict[str, list[int]] = defaultdict(list)
    for node in flow.order:
        op_type = flow.op_type(node)
        if node not in claimed and not flow.folded[node] and not is_light(op_type):
            found[plain(op_type)].append(node)
    return found


def _fits(flow: DataFlow, layer: Layer, node: int) -> bool:
    """Whether the first output holds as many numbers, as far as both are known: engines shape it their own way."""
    shapes = flow.graph.nodes[node].output_shapes
    shape = shapes[0] if shapes else None
    return shape is None or not layer.output_shapes or math.prod(shape) == math.prod(layer.output_shapes[0])


def between(flow: DataFlow, layers: Sequence[Layer], claims: Nodes) -> dict[int, frozenset[int]]:
    """Nameless layers that compute, each with the unclaimed nodes on the ways from the layers before to those behind.

    Layers that only move data are looked through. One beside another nameless layer has none: nobody can tell what
    each of the two does.
    """
    taken = frozenset[int]().union(*claims.values())
    writers = _by_tensor(layers, lambda layer: layer.outputs)
    readers = _by_tensor(layers, lambda layer: layer.inputs)
    found: dict[int, frozenset[int]] = {}
    for position, layer in enumerate(layers):
        if not is_executed(layer) or position in claims or _category(layer) is not LayerCategory.ENGINE_MADE:
            continue
        before = _neighbours(layers, claims, layer.inputs, writers, lambda mover: mover.inputs)
        behind = _neighbours(layers, claims, layer.outputs, readers, lambda mover: mover.outputs)
        if before and behind:
            forth = _reached(before, flow.after, taken)
            nodes = forth & _reached(behind, flow.before, taken)
            found |= {position: frozenset(nodes)} if nodes else {}
    return found


def _category(layer: Layer) -> LayerCategory:
    return unmatched_category(layer.type)


def _by_tensor(layers: Sequence[Layer], tensors: Callable[[Layer], Iterable[str]]) -> Mapping[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for position, layer in enumerate(layers):
        for name in filter(None, tensors(layer)):
            found[name].append(position)
    return found


def _neighbours(
    layers: Sequence[Layer],
    claims: Nodes,
    tensors: Iterable[str],
    beside: Mapping[str, Sequence[int]],
    beyond: Callable[[Layer], Iterable[str]],
) -> set[int]:
    """The nodes of all layers on one side; none where one of them stands for none."""
    nodes: set[int] = set()
    waiting, seen = list(tensors), set[int]()
    while waiting:
        for position in beside.get(waiting.pop(), ()):
            if position in claims:
                nodes |= claims[position]
            elif _category(layers[position]) is LayerCategory.ENGINE_MADE:
                return set()
            elif position not in seen:
                seen.add(position)
                waiting.extend(beyond(layers[position]))
    return nodes


def _reached(nodes: Iterable[int], beside: Sequence[Iterable[int]], taken: frozenset[int]) -> set[int]:
    """What is come to from nodes over others that nobody has taken."""
    waiting, seen = list(nodes), set[int]()
    while waiting:
        new = {node for node in beside[waiting.pop()] if node not in taken} - seen
        seen |= new
        waiting.extend(new)
    return seen
