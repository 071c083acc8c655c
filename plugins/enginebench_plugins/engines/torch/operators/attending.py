"""Attention as ONNX Runtime's tools fuse it (`com.microsoft`), through PyTorch's own scaled dot product."""

from typing import Any

import torch
from torch.nn import functional

from enginebench_plugins.engines.torch.operators.quantized import IN_FLOATS, restored
from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, MadeModule, Node, operator


def _heads(x: Any, count: int) -> Any:
    """[batch, length, heads × width] as [batch, heads, length, width]."""
    return x.reshape(*x.shape[:2], count, -1).transpose(1, 2)


def _attended(node: Node, q: Any, k: Any, v: Any, mask: Any, added: Any, before: int) -> Any:
    """The values weighed for each query, heads joined. `mask` is of keys that count, `added` goes to the scores.

    `before` keys are older than the first query.
    """
    bias = _as_bias(mask, q, k, node.get("mask_filter_value", -10000.0))
    if node.get("unidirectional", 0):
        causal = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(before)
        causal[-1] = True  # the runtime leaves it open, which shows where there are more keys than queries
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
    if mask.ndim == 1:  # ends, and behind them the starts where there are any
        places, count = torch.arange(k.shape[2], device=k.device), q.shape[0]
        kept = places < mask[:count].unsqueeze(-1)
        mask = kept & (places >= mask[count:].unsqueeze(-1)) if len(mask) == 2 * count else kept
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
    result = _attended(node, q, k, v, mask, added, 0 if past is None else past.shape[3])
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

    return MadeModule(attend, tuple(range(len(node.inputs))), remark=IN_FLOATS.format("QAttention"))


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
            parts = [query, key, value] if key.ndim != 5 else [query, *(part.flatten(2) for part in key.unbind(3))]
            if bias is not None:
                widths = [query.shape[-1], query.shape[-1], bias.shape[0] - 2 * query.shape[-1]]
                more = bias.split(widths)
                parts = [x + each if x.ndim == 3 else x for x, each in zip(parts, more, strict=True)]
            q, k, v = (_heads(x, heads) if x.ndim == 3 else x for x in parts)
        if past_key is not None:
            k, v = torch.cat((past_key, k), 2), torch.cat((past_value, v), 2)
        result = _attended(node, q, k, v, mask, added, 0 if past_key is None else past_key.shape[2])
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


@operator("QEmbedLayerNormalization", domain=MICROSOFT)
def _quantized_embed(node: Node) -> Any:
    embed = _embed(node)

    def run(tokens: Any, segments: Any, *given: Any) -> Any:
        tables, mask, scales, zeros = given[:5], given[5], given[6:11], given[11:16]
        floats = [
            None if table is None else restored(table, scale, zero)
            for table, scale, zero in zip(tables, scales, zeros, strict=True)
        ]
        return embed(tokens, segments, *floats, mask)

    return MadeModule(run, tuple(range(len(node.inputs))), remark=IN_FLOATS.format(node.type))


def _turned(x: Any, cos: Any, sin: Any, *, interleaved: bool) -> Any:
    """Heads [batch, heads, length, width] turned by angles [batch, length, half of what is turned]."""
    width, cos, sin = cos.shape[-1] * 2, cos.unsqueeze(1), sin.unsqueeze(1)
    front, rest = x[..., :width], x[..., width:]
    first, second = (front[..., 0::2], front[..., 1::2]) if interleaved else front.chunk(2, -1)
    pair = (first * cos - second * sin, first * sin + second * cos)
    return torch.cat((torch.stack(pair, -1).flatten(-2) if interleaved else torch.cat(pair, -1), rest), -1)


