"""Operators that bring channels, or what lies along other axes, to one scale."""

from typing import Any

import torch
from torch.nn import functional

from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, Node, operator


@operator("BatchNormalization", "SpatialBN")
def _batch_normalization(node: Node) -> Any:
    epsilon, momentum = node.get("epsilon", 1e-5), node.get("momentum", 0.9)
    if not node.get("training_mode", 0):

        def normalize(x: Any, *rest: Any) -> Any:
            kind = torch.promote_types(x.dtype, torch.promote_types(rest[0].dtype, rest[2].dtype))
            scale, bias, mean, variance = (each.to(kind) for each in rest)  # since opset 15 of types of their own
            return functional.batch_norm(x, mean, variance, scale, bias, False, 0.0, epsilon)

        return normalize

    def train(x: Any, scale: Any, bias: Any, mean: Any, variance: Any) -> Any:
        axes = (0, *range(2, x.ndim))
        now, spread = x.mean(axes), x.var(axes, correction=0)
        result = functional.batch_norm(x, now, spread, scale, bias, False, 0.0, epsilon)
        kept = (mean * momentum + now * (1 - momentum), variance * momentum + spread * (1 - momentum))
        return (result, *kept)[: max(1, len(node.outputs))] if len(node.outputs) > 1 else result

    return train


@operator("InstanceNormalization")
def _instance_normalization(node: Node) -> Any:
    epsilon = node.get("epsilon", 1e-5)
    # Not torch.nn.functional's, which refuses images of one point.
    return lambda x, scale, bias: torch.instance_norm(x, scale, bias, None, None, True, 0.0, epsilon, True)


@operator("LayerNormalization")
@operator("LayerNormalization", domain=MICROSOFT)
def _layer_normalization(node: Node) -> Any:
    epsilon, axis = node.get("epsilon", 1e-5), node.get("axis", -1)

    def normalize(x: Any, scale: Any, bias: Any = None) -> Any:
        shape = tuple(x.shape[axis:])
        if tuple(scale.shape) == shape and (bias is None or tuple(bias.shape) == shape):
            result = functional.layer_norm(x, shape, scale, bias, epsilon)
        else:
            result = functional.layer_norm(x, shape, None, None, epsilon) * scale
            result = result if bias is None else result + bias
        return (result, *_moments(x, axis, epsilon))[: len(node.outputs)] if len(node.outputs) > 1 else result

    return normalize


def _moments(x: Any, axis: int, epsilon: float) -> tuple[Any, Any]:
    axes = tuple(range(axis % x.ndim, x.ndim))
    return x.mean(axes, keepdim=True), torch.rsqrt(x.var(axes, correction=0, keepdim=True) + epsilon)


@operator("SimplifiedLayerNormalization", "RMSNormalization")
@operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def _rms_normalization(node: Node) -> Any:
    epsilon, axis = node.get("epsilon", 1e-5), node.get("axis", -1)
    return lambda x, scale: functional.rms_norm(x, tuple(x.shape[axis:]), None, epsilon) * scale


@operator("SkipLayerNormalization", "SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def _skip_normalization(node: Node) -> Any:
    epsilon, simple = node.get("epsilon", 1e-12), "Simplified" in node.type

    def normalize(x: Any, skip: Any, scale: Any, *rest: Any) -> Any:
        beta, bias = (None, *rest, None)[:2] if simple else (*rest, None, None)[:2]
        total = x + skip if bias is None else x + skip + bias
        width = (total.shape[-1],)
        if simple:
            result = functional.rms_norm(total, width, scale, epsilon)
        else:
            result = functional.layer_norm(total, width, scale, beta, epsilon)
        return (result, None, None, total)[: len(node.outputs)] if len(node.outputs) > 1 else result

    return normalize


@operator("GroupNormalization")
def _group_normalization(node: Node) -> Any:
    groups, epsilon = node.get("num_groups"), node.get("epsilon", 1e-5)

    def normalize(x: Any, scale: Any, bias: Any) -> Any:
        if scale.numel() != x.shape[1]:  # opset 18 had one a group
            scale, bias = (each.repeat_interleave(x.shape[1] // groups) for each in (scale, bias))
        return torch.group_norm(x, groups, scale, bias, epsilon)

    return normalize


@operator("LRN")
def _local_response_normalization(node: Node) -> Any:
    size, alpha, beta = node.get("size"), node.get("alpha", 1e-4), node.get("beta", 0.75)
    return lambda x: functional.local_response_norm(x, size, alpha, beta, node.get("bias", 1.0))


@operator("MeanVarianceNormalization")
def _mean_variance(node: Node) -> Any:
    axes = tuple(node.get("axes", (0, 2, 3)))

    def normalize(x: Any) -> Any:
        return (x - x.mean(axes, keepdim=True)) / (x.std(axes, correction=0, keepdim=True) + 1e-9)

    return normalize
