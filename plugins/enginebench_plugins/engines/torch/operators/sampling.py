"""Operators that read images between their points: resizing, grids, regions; and which boxes to keep."""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from enginebench_plugins.engines.torch.operators.registry import MICROSOFT, Node, operator

Numbers = Any
"""A NumPy array of floats."""


@operator("Resize", host={1: "", 2: "", 3: ""})
def _resize(node: Node) -> Any:
    if node.opset < 11:  # scales came second, places were those of the smaller image
        mode = node.get("mode", "nearest")
        old = _Resizing(mode=mode, places="asymmetric", nearest="simple")
        return lambda x, scales: old(x, None, scales, None)
    resizing = _Resizing(
        mode=node.get("mode", "nearest"),
        places=node.get("coordinate_transformation_mode", "half_pixel"),
        nearest=node.get("nearest_mode", "round_prefer_floor"),
        cubic=node.get("cubic_coeff_a", -0.75),
        outside=bool(node.get("exclude_outside", 0)),
        extrapolated=node.get("extrapolation_value", 0.0),
        antialias=bool(node.get("antialias", 0)),
        axes=node.get("axes"),
        policy=node.get("keep_aspect_ratio_policy", "stretch"),
    )
    return lambda x, roi=None, scales=None, sizes=None: resizing(x, roi, scales, sizes)


@operator("Upsample", host={1: "scales"})
def _upsample(node: Node) -> Any:
    mode = "linear" if node.get("mode", "nearest") in {"linear", "bilinear"} else "nearest"
    resizing = _Resizing(mode=mode, places="asymmetric", nearest="floor")
    return lambda x, scales: resizing(x, None, scales, None)


