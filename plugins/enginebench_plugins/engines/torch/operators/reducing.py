"""Operators that make fewer elements of many: reductions, the largest, products of matrices, softmax."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from enginebench_plugins.engines.torch.operators.registry import MadeModule, Node, operator, single


def _sum(x: Any, axes: Any, keep: bool) -> Any:
    return x.sum(axes, keepdim=keep, dtype=x.dtype)


def _mean(x: Any, axes: Any, keep: bool) -> Any:
    if not _count(x, axes):  # nothing, as ONNX Runtime has it
        return _sum(x, axes, keep)
    if x.is_floating_point():
        return x.mean(axes, keepdim=keep)
    return torch.div(_sum(x, axes, keep), _count(x, axes), rounding_mode="trunc").to(x.dtype)


def _count(x: Any, axes: Sequence[int]) -> int:
    count = 1
    for axis in axes:
        count *= x.shape[axis]
    return count


def _product(x: Any, axes: Any, keep: bool) -> Any:
    for axis in sorted((axis % x.ndim for axis in axes), reverse=True):
        x = x.prod(axis, keepdim=keep, dtype=x.dtype)
    return x


def _extreme(reduce: Callable[..., Any], highest: bool) -> Callable[..., Any]:
    def run(x: Any, axes: Any, keep: bool) -> Any:
        if any(x.shape[axis] == 0 for axis in axes):
            kept = {axis % x.ndim for axis in axes}
            shape = [1 if axis in kept else size for axis, size in enumerate(x.shape) if keep or axis not in kept]
            return torch.full(shape, _bound(x.dtype, highest), dtype=x.dtype, device=x.device)
        return reduce(x, axes, keep)

    return run


def _bound(dtype: Any, highest: bool) -> Any:
    if dtype.is_floating_point:
        return float("inf") if highest else float("-inf")
    if dtype == torch.bool:
        return highest
    return torch.iinfo(dtype).max if highest else torch.iinfo(dtype).min


def _norm(x: Any, axes: Any, keep: bool) -> Any:
    return torch.sqrt(_sum(x * x, axes, keep).to(torch.float64 if not x.is_floating_point() else x.dtype)).to(x.dtype)


_REDUCTIONS: dict[str, Callable[..., Any]] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceProd": _product,
    "ReduceMax": _extreme(torch.amax, highest=False),
    "ReduceMin": _extreme(torch.amin, highest=True),
    "ReduceL1": lambda x, axes, keep: _sum(x.abs(), axes, keep),
    "ReduceL2": _norm,
    "ReduceLogSum": lambda x, axes, keep: torch.log(_sum(x, axes, keep)),
    "ReduceLogSumExp": lambda x, axes, keep: torch.logsumexp(x, axes, keep).to(x.dtype),
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
}


@operator(*_REDUCTIONS, host={1: "axes"})
def _reduction(node: Node) -> Any:
    reduce, keep = _REDUCTIONS[node.type], bool(node.get("keepdims", 1))
    nothing = node.get("noop_with_empty_axes", 0)

    def run(x: Any, axes: Any = None) -> Any:
        if axes is None or len(axes) == 0:
            axes = () if nothing else tuple(range(x.ndim))
        if not axes:
            return _alone(x, node.type)
        return reduce(x, tuple(axes), keep)

    return run


def _alone(x: Any, kind: str) -> Any:
    """What a reduction over no axis at all makes of each element."""
    each = {"ReduceL1": torch.abs, "ReduceL2": torch.abs, "ReduceLogSum": torch.log, "ReduceSumSquare": torch.square}
    return each.get(kind, lambda value: value)(x)


@operator("ArgMax", "ArgMin")
def _arg_extreme(node: Node) -> Any:
    find = torch.argmax if node.type == "ArgMax" else torch.argmin
    axis, keep = node.get("axis", 0), bool(node.get("keepdims", 1))
    if node.get("select_last_index", 0):
        return lambda x: x.shape[axis] - 1 - find(x.flip(axis), axis, keepdim=keep)
    return lambda x: find(x, axis, keepdim=keep)


@operator("TopK", host={1: "k"})
def _top_k(node: Node) -> Any:
    axis, largest = node.get("axis", -1), bool(node.get("largest", 1))

    def top(x: Any, count: Any) -> Any:
        """By sorting, which leaves equal values in their order as ONNX asks for; `torch.topk` does not."""
        values, places = torch.sort(x, dim=axis, descending=largest, stable=True)
        kept = count[0] if isinstance(count, list) else count
        return values.narrow(axis, 0, kept), places.narrow(axis, 0, kept)

    return top


def _as_matrix(function: Callable[..., Any], axis: int) -> Callable[..., Any]:
    def run(x: Any) -> Any:
        at = axis % x.ndim
        return function(x.flatten(at), -1).reshape(x.shape) if at < x.ndim - 1 else function(x, -1)

    return run


def _hard_max(x: Any, axis: int) -> Any:
    return torch.zeros_like(x).scatter(axis, x.argmax(axis, keepdim=True), 1)


@operator("Softmax", "LogSoftmax", "Hardmax")
def _softmax(node: Node) -> Any:
    function = {"Softmax": torch.softmax, "LogSoftmax": torch.log_softmax, "Hardmax": _hard_max}[node.type]
    if node.opset < 13:  # over all axes from there on
        return _as_matrix(function, node.get("axis", 1))
    return (
        functools.partial(function, dim=node.get("axis", -1))
        if node.type != "Hardmax"
        else (lambda x: _hard_max(x, node.get("axis", -1)))
    )


@operator("LpNormalization")
def _lp_normalization(node: Node) -> Any:
    axis, order = node.get("axis", -1), node.get("p", 2)

    def normalize(x: Any) -> Any:
        norm = torch.linalg.vector_norm(x, order, axis, keepdim=True)
        return torch.where(norm == 0, torch.zeros_like(x), x / norm)

    return normalize


@operator("MatMul")
def _matmul(node: Node) -> Any:
    weight = node.constant(1)
    if weight is not None and weight.ndim == 2 and weight.dtype.is_floating_point:
        return MadeModule(_linear(weight.t(), None), (0,))

    def matmul(a: Any, b: Any) -> Any:
        return torch.matmul(a, b) if a.is_floating_point() or a.dtype.is_complex else _exact(a, b)

    return matmul


def _exact(a: Any, b: Any) -> Any:
    """Products of integers, for which PyTorch's kernels take no unsigned ones beyond a byte."""
    return torch.matmul(a.to(torch.int64), b.to(torch.int64)).to(a.dtype)


