"""Operators that are no products: so many operations an element."""

import math
from collections.abc import Callable

from enginebench_controller.model.flops.work import Count, UnknownWorkError, Work, operations

Counter = Callable[[Work], Count]


def per_output(each: int = 1) -> Counter:
    """`each` operations an element of the first output."""
    return lambda work: operations(each * work.output_size)


def per_input(each: int = 1) -> Counter:
    """`each` operations an element of the first input, as in a sum over it."""
    return lambda work: operations(each * work.input_size)


def many(work: Work) -> Count:
    """Sum, Max, Min of several tensors: one operation an output element for every tensor but the first."""
    return operations((len(work.node.inputs) - 1) * work.output_size)


def mean_of_many(work: Work) -> Count:
    """The sum of several tensors, and a division."""
    return operations(len(work.node.inputs) * work.output_size)


def window(work: Work) -> Count:
    """Pooling: one operation for every element of the window, padding included, an output element."""
    return operations(work.output_size * math.prod(work.integers("kernel_shape")))


def powered_window(work: Work) -> Count:
    """LpPool: a power and an addition for every element of the window."""
    return operations(2 * window(work).flops)


def local_response(work: Work) -> Count:
    """LRN: squares and their sum over `size` channels, then scale, shift, power and division."""
    return operations(work.output_size * (2 * work.integer("size") + 4))


def interpolation(work: Work) -> Count:
    """Resize and Upsample: 2ᵈ neighbours for "linear", 4ᵈ for "cubic", over the d dimensions that change."""
    changed = sum(a != b for a, b in zip(work.input(), work.output(), strict=True))
    return operations(work.output_size * _taps(work.text("mode", "nearest"), changed))


def grid_sample(work: Work) -> Count:
    """GridSample: as `interpolation`, over all dimensions behind batch and channels."""
    return operations(work.output_size * _taps(work.text("mode", "linear"), len(work.input()) - 2))


def _taps(mode: str, dimensions: int) -> int:
    """A multiplication for every neighbour and an addition for all but one; the nearest is only copied."""
    neighbours = {"linear": 2, "bilinear": 2, "cubic": 4, "bicubic": 4}.get(mode, 1) ** dimensions
    return 0 if neighbours == 1 else 2 * neighbours - 1


def region_align(work: Work) -> Count:
    """RoiAlign: bilinear samples (7), and their mean or maximum (1). How many is the data's choice if not stated."""
    samples = work.integer("sampling_ratio", 0)
    if samples <= 0:
        raise UnknownWorkError("the number of samples depends on the regions")
    return operations(work.output_size * samples * samples * 8)