class _Resizing:
    """One node's way to resize."""

    def __init__(
        self, mode: str, places: str, nearest: str, cubic: float = -0.75, outside: bool = False,
        extrapolated: float = 0.0, antialias: bool = False, axes: Sequence[int] | None = None, policy: str = "stretch",
    ) -> None:  # fmt: skip
        self._mode, self._places, self._nearest, self._cubic = mode, places, nearest, cubic
        self._outside, self._extrapolated, self._antialias = outside, extrapolated, antialias
        self._axes, self._policy = axes, policy
        self._weights = functools.lru_cache(maxsize=64)(self._matrix)

    def __call__(self, x: Any, roi: Any, scales: Any, sizes: Any) -> Any:
        axes = [axis % x.ndim for axis in self._axes] if self._axes is not None else list(range(x.ndim))
        if sizes:
            sizes, factors = self._wanted([x.shape[axis] for axis in axes], sizes)
        else:
            factors = list(scales)
            # In float32, as ONNX multiplies: 10 times 0.7 is 7 there, and less in Python.
            sizes = [int(np.float32(x.shape[axis]) * np.float32(by)) for axis, by in zip(axes, factors, strict=True)]
        given = dict(zip(axes, zip(sizes, factors, strict=True), strict=True))
        changed = {
            axis: each for axis, each in given.items() if each[1] != 1 or each[0] != x.shape[axis] or
            self._places == "tf_crop_and_resize"
        }  # fmt: skip
        if not changed:
            return x
        fast = self._by_torch(x, changed)
        if fast is not None:
            return fast
        ends = {} if not roi else {axis: (roi[i], roi[i + len(axes)]) for i, axis in enumerate(axes)}
        return self._axis_by_axis(x, changed, ends)

    def _wanted(self, old: list[int], sizes: Sequence[int]) -> tuple[list[int], list[float]]:
        factors = [size / before for size, before in zip(sizes, old, strict=True)]
        if self._policy == "stretch":
            return list(sizes), factors
        factor = min(factors) if self._policy == "not_larger" else max(factors)
        return [int(np.floor(before * factor + 0.5)) for before in old], [factor] * len(old)

    def _by_torch(self, x: Any, changed: dict[int, tuple[int, float]]) -> Any:
        """Through PyTorch's own function where it means the same."""
        rank = x.ndim - 2
        if not 1 <= rank <= 3 or min(changed) < 2 or not x.is_floating_point() or self._antialias:
            return None
        mode = self._torch_mode(rank, changed)
        if mode is None:
            return None
        sizes = [changed.get(axis, (x.shape[axis], 1.0)) for axis in range(2, x.ndim)]
        # ONNX reckons with the length of the scale, such as 2.4, also where corners are aligned; PyTorch with the whole
        # one, as ONNX Runtime does against the tests of ONNX (1.31).
        whole = all(
            abs(before * factor - size) < 1e-4 for (size, factor), before in zip(sizes, x.shape[2:], strict=True)
        )
        if not whole:
            return None
        corners = {} if mode == "nearest" else {"align_corners": self._places == "align_corners"}
        return functional.interpolate(x, [size for size, _ in sizes], mode=mode, **corners)

    def _torch_mode(self, rank: int, changed: dict[int, tuple[int, float]]) -> str | None:
        places = self._places
        if places == "pytorch_half_pixel" and all(size > 1 for size, _ in changed.values()):
            places = "half_pixel"
        if self._mode == "nearest":
            larger = all(factor == int(factor) for _, factor in changed.values())
            same = places == "asymmetric" and self._nearest in {"floor", "simple"}
            half = places == "half_pixel" and self._nearest in {"round_prefer_floor", "round_prefer_ceil"}
            return "nearest" if larger and (same or half) else None
        if places not in {"half_pixel", "align_corners"} or self._outside:
            return None
        if self._mode == "linear":
            return (None, "linear", "bilinear", "trilinear")[rank]
        # PyTorch's own coefficient.
        return "bicubic" if rank == 2 and self._cubic == -0.75 else None

    def _axis_by_axis(self, x: Any, changed: dict[int, tuple[int, float]], ends: dict[int, tuple[float, float]]) -> Any:
        """By one product a resized axis. Its rows say how much of which old point a new point is."""
        kind, outside = x.dtype, None
        values = x if kind.is_floating_point or self._mode == "nearest" else x.to(torch.float32)
        for axis, (size, factor) in changed.items():
            matrix, beyond = self._weights(x.shape[axis], size, factor, ends.get(axis, (0.0, 1.0)))
            if self._mode == "nearest":  # a product would round large integers, and spread infinities
                values = values.index_select(axis, torch.from_numpy(matrix.argmax(1)).to(x.device))
            else:
                weights = torch.from_numpy(matrix).to(device=x.device, dtype=values.dtype)
                values = torch.tensordot(values, weights, ([axis], [1])).movedim(-1, axis)
            if beyond.any():
                mask = torch.from_numpy(beyond).reshape([-1 if each == axis else 1 for each in range(x.ndim)])
                outside = mask if outside is None else outside | mask
        if outside is not None:
            values = torch.where(
                outside.to(x.device), torch.full_like(values[:1].flatten()[:1], self._extrapolated), values
            )
        if values.dtype == kind:
            return values
        limits = torch.iinfo(kind)
        return values.clamp(limits.min, limits.max).to(kind)

    def _matrix(self, old: int, new: int, factor: float, ends: tuple[float, float]) -> tuple[Numbers, Numbers]:
        places = self._old_places(old, new, factor, ends)
        matrix = np.zeros((new, old))
        beyond = np.zeros(new, dtype=bool)
        if self._places == "tf_crop_and_resize":
            beyond = (places < 0) | (places > old - 1)
        for row, place in enumerate(places):
            for column, weight in self._taps(place, factor):
                inside = 0 <= column < old
                if inside or not self._outside:
                    matrix[row, min(max(column, 0), old - 1)] += weight
        if self._outside:
            sums = matrix.sum(1, keepdims=True)
            matrix /= np.where(sums == 0, 1, sums)
        return matrix, beyond

    def _old_places(self, old: int, new: int, factor: float, ends: tuple[float, float]) -> Numbers:
        """Where in the old image each new point lies."""
        by = np.float32(factor)  # ties fall as they do in float32
        numbers, length = np.arange(new, dtype=np.float32), by * np.float32(old)
        centres = (numbers + np.float32(0.5)) / by
        start, end = ends
        table: dict[str, Callable[[], Numbers]] = {
            "asymmetric": lambda: numbers / by,
            "align_corners": lambda: numbers * (old - 1) / (length - 1) if length != 1 else np.zeros(new),
            "tf_half_pixel_for_nn": lambda: centres,
            "tf_crop_and_resize": lambda: (
                start * (old - 1) + numbers * (end - start) * (old - 1) / (length - 1)
                if new > 1
                else np.full(1, 0.5 * (start + end) * (old - 1))
            ),
            "half_pixel": lambda: centres - 0.5,
            "half_pixel_symmetric": lambda: old / 2 * (1 - new / length) + centres - 0.5,
            "pytorch_half_pixel": lambda: centres - 0.5 if new > 1 else np.zeros(1),
        }
        return table.get(self._places, table["half_pixel"])()

    def _taps(self, place: float, factor: float) -> list[tuple[int, float]]:
        """Old points and how much each counts."""
        if self._mode == "nearest":
            return [(self._rounded(place, factor), 1.0)]
        spread = 1 / factor if self._antialias and factor < 1 else 1.0
        reach = spread * (1 if self._mode == "linear" else 2)
        weigh = self._linear if self._mode == "linear" else self._cubed
        columns = range(int(np.floor(place - reach)) + 1, int(np.ceil(place + reach)))
        columns = columns or range(int(np.floor(place)), int(np.floor(place)) + 1)
        weights = [weigh((column - place) / spread) for column in columns]
        total = sum(weights) if spread != 1 else 1.0
        return [(column, weight / total) for column, weight in zip(columns, weights, strict=True)]

    def _rounded(self, place: float, factor: float) -> int:
        match self._nearest:
            case "simple":  # of opset 10
                return int(np.floor(place) if factor >= 1 else np.ceil(place))
            case "floor":
                return int(np.floor(place))
            case "ceil":
                return int(np.ceil(place))
            case "round_prefer_ceil":
                return int(np.floor(place + 0.5))
        return int(np.ceil(place - 0.5))

    @staticmethod
    def _linear(distance: float) -> float:
        return max(0.0, 1 - abs(distance))

    def _cubed(self, distance: float) -> float:
        a, d = self._cubic, abs(distance)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


