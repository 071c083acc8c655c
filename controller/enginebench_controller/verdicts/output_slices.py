"""What quantization lost of an output: small numbers that share one scale with large ones, as scores do with boxes.

One step of eight bits is more than all of them then, and yet small beside the largest value, by which errors are told.
And what of values that have no partner in the reference, as it found another number of things, cannot be right.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import CapturedOutput

_FEWEST_ELEMENTS = 8
"""A slice of which fewer were kept tells nothing: few may well be alike."""

_FEWEST_LOST = 0.1
"""So large a share of a dimension's slices: single channels that hardly ever say anything are no loss."""

_APART = 10.0
"""So much larger are all that were kept: what fades out from slice to slice is of one kind, and rounds to 0."""

_FEWEST_KNOWN = 32
"""So many values tell of which size they are: eight boxes may all lie in one corner."""

_AROUND = 10.0
_AROUND_FEW = 1_000.0
"""What is garbage is so by orders of magnitude; what was found is only elsewhere."""

_PADDING = (0.0, -1.0)
"""With one of these, and nothing else, is filled what has room for things and found none."""

_ABSURD = 1e6
"""No pixel, class or score is as large."""

_MOST = 0.5
"""Of a box in a large picture two numbers of four may be beyond a thousand."""

_LABELS = 10_000
"""Classes and places in a list of what was found are hardly more."""

