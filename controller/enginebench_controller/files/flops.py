"""The JSON documents of `enginebench flops`: unknown is null."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Literal

from enginebench_controller.files.documents import Document, head
from enginebench_controller.files.forms import DocumentForm, Form, ModelForm, with_fields_of
from enginebench_controller.graph.flops.counting import model_cost, node_costs, operator
from enginebench_controller.graph.flops.saved_programs import ProgramCost
from enginebench_controller.graph.flops.work import ModelCost, NodeCost, sum_or_none
from enginebench_controller.graph.source_graph import SourceGraph, SourceNode
from enginebench_controller.records import InputTensor, ModelVersion
from enginebench_controller.records.profile import CountMethod

CONVENTION = "1 MAC = 2 FLOPs"

LARGER_BRANCH = "≤: which branch of an If runs is decided by the data, and the larger one counts"


def cost_document(version: ModelVersion, graph: SourceGraph) -> Document:
    """Every node with its cost, the operators and the totals."""
    costs = node_costs(graph)
    return {
        **_head(version),
        "batch": graph.batch,
        "inputs": {name: graph.shape(name) for name in graph.inputs},
        "assumptions": list(graph.assumptions),
        "total": _total(model_cost(graph, costs)),
        "operators": [
            {"operator": name, "nodes": len(some), **_sums(some)} for name, some in by_operator(graph, costs)
        ],
        "nodes": [_node(node, cost) for node, cost in zip(graph.nodes, costs, strict=True)],
    }


def program_document(version: ModelVersion, inputs: Sequence[InputTensor], cost: ProgramCost) -> Document:
    """What PyTorch's counter says of a saved program; it counts products only."""
    return {
        **_head(version),
        "inputs": {item.name: item.shape for item in inputs},
        "counted_by": "torch.utils.flop_counter.FlopCounterMode",
        "total": {**asdict(cost), "flops": None},
    }


def by_operator(graph: SourceGraph, costs: Sequence[NodeCost]) -> list[tuple[str, list[NodeCost]]]:
    """The costs by operator, the most work first."""
    groups: dict[str, list[NodeCost]] = {}
    for node, cost in zip(graph.nodes, costs, strict=True):
        groups.setdefault(operator(node), []).append(cost)
    return sorted(groups.items(), key=lambda group: -known_sum(cost.flops for cost in group[1]))


def known_sum(values: Iterable[int | None]) -> int:
    """The sum of what is known, for an order; no figure to show."""
    return sum(value or 0 for value in values)


def _head(version: ModelVersion) -> Document:
    return {
        **head("flops"),
        "model": {"name": version.name, "digest": version.digest},
        "convention": CONVENTION,
    }


def _total(cost: ModelCost) -> Document:
    return {**asdict(cost), "coverage_percent": cost.coverage_percent, "intensity": cost.intensity}


def _node(node: SourceNode, cost: NodeCost) -> Document:
    return {
        "index": node.index,
        "name": node.name,
        "operator": operator(node),
        "output_shapes": list(node.output_shapes),
        "weights": list(node.weights),
        "folded": node.folded,
        **asdict(cost),
        "intensity": cost.intensity,
    }


def _sums(costs: Sequence[NodeCost]) -> Document:
    """Sums over an operator's nodes; null where one of them is unknown. Shared weights count for each node."""
    names = ("macs", "flops", "parameters", "nonzero_parameters", "weight_bytes", "activation_bytes")
    return {name: sum_or_none(getattr(cost, name) for cost in costs) for name in names} | {
        "methods": sorted({cost.method.value for cost in costs}),
        "unknown_nodes": sum(cost.method is CountMethod.UNKNOWN for cost in costs),
    }


class CountForm(DocumentForm):
    """What was counted, and how."""

    document = "flops"

    model: ModelForm
    convention: Literal["1 MAC = 2 FLOPs"]


@with_fields_of(ModelCost)
class TotalForm(Form):
    """The totals of a model; `intensity` is in operations a byte."""

    coverage_percent: float | None
    intensity: float | None


@with_fields_of(NodeCost, without=("method", "reason", "contradicts"))
class OperatorForm(Form):
    """The nodes of one operator; a sum is null where one of them is unknown."""

    operator: str
    nodes: int
    methods: tuple[CountMethod, ...]
    unknown_nodes: int


@with_fields_of(NodeCost)
class CountedNodeForm(Form):
    """A node of the model as given, with its cost."""

    index: int
    name: str
    operator: str
    output_shapes: tuple[tuple[int, ...] | None, ...]
    weights: tuple[str, ...]
    folded: bool
    intensity: float | None


class GraphCostDocument(CountForm):
    """A graph with every node."""

    batch: int | None
    inputs: dict[str, tuple[int, ...] | None]
    assumptions: tuple[str, ...]
    total: TotalForm
    operators: tuple[OperatorForm, ...]
    nodes: tuple[CountedNodeForm, ...]


@with_fields_of(ProgramCost)
class ProgramTotalForm(Form):
    """Products only: all operations are not known."""

    flops: None


class ProgramCostDocument(CountForm):
    """A saved program of PyTorch, by its own counter."""

    inputs: dict[str, tuple[int, ...]]
    counted_by: str
    total: ProgramTotalForm


FlopsDocument = GraphCostDocument | ProgramCostDocument
