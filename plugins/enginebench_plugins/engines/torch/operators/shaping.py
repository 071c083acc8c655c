"""Operators that move elements: shapes, joining and cutting, padding."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from enginebench_plugins.engines.torch.dtypes import dtype_of
from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, Node, device_of, operator, single

NUMPY_PAD = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
TORCH_PAD = {"reflect": "reflect", "edge": "replicate", "wrap": "circular"}


@operator("Reshape", host={1: "shape"})
def _reshape(node: Node) -> Any:
    keep_zero = node.get("allowzero", 0)

    def reshape(x: Any, shape: Sequence[int]) -> Any:
        if 0 in shape and not keep_zero:
            shape = [x.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
        return x.reshape(tuple(shape))

    return reshape


@operator("Flatten")
def _flatten(node: Node) -> Any:
    axis = node.get("axis", 1)

    def flatten(x: Any) -> Any:
        start = axis % x.ndim if axis < 0 else axis
        rows = int(np.prod(x.shape[:start], dtype=np.int64))
        return x.reshape(rows, -1) if x.numel() else x.reshape(rows, int(np.prod(x.shape[start:], dtype=np.int64)))

    return flatten


@operator("Squeeze", host={1: "axes"})
def _squeeze(_node: Node) -> Any:
    def squeeze(x: Any, axes: Sequence[int] | None = None) -> Any:
        if axes is None:
            return x.squeeze()
        gone = {axis % x.ndim for axis in axes} if x.ndim else set()
        return x.reshape(tuple(size for axis, size in enumerate(x.shape) if axis not in gone))

    return squeeze


@operator("ExpandDims", domain=MICROSOFT, host={1: ""})
@operator("Unsqueeze", host={1: "axes"})
def _unsqueeze(_node: Node) -> Any:
    def unsqueeze(x: Any, axes: Sequence[int] | int) -> Any:
        news = [axes] if isinstance(axes, int) else list(axes)
        rank = x.ndim + len(news)
        at, sizes = {axis % rank for axis in news}, iter(x.shape)
        return x.reshape(tuple(1 if axis in at else next(sizes) for axis in range(rank)))

    return unsqueeze


@operator("Transpose")
def _transpose(node: Node) -> Any:
    order = node.get("perm")
    if order is None:
        return lambda x: x.transpose() if isinstance(x, np.ndarray) else x.permute(*reversed(range(x.ndim)))
    return lambda x: x.transpose(order) if isinstance(x, np.ndarray) else x.permute(order)


@operator("Shape")
def _shape(node: Node) -> Any:
    start, end = node.get("start", 0), node.get("end")
    return lambda x: torch.tensor(list(x.shape)[start:end], dtype=torch.int64, device=device_of(x))


@operator("Size")
def _size(_node: Node) -> Any:
    return lambda x: torch.tensor(int(np.prod(x.shape, dtype=np.int64)), dtype=torch.int64, device=device_of(x))


@operator("Expand", host={1: "shape"})
def _expand(_node: Node) -> Any:
    def expand(x: Any, shape: Sequence[int]) -> Any:
        if isinstance(x, np.ndarray):
            return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(shape)))
        return x.expand(torch.broadcast_shapes(x.shape, tuple(shape)))

    return expand


@operator("Tile", host={1: "repeats", 2: "axis"})
def _tile(node: Node) -> Any:
    def tile(x: Any, repeats: Any, axis: Any = None) -> Any:
        if node.opset < 6:
            times = [1] * x.ndim
            times[int(single(axis))] = int(single(repeats))
            repeats = times
        return np.tile(x, repeats) if isinstance(x, np.ndarray) else x.repeat(*repeats) if repeats else x

    return tile


@operator("Concat")
def _concat(node: Node) -> Any:
    axis = node.get("axis", 1)

    def concat(*parts: Any) -> Any:
        return np.concatenate(parts, axis) if isinstance(parts[0], np.ndarray) else torch.cat(parts, axis)

    return concat


@operator("Split", host={1: "split"})
def _split(node: Node) -> Any:
    axis, count = node.get("axis", 0), node.get("num_outputs") or len(node.outputs)

    def split(x: Any, sizes: Sequence[int] | None = None) -> Any:
        if sizes is None:
            length = -(-x.shape[axis] // count)
            sizes = [min(length, max(0, x.shape[axis] - part * length)) for part in range(count)]
        parts = torch.split(x, list(sizes), axis)
        return parts if len(node.outputs) > 1 else parts[0]

    return split


@operator("DynamicSlice", host={1: "", 2: "", 3: ""})
@operator("Slice", host={1: "starts", 2: "ends", 3: "axes", 4: "steps"})
def _slice(_node: Node) -> Any:
    def cut(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
        axes = range(len(starts)) if axes is None else axes
        parts = [slice(None)] * x.ndim
        turned = []
        for place, axis in enumerate(axes):
            step = 1 if steps is None else steps[place]
            part = slice(starts[place], ends[place], step)
            if step < 0:
                turned.append((axis, range(*_clamped(part, x.shape[axis]))))
            else:
                parts[axis] = part
        x = x[tuple(parts)]
        for axis, places in turned:
            x = _taken(x, axis, list(places))
        return x

    return cut


def _clamped(part: slice, size: int) -> tuple[int, int, int]:
    """`slice.indices` for a step backwards, where an end far below zero means: through the first element."""
    stop = part.stop if part.stop >= -size else None
    return slice(max(part.start, -size), stop, part.step).indices(size)


def _taken(x: Any, axis: int, places: Sequence[int]) -> Any:
    if isinstance(x, np.ndarray):
        return x.take(places, axis)
    return x.index_select(axis, torch.tensor(places, dtype=torch.int64, device=x.device))


@operator("Pad", domain=MICROSOFT, host={1: "pads", 2: "value"})
@operator("Pad", host={1: "pads", 2: "value", 3: "axes"})
def _pad(node: Node) -> Any:
    mode = node.get("mode", "constant")
    old_names = node.get("paddings")

    def pad(x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
        pads = old_names if pads is None else pads
        pads = pads[0] if isinstance(pads[0], list) else pads
        begins, ends = pads[: len(pads) // 2], pads[len(pads) // 2 :]
        each = dict(zip(range(x.ndim) if axes is None else axes, zip(begins, ends, strict=True), strict=True))
        around = {axis % x.ndim: amount for axis, amount in each.items() if amount != (0, 0)}
        return padded(x, around, mode, single(value) or 0)

    return pad


def padded(x: Any, around: dict[int, tuple[int, int]], mode: str, value: Any = 0) -> Any:
    """`x` with so many elements more before and after, by axis; ONNX's words for the mode."""
    if not around:
        return x
    if mode == "constant":
        flat = [amount for axis in range(x.ndim - 1, min(around) - 1, -1) for amount in around.get(axis, (0, 0))]
        return functional.pad(x, flat, value=value)
    spatial = x.ndim - min(around)
    fits = all(0 <= amount < x.shape[axis] for axis, amounts in around.items() for amount in amounts)
    if fits and x.ndim in {3, 4, 5} and spatial <= x.ndim - 2 and x.is_floating_point():
        flat = [amount for axis in range(x.ndim - 1, 1, -1) for amount in around.get(axis, (0, 0))]
        return functional.pad(x, flat, mode=TORCH_PAD[mode])
    for axis, (before, after) in around.items():
        places = np.arange(x.shape[axis])[max(0, -before) : x.shape[axis] + min(0, after)]
        places = np.pad(places, (max(0, before), max(0, after)), mode=NUMPY_PAD[mode])  # type: ignore[call-overload]
        x = _taken(x, axis, places.tolist())
    return x


