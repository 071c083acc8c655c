"""Operators that make each element of one element: arithmetic, comparisons, logic, activations, casts, dropped ones."""

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from onnx import TensorProto
from torch.nn import functional

from enginebench_plugins.engines.torch.dtypes import dtype_of
from enginebench_plugins.engines.torch.operators.registry import (
    MICROSOFT,
    MadeModule,
    Node,
    functions,
    operator,
    single,
)


@operator("Affine", "ScaledTanh", "ParametricSoftplus")
def _scaled(node: Node) -> Any:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 0.0 if node.type == "Affine" else 1.0)
    return {
        "Affine": lambda x: alpha * x + beta,
        "ScaledTanh": lambda x: alpha * torch.tanh(beta * x),
        "ParametricSoftplus": lambda x: alpha * functional.softplus(beta * x),
    }[node.type]


@operator("Scale")
def _scale(node: Node) -> Any:
    factor = node.get("scale", 1.0)
    return lambda x: x * factor


class _ImageScaler(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """One factor for an image, one shift a channel."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._factor = node.get("scale", 1.0)
        self.register_buffer("bias", torch.tensor(node.get("bias") or [0.0]).reshape(-1, 1, 1))

    def _get_name(self) -> str:
        return "ImageScaler"

    def forward(self, x: Any) -> Any:
        return x * self._factor + self.bias


operator("ImageScaler")(_ImageScaler)


def _divide(a: Any, b: Any) -> Any:
    return torch.div(a, b) if a.dtype.is_floating_point else torch.div(a, b, rounding_mode="trunc")


def _power(a: Any, b: Any) -> Any:
    if not a.dtype.is_floating_point and b.dtype.is_floating_point:
        return torch.pow(a.to(b.dtype), b).to(a.dtype)
    return torch.pow(a, b).to(a.dtype)


def _equal(a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray):  # text
        return torch.from_numpy(np.asarray(a == b, dtype=bool))
    return torch.eq(a, b)


def _where(condition: Any, a: Any, b: Any) -> Any:
    if isinstance(a, np.ndarray):
        return np.where(condition.numpy(), a, b)
    return torch.where(condition, a, b)


functions(
    {
        "Abs": torch.abs, "Neg": torch.neg, "Ceil": torch.ceil, "Floor": torch.floor, "Round": torch.round,
        "Sqrt": torch.sqrt, "Exp": torch.exp, "Log": torch.log, "Sign": torch.sign, "Erf": torch.erf,
        "Reciprocal": torch.reciprocal, "IsNaN": torch.isnan,
        "Sin": torch.sin, "Cos": torch.cos, "Tan": torch.tan, "Asin": torch.asin, "Acos": torch.acos,
        "Atan": torch.atan, "Sinh": torch.sinh, "Cosh": torch.cosh, "Tanh": torch.tanh, "Asinh": torch.asinh,
        "Acosh": torch.acosh, "Atanh": torch.atanh,
        "And": torch.logical_and, "Or": torch.logical_or, "Xor": torch.logical_xor, "Not": torch.logical_not,
        "BitwiseAnd": torch.bitwise_and, "BitwiseOr": torch.bitwise_or, "BitwiseXor": torch.bitwise_xor,
        "BitwiseNot": torch.bitwise_not,
        "Equal": _equal, "Greater": torch.gt, "Less": torch.lt, "GreaterOrEqual": torch.ge, "LessOrEqual": torch.le,
        "Where": _where, "Pow": _power, "Identity": lambda value: value,
        "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Softplus": functional.softplus, "Softsign": functional.softsign,
        "HardSwish": functional.hardswish, "Mish": functional.mish, "Det": torch.linalg.det,
    }
)  # fmt: skip


@operator("Add", "Sub", "Mul", "Div")
def _arithmetic(node: Node) -> Any:
    plain: Callable[..., Any] = {"Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Div": _divide}[node.type]
    if node.opset >= 7 or not node.get("broadcast") or node.get("axis") is None:
        return plain
    axis = node.get("axis")

    def placed(a: Any, b: Any) -> Any:
        """Before opset 7 the second operand was laid at an axis of the first."""
        start = axis % a.ndim
        return plain(a, b.reshape(tuple(b.shape) + (1,) * (a.ndim - start - b.ndim)))

    return placed


@operator("Max", "Min", "Sum", "Mean")
def _variadic(node: Node) -> Any:
    pair = {"Max": torch.maximum, "Min": torch.minimum, "Sum": torch.add, "Mean": torch.add}[node.type]
    if len(node.inputs) == 2 and node.type != "Mean":
        return pair
    share = len(node.inputs) if node.type == "Mean" else 0

    def over_all(*tensors: Any) -> Any:
        total = functools.reduce(pair, tensors)
        return total / share if share else total

    return over_all


@operator("Mod")
def _mod(node: Node) -> Any:
    return torch.fmod if node.get("fmod", 0) else torch.remainder


@operator("BitShift")
def _bit_shift(node: Node) -> Any:
    left = node.get("direction") == "LEFT"
    return torch.bitwise_left_shift if left else torch.bitwise_right_shift


@operator("IsInf")
def _is_inf(node: Node) -> Any:
    positive, negative = node.get("detect_positive", 1), node.get("detect_negative", 1)
    if positive and negative:
        return torch.isinf
    if not positive and not negative:
        return lambda x: torch.zeros_like(x, dtype=torch.bool)
    return torch.isposinf if positive else torch.isneginf


@operator("Clip", host={1: "min", 2: "max"})
def _clip(node: Node) -> Any:
    def clip(x: Any, least: Any = None, most: Any = None) -> Any:
        if least is None and most is None:
            return x
        return torch.clamp(x, single(least), single(most))

    return clip


@operator("LeakyRelu")
def _leaky_relu(node: Node) -> Any:
    return functools.partial(functional.leaky_relu, negative_slope=node.get("alpha", 0.01))


@operator("Elu")
def _elu(node: Node) -> Any:
    return functools.partial(functional.elu, alpha=node.get("alpha", 1.0))


@operator("Celu")
def _celu(node: Node) -> Any:
    return functools.partial(functional.celu, alpha=node.get("alpha", 1.0))


@operator("Selu")
def _selu(node: Node) -> Any:
    alpha, gamma = node.get("alpha", 1.67326319217681884765625), node.get("gamma", 1.05070102214813232421875)
    return lambda x: gamma * functional.elu(x, alpha)


@operator("ThresholdedRelu")
def _thresholded_relu(node: Node) -> Any:
    return functools.partial(functional.threshold, threshold=node.get("alpha", 1.0), value=0.0)


@operator("HardSigmoid")
def _hard_sigmoid(node: Node) -> Any:
    alpha, beta = node.get("alpha", 0.2), node.get("beta", 0.5)
    if math.isclose(alpha, 1 / 6, rel_tol=1e-6) and beta == 0.5:
        return functional.hardsigmoid
    return lambda x: torch.clamp(x * alpha + beta, 0, 1)


@operator("Gelu")
def _gelu(node: Node) -> Any:
    approximate = node.get("approximate", "none")
    return functools.partial(functional.gelu, approximate=approximate)


@operator("Gelu", "BiasGelu", domain=MICROSOFT)
def _exact_gelu(node: Node) -> Any:
    return lambda x, bias=None: functional.gelu(x if bias is None else x + bias)


@operator("FastGelu", domain=MICROSOFT)
def _fast_gelu(node: Node) -> Any:
    return lambda x, bias=None: functional.gelu(x if bias is None else x + bias, approximate="tanh")


@operator("QuickGelu", domain=MICROSOFT)
def _quick_gelu(node: Node) -> Any:
    alpha = node.get("alpha", 1.702)
    return lambda x: x * torch.sigmoid(alpha * x)


@operator("Swish")
def _swish(node: Node) -> Any:
    alpha = node.get("alpha", 1.0)
    return functional.silu if alpha == 1.0 else lambda x: x * torch.sigmoid(alpha * x)


@operator("Shrink")
def _shrink(node: Node) -> Any:
    lambd, bias = node.get("lambd", 0.5), node.get("bias", 0.0)

    def shrink(x: Any) -> Any:
        zero = torch.zeros_like(x)
        return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, zero)).to(x.dtype)

    return shrink


@operator("PRelu")
def _prelu(node: Node) -> Any:
    slope = node.constant(1)
    channels = slope is not None and slope.ndim in {0, 1, 3, 4} and slope.numel() == max(slope.shape, default=1)
    if channels and (
        slope.numel() == 1 or (slope.ndim > 1 and slope.shape[-slope.ndim] == slope.numel() == slope.shape[0])
    ):
        module = torch.nn.PReLU(slope.numel(), dtype=slope.dtype)
        if slope.dtype.is_floating_point:
            module.weight = torch.nn.Parameter(slope.reshape(-1), requires_grad=False)
            if slope.numel() == 1:
                return MadeModule(module, (0,))
    return lambda x, slopes: torch.where(x >= 0, x, _laid_at_channels(x, slopes) * x)


def _laid_at_channels(x: Any, slopes: Any) -> Any:
    """Old files give one slope a channel as a vector."""
    if slopes.ndim == 1 and x.ndim > 2 and slopes.numel() == x.shape[1] != x.shape[-1]:
        return slopes.reshape((-1,) + (1,) * (x.ndim - 2))
    return slopes


@operator("Dropout")
def _dropout(node: Node) -> Any:
    training = node.constant(2)
    if training is not None and bool(training):
        ratio = node.constant(1)
        return lambda x, *_: _dropped(x, 0.5 if ratio is None else float(ratio))
    if not node.makes(1):
        return MadeModule(lambda x: x, (0,))
    return MadeModule(lambda x: (x, torch.ones_like(x, dtype=torch.bool if node.opset >= 10 else x.dtype)), (0,))


def _dropped(x: Any, ratio: float) -> Any:
    kept = torch.rand_like(x) >= ratio
    return x * kept / (1 - ratio), kept


@operator("Cast")
def _cast(node: Node) -> Any:
    target = node.get("to")
    if isinstance(target, str):  # opset 1 spells it
        target = TensorProto.DataType.Value(target)
    return _caster(target, saturate=bool(node.get("saturate", 1)))


@operator("CastLike")
def _cast_like(node: Node) -> Any:
    def cast_like(x: Any, like: Any) -> Any:
        if isinstance(like, np.ndarray):
            return _to_text(x)
        return _from_text(x, like.dtype) if isinstance(x, np.ndarray) else x.to(like.dtype)

    return cast_like


def _caster(target: int, *, saturate: bool = True) -> Any:
    if target == TensorProto.STRING:
        return _to_text
    dtype = dtype_of(target)
    bits: tuple[float, float] | None = {TensorProto.INT4: (-8, 7), TensorProto.UINT4: (0, 15)}.get(target)
    if saturate and "float8" in str(dtype):
        bits = (torch.finfo(dtype).min, torch.finfo(dtype).max)

    def cast(x: Any) -> Any:
        if isinstance(x, np.ndarray):
            return _from_text(x, dtype)
        return x.to(dtype) if bits is None else x.clamp(*bits).to(dtype)

    return cast


def _from_text(text: Any, dtype: Any) -> Any:
    return torch.from_numpy(text.astype(np.float64)).to(dtype)


def _to_text(x: Any) -> Any:
    if isinstance(x, np.ndarray):
        return x
    array = (x.float() if x.dtype == torch.bfloat16 else x).cpu().numpy()
    return np.array([_written(value) for value in array.ravel()], dtype=object).reshape(array.shape)


def _written(value: Any) -> str:
    if isinstance(value, np.bool_):
        return "1" if value else "0"
    if not isinstance(value, np.floating):
        return str(value)
    return {"nan": "NaN", "inf": "INF", "-inf": "-INF"}.get(str(value), f"{float(value):.8g}")
