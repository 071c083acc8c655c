"""Pruned children: the smallest weights of every layer become zero. Han et al., 2015, without the retraining."""

from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper

_WEIGHT_INPUTS = {"Conv": (1,), "Gemm": (0, 1), "MatMul": (0, 1)}
_PASSED_THROUGH = {"DequantizeLinear", "Identity", "Transpose", "Cast"}


def prune_weights(model: onnx.ModelProto, sparsity: float) -> int:
    """Zero the share `sparsity` of each weight of Conv, Gemm and MatMul, in place; how many tensors that were."""
    weights = {tensor.name: tensor for tensor in _weights(model.graph)}
    for tensor in weights.values():
        values = numpy_helper.to_array(tensor).copy()
        # A stable sort, so that equal magnitudes fall the same way on every machine.
        order = np.argsort(np.abs(values.astype(np.float32)).ravel(), kind="stable")
        values.reshape(-1)[order[: round(sparsity * values.size)]] = 0
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return len(weights)


def _weights(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """The weight tensors of the layers, also where they come as integers through a DequantizeLinear."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    makers = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        for place in _WEIGHT_INPUTS.get(node.op_type, ()):
            tensor = _origin(node.input[place], constants, makers)
            if tensor is not None and len(tensor.dims) >= 2:
                yield tensor


def _origin(
    name: str, constants: dict[str, onnx.TensorProto], makers: dict[str, onnx.NodeProto]
) -> onnx.TensorProto | None:
    """The constant behind a value; None for an activation, and for integers whose zero is not 0."""
    node = makers.get(name)
    while node is not None and node.op_type in _PASSED_THROUGH:
        zero_point = constants.get(node.input[2]) if len(node.input) > 2 else None
        if zero_point is not None and numpy_helper.to_array(zero_point).any():
            return None
        name = node.input[0]
        node = makers.get(name)
    if node is not None and node.op_type == "Constant":
        return next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
    return constants.get(name)
