"""Layers that nothing names, matched by their neighbours: the nodes between those that these stand for.

ONNX Runtime calls what it fuses "Gelu_token_4", and the blocked tensors that this reads and writes "reorder_token_9".
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from enginebench_controller.model.matching.claims import Nodes
from enginebench_controller.model.matching.dataflow import DataFlow
from enginebench_controller.model.matching.matched import Layer, LayerCategory, is_executed
from enginebench_controller.model.matching.words import unmatched_category


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