@operator("DepthToSpace")
def _depth_to_space(node: Node) -> Any:
    size = node.get("blocksize")
    if node.get("mode", "DCR") == "CRD":
        return torch.nn.PixelShuffle(size)

    def deal(x: Any) -> Any:
        n, c, h, w = x.shape
        x = x.reshape(n, size, size, c // size**2, h, w).permute(0, 3, 4, 1, 5, 2)
        return x.reshape(n, c // size**2, h * size, w * size)

    return deal


@operator("SpaceToDepth")
def _space_to_depth(node: Node) -> Any:
    size = node.get("blocksize")
    if node.get("mode", "DCR") == "CRD":
        return torch.nn.PixelUnshuffle(size)

    def collect(x: Any) -> Any:
        n, c, h, w = x.shape
        x = x.reshape(n, c, h // size, size, w // size, size).permute(0, 3, 5, 1, 2, 4)
        return x.reshape(n, c * size**2, h // size, w // size)

    return collect


@operator("ReverseSequence")
def _reverse_sequence(node: Node) -> Any:
    batch_axis, time_axis = node.get("batch_axis", 1), node.get("time_axis", 0)

    def reverse(x: Any, lengths: Any) -> Any:
        x = x.movedim((batch_axis, time_axis), (0, 1))
        steps = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
        ends = lengths.reshape(-1, 1)
        places = torch.where(steps < ends, ends - 1 - steps, steps)
        rows = torch.arange(x.shape[0], device=x.device).reshape(-1, 1)
        return x[rows, places].movedim((0, 1), (batch_axis, time_axis))

    return reverse


@operator("Col2Im", host={1: "", 2: ""})
def _col_to_image(node: Node) -> Any:
    def fold(x: Any, image: Sequence[int], block: Sequence[int]) -> Any:
        rank = len(image)
        dilations, strides = node.get("dilations") or [1] * rank, node.get("strides") or [1] * rank
        pads = node.get("pads") or [0] * (2 * rank)
        sizes = [size + pads[i] + pads[i + rank] for i, size in enumerate(image)]
        counts = [(sizes[i] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(rank)]
        n, channels = x.shape[0], x.shape[1] // int(np.prod(block))
        places = torch.zeros(1, dtype=torch.int64)
        for i in range(rank):
            offsets = torch.arange(block[i]) * dilations[i]
            axis = (offsets[:, None] + torch.arange(counts[i]) * strides[i]).reshape(block[i], counts[i])
            places = places.reshape(*places.shape, 1, 1) * sizes[i] + axis if i else axis
        order = [*range(0, 2 * rank, 2), *range(1, 2 * rank, 2)]
        flat = places.permute(order).reshape(-1).to(x.device)
        result = x.new_zeros(n * channels, int(np.prod(sizes)))
        result.index_add_(1, flat, x.reshape(n * channels, -1))
        result = result.reshape(n, channels, *sizes)
        return result[(..., *(slice(pads[i], pads[i] + image[i]) for i in range(rank)))]

    return fold


@operator("CenterCropPad", host={1: ""})
def _center_crop_pad(node: Node) -> Any:
    axes = node.get("axes")

    def crop_or_pad(x: Any, shape: Sequence[int]) -> Any:
        for axis, wanted in zip(range(x.ndim) if axes is None else axes, shape, strict=True):
            size = x.shape[axis]
            if wanted < size:
                x = x.narrow(axis, (size - wanted) // 2, wanted)
            else:
                before = (wanted - size) // 2
                x = padded(x, {axis % x.ndim: (before, wanted - size - before)}, "constant")
        return x

    return crop_or_pad


@operator("Trilu", domain=MICROSOFT, host={1: ""})
@operator("Trilu", host={1: ""})
def _trilu(node: Node) -> Any:
    cut = torch.triu if node.get("upper", 1) else torch.tril
    return lambda x, offset=None: cut(x, single(offset) or 0)


@operator("BitCast")
def _bit_cast(node: Node) -> Any:
    return functools.partial(torch.Tensor.view, dtype=dtype_of(node.get("to")))


@operator("Crop")
def _crop(node: Node) -> Any:
    left, top, right, bottom = node.get("border")
    size = node.get("scale")

    def crop(x: Any) -> Any:
        high, wide = size or (x.shape[2] - top - bottom, x.shape[3] - left - right)
        return x[:, :, top : top + high, left : left + wide]

    return crop
