"""Quantized operators, computed in floats: PyTorch has kernels of its own for other forms of quantization only.

What is rounded is rounded where ONNX says; sums of products lie in float32 instead of int32.
"""

from dataclasses import replace
from typing import Any

import torch
from onnx import TensorProto

from enginebench_plugins.engines.torch.dtypes import dtype_of
from enginebench_plugins.engines.torch.operators.convolving import convolution, convolved
from enginebench_plugins.engines.torch.operators.recurrent import Recurrent, cell_of
from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, MadeModule, Node, operator

IN_FLOATS = "quantized {} computed in f32"
_BOUNDS = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def along(x: Any, values: Any, axis: int, block: int = 0) -> Any:
    """One value a channel, or a block, laid where the channels of `x` are."""
    if values.ndim == 0 or values.numel() == 1:
        return values.reshape(())
    if values.ndim == 1 and not block:
        return values.reshape([-1 if place == axis % x.ndim else 1 for place in range(x.ndim)])
    if block:
        return values.repeat_interleave(block, axis).narrow(axis, 0, x.shape[axis])
    return values


def quantized(x: Any, scale: Any, zero: Any, dtype: Any = None, bits: tuple[int, int] | None = None) -> Any:
    """`x` in steps of `scale` around `zero`, cut off at the ends of the type."""
    target = dtype or (torch.uint8 if zero is None else zero.dtype)
    steps = x.to(scale.dtype) / scale
    if target.is_floating_point:
        if zero is not None:
            steps = steps + zero.to(steps.dtype)
        bound = _BOUNDS.get(str(target).removeprefix("torch."))
        return (steps if bound is None else steps.clamp(-bound, bound)).to(target)
    steps = torch.round(steps)
    if zero is not None:
        steps = steps + zero.to(steps.dtype)
    low, high = bits or (torch.iinfo(target).min, torch.iinfo(target).max)
    return steps.clamp(low, high).to(target)


def restored(x: Any, scale: Any, zero: Any = None) -> Any:
    """The numbers that quantized ones stand for."""
    floats = x.to(scale.dtype)
    return (floats if zero is None else floats - zero.to(scale.dtype)) * scale


@operator("QuantizeLinear")
@operator("QuantizeLinear", domain=MICROSOFT)
def _quantize(node: Node) -> Any:
    axis, block, target = node.get("axis", 1), node.get("block_size", 0), node.get("output_dtype", 0)
    dtype = dtype_of(target) if target else None
    kind = target or node.kind(2)
    bits = {TensorProto.INT4: (-8, 7), TensorProto.UINT4: (0, 15)}.get(kind)

    def quantize(x: Any, scale: Any, zero: Any = None) -> Any:
        zero = None if zero is None else along(x, zero, axis, block)
        return quantized(x, along(x, scale, axis, block), zero, dtype, bits)

    return quantize


@operator("DequantizeLinear")
@operator("DequantizeLinear", domain=MICROSOFT)
def _dequantize(node: Node) -> Any:
    axis, block, target = node.get("axis", 1), node.get("block_size", 0), node.get("output_dtype", 0)

    def dequantize(x: Any, scale: Any, zero: Any = None) -> Any:
        zero = None if zero is None else along(x, zero, axis, block)
        floats = restored(x, along(x, scale, axis, block), zero)
        return floats.to(dtype_of(target)) if target else floats

    return dequantize


@operator("DynamicQuantizeLinear")
def _dynamic_quantize(_node: Node) -> Any:
    def quantize(x: Any) -> Any:
        low, high = torch.aminmax(x)
        low, high = low.clamp(max=0), high.clamp(min=0)
        scale = (high - low) / 255
        scale = torch.where(scale == 0, torch.ones_like(scale), scale)
        zero = torch.round((-low / scale).clamp(0, 255)).to(torch.uint8)
        return quantized(x, scale, zero), scale, zero

    return quantize


def _shifted(x: Any, zero: Any, axis: int) -> Any:
    """Integers less their zero point, in floats."""
    if zero is None:
        return x.float()
    return x.float() - along(x, zero, axis).float()


