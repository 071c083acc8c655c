"""Counts one node of a model written for a test."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from tiny_models import make_model, save

from enginebench_controller.graph.flops.counting import node_costs
from enginebench_controller.graph.flops.work import NodeCost
from enginebench_controller.graph.reading import read_source_graph
from enginebench_controller.graph.source_graph import SourceGraph


def read(model: onnx.ModelProto, folder: Path, batch: int | None = None) -> SourceGraph:
    return read_source_graph(save(model, folder / "model.onnx"), {}, batch)


def cost_of(
    node: onnx.NodeProto,
    folder: Path,
    inputs: Sequence[tuple],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 17,
    kind: int = onnx.TensorProto.FLOAT,
) -> NodeCost:
    """The cost of the only node, whose first output, of this `kind`, is the model's."""
    model = make_model([node], inputs, [(node.output[0], None, kind)], weights, opset)
    if node.domain:
        model.opset_import.append(onnx.helper.make_opsetid(node.domain, 1))
    (cost,) = node_costs(read(model, folder))
    return cost
