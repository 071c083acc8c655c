"""Which node of a graph reads what, the bodies within it included, and the order that follows."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import onnx


def subgraphs(node: Any) -> Iterator[Any]:
    """The bodies that a node has among its attributes."""
    for each in node.attribute:
        if each.type == onnx.AttributeProto.GRAPH:
            yield each.g
        elif each.type == onnx.AttributeProto.GRAPHS:
            yield from each.graphs


def read_around(nodes: Iterable[Any], own: set[str], outputs: Iterable[str] = ()) -> Iterator[str]:
    """What the nodes of a body read that the body does not make, `own` being its inputs and weights."""
    made = set(own)
    nodes = list(nodes)
    for node in nodes:
        made.update(node.output)
    for node in nodes:
        yield from (name for name in _reads(node) if name not in made)
    yield from (name for name in outputs if name not in made)


def _reads(node: Any) -> Iterator[str]:
    """What a node reads, the bodies within it included."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        own = {value.name for value in graph.input} | {weight.name for weight in graph.initializer}
        yield from read_around(graph.node, own, [value.name for value in graph.output])


def in_order(nodes: Sequence[Any]) -> list[Any]:
    """Each node after those that make what it reads, and otherwise as the file has them."""
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    waiting = [{makers[name] for name in _reads(node) if name in makers} for node in nodes]
    if all(max(needed, default=-1) < place for place, needed in enumerate(waiting)):
        return list(nodes)
    readers: dict[int, list[int]] = {}
    for place, needed in enumerate(waiting):
        for maker in needed:
            readers.setdefault(maker, []).append(place)
    ready = [place for place, needed in enumerate(waiting) if not needed]
    order = []
    for place in ready:  # grows while it is gone through
        order.append(nodes[place])
        for reader in readers.get(place, ()):
            waiting[reader].discard(place)
            if not waiting[reader]:
                ready.append(reader)
    if len(order) < len(nodes):
        raise ValueError("the model's nodes read from each other in a circle")
    return order
