"""When a process has measured enough: how precisely the median is known, in bounded memory, held against the rule."""

import math
from array import array
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from enginebench_proto.agreed import student_t
from enginebench_proto.v1 import configuration_pb2
from enginebench_proto.v1.measurement_pb2 import (
    STOP_REASON_DISTURBED,
    STOP_REASON_MAX_DURATION,
    STOP_REASON_TARGET_MET,
    STOP_REASON_UNSPECIFIED,
    StopReason,
)

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


_RECHECK = 16
"""The interval is computed anew when the blocks have grown by one part in so many: fewer looks are fewer chances to
stop by luck, and computing it takes time from the machine that is measured."""

_VAIN_FACTOR = 2
_VAIN_NS = 2_000_000_000
"""A machine that is mostly disturbed, for `_VAIN_FACTOR` times the shortest duration and so long at the least, is not
waited for any longer: short spells pass, and all else costs time and brings nothing."""


@dataclass(frozen=True)
class StopRule:
    """When a steady state ends: at the minima and the target, or at the latest at the maximum (None: no maximum).

    `target` is half the width of the median's 95 % interval relative to the median, at most; 0 for any. With
    `retry_noisy`, disturbed blocks count only towards the maximum.
    """

    min_duration_ns: int = 0
    min_iterations: int = 0
    max_duration_ns: int | None = None
    target: float = 0.0
    retry_noisy: bool = False

    @property
    def vain_ns(self) -> int:
        """How long blocks may be disturbed before they are not measured again any more."""
        return max(_VAIN_FACTOR * self.min_duration_ns, _VAIN_NS)


def from_stop_rule(message: configuration_pb2.StopRule) -> StopRule:
    """The rule of a configuration."""
    return StopRule(
        min_duration_ns=message.min_duration_ns,
        min_iterations=message.min_iterations,
        max_duration_ns=message.max_duration_ns or None,
        target=message.target_relative_half_width,
        retry_noisy=message.retry_noisy,
    )


class Stopping:
    """What a stop rule says to the blocks so far."""

    def __init__(self, rule: StopRule) -> None:
        self.rule = rule
        self.elapsed_ns = 0
        """The steady state so far: the durations of all blocks, without what they stood still."""
        self.iterations = 0
        """The inferences of all blocks."""
        self._counted_ns = 0
        self._counted_iterations = 0
        self._precision = MedianPrecision()
        self._half_width = math.inf
        self._blocks = 0
        self._next_look = 1

    def add(self, latency_ns: "array[int]", duration_ns: int, *, disturbed: bool, paused: bool = False) -> None:
        """Take in one more block. One in which the process was `paused` counts for nothing, whatever the rule."""
        self.elapsed_ns += duration_ns
        self.iterations += len(latency_ns)
        if paused or (disturbed and self.rule.retry_noisy):
            return
        self._counted_ns += duration_ns
        self._counted_iterations += len(latency_ns)
        if self.rule.target > 0:
            self._precision.add(latency_ns)
            self._look()

    def verdict(self) -> StopReason:
        """Why to stop now; STOP_REASON_UNSPECIFIED to go on."""
        if self._minima_are_met() and (self.rule.target == 0 or self._half_width <= self.rule.target):
            return STOP_REASON_TARGET_MET
        if self.rule.max_duration_ns is not None and self.elapsed_ns >= self.rule.max_duration_ns:
            return STOP_REASON_DISTURBED if self._is_vain() else STOP_REASON_MAX_DURATION
        if self._is_vain() and self.elapsed_ns - self._counted_ns >= self.rule.vain_ns:
            return STOP_REASON_DISTURBED
        return STOP_REASON_UNSPECIFIED

    def remaining_ns(self) -> int | None:
        """What is left of the maximum duration, at least 0; None without one."""
        maximum = self.rule.max_duration_ns
        return None if maximum is None else max(0, maximum - self.elapsed_ns)

    def expected_ns(self) -> int:
        """How long the steady state is going to be, as far as can be told.

        The half-width falls with the square root of the time.
        """
        share_counted = self._counted_ns / self.elapsed_ns if self._counted_ns else 1.0
        needed = max(self.rule.min_duration_ns, self._needed_for_iterations(), self._needed_for_target())
        expected = max(self.elapsed_ns, round(needed / share_counted))
        return expected if self.rule.max_duration_ns is None else min(expected, self.rule.max_duration_ns)

    def _is_vain(self) -> bool:
        """Whether more is disturbed than not, so that going on would take more than twice as long."""
        return self.elapsed_ns > 2 * self._counted_ns

    def _minima_are_met(self) -> bool:
        enough = self._counted_iterations >= max(1, self.rule.min_iterations)
        return enough and self._counted_ns >= self.rule.min_duration_ns

    def _needed_for_iterations(self) -> int:
        return self._counted_ns * self.rule.min_iterations // max(self._counted_iterations, 1)

    def _needed_for_target(self) -> int:
        if self.rule.target == 0 or math.isinf(self._half_width):
            return 0
        return round(self._counted_ns * (self._half_width / self.rule.target) ** 2)

    def _look(self) -> None:
        self._blocks += 1
        if self._blocks >= self._next_look:
            self._half_width = self._precision.relative_half_width()
            self._next_look = self._blocks + 1 + self._blocks // _RECHECK
