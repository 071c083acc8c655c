"""Which weights a node reads, which of them are parameters, and how many of a model's parameters are zero."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.graph.flops.counters import PACKED, SETTINGS, key_of
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.graph.source_graph import SourceGraph, SourceNode, Weight
from enginebench_controller.models.bounded import bounded_by_size
from enginebench_controller.records.model import WeightCount
from enginebench_proto.agreed.words import ModelFormat

_NO_PARAMETERS = frozenset({"int64", "uint64", "bool", "string", None})
"""Elements of these types say where and how many; they are not learnt."""


def weights(graph: SourceGraph, node: SourceNode) -> tuple[Weight, ...]:
    """The weights that a node and its bodies read while the model runs, each once."""
    return distinct(weight for weight, _ in _read(graph, node))


def parameters(graph: SourceGraph, node: SourceNode) -> tuple[Weight, ...]:
    """Those of its weights that are learnt: no shapes, indices, scales, zero points or limits."""
    return distinct(weight for weight, is_parameter in _read(graph, node) if is_parameter)


def distinct(found: Iterable[Weight]) -> tuple[Weight, ...]:
    """Each of them once, by its name where it is held."""
    return tuple({(weight.scope, weight.name): weight for weight in found}.values())


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
    return any(map(is_packed, graph.nodes))


def is_packed(node: SourceNode) -> bool:
    """Whether a node, or one of its bodies, does."""
    return not node.folded and (key_of(node) in PACKED or any(map(reads_packed_weights, node.bodies.values())))


@bounded_by_size
def count_weights(path: Path, model_format: str) -> WeightCount | None:
    """Count the zeros of an ONNX model, one weight in memory at a time (some 0.2 s for 100 MB); None where unknown.

    Unknown are other formats, weights that only their operator can unpack, and files that cannot be read as a graph: a
    version may well be kept that nobody can count.
    """
    if model_format != ModelFormat.ONNX:
        return None
    try:
        graph = read_source_graph(path, None, None)
        return None if reads_packed_weights(graph) else _counted(_distinct_parameters(graph))
    except (EnginebenchError, ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError):
        return None


def _distinct_parameters(graph: SourceGraph) -> tuple[Weight, ...]:
    return distinct(weight for node in graph.nodes for weight in parameters(graph, node))


def _counted(weights: Iterable[Weight]) -> WeightCount | None:
    types: Counter[str] = Counter()
    nonzero = 0
    for weight in weights:
        elements, own_nonzero = weight.tensor.elements, weight.nonzero
        if elements is None or own_nonzero is None:
            return None
        types[weight.tensor.dtype or "unknown"] += elements
        nonzero += own_nonzero
    return WeightCount(types.total(), nonzero, dict(types.most_common()))
