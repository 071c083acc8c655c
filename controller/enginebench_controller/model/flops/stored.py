"""Which weights a node reads, and which of them are parameters."""

from collections.abc import Iterable, Iterator

from enginebench_controller.model.flops.counters import PACKED, SETTINGS, key_of
from enginebench_controller.model.source_graph import SourceGraph, SourceNode
from enginebench_controller.model.weights import Weight

_NO_PARAMETERS = frozenset({"int64", "uint64", "bool", "string", None})
"""Elements of these types say where and how many; they are not learnt."""


def weights(graph: SourceGraph, node: SourceNode) -> tuple[Weight, ...]:
    """The weights that a node and its bodies read while the model runs, each once."""
    return tuple({weight.name: weight for weight, _ in _read(graph, node)}.values())


def parameters(graph: SourceGraph, node: SourceNode) -> tuple[Weight, ...]:
    """Those of its weights that are learnt: no shapes, indices, scales, zero points or limits."""
    return _distinct(weight for weight, is_parameter in _read(graph, node) if is_parameter)


def _distinct(found: Iterable[Weight]) -> tuple[Weight, ...]:
    return tuple({weight.name: weight for weight in found}.values())


def _read(graph: SourceGraph, node: SourceNode) -> Iterator[tuple[Weight, bool]]:
    """Every weight read, and whether it is a parameter there."""
    if node.folded:
        return
    settings = SETTINGS.get((node.domain, node.op_type), frozenset())
    for place, name in enumerate(node.inputs):
        weight = graph.weight(name)
        if weight is not None:
            yield weight, place not in settings and weight.tensor.dtype not in _NO_PARAMETERS
    for body in node.bodies.values():
        for inner in body.nodes:
            yield from _read(body, inner)


def reads_packed_weights(graph: SourceGraph) -> bool:
    """Whether some node reads weights in a form of its own, of which the number of parameters cannot be told."""
    return any(key_of(node) in PACKED for node in graph.nodes)
