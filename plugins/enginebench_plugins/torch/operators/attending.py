"""Attention as ONNX Runtime's tools fuse it (`com.microsoft`), through PyTorch's own scaled dot product."""

from typing import Any

import torch
from torch.nn import functional

from enginebench_plugins.torch.operators.quantized import IN_FLOATS, restored
from enginebench_plugins.torch.operators.registry import MICROSOFT, Made, Node, operator


def _heads(x: Any, count: int) -> Any:
    """[batch, length, heads × width] as [batch, heads, length, width]."""
    return x.reshape(*x.shape[:2], count, -1).transpose(1, 2)


def _attended(node: Node, q: Any, k: Any, v: Any, mask: Any = None, added: Any = None) -> Any:
    """The values weighed for each query, heads joined. `mask` is of keys that count, `added` goes to the scores."""
    bias = _as_bias(mask, q, k, node.get("mask_filter_value", -10000.0))
    if node.get("unidirectional", 0):
        causal = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(k.shape[2] - q.shape[2])
        future = torch.zeros_like(causal, dtype=q.dtype).masked_fill(~causal, float("-inf"))
        bias = future if bias is None else bias + future
    if added is not None:
        bias = added if bias is None else bias + added
    result = functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=node.get("scale") or None)
    return result.transpose(1, 2).flatten(2)


def _as_bias(mask: Any, q: Any, k: Any, beyond: float) -> Any:
    """What a mask adds to the scores: of 0 and 1 a key, or a query and key; or the length of each item."""
    if mask is None:
        return None
    if mask.ndim == 1:
        mask = torch.arange(k.shape[2], device=k.device) < mask[: q.shape[0]].unsqueeze(-1)
    kept = (mask[:, None, None] if mask.ndim == 2 else mask[:, None] if mask.ndim == 3 else mask).bool()
    return torch.zeros(kept.shape, dtype=q.dtype, device=q.device).masked_fill(~kept, beyond)


def _with_past(k: Any, v: Any, past: Any) -> tuple[Any, Any, Any]:
    """Keys and values after those of `past` ([2, batch, heads, length, width]), and both for next time."""
    if past is not None:
        k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
    return k, v, torch.stack((k, v)) if k.shape == v.shape else None


def _from_one(node: Node, x: Any, weight: Any, bias: Any, mask: Any, past: Any, added: Any) -> Any:
    heads, joined = node.get("num_heads"), torch.matmul(x, weight)
    joined = joined if bias is None else joined + bias
    sizes = node.get("qkv_hidden_sizes") or [joined.shape[-1] // 3] * 3
    q, k, v = (_heads(part, heads) for part in joined.split(list(sizes), -1))
    k, v, present = _with_past(k, v, past)
    result = _attended(node, q, k, v, mask, added)
    return (result, present)[: len(node.outputs)] if len(node.outputs) > 1 else result


@operator("Attention", domain=MICROSOFT)
def _attention(node: Node) -> Any:
    def attend(x: Any, weight: Any, bias: Any = None, mask: Any = None, past: Any = None, added: Any = None) -> Any:
        return _from_one(node, x, weight, bias, mask, past, added)

    return attend


@operator("QAttention", domain=MICROSOFT)
def _quantized_attention(node: Node) -> Any:
    def attend(
        x: Any, weight: Any, bias: Any, x_scale: Any, w_scale: Any, mask: Any = None, x_zero: Any = None,
        w_zero: Any = None, past: Any = None,
    ) -> Any:  # fmt: skip
        return _from_one(node, restored(x, x_scale, x_zero), restored(weight, w_scale, w_zero), bias, mask, past, None)

    return Made(attend, tuple(range(len(node.inputs))), remark=IN_FLOATS.format("QAttention"))


@operator("MultiHeadAttention", domain=MICROSOFT)
def _multi_head(node: Node) -> Any:
    heads = node.get("num_heads")

    def attend(
        query: Any, key: Any = None, value: Any = None, bias: Any = None, mask: Any = None, added: Any = None,
        past_key: Any = None, past_value: Any = None,
    ) -> Any:  # fmt: skip
        if query.ndim == 5:  # all three in one: [batch, length, heads, 3, width]
            q, k, v = (query[:, :, :, place].transpose(1, 2) for place in range(3))
        else:
            parts = [query, key, value]
            if bias is not None:
                widths = [query.shape[-1], query.shape[-1], bias.shape[0] - 2 * query.shape[-1]]
                more = bias.split(widths)
                parts = [x + each if x.ndim == 3 else x for x, each in zip(parts, more, strict=True)]
            q, k, v = (_heads(x, heads) if x.ndim == 3 else x for x in parts)
        if past_key is not None:
            k, v = torch.cat((past_key, k), 2), torch.cat((past_value, v), 2)
        result = _attended(node, q, k, v, mask, added)
        return (result, k, v)[: len(node.outputs)] if len(node.outputs) > 1 else result

    return attend


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def _embed(node: Node) -> Any:
    epsilon = node.get("epsilon", 1e-12)

    def embed(
        tokens: Any, segments: Any, words: Any, places: Any, kinds: Any, scale: Any, bias: Any, mask: Any = None,
        positions: Any = None,
    ) -> Any:  # fmt: skip
        total = words[tokens.long()] + (places[: tokens.shape[1]] if positions is None else places[positions.long()])
        total = total if segments is None else total + kinds[segments.long()]
        result = functional.layer_norm(total, (total.shape[-1],), scale, bias, epsilon)
        counts = torch.zeros(tokens.shape[0], dtype=torch.int32, device=tokens.device)
        counts = counts if mask is None else mask.sum(1, dtype=torch.int32)
        return (result, counts, total)[: len(node.outputs)] if len(node.outputs) > 1 else result

    return embed


@operator("RotaryEmbedding", domain=MICROSOFT)
def _rotary(node: Node) -> Any:
    interleaved, heads = node.get("interleaved", 0), node.get("num_heads", 0)

    def rotate(x: Any, positions: Any, cosines: Any, sines: Any) -> Any:
        flat = x.ndim == 3
        width = cosines.shape[1] * 2
        count = heads or (x.shape[-1] // width if flat else 1)
        parts = _heads(x, count) if flat else x
        steps = positions.long()
        if steps.numel() == 1 and parts.shape[2] > 1:
            steps = steps.reshape(-1) + torch.arange(parts.shape[2], device=x.device)
        steps = steps.reshape(-1, parts.shape[2]).expand(parts.shape[0], -1)
        cos, sin = cosines[steps].unsqueeze(1), sines[steps].unsqueeze(1)
        turned, rest = parts[..., :width], parts[..., width:]
        first, second = (turned[..., 0::2], turned[..., 1::2]) if interleaved else turned.chunk(2, -1)
        pair = (first * cos - second * sin, first * sin + second * cos)
        turned = torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1)
        result = torch.cat((turned, rest), -1)
        return result.transpose(1, 2).flatten(2) if flat else result

    return rotate
