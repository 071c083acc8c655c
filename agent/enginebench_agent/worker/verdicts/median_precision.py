"""How precisely the median of a growing series of blocks is known, in bounded memory."""

import math
from array import array
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from enginebench_proto.agreed import student_t

MOST_POINTS = 256
"""Order statistics kept of a block; its share below any value is then wrong by at most half a part in 256."""

MOST_CLUSTERS = 1024
"""Blocks kept apart; beyond that, neighbours are merged for good."""

FEWEST_CLUSTERS = 6
"""With fewer blocks nothing is known of their variance."""

FEWEST_CORRELATED = 12
"""With fewer blocks their correlation cannot be told, and is not looked for."""

CORRELATED = 0.5
"""A correlation between neighbouring blocks counts from so many of its standard errors on."""

STRONGEST_CORRELATION = 0.8

_LEVEL = 0.95

Numbers = NDArray[np.float64]


class MedianPrecision:
    """Blocks of latencies, each kept as its count and at most `MOST_POINTS` of its order statistics."""

    def __init__(self) -> None:
        self._points: list[Numbers] = []
        self._counts: list[int] = []

    @property
    def clusters(self) -> int:
        """Blocks, or merged ones."""
        return len(self._counts)

    def add(self, latency_ns: "array[int]") -> None:
        """Take in the latencies of one more block."""
        values = np.frombuffer(latency_ns, dtype=np.int64).astype(np.float64)
        self._points.append(_thinned(values, np.ones(values.size)))
        self._counts.append(values.size)
        if self.clusters > MOST_CLUSTERS:
            self._merge_neighbours()

    def relative_half_width(self) -> float:
        """Half the width of the interval relative to the median; infinite while there is none."""
        bounds = self.interval()
        if bounds is None:
            return math.inf
        lower, median, upper = bounds
        return (upper - lower) / 2 / median if median > 0 else 0.0

    def interval(self) -> tuple[float, float, float] | None:
        """The median between the bounds of its 95 % interval, in the unit of the samples; None while it has none.

        Blocks are clusters: the standard error of the share of samples below the median comes from the blocks' shares
        by the ratio estimator (Cochran, "Sampling Techniques", 3rd edition, 1977, §6.3), with t of B − 1 degrees of
        freedom, and the interval of that share is mapped back through the pooled order statistics (Woodruff,
        "Confidence Intervals for Medians and Other Position Measures", JASA 47, 1952). Blocks that follow their
        neighbours count for fewer. The controller's interval over the blocks of one process is the same, but from all
        samples instead of thinned ones.

        Where many samples equal the median, the share below it and the share up to it differ; the first decides how
        far down the median could lie, the second how far up.
        """
        if self.clusters < FEWEST_CLUSTERS:
            return None
        values, cumulated = self._pooled()
        median = _at(values, cumulated, 0.5)
        down, up = self._half_width_of_share(median, "left"), self._half_width_of_share(median, "right")
        if max(down, up) >= 0.5:
            return None
        return _at(values, cumulated, 0.5 - down), median, _at(values, cumulated, 0.5 + up)

    def _half_width_of_share(self, median: float, side: Literal["left", "right"]) -> float:
        """Of the share of samples below the median ("left"), or up to it ("right")."""
        counts = np.array(self._counts, dtype=np.float64)
        shares = np.array([np.searchsorted(points, median, side) / points.size for points in self._points])
        below = counts * shares
        residuals = below - below.sum() / counts.sum() * counts
        clusters, worth = counts.size, _independent_share(residuals)
        squares = float(np.dot(residuals, residuals)) / worth
        error = math.sqrt(clusters / (clusters - 1) * squares) / float(counts.sum())
        degrees = max(clusters * worth, FEWEST_CLUSTERS) - 1
        return student_t.quantile((1 + _LEVEL) / 2, degrees) * error

    def _pooled(self) -> tuple[Numbers, Numbers]:
        """All points in order, and the share of all samples up to each."""
        values = np.concatenate(self._points)
        weights = np.concatenate([_weights(*each) for each in zip(self._points, self._counts, strict=True)])
        order = np.argsort(values)
        return values[order], np.cumsum(weights[order]) / weights.sum()

    def _merge_neighbours(self) -> None:
        both = list(zip(self._points, self._counts, strict=True))
        merged = [
            (_thinned(np.concatenate([a, b]), np.concatenate([_weights(a, m), _weights(b, n)])), m + n)
            for (a, m), (b, n) in list(pairwise(both))[::2]
        ]
        merged += both[len(merged) * 2 :]
        self._points = [points for points, _ in merged]
        self._counts = [count for _, count in merged]


def _thinned(values: Numbers, weights: Numbers) -> Numbers:
    """At most `MOST_POINTS` of the values, each for an equal part of the weight: the middle one of that part."""
    order = np.argsort(values, kind="stable")
    cumulated = np.cumsum(weights[order])
    size = min(MOST_POINTS, values.size)
    middles = (np.arange(size) + 0.5) / size * cumulated[-1]
    kept: Numbers = values[order][np.searchsorted(cumulated, middles)]
    return kept


def _weights(points: Numbers, count: int) -> Numbers:
    return np.full(points.size, count / points.size)


def _at(values: Numbers, cumulated: Numbers, share: float) -> float:
    return float(values[min(int(np.searchsorted(cumulated, share)), values.size - 1)])


def _independent_share(residuals: Numbers) -> float:
    """How many independent blocks one of these is worth: (1 − r)/(1 + r), with r the correlation of neighbours.

    That is the effective sample size of a first-order autoregressive series (Thiébaux and Zwiers, Journal of Climate
    and Applied Meteorology 23, 1984), with r corrected for its bias by (1 + 3r)/B (Kendall, Biometrika 41, 1954).
    """
    squares = float(np.dot(residuals, residuals))
    products = float(np.dot(residuals[:-1], residuals[1:]))
    if residuals.size < FEWEST_CORRELATED or products <= CORRELATED / math.sqrt(residuals.size) * squares:
        return 1.0
    seen = products / squares
    correlation = min(seen + (1 + 3 * seen) / residuals.size, STRONGEST_CORRELATION)
    return (1 - correlation) / (1 + correlation)
