"""Quantized operators of ONNX Runtime's own: between quantized tensors, and weights of few bits, several in a byte."""

from dataclasses import replace
from typing import Any

import torch
from onnx import TensorProto

from enginebench_plugins.engines.torch.operators.pooling import average_pool, global_pool
from enginebench_plugins.engines.torch.operators.quantized import IN_FLOATS, along, quantized, restored
from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, MadeModule, Node, operator


@operator("QLinearAdd", "QLinearMul", domain=MICROSOFT)
def _qlinear_pair(node: Node) -> Any:
    compute = torch.add if node.type == "QLinearAdd" else torch.mul

    def pair(
        a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any = None
    ) -> Any:
        return quantized(compute(restored(a, a_scale, a_zero), restored(b, b_scale, b_zero)), y_scale, y_zero, a.dtype)

    return MadeModule(pair, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


@operator("QLinearSigmoid", "QLinearLeakyRelu", domain=MICROSOFT)
def _qlinear_activation(node: Node) -> Any:
    slope = node.get("alpha", 0.01)

    def activate(x: Any) -> Any:
        return torch.sigmoid(x) if node.type == "QLinearSigmoid" else torch.nn.functional.leaky_relu(x, slope)

    def run(x: Any, scale: Any, zero: Any, y_scale: Any, y_zero: Any = None) -> Any:
        return quantized(activate(restored(x, scale, zero)), y_scale, y_zero, x.dtype)

    return MadeModule(run, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


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

    return MadeModule(run, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


@operator("QLinearConcat", domain=MICROSOFT)
def _qlinear_concat(node: Node) -> Any:
    def join(y_scale: Any, y_zero: Any, *parts: Any) -> Any:
        floats = [restored(*parts[start : start + 3]) for start in range(0, len(parts), 3)]
        return quantized(torch.cat(floats, node.get("axis")), y_scale, y_zero)

    return MadeModule(join, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


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

    return MadeModule(run, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


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

    return MadeModule(gemm, tuple(range(len(node.inputs))), remark=IN_FLOATS.format("QGemm"))


@operator("QLinearWhere", domain=MICROSOFT)
def _qlinear_where(node: Node) -> Any:
    def choose(
        condition: Any, a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any
    ) -> Any:
        chosen = torch.where(condition, restored(a, a_scale, a_zero), restored(b, b_scale, b_zero))
        return quantized(chosen, y_scale, y_zero, a.dtype)

    return MadeModule(choose, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


@operator("QLinearReduceMean", domain=MICROSOFT)
def _qlinear_mean(node: Node) -> Any:
    def mean(x: Any, scale: Any, zero: Any, y_scale: Any, y_zero: Any = None) -> Any:
        axes = tuple(node.get("axes") or range(x.ndim))
        means = restored(x, scale, zero).mean(axes, keepdim=bool(node.get("keepdims", 1)))
        return quantized(means, y_scale, y_zero, x.dtype)

    return MadeModule(mean, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


@operator("MatMulNBits", domain=MICROSOFT)
def _matmul_bits(node: Node) -> Any:
    rows, columns = node.get("K"), node.get("N")
    bits, block = node.get("bits", 4), node.get("block_size")

    def unpacked(packed: Any, scales: Any, zeros: Any) -> Any:
        blocks = -(-rows // block)
        values = _unpack(packed.reshape(columns, blocks, -1), bits)[..., :block]
        if zeros is None:
            shift = torch.tensor(float(2 ** (bits - 1)), device=packed.device)
        elif zeros.dtype == torch.uint8:
            shift = _unpack(zeros.reshape(columns, -1), bits)[:, :blocks].reshape(columns, blocks, 1).float()
        else:
            shift = zeros.reshape(columns, blocks, 1)
        weight = (values.to(scales.dtype) - shift.to(scales.dtype)) * scales.reshape(columns, blocks, 1)
        return weight.reshape(columns, -1)[:, :rows]

    remark = f"weights of {bits} bits unpacked to floats ahead for {{}}".format("MatMulNBits")
    known = [node.constant(index) for index in (1, 2, 3)]
    if known[0] is not None and known[1] is not None and (known[2] is not None or not node.has(3)) and not node.has(4):
        with torch.device("meta"):
            layer = torch.nn.Linear(rows, columns, bias=False)
        layer.weight = torch.nn.Parameter(unpacked(*known), requires_grad=False)
        if not node.has(5):
            return MadeModule(layer, (0,), remark=remark)

    def product(a: Any, packed: Any, scales: Any, zeros: Any = None, groups: Any = None, bias: Any = None) -> Any:
        if groups is not None:
            raise NotImplementedError("MatMulNBits with g_idx is not supported")
        result = torch.matmul(a, unpacked(packed, scales, zeros).t().to(a.dtype))
        return result if bias is None else result + bias

    return MadeModule(product, tuple(range(len(node.inputs))), remark=IN_FLOATS.format("MatMulNBits"))


def _unpack(packed: Any, bits: int) -> Any:
    """The numbers in each byte, the lowest first."""
    if bits == 8:
        return packed
    shifts = torch.arange(0, 8, bits, dtype=torch.uint8, device=packed.device)
    return ((packed.unsqueeze(-1) >> shifts) & (2**bits - 1)).flatten(-2)


@operator("GatherBlockQuantized", domain=MICROSOFT)
def _gather_blocks(node: Node) -> Any:
    bits, block = node.get("bits", 4), node.get("block_size", 128)
    axis, along = node.get("gather_axis", 0), node.get("quantize_axis", 1)

    def gather(packed: Any, places: Any, scales: Any, zeros: Any = None) -> Any:
        is_packed = node.kind(0) == TensorProto.UINT8
        values = _unpack(packed, bits) if is_packed else packed
        shift: Any = 0
        if zeros is not None:
            whole = _unpack(zeros, bits) if is_packed else zeros
            shift = whole.narrow(-1, 0, scales.shape[-1]).to(scales.dtype).repeat_interleave(block, along)
            shift = shift.narrow(along, 0, values.shape[along])
        elif is_packed:
            shift = 2 ** (bits - 1)
        steps = scales.repeat_interleave(block, along).narrow(along, 0, values.shape[along])
        table = (values.to(scales.dtype) - shift) * steps
        chosen = places.long()
        chosen = torch.where(chosen < 0, chosen + table.shape[axis], chosen)
        return table[(*(slice(None),) * (axis % table.ndim), chosen)]

    return gather


_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
"""The quantiles of https://arxiv.org/abs/2305.14314, appendix E."""
_FP4 = (0.0, 5.208333333e-03, 0.66666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25)
"""The magnitudes of bitsandbytes' four bits, whose highest is the sign."""


@operator("MatMulBnb4", domain=MICROSOFT)
def _matmul_quantiles(node: Node) -> Any:
    rows, columns, block = node.get("K"), node.get("N"), node.get("block_size")
    table = _NF4 if node.get("quant_type") == 1 else (*_FP4, *(-value for value in _FP4))

    def product(a: Any, packed: Any, largest: Any) -> Any:
        flat = packed.reshape(-1)
        numbers = torch.stack((flat >> 4, flat & 15), -1).reshape(-1).long()[: rows * columns]
        values = torch.tensor(table, dtype=a.dtype, device=a.device)[numbers]
        weight = values * largest.to(a.dtype).repeat_interleave(block)[: rows * columns]
        return torch.matmul(
            a, weight.reshape(columns, rows).t() if node.get("transB", 1) else weight.reshape(columns, rows)
        )

    return product
