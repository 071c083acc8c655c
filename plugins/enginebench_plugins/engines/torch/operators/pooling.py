"""Operators that make one value of each window of an image, or of a whole one, and put it back."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from enginebench_plugins.engines.torch.operators.convolving import (
    CONVOLVE,
    Pairs,
    axes_of,
    even,
    fixed_pads,
    on_image,
    same_pads,
)
from enginebench_plugins.engines.torch.operators.registry import Node, operator

MAX_POOL = (None, functional.max_pool1d, functional.max_pool2d, functional.max_pool3d)
AVERAGE_POOL = (None, functional.avg_pool1d, functional.avg_pool2d, functional.avg_pool3d)


@operator("MaxPool")
def max_pool(node: Node) -> Any:
    """The largest of every window."""
    kernel = node.get("kernel_shape")
    rank = len(kernel)
    strides, dilations = axes_of(node, rank)
    pairs, ceil = fixed_pads(node, rank), bool(node.get("ceil_mode", 0))
    pool = MAX_POOL[rank]
    small = pairs is not None and all(before <= each // 2 for (before, _), each in zip(pairs, kernel, strict=True))
    if pairs is not None and even(pairs) and small and not node.makes(1):
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
    plain = set(dilations) == {1} and pairs is not None and even(pairs)
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
        # The places count in the image that is made, as exporters have them.
        wanted = usual if shape is None else list(shape)[2:]
        image = torch.zeros(int(np.prod([*x.shape[:2], *wanted])), dtype=x.dtype, device=x.device)
        image[places.reshape(-1)] = x.reshape(-1)
        return image.reshape(*x.shape[:2], *wanted)

    return unpool
