"""Convolutions, and the padding that they share with pooling."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, MadeModule, Node, operator
from enginebench_plugins.engines.torch.operators.shaping import padded

CONVOLUTIONS = (None, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
CONVOLVE = (None, functional.conv1d, functional.conv2d, functional.conv3d)
TRANSPOSED = (None, functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
PADDED_APART = "uneven padding of {} written out before it"

Pairs = tuple[tuple[int, int], ...]
"""What is added before and after, for each axis of an image."""


def axes_of(node: Node, rank: int) -> tuple[list[int], list[int]]:
    """Strides and dilations."""
    return list(node.get("strides") or [1] * rank), list(node.get("dilations") or [1] * rank)


def fixed_pads(node: Node, rank: int) -> Pairs | None:
    """The padding where it does not depend on the size of the image, else None."""
    kind = node.get("auto_pad", "NOTSET")
    if kind == "VALID":
        return ((0, 0),) * rank
    if kind not in {"NOTSET", ""}:
        return None
    pads = node.get("pads") or [0] * (2 * rank)
    return tuple(zip(pads[:rank], pads[rank:], strict=True))


def same_pads(node: Node, sizes: Sequence[int], kernel: Sequence[int]) -> Pairs:
    """The padding that `auto_pad` asks for: an image as large as before, divided by the stride."""
    strides, dilations = axes_of(node, len(kernel))
    pairs = []
    for size, each, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        total = max(0, (-(-size // stride) - 1) * stride + (each - 1) * dilation + 1 - size)
        less, more = total // 2, total - total // 2
        pairs.append((less, more) if node.get("auto_pad") == "SAME_UPPER" else (more, less))
    return tuple(pairs)


def on_image(x: Any, pairs: Pairs, value: float = 0) -> Any:
    """`x` with the padding around its image."""
    around = {axis: pair for axis, pair in enumerate(pairs, start=x.ndim - len(pairs)) if pair != (0, 0)}
    return padded(x, around, "constant", value)


def even(pairs: Pairs | None) -> bool:
    """Whether there is as much before as after, on every axis."""
    return pairs is not None and all(before == after for before, after in pairs)


class _PaddedFirst(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A layer whose padding PyTorch's own module cannot have."""

    def __init__(self, layer: Any, pairs: Callable[[Any], Pairs], value: float = 0) -> None:
        super().__init__()
        self.layer, self._pairs, self._value = layer, pairs, value

    def _get_name(self) -> str:
        return str(type(self.layer).__name__)

    def forward(self, x: Any) -> Any:
        return self.layer(on_image(x, self._pairs(x), self._value))


def convolution(node: Node, weight: Any, bias: Any) -> MadeModule:
    """A convolution with these weights, whatever its node is called."""
    rank = weight.ndim - 2
    strides, dilations = axes_of(node, rank)
    pairs, group = fixed_pads(node, rank), node.get("group", 1)
    is_even = even(pairs)
    kernel = tuple(weight.shape[2:])
    with torch.device("meta"):
        layer = CONVOLUTIONS[rank](  # type: ignore[misc]
            weight.shape[1] * group,
            weight.shape[0],
            kernel,
            tuple(strides),
            tuple(before for before, _ in pairs) if pairs and is_even else 0,
            tuple(dilations),
            group,
            bias is not None,
            dtype=weight.dtype,
        )
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = torch.nn.Parameter(bias, requires_grad=False)
    if is_even:
        return MadeModule(layer, (0,))
    place = (lambda _x: pairs) if pairs is not None else (lambda x: same_pads(node, x.shape[2:], kernel))
    return MadeModule(_PaddedFirst(layer, place), (0,), remark=PADDED_APART.format(node.type))


@operator("Conv")
def _conv(node: Node) -> Any:
    weight, bias = node.constant(1), node.constant(2)
    if weight is not None and 3 <= weight.ndim <= 5 and (bias is not None or not node.has(2)):
        return convolution(node, weight, bias)
    return functools.partial(convolved, node)


def convolved(node: Node, x: Any, weight: Any, bias: Any = None) -> Any:
    """A convolution whose weights are only known when it runs."""
    rank = weight.ndim - 2
    if not 1 <= rank <= 3:
        raise NotImplementedError(f"PyTorch has no convolution over {rank} axes")
    strides, dilations = axes_of(node, rank)
    pairs = fixed_pads(node, rank)
    pairs = same_pads(node, x.shape[2:], weight.shape[2:]) if pairs is None else pairs
    x = on_image(x, pairs)
    return CONVOLVE[rank](x, weight, bias, strides, 0, dilations, node.get("group", 1))  # type: ignore[misc]


@operator("ConvTranspose")
def _conv_transpose(node: Node) -> Any:
    return functools.partial(transposed, node)


