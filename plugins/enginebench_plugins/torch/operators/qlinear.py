"""Operators of ONNX Runtime between quantized tensors, computed in floats and rounded behind."""

from dataclasses import replace
from typing import Any

import torch

from enginebench_plugins.torch.operators.pooling import average_pool, global_pool
from enginebench_plugins.torch.operators.quantized import IN_FLOATS, along, quantized, restored
from enginebench_plugins.torch.operators.registry import MICROSOFT, Made, Node, operator


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _qlinear_pair(node: Node) -> Any:
    compute = torch.add if node.type == "QLinearAdd" else torch.mul

    def pair(
        a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any = None
    ) -> Any:
        return quantized(compute(restored(a, a_scale, a_zero), restored(b, b_scale, b_zero)), y_scale, y_zero, a.dtype)

    return Made(pair, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


@operator("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def _qlinear_activation(node: Node) -> Any:
    slope = node.get("alpha", 0.01)

    def activate(x: Any) -> Any:
        return torch.sigmoid(x) if node.type == "QLinearSigmoid" else torch.nn.functional.leaky_relu(x, slope)

    def run(x: Any, scale: Any, zero: Any, y_scale: Any, y_zero: Any = None) -> Any:
        return quantized(activate(restored(x, scale, zero)), y_scale, y_zero, x.dtype)

    return Made(run, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


@operator("QLinearSoftmax", domain=MICROSOFT)
def _qlinear_softmax(node: Node) -> Any:
    def run(x: Any, scale: Any, zero: Any, y_scale: Any, y_zero: Any = None) -> Any:
        axis, floats = node.get("axis", -1), restored(x, scale, zero)
        if node.get("opset", 13) < 13:
            at = axis % x.ndim
            floats = torch.softmax(floats.flatten(at), -1).reshape(x.shape)
        else:
            floats = torch.softmax(floats, axis)
        return quantized(floats, y_scale, y_zero, x.dtype)

    return Made(run, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


@operator("QLinearConcat", domain=MICROSOFT)
def _qlinear_concat(node: Node) -> Any:
    def join(y_scale: Any, y_zero: Any, *parts: Any) -> Any:
        floats = [restored(*parts[start : start + 3]) for start in range(0, len(parts), 3)]
        return quantized(torch.cat(floats, node.get("axis")), y_scale, y_zero)

    return Made(join, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


@operator("QLinearGlobalAveragePool", "QLinearAveragePool", domain=MICROSOFT)
def _qlinear_pool(node: Node) -> Any:
    pool = (average_pool if node.type == "QLinearAveragePool" else global_pool)(
        replace(node, type=node.type.removeprefix("QLinear"))
    )
    last = bool(node.get("channels_last", 0))

    def run(x: Any, scale: Any, zero: Any, y_scale: Any, y_zero: Any = None) -> Any:
        floats = restored(x, scale, zero)
        pooled = pool(floats.movedim(-1, 1)).movedim(1, -1) if last else pool(floats)
        return quantized(pooled, y_scale, y_zero, x.dtype)

    return Made(run, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


@operator("QGemm", domain=MICROSOFT)
def _qgemm(node: Node) -> Any:
    def gemm(
        a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, c: Any = None, y_scale: Any = None,
        y_zero: Any = None,
    ) -> Any:  # fmt: skip
        left = restored(a, a_scale, a_zero)
        columns = 0 if node.get("transB", 0) else 1
        right = restored(b, along(b, b_scale, columns), None if b_zero is None else along(b, b_zero, columns))
        left, right = left.t() if node.get("transA", 0) else left, right.t() if node.get("transB", 0) else right
        alpha = node.get("alpha", 1.0)
        result = alpha * (left @ right)
        result = result if c is None else result + c.float() * (alpha * a_scale * b_scale)
        return result if y_scale is None else quantized(result, y_scale, y_zero, a.dtype)

    return Made(gemm, tuple(range(len(node.inputs))), remark=IN_FLOATS.format("QGemm"))


@operator("QLinearWhere", domain=MICROSOFT)
def _qlinear_where(node: Node) -> Any:
    def choose(
        condition: Any, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
    ) -> Any:
        chosen = torch.where(condition, restored(a, a_scale, a_zero), restored(b, b_scale, b_zero))
        return quantized(chosen, y_scale, y_zero, a.dtype)

    return Made(choose, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


@operator("QLinearReduceMean", domain=MICROSOFT)
def _qlinear_mean(node: Node) -> Any:
    def mean(x: Any, scale: Any, zero: Any, y_scale: Any, y_zero: Any = None) -> Any:
        axes = tuple(node.get("axes") or range(x.ndim))
        means = restored(x, scale, zero).mean(axes, keepdim=bool(node.get("keepdims", 1)))
        return quantized(means, y_scale, y_zero, x.dtype)

    return Made(mean, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))
