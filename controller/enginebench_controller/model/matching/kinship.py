"""Layers that nothing names, matched by their kind where that leaves no choice."""

import math
from collections import defaultdict
from collections.abc import Sequence

from enginebench_controller.model.matching.claims import Claims
from enginebench_controller.model.matching.dataflow import DataFlow
from enginebench_controller.model.matching.matched import Layer, is_executed
from enginebench_controller.model.matching.words import is_light, plain


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