_PROBABLE = 1.001
"""Outputs up to here may be probabilities: what is improbable rounds to 0, and rightly."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Elements:
    """Elements of an output of this shape for one input, of both runs, float64, and where in it each is, int64."""

    reference: Numbers
    other: Numbers
    places: NDArray[np.int64]
    shape: tuple[int, ...]


def lost_slices(inputs: Sequence[Elements], output: str, name: str) -> str:
    """Which slices of an output do not vary any more as the reference's do, which is `name`'s: a sentence, or empty.

    A slice is all that has one index in one dimension, of all inputs. Lost is one that varies by at least half of its
    largest value in the reference, and is constant or off by more than it varies; if so are a tenth of the slices of a
    dimension, and whatever else varies there is ten times as large.
    """
    largest = max(float(np.abs(one.reference).max(initial=0.0)) for one in inputs)
    shapes = {one.shape for one in inputs}
    if largest <= _PROBABLE or len({len(shape) for shape in shapes}) > 1:
        return ""
    for axis, sizes in enumerate(zip(*shapes, strict=True)):
        if len(set(sizes)) == 1 and sizes[0] > 1 and (found := _lost(inputs, axis, sizes[0])):
            indices, varied, is_constant = found
            is_, vary, they = ("is", "varies", "it") if len(indices) == 1 else ("are", "vary", "they")
            how = f"{is_} constant" if is_constant else f"{is_} constant, or off by more than {they} {vary}"
            return (
                f"{_listed(indices)} of {sizes[0]} of output {output!r} (dimension {axis}) {how}; in that of {name} "
                f"{they} {vary} by up to {varied:.2g}: {they} {is_} lost beside values of up to {largest:.3g}"
            )
    return ""


def counted_outputs(couples: Iterable[tuple[CapturedOutput, CapturedOutput]]) -> frozenset[str]:
    """The names of outputs that hold as much as is found in an input, as boxes: in eight bits it may be another number.

    It is seen where inputs of one side differ in it, in the same dimensions as the sides. What is empty for all inputs
    of the other side, and not of the reference, finds nothing any more.
    """
    by_name: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
    for one, other in couples:
        by_name.setdefault(one.name, []).append((one.shape, other.shape))
    return frozenset(name for name, shapes in by_name.items() if _is_counted(*zip(*shapes, strict=True)))


def far_outside(ours: Numbers, theirs: Numbers, *, output: str, name: str, free_share: float) -> str:
    """Which of their values, of all inputs and in whichever order, are not of the kind of ours: a sentence, or empty.

    They belong into the range of ours, which are `name`'s, and `_AROUND` times as far around it as it is wide, or
    reaches from 0, at least 1; much farther where ours are few. Where all are whole numbers, they may be labels of what
    the reference does not find. A share of them is free to lie elsewhere. Where ours are nothing but padding, which
    tells no size, wrong is only what is absurd for anything; or most of theirs, if they are large beside many of ours.
    """
    of_theirs = f"of {theirs.size:,} captured values of output {output!r} are"
    if any(is_broken(theirs).any() and not is_broken(ours).any() for is_broken in (np.isnan, np.isinf)):
        return f"{np.count_nonzero(~np.isfinite(theirs)):,} {of_theirs} NaN or infinite, unlike those of {name}"
    known, finite = ours[np.isfinite(ours)], theirs[np.isfinite(theirs)]
    if not known.size:
        return ""
    low, high = float(known.min()), float(known.max())
    are_whole = all((one == np.rint(one)).all() for one in (known, finite))
    for margin, free in _margins(low, high, known.size, are_whole=are_whole, free_share=free_share):
        outside = int(np.count_nonzero((finite < low - margin) | (finite > high + margin)))
        if outside > free * theirs.size:
            return f"{outside:,} {of_theirs} far from those of {name}, which lie from {low:.3g} to {high:.3g}"
    return ""


def _margins(
    low: float, high: float, count: int, *, are_whole: bool, free_share: float
) -> Iterator[tuple[float, float]]:
    """How far around a range of so many values others may lie, and which share of them is free to lie elsewhere."""
    margin = max(_AROUND * max(high - low, abs(low), abs(high)), 1.0)
    if count < _FEWEST_KNOWN:
        margin *= _AROUND_FEW
    if are_whole:
        margin = max(margin, _LABELS)
    is_padding = low == high and low in _PADDING
    yield (_ABSURD if is_padding else margin), free_share
    if is_padding and count >= _FEWEST_KNOWN:
        yield max(margin, _AROUND_FEW), max(free_share, _MOST)


def _is_counted(ours: Sequence[tuple[int, ...]], theirs: Sequence[tuple[int, ...]]) -> bool:
    if len({len(shape) for shape in (*ours, *theirs)}) > 1 or (any(map(prod, ours)) and not any(map(prod, theirs))):
        return False
    varying = [
        len(set(one)) > 1 or len(set(other)) > 1
        for one, other in zip(zip(*ours, strict=True), zip(*theirs, strict=True), strict=True)
    ]
    return all(
        one == other or varies
        for shape, its in zip(ours, theirs, strict=True)
        for one, other, varies in zip(shape, its, varying, strict=True)
    )


def _lost(inputs: Sequence[Elements], axis: int, size: int) -> tuple[Sequence[int], float, bool] | None:
    """The lost slices of a dimension, by how much they varied at most, and whether all of them are constant."""
    index = np.concatenate([one.places // max(prod(one.shape[axis + 1 :]), 1) % size for one in inputs])
    reference, other = (np.concatenate([getattr(one, side) for one in inputs]) for side in ("reference", "other"))
    range_, other_range = _spread(reference, index, size), _spread(other, index, size)
    magnitude = _most(np.abs(reference), index, size)
    seen = np.bincount(index, minlength=size) >= _FEWEST_ELEMENTS
    off = _most(np.abs(other - reference), index, size) > range_
    lost = seen & (range_ > 0) & (range_ >= magnitude / 2) & ((other_range == 0) | off)
    kept = seen & ~lost & (other_range > 0)
    if not kept.any() or lost.sum() < max(1, _FEWEST_LOST * seen.sum()):
        return None
    if magnitude[lost].max() * _APART > magnitude[kept].min():
        return None
    return np.flatnonzero(lost).tolist(), float(range_[lost].max()), not (other_range[lost] > 0).any()


def _spread(values: Numbers, index: NDArray[np.int64], size: int) -> Numbers:
    """The largest value of each slice less its smallest; −∞ of one without elements."""
    return _most(values, index, size) + _most(-values, index, size)


def _most(values: Numbers, index: NDArray[np.int64], size: int) -> Numbers:
    found = np.full(size, -np.inf)
    np.maximum.at(found, index, values)
    return found


def _listed(indices: Sequence[int]) -> str:
    if len(indices) == 1:
        return f"slice {indices[0]}"
    if all(after == before + 1 for before, after in pairwise(indices)):
        return f"slices {indices[0]} to {indices[-1]}"
    return f"{len(indices)} slices"
