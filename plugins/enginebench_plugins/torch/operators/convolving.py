"""Operators that look at neighbourhoods of images and signals, and those that bring channels to one scale."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from enginebench_plugins.torch.operators.registry import MICROSOFT, Made, Node, operator
from enginebench_plugins.torch.operators.shaping import padded

CONVOLUTIONS = (None, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
CONVOLVE = (None, functional.conv1d, functional.conv2d, functional.conv3d)
TRANSPOSED = (None, functional.conv_transpose1d, functional.conv_transpose2d, functional.conv_transpose3d)
MAX_POOL = (None, functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)
AVERAGE_POOL = (None, functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)
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


def _even(pairs: Pairs | None) -> bool:
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


def convolution(node: Node, weight: Any, bias: Any) -> Made:
    """A convolution with these weights, whatever its node is called."""
    rank = weight.ndim - 2
    strides, dilations = axes_of(node, rank)
    pairs, group = fixed_pads(node, rank), node.get("group", 1)
    even = _even(pairs)
    kernel = tuple(weight.shape[2:])
    with torch.device("meta"):
        layer = CONVOLUTIONS[rank](  # type: ignore[misc]
            weight.shape[1] * group,
            weight.shape[0],
            kernel,
            tuple(strides),
            tuple(before for before, _ in pairs) if pairs and even else 0,
            tuple(dilations),
            group,
            bias is not None,
            dtype=weight.dtype,
        )
    layer.weight = torch.nn.Parameter(weight, requires_grad=False)
    if bias is not None:
        layer.bias = torch.nn.Parameter(bias, requires_grad=False)
    if even:
        return Made(layer, (0,))
    place = (lambda _x: pairs) if pairs is not None else (lambda x: same_pads(node, x.shape[2:], kernel))
    return Made(_PaddedFirst(layer, place), (0,), remark=PADDED_APART.format(node.type))


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


_ACTIVATIONS: dict[str, Callable[..., Any]] = {
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Tanh": torch.tanh,
    "LeakyRelu": functional.leaky_relu,
    "Clip": torch.clamp,
    "HardSigmoid": lambda x, alpha, beta: torch.clamp(x * alpha + beta, 0, 1),
}


@operator("FusedConv", "FusedGemm", domain=MICROSOFT)
def _fused_conv(node: Node) -> Any:
    kind, parameters = node.get("activation", ""), node.get("activation_params") or []
    activate = _ACTIVATIONS[kind]
    if node.type == "FusedGemm":
        gemm = _gemm_of(node)
        return lambda *tensors: activate(
            gemm(*tensors), *([node.get("activation_alpha")] if kind == "LeakyRelu" else [])
        )

    def conv(x: Any, weight: Any, bias: Any = None, added: Any = None) -> Any:
        result = convolved(node, x, weight, bias)
        return activate(result if added is None else result + added, *parameters)

    return conv


def _gemm_of(node: Node) -> Callable[..., Any]:
    alpha, beta = node.get("alpha", 1.0), node.get("beta", 1.0)

    def gemm(a: Any, b: Any, c: Any = None) -> Any:
        product = alpha * torch.matmul(a.t() if node.get("transA", 0) else a, b.t() if node.get("transB", 0) else b)
        return product if c is None else product + beta * c

    return gemm


@operator("ConvTranspose")
def _conv_transpose(node: Node) -> Any:
    def transposed(x: Any, weight: Any, bias: Any = None) -> Any:
        rank = weight.ndim - 2
        strides, dilations = axes_of(node, rank)
        extra = list(node.get("output_padding") or [0] * rank)
        whole = [
            (size - 1) * stride + (each - 1) * dilation + 1 + more
            for size, stride, each, dilation, more in zip(
                x.shape[2:], strides, weight.shape[2:], dilations, extra, strict=True
            )
        ]
        pairs = _cut_pairs(node, x.shape[2:], whole, strides)
        lack = [max(0, -after) for _, after in pairs]
        if all(before == after >= 0 for before, after in pairs):
            pads = [before for before, _ in pairs]
            return TRANSPOSED[rank](  # type: ignore[misc]
                x, weight, bias, strides, pads, extra, node.get("group", 1), dilations
            )
        result = TRANSPOSED[rank](x, weight, None, strides, 0, 0, node.get("group", 1), dilations)  # type: ignore[misc]
        flat = [amount for more, missing in zip(reversed(extra), reversed(lack), strict=True) for amount in (0, more)]
        result = functional.pad(result, flat)
        for axis, (before, after) in enumerate(pairs, start=2):
            size = result.shape[axis] - before - after
            result = _cut(result, axis, before, size)
        return result if bias is None else result + bias.reshape(-1, *[1] * rank)

    return transposed


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


@operator("MaxPool")
def _max_pool(node: Node) -> Any:
    kernel = node.get("kernel_shape")
    rank = len(kernel)
    strides, dilations = axes_of(node, rank)
    pairs, ceil = fixed_pads(node, rank), bool(node.get("ceil_mode", 0))
    pool = MAX_POOL[rank]
    small = pairs is not None and all(before <= each // 2 for (before, _), each in zip(pairs, kernel, strict=True))
    if pairs is not None and _even(pairs) and small and not node.makes(1):
        pads = [before for before, _ in pairs]

        def plain(x: Any) -> Any:
            if not x.is_floating_point():
                return pool(x.float(), kernel, strides, pads, dilations, ceil).to(x.dtype)  # type: ignore[misc]
            return pool(x, kernel, strides, pads, dilations, ceil)  # type: ignore[misc]

        return plain
    return functools.partial(_max_pool_padded, node, pool)


def _max_pool_padded(node: Node, pool: Any, x: Any) -> Any:
    kernel = node.get("kernel_shape")
    strides, dilations = axes_of(node, len(kernel))
    pairs = fixed_pads(node, len(kernel))
    pairs = same_pads(node, x.shape[2:], kernel) if pairs is None else pairs
    floats = x if x.is_floating_point() else x.float()
    wide = on_image(floats, pairs, float("-inf"))
    wide = _ceiled(wide, x.shape[2:], pairs, node, kernel, float("-inf"))
    values, places = pool(wide, kernel, strides, 0, dilations, False, return_indices=True)
    values = values.to(x.dtype)
    return (values, _places_before(places, wide, x, pairs, node)) if node.makes(1) else values


def _places_before(places: Any, wide: Any, x: Any, pairs: Pairs, node: Node) -> Any:
    """Places within the padded image as places in the whole tensor as it was."""
    coordinates: list[Any] = []
    rest = places
    for axis in range(x.ndim - 1, 1, -1):
        coordinates.insert(0, rest % wide.shape[axis] - pairs[axis - 2][0])
        rest = rest // wide.shape[axis]
    image = x.shape[2:]
    order = range(len(image)) if not node.get("storage_order", 0) else range(len(image) - 1, -1, -1)
    flat = torch.zeros_like(places)
    for axis in order:
        flat = flat * image[axis] + coordinates[axis]
    channel = torch.arange(x.shape[0] * x.shape[1], device=x.device).reshape(*x.shape[:2], *[1] * len(image))
    return flat + channel * int(np.prod(image))


def _ceiled(x: Any, sizes: Sequence[int], pairs: Pairs, node: Node, kernel: Sequence[int], value: float) -> Any:
    """Enough of `value` behind for a last window that does not fit, where the node rounds up."""
    if not node.get("ceil_mode", 0):
        return x
    strides, dilations = axes_of(node, len(kernel))
    more = []
    for axis, each in enumerate(kernel):
        reach, size = (each - 1) * dilations[axis] + 1, x.shape[axis + 2]
        count = -(-(size - reach) // strides[axis]) + 1
        if (count - 1) * strides[axis] >= sizes[axis] + pairs[axis][0]:
            count -= 1  # a window must begin in the image or in the padding before it
        more.append((0, max(0, (count - 1) * strides[axis] + reach - size)))
    return on_image(x, tuple(more), value)


@operator("AveragePool")
def average_pool(node: Node) -> Any:
    """Means over windows."""
    kernel = node.get("kernel_shape")
    rank = len(kernel)
    strides, dilations = axes_of(node, rank)
    pairs, ceil = fixed_pads(node, rank), bool(node.get("ceil_mode", 0))
    whole = bool(node.get("count_include_pad", 0))
    plain = set(dilations) == {1} and pairs is not None and _even(pairs)
    small = pairs is not None and all(before <= each // 2 for (before, _), each in zip(pairs, kernel, strict=True))
    if plain and small and pairs is not None:
        pads = [before for before, _ in pairs]
        return lambda x: AVERAGE_POOL[rank](x, kernel, strides, pads, ceil, whole)  # type: ignore[misc]
    return functools.partial(_average_pool_padded, node)


def _average_pool_padded(node: Node, x: Any) -> Any:
    kernel = node.get("kernel_shape")
    pairs = fixed_pads(node, len(kernel))
    pairs = same_pads(node, x.shape[2:], kernel) if pairs is None else pairs
    ones = on_image(torch.ones_like(x[:1, :1]), pairs, float(node.get("count_include_pad", 0)))
    wide = _ceiled(on_image(x, pairs), x.shape[2:], pairs, node, kernel, 0)
    counted = _ceiled(ones, x.shape[2:], pairs, node, kernel, 0)
    return _window_sums(wide, node, kernel) / _window_sums(counted, node, kernel)


def _window_sums(x: Any, node: Node, kernel: Sequence[int]) -> Any:
    """The sum of every window, by a convolution with ones over each channel for itself."""
    strides, dilations = axes_of(node, len(kernel))
    ones = torch.ones((1, 1, *kernel), dtype=x.dtype, device=x.device)
    flat = x.reshape(-1, 1, *x.shape[2:])
    sums = CONVOLVE[len(kernel)](flat, ones, None, strides, 0, dilations)  # type: ignore[misc]
    return sums.reshape(*x.shape[:2], *sums.shape[2:])


@operator("LpPool")
def _lp_pool(node: Node) -> Any:
    kernel, order = node.get("kernel_shape"), node.get("p", 2)

    def pool(x: Any) -> Any:
        pairs = fixed_pads(node, len(kernel))
        pairs = same_pads(node, x.shape[2:], kernel) if pairs is None else pairs
        wide = _ceiled(on_image(x.abs() ** order, pairs), x.shape[2:], pairs, node, kernel, 0)
        return _window_sums(wide, node, kernel) ** (1 / order)

    return pool


@operator("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(node: Node) -> Any:
    """One value for a whole image."""
    if node.type == "GlobalMaxPool":
        return lambda x: x.amax(tuple(range(2, x.ndim)), keepdim=True)
    if node.type == "GlobalLpPool":
        order = node.get("p", 2)
        return lambda x: torch.linalg.vector_norm(x, order, tuple(range(2, x.ndim)), keepdim=True)
    return lambda x: x.mean(tuple(range(2, x.ndim)), keepdim=True)


@operator("MaxUnpool", host={2: ""})
def _max_unpool(node: Node) -> Any:
    kernel = node.get("kernel_shape")

    def unpool(x: Any, places: Any, shape: Sequence[int] | None = None) -> Any:
        strides, _ = axes_of(node, len(kernel))
        pairs = fixed_pads(node, len(kernel)) or ()
        usual = [
            (size - 1) * stride - before - after + each
            for size, stride, (before, after), each in zip(x.shape[2:], strides, pairs, kernel, strict=True)
        ]
        # The places count in the image that was pooled.
        image = torch.zeros(int(np.prod([*x.shape[:2], *usual])), dtype=x.dtype, device=x.device)
        image[places.reshape(-1)] = x.reshape(-1)
        image = image.reshape(*x.shape[:2], *usual)
        wanted = usual if shape is None else list(shape)[2:]
        return on_image(image, tuple((0, more - size) for size, more in zip(usual, wanted, strict=True)))

    return unpool


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