@operator("MatMulInteger16", domain=MICROSOFT)
@operator("MatMulInteger")
def _matmul_integer(node: Node) -> Any:
    weight, zero = node.constant(1), node.constant(3)
    if weight is not None and (zero is not None or not node.has(3)):
        return MadeModule(_IntegerProduct(_shifted(weight, zero, -1)), (0, 2), remark=IN_FLOATS.format("MatMulInteger"))

    def product(a: Any, b: Any, zero_a: Any = None, zero_b: Any = None) -> Any:
        return _whole(torch.matmul(_shifted(a, zero_a, -2), _shifted(b, zero_b, -1)))

    return MadeModule(product, (0, 1, 2, 3), remark=IN_FLOATS.format("MatMulInteger"))


def _whole(sums: Any) -> Any:
    return torch.round(sums).to(torch.int32)


class _IntegerProduct(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A product with integer weights that are known ahead."""

    def __init__(self, weight: Any) -> None:
        super().__init__()
        self.register_buffer("weight", weight)

    def _get_name(self) -> str:
        return "MatMulInteger"

    def forward(self, a: Any, zero: Any = None) -> Any:
        return _whole(torch.matmul(_shifted(a, zero, -2), self.weight))


class _IntegerConvolution(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A convolution with integer weights that are known ahead."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def _get_name(self) -> str:
        return "ConvInteger"

    def forward(self, x: Any, zero: Any = None) -> Any:
        return _whole(self.layer(_shifted(x, zero, 0)))


@operator("ConvInteger")
def _conv_integer(node: Node) -> Any:
    weight, zero = node.constant(1), node.constant(3)
    remark = IN_FLOATS.format("ConvInteger")
    if weight is not None and weight.ndim > 2 and (zero is not None or not node.has(3)):
        made = convolution(node, _shifted(weight, zero, 0), None)
        return MadeModule(_IntegerConvolution(made.call), (0, 2), remark=remark)

    def convolve(x: Any, weight: Any, zero_x: Any = None, zero_w: Any = None) -> Any:
        return _whole(convolved(node, _shifted(x, zero_x, 0), _shifted(weight, zero_w, 0)))

    return MadeModule(convolve, (0, 1, 2, 3), remark=remark)


class _QuantizedLayer(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A layer in floats between quantized tensors."""

    def __init__(self, kind: str, layer: Any) -> None:
        super().__init__()
        self._kind, self.layer = kind, layer

    def _get_name(self) -> str:
        return self._kind

    def forward(self, x: Any, scale: Any, zero: Any, out_scale: Any, out_zero: Any) -> Any:
        return quantized(self.layer(restored(x, scale, zero)), out_scale, out_zero)


class _ChannelsLast(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A layer for images whose channels stand last."""

    def __init__(self, layer: Any) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Any) -> Any:
        return self.layer(x.movedim(-1, 1)).movedim(1, -1)


@operator("QLinearConv")
@operator("QLinearConv", domain=MICROSOFT)
def _qlinear_conv(node: Node) -> Any:
    last = node.get("channels_last", 0)
    known = [node.constant(index) for index in (1, 3, 4, 5)]
    remark = IN_FLOATS.format("QLinearConv")
    scale, weight, w_scale, w_zero = known
    bias = node.constant(8)
    if all(each is not None for each in known) and (bias is not None or not node.has(8)):
        floats = restored(weight, along(weight, w_scale, 0), along(weight, w_zero, 0))
        made = convolution(
            node, floats, None if bias is None else bias.float() * scale.reshape(()) * w_scale.reshape(-1)
        )
        layer = _ChannelsLast(made.call) if last else made.call
        return MadeModule(_QuantizedLayer("QLinearConv", layer), (0, 1, 2, 6, 7), remark=remark)

    def convolve(
        x: Any, x_scale: Any, x_zero: Any, w: Any, w_scale: Any, w_zero: Any, y_scale: Any, y_zero: Any, b: Any = None
    ) -> Any:
        floats = restored(w, along(w, w_scale, 0), along(w, w_zero, 0))
        bias = None if b is None else b.float() * x_scale.reshape(()) * w_scale.reshape(-1)
        image = restored(x, x_scale, x_zero)
        result = convolved(node, image.movedim(-1, 1) if last else image, floats, bias)
        return quantized(result.movedim(1, -1) if last else result, y_scale, y_zero)

    return MadeModule(convolve, tuple(range(len(node.inputs))), remark=remark)


@operator("QLinearMatMul")
@operator("QLinearMatMul", domain=MICROSOFT)
def _qlinear_matmul(_node: Node) -> Any:
    def product(a: Any, a_scale: Any, a_zero: Any, b: Any, b_scale: Any, b_zero: Any, y_scale: Any, y_zero: Any) -> Any:
        left = restored(a, along(a, a_scale, -2), along(a, a_zero, -2))
        right = restored(b, along(b, b_scale, -1), along(b, b_zero, -1))
        return quantized(torch.matmul(left.float(), right.float()), y_scale, y_zero)

    return MadeModule(product, tuple(range(8)), remark=IN_FLOATS.format("QLinearMatMul"))


@operator("MatMulIntegerToFloat", domain=MICROSOFT)
def _integer_to_float(node: Node) -> Any:
    def product(
        a: Any, b: Any, a_scale: Any, b_scale: Any, a_zero: Any = None, b_zero: Any = None, bias: Any = None
    ) -> Any:
        result = torch.matmul(_shifted(a, a_zero, -2) * a_scale, _shifted(b, b_zero, -1) * b_scale)
        return result if bias is None else result + bias

    return MadeModule(product, tuple(range(len(node.inputs))), remark=IN_FLOATS.format("MatMulIntegerToFloat"))


@operator("DynamicQuantizeMatMul", domain=MICROSOFT)
def _dynamic_matmul(node: Node) -> Any:
    quantize = _dynamic_quantize(node)

    def product(a: Any, b: Any, b_scale: Any, b_zero: Any = None, bias: Any = None) -> Any:
        steps, scale, zero = quantize(a)
        result = torch.matmul(restored(steps, scale, zero), _shifted(b, b_zero, -1) * b_scale)
        return result if bias is None else result + bias

    return MadeModule(product, tuple(range(len(node.inputs))), remark=IN_FLOATS.format("DynamicQuantizeMatMul"))


@operator("DynamicQuantizeLSTM", domain=MICROSOFT, host={4: ""})
def _dynamic_lstm(node: Node) -> Any:
    weights = [node.constant(index) for index in (1, 2, 8, 9, 10, 11)]
    known = all(each is not None for each in weights)
    matrices = _turned_weights(*weights) if known else None
    return MadeModule(
        QuantizedLstm(node, matrices), tuple(range(len(node.inputs))), remark=IN_FLOATS.format("DynamicQuantizeLSTM")
    )


def _turned_weights(w: Any, r: Any, w_scale: Any, w_zero: Any, r_scale: Any, r_zero: Any) -> tuple[Any, Any]:
    """Weights lie turned, I × 4H, with one scale a direction or a column."""
    given, inner = (
        ((values.float() - _column(zero)) * _column(scale)).transpose(1, 2).contiguous()
        for values, scale, zero in ((w, w_scale, w_zero), (r, r_scale, r_zero))
    )
    return given, inner


class QuantizedLstm(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """An LSTM whose input, and whose state at every step, is rounded to 256 steps before it is multiplied."""

    def __init__(self, node: Node, matrices: tuple[Any, Any] | None) -> None:
        super().__init__()
        self._known = matrices is not None
        for name, values in zip(("given", "inner"), matrices or (None, None), strict=True):
            self.register_buffer(name, values)
        self.lstm = Recurrent(replace(cell_of(node, "LSTM"), rounded=rounded), None)

    def _get_name(self) -> str:
        return "DynamicQuantizeLSTM"

    def forward(self, x: Any, w: Any, r: Any, *rest: Any) -> Any:
        """All inputs of the node, in its order."""
        bias, lengths, first, cell, peepholes, *scales = (*rest, *[None] * 9)[:9]
        given, inner = (self.given, self.inner) if self._known else _turned_weights(w, r, *scales)
        return self.lstm(x, given, inner, bias, lengths, first, cell, peepholes)


def rounded(x: Any) -> Any:
    """`x` after it was quantized by its own range and restored."""
    low, high = torch.aminmax(x)
    low, high = low.clamp(max=0), high.clamp(min=0)
    scale = ((high - low) / 255).clamp(min=1e-30)
    zero = torch.round(-low / scale)
    return (torch.round(x / scale) + zero).clamp(0, 255).sub(zero) * scale


def _column(values: Any) -> Any:
    return values.float().reshape(values.shape[0], 1, -1)