@operator("RotaryEmbedding", domain=MICROSOFT)
def _rotary(node: Node) -> Any:
    interleaved, heads = bool(node.get("interleaved", 0)), node.get("num_heads", 0)

    def rotate(x: Any, positions: Any, cosines: Any, sines: Any) -> Any:
        flat = x.ndim == 3
        width = cosines.shape[1] * 2
        count = heads or (x.shape[-1] // width if flat else 1)
        parts = _heads(x, count) if flat else x
        steps = positions.long()
        if steps.numel() == 1 and parts.shape[2] > 1:
            steps = steps.reshape(-1) + torch.arange(parts.shape[2], device=x.device)
        steps = steps.reshape(-1, parts.shape[2]).expand(parts.shape[0], -1)
        result = _turned(parts, cosines[steps], sines[steps], interleaved=interleaved)
        return result.transpose(1, 2).flatten(2) if flat else result

    return rotate


class _Grouped(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """Attention whose keys and values serve several queries' heads each, behind a cache of what came before."""

    def __init__(self, node: Node) -> None:
        super().__init__()
        if node.get("k_quant_type", "NONE") != "NONE" or node.get("sliding_window_cache", 0) or node.makes(3):
            raise NotImplementedError(
                "GroupQueryAttention with a quantized or a sliding cache is not known for PyTorch"
            )
        self._node = node
        self._heads, self._groups = node.get("num_heads"), node.get("kv_num_heads")
        self._window, self._softcap = node.get("local_window_size", -1), node.get("softcap", 0.0)

    def _get_name(self) -> str:
        return "GroupQueryAttention"

    def forward(
        self, query: Any, key: Any, value: Any, past_key: Any, past_value: Any, lengths: Any, total: Any,
        cosines: Any = None, sines: Any = None, positions: Any = None, added: Any = None, sink: Any = None,
        k_scale: Any = None, v_scale: Any = None, q_norm: Any = None, k_norm: Any = None,
    ) -> Any:  # fmt: skip
        """All inputs of the node, in its order."""
        if key is None:
            width = query.shape[-1] // (self._heads + 2 * self._groups)
            query, key, value = query.split([self._heads * width, self._groups * width, self._groups * width], -1)
        q, k, v = _heads(query, self._heads), _heads(key, self._groups), _heads(value, self._groups)
        if q_norm is not None:
            epsilon = self._node.get("qk_norm_epsilon", 1e-6)
            q, k = (functional.rms_norm(x, (x.shape[-1],), by, epsilon) for x, by in ((q, q_norm), (k, k_norm)))
        total = int(total)
        first = q.shape[2] == total
        starts = torch.zeros_like(lengths) if first else lengths + 1 - q.shape[2]
        steps = starts.reshape(-1, 1).long() + torch.arange(q.shape[2], device=q.device)
        if self._node.get("do_rotary", 0):
            at = steps if positions is None else positions
            interleaved = bool(self._node.get("rotary_interleaved", 0))
            q, k = (_turned(x, cosines[at], sines[at], interleaved=interleaved) for x in (q, k))
        keys, values = (_laid_behind(x, past, starts, total) for x, past in ((k, past_key), (v, past_value)))
        result = self._weighed(q, keys, values, steps, added, sink)
        return (result, keys, values)[: len(self._node.outputs)] if len(self._node.outputs) > 1 else result

    def _weighed(self, q: Any, keys: Any, values: Any, steps: Any, added: Any, sink: Any) -> Any:
        each = self._heads // self._groups
        keys, values = keys.repeat_interleave(each, 1), values.repeat_interleave(each, 1)
        scores = torch.matmul(q, keys.transpose(-1, -2)) * (self._node.get("scale", 0.0) or q.shape[-1] ** -0.5)
        if self._softcap:
            scores = self._softcap * torch.tanh(scores / self._softcap)
        if added is not None:
            scores = scores + functional.pad(added, (0, scores.shape[-1] - added.shape[-1]))
        if self._node.get("causal", 1):
            place, own = torch.arange(keys.shape[2], device=q.device), steps[:, None, :, None]
            seen = place <= own
            seen = seen & (place > own - self._window) if self._window > 0 else seen
            scores = scores.masked_fill(~seen, float("-inf"))
        if sink is not None or self._node.get("smooth_softmax", 0):
            more = scores.new_zeros(self._heads) if sink is None else sink
            more = more.reshape(1, -1, 1, 1).expand(*scores.shape[:3], 1)
            weights = torch.softmax(torch.cat((scores, more), -1), -1)[..., :-1]
        else:
            weights = torch.softmax(scores, -1)
        return torch.matmul(weights, values).transpose(1, 2).flatten(2)


def _laid_behind(x: Any, past: Any, starts: Any, total: int) -> Any:
    """A cache as long as all there is, with the new ones behind what each item of the batch has."""
    length = total if past is None else max(total, past.shape[2])
    cache = x.new_zeros(*x.shape[:2], length, x.shape[3])
    for row, start in enumerate(starts.reshape(-1).tolist()):
        if past is not None and start:
            cache[row, :, :start] = past[row, :, :start]
        cache[row, :, start : start + x.shape[2]] = x[row]
    return cache


operator("GroupQueryAttention", domain=MICROSOFT)(_Grouped)
