"""Weights of a few bits, several in a byte, with a scale for each block of them."""

from typing import Any

import torch
from onnx import TensorProto

from enginebench_plugins.torch.operators.quantized import IN_FLOATS
from enginebench_plugins.torch.operators.registry import MICROSOFT, Made, Node, operator


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
            return Made(layer, (0,), remark=remark)

    def product(a: Any, packed: Any, scales: Any, zeros: Any = None, groups: Any = None, bias: Any = None) -> Any:
        if groups is not None:
            raise NotImplementedError("MatMulNBits with g_idx is not supported")
        result = torch.matmul(a, unpacked(packed, scales, zeros).t().to(a.dtype))
        return result if bias is None else result + bias

    return Made(product, tuple(range(len(node.inputs))), remark=IN_FLOATS.format("MatMulNBits"))


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
