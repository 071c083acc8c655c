"""What ONNX Runtime's tools make one operator of several (`com.microsoft`), attention and quantized ones apart."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional

from enginebench_plugins.engines.torch.operators.convolving import convolved, transposed
from enginebench_plugins.engines.torch.operators.pooling import max_pool
from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, Node, functions, operator

_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "": lambda x: x,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "LeakyRelu": lambda x, alpha=0.01: functional.leaky_relu(x, alpha),
    "Clip": torch.clamp,
    "HardSigmoid": lambda x, alpha=0.2, beta=0.5: torch.clamp(x * alpha + beta, 0, 1),
    "HardSwish": lambda x, *_: functional.hardswish(x),
    "Elu": lambda x, alpha=1.0: functional.elu(x, alpha),
    "Selu": lambda x, alpha=1.6732632, gamma=1.0507010: gamma * functional.elu(x, alpha),
    "Softplus": functional.softplus,
    "Softsign": functional.softsign,
    "ThresholdedRelu": lambda x, alpha=1.0: functional.threshold(x, alpha, 0.0),
}
_WITH = {
    "LeakyRelu": ("alpha",), "HardSigmoid": ("alpha", "beta"), "Elu": ("alpha",), "Selu": ("alpha", "gamma"),
    "ThresholdedRelu": ("alpha",),
}  # fmt: skip
"""What an activation takes besides, by the ends of the attributes' names."""


@operator("FusedConv", "NhwcFusedConv", "NhwcConv", domain=MICROSOFT)
def _fused_conv(node: Node) -> Any:
    parameters = node.get("activation_params") or []
    activate, last = _ACTIVATIONS[node.get("activation", "")], node.type != "FusedConv"

    def conv(x: Any, weight: Any, bias: Any = None, added: Any = None) -> Any:
        result = convolved(node, x.movedim(-1, 1) if last else x, weight, bias)
        result = result.movedim(1, -1) if last else result
        return activate(result if added is None else result + added, *parameters)

    return conv


def _activation(node: Node) -> Callable[[Any], Any]:
    kind = node.get("activation", "")
    given = {name: node.get(f"activation_{name}") for name in _WITH.get(kind, ())}
    return functools.partial(_ACTIVATIONS[kind], **{name: value for name, value in given.items() if value is not None})


@operator("FusedGemm", domain=MICROSOFT)
def _fused_gemm(node: Node) -> Any:
    alpha, beta, activate = node.get("alpha", 1.0), node.get("beta", 1.0), _activation(node)

    def gemm(a: Any, b: Any, c: Any = None) -> Any:
        product = alpha * torch.matmul(a.t() if node.get("transA", 0) else a, b.t() if node.get("transB", 0) else b)
        return activate(product if c is None else product + beta * c)

    return gemm


@operator("FusedMatMul", "TransposeMatMul", "FusedMatMulActivation", domain=MICROSOFT)
def _fused_matmul(node: Node) -> Any:
    alpha, activate = node.get("alpha", 1.0), _activation(node)

    def turned(x: Any, name: str) -> Any:
        """The first axis of a batch may stand where the rows are, and rows and columns the other way round."""
        x = x.movedim(0, -2) if node.get(f"transBatch{name}", 0) else x
        return x.transpose(-1, -2) if node.get(f"trans{name}", 0) and x.ndim > 1 else x

    def matmul(a: Any, b: Any) -> Any:
        product = torch.matmul(turned(a, "A"), turned(b, "B"))
        return activate(product if alpha == 1 else product * alpha)

    return matmul


@operator("ConvTransposeWithDynamicPads", domain=MICROSOFT, host={2: ""})
def _padded_by_an_input(node: Node) -> Any:
    def run(x: Any, weight: Any, pads: Any = None, bias: Any = None) -> Any:
        return transposed(node, x, weight, bias, pads)

    return run


@operator("NhwcMaxPool", domain=MICROSOFT)
def _pool_channels_last(node: Node) -> Any:
    pool = max_pool(node)
    return lambda x: pool(x.movedim(-1, 1)).movedim(1, -1)


