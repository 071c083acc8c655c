"""The work in a model, node by node, as records that profiles have too: what a profile is in theory."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from enginebench_controller.model.flops import Method, ModelCost, NodeCost, model_cost, node_costs
from enginebench_controller.model.source_graph import SourceNode, read_source_graph
from enginebench_controller.records import ModelWork, ProfileNode


@dataclass(frozen=True)
class CountedModel:
    """The nodes of a model's graph with the work of each, for `batch` items.

    `assumptions` are sentences about what had to be chosen, such as sizes that the model leaves open.
    """

    batch: int
    nodes: tuple[ProfileNode, ...]
    work: ModelWork
    assumptions: tuple[str, ...] = ()


def counted_model(path: Path, batch: int | None = None) -> CountedModel:
    """Count an ONNX file without running it; None as `batch` is the model's own, or 1. Raises `ModelError`."""
    graph = read_source_graph(path, {}, batch)
    costs = node_costs(graph)
    nodes = tuple(counted_node(node, cost) for node, cost in zip(graph.nodes, costs, strict=True))
    return CountedModel(graph.batch, nodes, counted_work(model_cost(graph, costs)), graph.assumptions)


def counted_node(node: SourceNode, cost: NodeCost) -> ProfileNode:
    """The node with its work; it is matched to nothing."""
    return ProfileNode(
        index=node.index,
        name=node.name,
        op_type=node.op_type,
        domain=node.domain,
        inputs=node.inputs,
        outputs=node.outputs,
        weights=node.weights,
        output_shapes=node.output_shapes,
        attributes=node.attributes,
        folded=node.folded,
        macs=cost.macs,
        flops=cost.flops,
        parameters=cost.parameters,
        nonzero_parameters=cost.nonzero_parameters,
        weight_bytes=cost.weight_bytes,
        activation_bytes=cost.activation_bytes,
        method=cost.method.value,
    )


def is_at_most(nodes: Iterable[ProfileNode]) -> bool:
    """Whether the work of these nodes is a bound: of branches between which the data decide, the larger counts."""
    return any(node.method == Method.AT_MOST for node in nodes)


def counted_work(total: ModelCost) -> ModelWork:
    """The totals of a model."""
    return ModelWork(
        macs=total.macs,
        flops=total.flops,
        parameters=total.parameters,
        nonzero_parameters=total.nonzero_parameters,
        weight_bytes=total.weight_bytes,
        activation_bytes=total.activation_bytes,
        coverage=None if total.coverage_percent is None else total.coverage_percent / 100,
    )
