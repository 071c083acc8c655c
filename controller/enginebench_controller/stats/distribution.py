"""Millions of samples in flat memory: their distinct values in order, and how often each occurred."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

MAX_EXACT_VALUES = 2**18
"""Up to so many distinct values are kept as they are."""

RESOLUTION = 2.0**-14
"""The relative distance of neighbouring values once there are more."""

_SIGNIFICANT_BITS = 15
_SAMPLES_AT_ONCE = 2**18


@dataclass(frozen=True, eq=False)
class Distribution:
    """The distinct values of n ≥ 1 samples, ascending, and their counts: int64 arrays of shape (distinct,).

    With more than `MAX_EXACT_VALUES` of them, values are rounded to 15 significant bits, neighbours `resolution` apart,
    so that a quantile is off by at most 2^-15 of itself. `total`, `minimum` and `maximum` are always exact.
    """

    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    cumulative: NDArray[np.int64]
    total: int
    minimum: int
    maximum: int
    resolution: float = 0.0

    @classmethod
    def of(cls, chunks: Iterable[NDArray[np.int64]]) -> "Distribution":
        """The distribution of all samples in `chunks`, int64 arrays of shape (m,) with values ≥ 0, in any order.

        Raises ValueError when there are none or one is negative.
        """
        gathering = Gathering()
        for chunk in chunks:
            gathering.add(chunk)
        return gathering.distribution()

    @classmethod
    def merged(cls, parts: "Iterable[Distribution]") -> "Distribution":
        """The distribution of the samples of all parts together. Raises ValueError when there are no parts."""
        merged: Distribution | None = None
        for part in parts:
            merged = part if merged is None else _together(merged, part)
        if merged is None:
            raise ValueError("without latencies there is no distribution")
        return merged

    @property
    def size(self) -> int:
        """The number of samples."""
        return int(self.cumulative[-1])

    @property
    def mean(self) -> float:
        """The arithmetic mean."""
        return self.total / self.size

    @property
    def sd(self) -> float | None:
        """The standard deviation of the sample (divisor n − 1); None for a single sample."""
        if self.size < 2:
            return None
        squares = float(np.dot(self.counts, (self.values - self.mean) ** 2))
        return float(np.sqrt(squares / (self.size - 1)))

    @property
    def median(self) -> float:
        """The quantile 0.5."""
        return self.quantile(0.5)

    @property
    def mad(self) -> float:
        """The median absolute deviation from the median, not scaled."""
        deviations = np.abs(self.values - self.median)
        order = np.argsort(deviations, kind="stable")
        return _quantile(deviations[order], np.cumsum(self.counts[order]), 0.5)

    def quantile(self, share: float) -> float:
        """The quantile for 0 ≤ share ≤ 1, linear between order statistics.

        With the samples sorted as x_0 … x_(n−1), it lies at position (n − 1)·share: definition 7 of Hyndman and Fan,
        "Sample Quantiles in Statistical Packages", The American Statistician 50, 1996; NumPy's default.
        """
        return _quantile(self.values, self.cumulative, share)

    def count_below(self, bound: float) -> int:
        """How many samples are less than `bound`."""
        return self._count_before(int(np.searchsorted(self.values, bound, side="left")))

    def count_above(self, bound: float) -> int:
        """How many samples are greater than `bound`."""
        return self.size - self._count_before(int(np.searchsorted(self.values, bound, side="right")))

    def _count_before(self, position: int) -> int:
        return int(self.cumulative[position - 1]) if position else 0


class Gathering:
    """A distribution in the making. Samples wait until there are many: merging costs the same however few are added."""

    def __init__(self) -> None:
        self._merged: Distribution | None = None
        self._waiting: list[NDArray[np.int64]] = []
        self._waiting_samples = 0

    def add(self, samples: NDArray[np.int64]) -> None:
        """Add samples, an int64 array of shape (m,). Raises ValueError, perhaps only later, when one is negative."""
        if samples.ndim != 1:
            raise ValueError(f"latencies of shape (n,) are needed, not {samples.shape}")
        self._waiting.append(samples)
        self._waiting_samples += samples.size
        if self._waiting_samples >= _SAMPLES_AT_ONCE:
            self._merge()

    def distribution(self) -> Distribution:
        """The distribution of all that was added. Raises ValueError when that is nothing."""
        if self._waiting_samples:
            self._merge()
        if self._merged is None:
            raise ValueError("without latencies there is no distribution")
        return self._merged

    def _merge(self) -> None:
        fresh = _distinct(np.concatenate(self._waiting))
        self._merged = fresh if self._merged is None else _together(self._merged, fresh)
        self._waiting, self._waiting_samples = [], 0


def _distinct(samples: NDArray[np.int64]) -> Distribution:
    values, counts = np.unique(samples, return_counts=True)
    if values[0] < 0:
        raise ValueError("a latency is negative")
    return _bounded(values, counts, int(samples.sum()), int(values[0]), int(values[-1]), 0.0)


def _together(one: Distribution, other: Distribution) -> Distribution:
    values, counts = _counted(np.concatenate([one.values, other.values]), np.concatenate([one.counts, other.counts]))
    minimum, maximum = min(one.minimum, other.minimum), max(one.maximum, other.maximum)
    resolution = max(one.resolution, other.resolution)
    return _bounded(values, counts, one.total + other.total, minimum, maximum, resolution)


def _bounded(
    values: NDArray[np.int64], counts: NDArray[np.int64], total: int, minimum: int, maximum: int, resolution: float
) -> Distribution:
    if values.size > MAX_EXACT_VALUES or resolution:
        resolution = RESOLUTION
        values, counts = _counted(_rounded(values), counts)
    return Distribution(values, counts, np.cumsum(counts), total, minimum, maximum, resolution)


def _counted(values: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Values in order, equal ones as one with their counts added."""
    order = np.argsort(values, kind="stable")
    values, counts = values[order], counts[order]
    first = np.flatnonzero(np.diff(values, prepend=-1))
    return values[first], np.add.reduceat(counts, first)


def _rounded(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each value rounded to its 15 leading bits; shorter ones stay. Rounding twice changes nothing more."""
    length = np.frexp(values.astype(np.float64))[1]
    shift = np.maximum(length - _SIGNIFICANT_BITS, 0).astype(np.int64)
    half = np.left_shift(1, shift) >> 1
    rounded: NDArray[np.int64] = np.left_shift((values + half) >> shift, shift)
    return rounded


def _quantile(values: NDArray[np.generic], cumulative: NDArray[np.int64], share: float) -> float:
    if not 0 <= share <= 1:
        raise ValueError(f"a quantile's share lies between 0 and 1, unlike {share}")
    position = (int(cumulative[-1]) - 1) * share
    below = int(position)
    above = min(below + 1, int(cumulative[-1]) - 1)
    low, high = (float(value) for value in values[np.searchsorted(cumulative, [below, above], side="right")])
    return low + (position - below) * (high - low)