@operator("GemmFastGelu", domain=MICROSOFT)
def _gemm_gelu(_node: Node) -> Any:
    def run(x: Any, weight: Any, bias: Any = None) -> Any:
        product = torch.matmul(x, weight)
        return functional.gelu(product if bias is None else product + bias, approximate="tanh")

    return run


def _split_gelu(x: Any, bias: Any) -> Any:
    left, right = (x + bias).chunk(2, -1)
    return left * functional.gelu(right)


functions(
    {
        "BiasAdd": lambda x, bias, skip: x + bias + skip,
        "BiasSplitGelu": _split_gelu,
        "GatedAdd": lambda x, y, gate: x + y * gate,
        "Inverse": torch.linalg.inv,
        "SampleOp": lambda x: x,
    },
    MICROSOFT,
)


@operator("ScaledSiLU", domain=MICROSOFT)
def _scaled_silu(node: Node) -> Any:
    def run(x: Any, scale: Any = None) -> Any:
        scaled = (x * (node.get("alpha", 1.0) if scale is None else scale)).to(x.dtype)
        return scaled * torch.sigmoid(scaled)

    return run


@operator("GatedRMSNorm", domain=MICROSOFT)
def _gated_norm(node: Node) -> Any:
    epsilon = node.get("epsilon", 1e-5)

    def run(x: Any, scale: Any, gate: Any) -> Any:
        parts = x.float().unflatten(-1, (-1, scale.numel()))
        normal = functional.rms_norm(parts, (scale.numel(),), scale.float(), epsilon).flatten(-2)
        weight = torch.sigmoid(gate.float())
        weight = weight if node.get("activation", "silu") == "sigmoid" else weight * gate.float()
        return (normal * weight).to(x.dtype)

    return run


@operator("GroupNorm", "SkipGroupNorm", domain=MICROSOFT)
def _group_norm(node: Node) -> Any:
    """Channels stand last unless the node says otherwise."""
    groups, epsilon, last = node.get("groups"), node.get("epsilon", 1e-5), node.get("channels_last", 1)

    def run(x: Any, scale: Any, shift: Any, skip: Any = None, bias: Any = None) -> Any:
        if skip is not None:
            x = x + (skip.reshape(len(x), *[1] * (x.ndim - 2), -1) if skip.ndim == 2 else skip)
        x = x if bias is None else x + bias
        image = x.movedim(-1, 1) if last else x
        result = functional.group_norm(image, groups, scale.to(x.dtype), shift.to(x.dtype), epsilon)
        result = functional.silu(result) if node.get("activation", 0) else result
        result = result.movedim(1, -1) if last else result
        return (result, x) if node.makes(1) else result

    return run


@operator("CDist", domain=MICROSOFT)
def _distances(node: Node) -> Any:
    squared = node.get("metric", "sqeuclidean") == "sqeuclidean"

    def run(a: Any, b: Any) -> Any:
        distances = torch.cdist(a, b, compute_mode="donot_use_mm_for_euclid_dist")
        return distances**2 if squared else distances

    return run


@operator("UnfoldTensor", domain=MICROSOFT)
def _unfold(node: Node) -> Any:
    return lambda x: x.unfold(node.get("dim", -1), node.get("size"), node.get("step", 1))


@operator("NGramRepeatBlock", domain=MICROSOFT)
def _no_repetition(node: Node) -> Any:
    size = node.get("ngram_size")

    def run(tokens: Any, scores: Any) -> Any:
        if tokens.shape[1] < size:
            return scores
        grams = tokens.unfold(1, size, 1)
        end = tokens[:, tokens.shape[1] - size + 1 :].unsqueeze(1)
        again = (grams[:, :, :-1] == end).all(-1)
        blocked = torch.zeros(len(scores), scores.shape[1] + 1, dtype=torch.bool, device=scores.device)
        nowhere = torch.full_like(grams[:, :, -1], scores.shape[1])
        blocked.scatter_(1, torch.where(again, grams[:, :, -1], nowhere).long(), True)
        return scores.masked_fill(blocked[:, :-1], float("-inf"))

    return run
