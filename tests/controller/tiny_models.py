"""Tiny models, written for one test each."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def make_model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[tuple],
    outputs: Sequence[tuple],
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 13,
) -> onnx.ModelProto:
    """A model from (name, shape[, element type]) inputs and outputs and weights by name."""

    def value(name, shape, kind=TensorProto.FLOAT):
        return helper.make_tensor_value_info(name, kind, shape)

    graph = helper.make_graph(
        list(nodes),
        "tiny",
        [value(*one) for one in inputs],
        [value(*one) for one in outputs],
        [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def tiny_classifier(batch: int | str = "batch", frozen: int | None = None) -> onnx.ModelProto:
    """Conv → BatchNorm → Relu → Reshape → MatMul; `frozen` is a batch hard-coded into the Reshape."""
    random = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], "bn"),
        helper.make_node("Relu", ["n"], ["r"], "relu"),
        helper.make_node("Reshape", ["r", "shape"], ["f"], "flatten"),
        helper.make_node("MatMul", ["f", "fc"], ["y"], "fc"),
    ]
    weights = {
        "w": random.standard_normal((4, 3, 3, 3)).astype("f"),
        "s": np.ones(4, "f"),
        "b": np.zeros(4, "f"),
        "m": np.zeros(4, "f"),
        "v": np.ones(4, "f"),
        "shape": np.array([0 if frozen is None else frozen, 64], np.int64),
        "fc": random.standard_normal((64, 5)).astype("f"),
    }
    return make_model(nodes, [("x", [batch, 3, 4, 4])], [("y", [batch, 5])], weights)


def tiny_embedding() -> onnx.ModelProto:
    """Two tables of 50 and 7 rows, both reached from `ids`; `flags` selects nothing."""
    nodes = [
        helper.make_node("Cast", ["ids"], ["wide"], "cast", to=TensorProto.INT64),
        helper.make_node("Gather", ["words", "wide"], ["a"], "words_gather"),
        helper.make_node("Gather", ["kinds", "ids"], ["b"], "kinds_gather"),
        helper.make_node("Add", ["a", "b"], ["sum"], "add"),
        helper.make_node("Cast", ["flags"], ["mask"], "mask", to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "axis"], ["mask3"], "unsqueeze"),
        helper.make_node("Mul", ["sum", "mask3"], ["y"], "mul"),
    ]
    weights = {"words": np.ones((50, 4), "f"), "kinds": np.ones((7, 4), "f"), "axis": np.array([2], np.int64)}
    inputs = [("ids", ["batch", "seq"], TensorProto.INT32), ("flags", ["batch", "seq"], TensorProto.INT64)]
    return make_model(nodes, inputs, [("y", ["batch", "seq", 4])], weights)


def save(model: onnx.ModelProto, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    return path