@operator("GridSample", domain=MICROSOFT)
@operator("GridSample")
def _grid_sample(node: Node) -> Any:
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(node.get("mode", "linear"), node.get("mode", "linear"))
    return functools.partial(
        functional.grid_sample,
        mode=mode,
        padding_mode=node.get("padding_mode", "zeros"),
        align_corners=bool(node.get("align_corners", 0)),
    )


@operator("AffineGrid", host={1: ""})
def _affine_grid(node: Node) -> Any:
    aligned = bool(node.get("align_corners", 0))
    return lambda theta, size: functional.affine_grid(theta, list(size), align_corners=aligned)


@operator("RoiAlign")
def _roi_align(node: Node) -> Any:
    return functools.partial(_aligned, node)


def _aligned(node: Node, x: Any, regions: Any, batch: Any) -> Any:
    high, wide = node.get("output_height", 1), node.get("output_width", 1)
    usual = "half_pixel" if node.opset >= 16 else "output_half_pixel"
    half = node.get("coordinate_transformation_mode", usual) == "half_pixel"
    corners = regions.float() * node.get("spatial_scale", 1.0) - (0.5 if half else 0.0)
    results = [
        _region(node, x[int(batch[row])], corners[row].tolist(), (high, wide), half) for row in range(len(corners))
    ]
    return torch.stack(results).to(x.dtype) if results else x.new_zeros(0, x.shape[1], high, wide)