def transposed(node: Node, x: Any, weight: Any, bias: Any = None, pads: Sequence[int] | None = None) -> Any:
    """A transposed convolution; `pads` are those that are only known when it runs."""
    rank = weight.ndim - 2
    strides, dilations = axes_of(node, rank)
    extra = list(node.get("output_padding") or [0] * rank)
    whole = [
        (size - 1) * stride + (each - 1) * dilation + 1 + more
        for size, stride, each, dilation, more in zip(
            x.shape[2:], strides, weight.shape[2:], dilations, extra, strict=True
        )
    ]
    given = None if pads is None else tuple(zip(pads[:rank], pads[rank:], strict=True))
    pairs = _cut_pairs(node, x.shape[2:], whole, strides) if given is None else given
    lack = [max(0, -after) for _, after in pairs]
    if all(before == after >= 0 for before, after in pairs):
        even_pads = [before for before, _ in pairs]
        return TRANSPOSED[rank](  # type: ignore[misc]
            x, weight, bias, strides, even_pads, extra, node.get("group", 1), dilations
        )
    result = TRANSPOSED[rank](x, weight, None, strides, 0, 0, node.get("group", 1), dilations)  # type: ignore[misc]
    flat = [amount for more, missing in zip(reversed(extra), reversed(lack), strict=True) for amount in (0, more)]
    result = functional.pad(result, flat)
    for axis, (before, after) in enumerate(pairs, start=2):
        size = result.shape[axis] - before - after
        result = _cut(result, axis, before, size)
    return result if bias is None else result + bias.reshape(-1, *[1] * rank)


def _cut(x: Any, axis: int, before: int, size: int) -> Any:
    missing = max(0, before + size - x.shape[axis])
    if missing or before < 0:
        x = padded(x, {axis: (max(0, -before), missing)}, "constant")
    return x.narrow(axis, max(0, before), size)


def _cut_pairs(node: Node, sizes: Sequence[int], whole: Sequence[int], strides: Sequence[int]) -> Pairs:
    """What is cut off a transposed convolution, by axis."""
    kind, wanted = node.get("auto_pad", "NOTSET"), node.get("output_shape")
    rank = len(sizes)
    if not wanted and kind in {"NOTSET", "", "VALID"}:
        return fixed_pads(node, rank) or ()
    wanted = wanted[-rank:] if wanted else [size * stride for size, stride in zip(sizes, strides, strict=True)]
    pairs = []
    for size, target in zip(whole, wanted, strict=True):
        total = size - target
        if total < 0:
            pairs.append((0, total))
        else:
            half = total // 2
            pairs.append((half, total - half) if kind == "SAME_UPPER" else (total - half, half))
    return tuple(pairs)


@operator("DeformConv")
def _deformable_convolution(node: Node) -> Any:
    return functools.partial(_deformed, node)


def _deformed(node: Node, x: Any, weight: Any, offsets: Any, bias: Any = None, mask: Any = None) -> Any:
    """Every tap of the kernel sampled where its offsets say, then one product a group."""
    (high, wide), (down, along), groups = weight.shape[2:], offsets.shape[2:], node.get("offset_group", 1)
    strides, dilations = axes_of(node, 2)
    (top, _), (left, _) = fixed_pads(node, 2) or ((0, 0), (0, 0))
    n, channels = x.shape[:2]
    shifts = offsets.reshape(n, groups, high * wide, 2, down, along)
    rows = (torch.arange(high) * dilations[0]).repeat_interleave(wide).reshape(-1, 1, 1) - top
    columns = (torch.arange(wide) * dilations[1]).repeat(high).reshape(-1, 1, 1) - left
    y = shifts[:, :, :, 0] + rows.to(x.device) + (torch.arange(down) * strides[0]).reshape(1, -1, 1).to(x.device)
    z = shifts[:, :, :, 1] + columns.to(x.device) + (torch.arange(along) * strides[1]).reshape(1, 1, -1).to(x.device)
    grid = torch.stack(((2 * z + 1) / x.shape[3] - 1, (2 * y + 1) / x.shape[2] - 1), -1)
    images = x.reshape(n * groups, channels // groups, *x.shape[2:])
    taps = functional.grid_sample(
        images, grid.reshape(n * groups, high * wide * down, along, 2).to(x.dtype), align_corners=False
    ).reshape(n, groups, channels // groups, high * wide, down, along)
    if mask is not None:
        taps = taps * mask.reshape(n, groups, 1, high * wide, down, along)
    parts, group = taps.reshape(n, channels, high * wide, down * along), node.get("group", 1)
    parts = parts.reshape(n, group, -1, down * along)
    result = torch.matmul(weight.reshape(group, weight.shape[0] // group, -1), parts).reshape(n, -1, down, along)
    return result if bias is None else result + bias.reshape(-1, 1, 1)


@operator("CausalConvWithState", domain=MICROSOFT)
@operator("CausalConvWithState")
def _causal_convolution(node: Node) -> Any:
    def convolve(x: Any, weight: Any, bias: Any = None, state: Any = None) -> Any:
        before = weight.shape[2] - 1
        past = x.new_zeros(x.shape[0], x.shape[1], before) if state is None else state
        whole = torch.cat((past, x), 2)
        result = functional.conv1d(whole, weight, bias, groups=x.shape[1])
        result = functional.silu(result) if node.get("activation", "none") in {"silu", "swish"} else result
        return (result, whole[:, :, whole.shape[2] - before :]) if len(node.outputs) > 1 else result

    return convolve