def _linear(weight: Any, bias: Any) -> Any:
    """A linear layer with this weight, out × in, as it lies in memory."""
    with torch.device("meta"):
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0], bias is not None, dtype=weight.dtype)
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = torch.nn.Parameter(bias, requires_grad=False)
    return layer


@operator("Gemm")
def _gemm(node: Node) -> Any:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)
    turn_a, turn_b = node.get("transA", 0), node.get("transB", 0)
    weight, bias = node.constant(1), node.constant(2)
    known = weight is not None and weight.dtype.is_floating_point and (bias is not None or not node.has(2))
    if known and not turn_a and alpha == beta == 1.0:
        weight = weight if turn_b else weight.t()
        if bias is None or bias.numel() == 1 or bias.shape[-1] == bias.numel() == weight.shape[0]:
            return MadeModule(
                _linear(weight, None if bias is None else bias.reshape(-1).expand(weight.shape[0]).clone()), (0,)
            )

    def gemm(a: Any, b: Any, c: Any = None) -> Any:
        a, b = a.t() if turn_a else a, b.t() if turn_b else b
        product = torch.matmul(a, b) if a.is_floating_point() else _exact(a, b)
        product = product if alpha == 1 else product * alpha
        if c is None:
            return product.to(a.dtype)
        return (product + (c if beta == 1 else c * beta)).to(a.dtype)

    return gemm


@operator("Einsum")
def _einsum(node: Node) -> Any:
    equation = node.get("equation").replace(" ", "")
    return functools.partial(torch.einsum, equation)


@operator("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss")
def _loss(node: Node) -> Any:
    reduction, ignored = node.get("reduction", "mean"), node.get("ignore_index")
    softmax = node.type == "SoftmaxCrossEntropyLoss"

    def loss(x: Any, target: Any, weight: Any = None) -> Any:
        logs = torch.log_softmax(x, 1) if softmax else x
        skipped = -100 if ignored is None else ignored
        result = functional.nll_loss(logs, target.long(), weight, ignore_index=skipped, reduction=reduction)
        return (result, logs) if softmax and node.makes(1) else result

    return loss


def _cumulated(node: Node, cumulate: Any, first: int) -> Any:
    exclusive, reverse = node.get("exclusive", 0), node.get("reverse", 0)

    def run(x: Any, axis: Any) -> Any:
        along = single(axis)
        x = x.flip(along) if reverse else x
        result = cumulate(x, along, dtype=x.dtype)
        if exclusive and x.shape[along]:
            result = result.roll(1, along)
            result.select(along, 0).fill_(first)
        return result.flip(along) if reverse else result

    return run


@operator("CumSum", host={1: ""})
def _cumulative_sum(node: Node) -> Any:
    return _cumulated(node, torch.cumsum, 0)


@operator("CumProd", host={1: ""})
def _cumulative_product(node: Node) -> Any:
    return _cumulated(node, torch.cumprod, 1)
