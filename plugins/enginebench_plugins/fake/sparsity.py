"""What the fake engine's layers take when zeros are to count: products take time for the weights that are not zero."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})


def sparse_times_ns(model: "onnx.ModelProto", times_ns: Sequence[int], imposed: float | None) -> list[int]:
    """The times of the nodes, less the share of zeros in their weights: the one imposed, else their own."""
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    return [
        round(time * (1 - _zeros(node, weights, imposed)))
        for node, time in zip(model.graph.node, times_ns, strict=True)
    ]


def _zeros(node: "onnx.NodeProto", weights: dict[str, Any], imposed: float | None) -> float:
    import numpy as np
    from onnx import numpy_helper

    own = [numpy_helper.to_array(weights[name]) for name in node.input if name in weights]
    matrices = [array for array in own if array.ndim >= 2]
    if node.op_type not in PRODUCTS or not matrices:
        return 0.0
    return float(np.mean(matrices[0] == 0)) if imposed is None else imposed
