"""Operators that move elements: shapes, joining and cutting, gathering and scattering."""

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from enginebench_plugins.torch.operators.dtypes import dtype_of, to_array
from enginebench_plugins.torch.operators.registry import Made, Node, on_host, operator

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
    return lambda x: torch.tensor(list(x.shape)[start:end], dtype=torch.int64, device=_device(x))


@operator("Size")
def _size(_node: Node) -> Any:
    return lambda x: torch.tensor(int(np.prod(x.shape, dtype=np.int64)), dtype=torch.int64, device=_device(x))


def _device(x: Any) -> Any:
    return x.device if isinstance(x, torch.Tensor) else "cpu"


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
            times[_number(axis)] = _number(repeats)
            repeats = times
        return np.tile(x, repeats) if isinstance(x, np.ndarray) else x.repeat(*repeats) if repeats else x

    return tile


def _number(value: Any) -> int:
    return int(value[0] if isinstance(value, list | tuple) else value)


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


@operator("Pad", host={1: "pads", 2: "value", 3: "axes"})
def _pad(node: Node) -> Any:
    mode = node.get("mode", "constant")
    old_names = node.get("paddings")

    def pad(x: Any, pads: Any, value: Any = None, axes: Any = None) -> Any:
        pads = old_names if pads is None else pads
        begins, ends = pads[: len(pads) // 2], pads[len(pads) // 2 :]
        each = dict(zip(range(x.ndim) if axes is None else axes, zip(begins, ends, strict=True), strict=True))
        around = {axis % x.ndim: amount for axis, amount in each.items() if amount != (0, 0)}
        return padded(x, around, mode, _single(value))

    return pad


def _single(value: Any) -> Any:
    while isinstance(value, list):
        value = value[0]
    return 0 if value is None else value


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


@operator("Gather")
def _gather(node: Node) -> Any:
    axis, indices = node.get("axis", 0), node.constant(1)
    if indices is not None and indices.ndim == 0:
        place = int(indices)
        return Made(lambda x: np.take(x, place, axis) if isinstance(x, np.ndarray) else x.select(axis, place), (0,))

    def gather(x: Any, places: Any) -> Any:
        if isinstance(x, np.ndarray):
            return np.take(x, places.numpy(), axis)
        return x[(*(slice(None),) * (axis % x.ndim), places if places.dtype == torch.int64 else places.long())]

    return gather


@operator("GatherElements")
def _gather_elements(node: Node) -> Any:
    axis = node.get("axis", 0)
    return lambda x, indices: torch.gather(x, axis, _positive(indices, x.shape[axis]))


def _positive(indices: Any, size: int) -> Any:
    indices = indices.long()
    return torch.where(indices < 0, indices + size, indices)


@operator("GatherND")
def _gather_nd(node: Node) -> Any:
    batch = node.get("batch_dims", 0)

    def gather(x: Any, indices: Any) -> Any:
        lead = tuple(x.shape[:batch])
        rows = int(np.prod(lead, dtype=np.int64))
        flat, places = x.reshape(rows, *x.shape[batch:]), indices.reshape(rows, -1, indices.shape[-1]).long()
        row = torch.arange(rows, device=x.device).reshape(-1, 1).expand(places.shape[:2])
        taken = flat[(row, *places.unbind(-1))]
        return taken.reshape(*lead, *indices.shape[batch:-1], *taken.shape[2:])

    return gather


REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", "Scatter")
def _scatter_elements(node: Node) -> Any:
    axis, reduction = node.get("axis", 0), node.get("reduction", "none")

    def scatter(x: Any, indices: Any, updates: Any) -> Any:
        places = _positive(indices, x.shape[axis])
        if reduction == "none":
            return x.scatter(axis, places, updates)
        return x.scatter_reduce(axis, places, updates, REDUCTIONS[reduction])

    return scatter


@operator("ScatterND")
def _scatter_nd(node: Node) -> Any:
    reduction = node.get("reduction", "none")

    def scatter(x: Any, indices: Any, updates: Any) -> Any:
        depth = indices.shape[-1]
        places = indices.reshape(-1, depth).long()
        rows = torch.zeros(len(places), dtype=torch.int64, device=x.device)
        for axis in range(depth):
            rows = rows * x.shape[axis] + _positive(places[:, axis], x.shape[axis])
        tail = x.shape[depth:]
        width = int(np.prod(tail, dtype=np.int64))  # -1 means nothing where there are no elements
        flat = x.reshape(int(np.prod(x.shape[:depth], dtype=np.int64)), width)
        news = updates.reshape(len(rows), width)
        if reduction == "none":
            flat = flat.index_copy(0, rows, news)
        elif reduction == "add":
            flat = flat.index_add(0, rows, news)
        else:
            flat = flat.index_reduce(0, rows, news, REDUCTIONS[reduction])
        return flat.reshape(*x.shape[:depth], *tail)

    return scatter


@operator("TensorScatter")
def _tensor_scatter(node: Node) -> Any:
    axis, circular = node.get("axis", -2), node.get("mode", "linear") == "circular"

    def scatter(past: Any, update: Any, starts: Any = None) -> Any:
        result, length = past.clone(), update.shape[axis]
        for row in range(past.shape[0]):
            start = 0 if starts is None else int(starts[row])
            places = torch.arange(start, start + length, device=past.device)
            places = places % past.shape[axis] if circular else places
            result[row].index_copy_((axis % past.ndim) - 1, places, update[row])
        return result

    return scatter


@operator("ConstantOfShape", host={0: ""})
def _constant_of_shape(node: Node) -> Any:
    value = node.get("value")
    value = torch.zeros(1) if value is None else value
    if isinstance(value, np.ndarray):
        return lambda shape: np.full(tuple(shape), value.ravel()[0], dtype=object)
    return _Filled(value)


class _Filled(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """As many copies of a value as a shape asks for, on the device that the module is on."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.register_buffer("value", value.reshape(()))

    def _get_name(self) -> str:
        return "ConstantOfShape"

    def forward(self, shape: Sequence[int]) -> Any:
        """A new tensor."""
        return self.value.expand(tuple(shape)).clone()


@operator("Range")
def _range(node: Node) -> Any:
    def numbers(start: Any, limit: Any, delta: Any) -> Any:
        first, last, step = on_host(start), on_host(limit), on_host(delta)
        first, last, step = (value[0] if isinstance(value, list) else value for value in (first, last, step))
        count = max(0, int(np.ceil((last - first) / step)))
        places = torch.arange(count, dtype=torch.float64 if start.is_floating_point() else torch.int64)
        return (first + places * step).to(device=start.device, dtype=start.dtype)

    return numbers


@operator("OneHot", host={1: ""})
def _one_hot(node: Node) -> Any:
    axis = node.get("axis", -1)

    def one_hot(indices: Any, depth: Any, values: Any) -> Any:
        size = int(depth[0] if isinstance(depth, list) else depth)
        places = indices.long()
        hot = torch.where(places < 0, places + size, places).unsqueeze(-1)
        chosen = hot == torch.arange(size, device=indices.device)
        return torch.where(chosen, values[1], values[0]).movedim(-1, axis)

    return one_hot


@operator("EyeLike")
def _eye_like(node: Node) -> Any:
    offset, target = node.get("k", 0), node.get("dtype")

    def eye(x: Any) -> Any:
        dtype = x.dtype if target is None else dtype_of(target)
        ones = torch.ones(x.shape, device=x.device)
        return (ones.tril(offset) * ones.triu(offset)).to(dtype)

    return eye


@operator("Trilu", host={1: ""})
def _trilu(node: Node) -> Any:
    cut = torch.triu if node.get("upper", 1) else torch.tril
    return lambda x, offset=None: cut(x, _single(offset))


@operator("NonZero")
def _non_zero(_node: Node) -> Any:
    return lambda x: torch.nonzero(x).t() if x.ndim else torch.zeros((0, int(x != 0)), dtype=torch.int64)


@operator("Compress")
def _compress(node: Node) -> Any:
    axis = node.get("axis")

    def compress(x: Any, condition: Any) -> Any:
        flat, along = (x.reshape(-1), 0) if axis is None else (x, axis)
        return flat.index_select(along, condition[: flat.shape[along]].nonzero().reshape(-1))

    return compress


@operator("Unique")
def _unique(node: Node) -> Any:
    axis, in_order = node.get("axis"), node.get("sorted", 1)

    def unique(x: Any) -> Any:
        array = to_array(x)
        values, first, inverse, counts = np.unique(array, True, True, True, axis=axis)
        inverse = inverse.reshape(-1)
        if not in_order:
            order = np.argsort(first)
            values = np.take(values, order, 0 if axis is None else axis)
            first, counts, inverse = first[order], counts[order], np.argsort(order)[inverse]
        device = _device(x)
        kept = torch.from_numpy(values).to(device, x.dtype) if isinstance(x, torch.Tensor) else values
        rest = (torch.from_numpy(np.ascontiguousarray(each)).long().to(device) for each in (first, inverse, counts))
        results = (kept, *rest)
        return results[: len(node.outputs)] if len(node.outputs) > 1 else kept

    return unique


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


def _cumulated(node: Node, cumulate: Any, first: int) -> Any:
    exclusive, reverse = node.get("exclusive", 0), node.get("reverse", 0)

    def run(x: Any, axis: Any) -> Any:
        along = _single(axis)
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


@operator("BitCast")
def _bit_cast(node: Node) -> Any:
    return functools.partial(torch.Tensor.view, dtype=dtype_of(node.get("to")))