def _region(node: Node, image: Any, corners: list[float], grid: tuple[int, int], half: bool) -> Any:
    left, top, right, bottom = corners
    lengths = [bottom - top, right - left]
    lengths = lengths if half else [max(length, 1.0) for length in lengths]
    ratio = node.get("sampling_ratio", 0)
    counts = [ratio or max(1, int(np.ceil(length / cells))) for length, cells in zip(lengths, grid, strict=True)]
    axes = [
        start + (torch.arange(cells * count, device=image.device) + 0.5) * (length / cells / count)
        for start, length, cells, count in zip((top, left), lengths, grid, counts, strict=True)
    ]
    (rows, row_out), (columns, column_out) = (
        (axis.clamp(0, size - 1), (axis < -1) | (axis > size)) for axis, size in zip(axes, image.shape[1:], strict=True)
    )
    weights, points = _corners(image, rows, columns)
    dead = row_out[:, None] | column_out[None, :]
    parts = [(point * weight).masked_fill(dead, 0) for point, weight in zip(points, weights, strict=True)]
    largest = node.get("mode", "avg") == "max"
    sampled = torch.stack(parts).amax(0) if largest else sum(parts)  # of the weighted corners
    cells = sampled.reshape(-1, grid[0], counts[0], grid[1], counts[1])
    return cells.amax((2, 4)) if largest else cells.mean((2, 4))


def _corners(image: Any, rows: Any, columns: Any) -> tuple[list[Any], list[Any]]:
    """The four points around each place, and how much each counts."""
    low_row, low_column = rows.floor().long(), columns.floor().long()
    high_row = (low_row + 1).clamp(max=image.shape[1] - 1)
    high_column = (low_column + 1).clamp(max=image.shape[2] - 1)
    down, along = (rows - low_row)[:, None], (columns - low_column)[None, :]
    points = [image[:, r][:, :, c] for r in (low_row, high_row) for c in (low_column, high_column)]
    return [(1 - down) * (1 - along), (1 - down) * along, down * (1 - along), down * along], points


@operator("CropAndResize", domain=MICROSOFT, host={3: ""})
def _crop_and_resize(node: Node) -> Any:
    nearest, outside = node.get("mode", "bilinear") == "nearest", node.get("extrapolation_value", 0.0)

    def places(starts: Any, ends: Any, cells: int, size: int) -> Any:
        """Where the points of each region lie, corners on corners; a single point lies in the middle."""
        if cells == 1:
            return (0.5 * (starts + ends) * (size - 1)).unsqueeze(1)
        step = (ends - starts) * (size - 1) / (cells - 1)
        between = (starts * (size - 1)).unsqueeze(1) + torch.arange(cells, device=starts.device) * step.unsqueeze(1)
        return torch.cat((between[:, :-1], (ends * (size - 1)).unsqueeze(1)), 1)

    def crop(x: Any, regions: Any, batch: Any, shape: Sequence[int]) -> Any:
        rows, columns = (
            places(regions[:, axis], regions[:, axis + 2], shape[axis], x.shape[axis + 2]) for axis in (0, 1)
        )
        beyond = ((rows < 0) | (rows > x.shape[2] - 1)).unsqueeze(2)
        beyond = beyond | ((columns < 0) | (columns > x.shape[3] - 1)).unsqueeze(1)
        images, high, wide = batch.long().reshape(-1, 1, 1), x.shape[2] - 1, x.shape[3] - 1

        def at(vertical: Any, horizontal: Any) -> Any:
            y, z = vertical.long().clamp(0, high).unsqueeze(2), horizontal.long().clamp(0, wide).unsqueeze(1)
            return x[images, :, y, z]

        if nearest:  # halves away from zero
            result = at((rows + 0.5).floor(), (columns + 0.5).floor())
        else:
            down, along = (rows - rows.floor())[:, :, None, None], (columns - columns.floor())[:, None, :, None]
            above, below = (
                torch.lerp(at(row, columns.floor()), at(row, columns.ceil()), along)
                for row in (rows.floor(), rows.ceil())
            )
            result = torch.lerp(above, below, down)
        return result.masked_fill(beyond.unsqueeze(3), outside).movedim(3, 1)

    return crop


