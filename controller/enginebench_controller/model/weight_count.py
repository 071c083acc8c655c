"""How many of a model's parameters are zero, and what types they have: what a list of versions tells of each."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.model.bounded import bounded
from enginebench_controller.model.flops.stored import parameters, reads_packed_weights
from enginebench_controller.model.source_graph import SourceGraph, read_source_graph
from enginebench_controller.model.weights import Weight
from enginebench_proto.agreed.words import ModelFormat


@dataclass(frozen=True)
class WeightCount:
    """The parameters of a model version: all of them, those that are not zero, and all by their type in the file."""

    parameters: int
    nonzero: int
    types: Mapping[str, int]

    @property
    def sparsity(self) -> float | None:
        """The share of zeros; None of a model without parameters."""
        return 1 - self.nonzero / self.parameters if self.parameters else None


@bounded
def count_weights(path: Path, model_format: str) -> WeightCount | None:
    """Count the zeros of an ONNX model, one weight in memory at a time (some 0.2 s for 100 MB); None where unknown.

    Unknown are other formats, weights that only their operator can unpack, and files that cannot be read as a graph: a
    version may well be kept that nobody can count.
    """
    if model_format != ModelFormat.ONNX:
        return None
    try:
        graph = read_source_graph(path, {}, None)
        return None if reads_packed_weights(graph) else _counted(_distinct(graph))
    except (EnginebenchError, ArithmeticError, LookupError, MemoryError, OSError, RuntimeError, TypeError, ValueError):
        return None


def _distinct(graph: SourceGraph) -> list[Weight]:
    return list({weight.name: weight for node in graph.nodes for weight in parameters(graph, node)}.values())


def _counted(weights: list[Weight]) -> WeightCount | None:
    types: Counter[str] = Counter()
    nonzero = 0
    for weight in weights:
        elements, own_nonzero = weight.tensor.elements, weight.nonzero
        if elements is None or own_nonzero is None:
            return None
        types[weight.tensor.dtype or "unknown"] += elements
        nonzero += own_nonzero
    return WeightCount(types.total(), nonzero, dict(types.most_common()))