@operator("MaxRoiPool")
def _max_roi_pool(node: Node) -> Any:
    shape, scale = node.get("pooled_shape"), node.get("spatial_scale", 1.0)

    def pool(x: Any, regions: Any) -> Any:
        pooled = []
        for batch, *corners in regions.tolist():
            left, top, right, bottom = (int(np.floor(corner * scale + 0.5)) for corner in corners)
            bins = [
                _bins(start, end, cells, size)
                for start, end, cells, size in zip((top, left), (bottom, right), shape, x.shape[2:], strict=True)
            ]
            cells = [
                image.amax((1, 2)) if image.numel() else image.new_zeros(x.shape[1])
                for rows in bins[0]
                for columns in bins[1]
                for image in [x[int(batch), :, rows, columns]]
            ]
            pooled.append(torch.stack(cells, 1).reshape(x.shape[1], *shape))
        return torch.stack(pooled)

    return pool


def _bins(start: int, end: int, cells: int, size: int) -> list[slice]:
    step = max(end - start + 1, 1) / cells
    places = [(int(np.floor(cell * step)) + start, int(np.ceil((cell + 1) * step)) + start) for cell in range(cells)]
    return [slice(min(max(low, 0), size), min(max(high, 0), size)) for low, high in places]


@operator("NonMaxSuppression", host={2: "", 3: "", 4: ""})
def _non_max_suppression(node: Node) -> Any:
    centered = bool(node.get("center_point_box", 0))

    def choose(boxes: Any, scores: Any, most: Any = None, overlap: Any = None, least: Any = None) -> Any:
        limit, share, floor = (value[0] if isinstance(value, list) else value for value in (most, overlap, least))
        corners, values = (
            _as_corners(boxes.detach().cpu().float().numpy(), centered),
            scores.detach().cpu().float().numpy(),
        )
        rows = [
            (batch, kind, box)
            for batch in range(values.shape[0])
            for kind in range(values.shape[1])
            for box in _kept(corners[batch], values[batch, kind], int(limit or 0), float(share or 0), floor)
        ]
        return torch.tensor(rows, dtype=torch.int64, device=boxes.device).reshape(-1, 3)

    return choose


def _as_corners(boxes: Numbers, centered: bool) -> Numbers:
    if centered:
        x, y, w, h = np.moveaxis(boxes, -1, 0)
        return np.stack((y - h / 2, x - w / 2, y + h / 2, x + w / 2), -1)
    y1, x1, y2, x2 = np.moveaxis(boxes, -1, 0)
    return np.stack((np.minimum(y1, y2), np.minimum(x1, x2), np.maximum(y1, y2), np.maximum(x1, x2)), -1)


def _kept(boxes: Numbers, scores: Numbers, limit: int, share: float, floor: float | None) -> list[int]:
    """The best boxes in order, without those that overlap a better one by more than `share`."""
    order = np.argsort(-scores, kind="stable")
    if floor is not None:
        order = order[scores[order] > floor]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    kept: list[int] = []
    while len(order) and len(kept) < limit:
        best, order = order[0], order[1:]
        kept.append(int(best))
        low, high = np.maximum(boxes[best, :2], boxes[order, :2]), np.minimum(boxes[best, 2:], boxes[order, 2:])
        common = np.clip(high - low, 0, None).prod(1)
        union = areas[best] + areas[order] - common
        order = order[~((common > 0) & (union > 0) & (common / np.where(union > 0, union, 1) > share))]
    return kept
