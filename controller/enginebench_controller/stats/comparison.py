"""Whether one measurement is faster than another, and by how much: of processes and blocks, never of iterations.

Tests over raw samples find differences between equal things in a third of all cases, since samples that follow one
another share their luck. Measurements whose blocks were interleaved shared what the machine did, too, and are compared
block by block.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from math import exp, log, log1p

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import BlockSamples
from enginebench_controller.stats import intervals
from enginebench_controller.stats.distribution import Gathering
from enginebench_controller.stats.intervals import LEVEL
from enginebench_controller.stats.paired import (
    estimate,
    interval,
    log_ratio,
    sequential_interval,
    sequential_p_value,
)
from enginebench_controller.stats.summary import Excluded
from enginebench_proto.agreed import student_t

PRACTICAL = 0.01
"""A difference of 1 % is the smallest worth speaking of."""

LAYERS_PRACTICAL = 0.05
"""A layer's difference of 5 % is: one pass each does not tell two processes apart."""

MIN_PAIRS = 6
"""Fewer pairs of blocks cannot reach a p-value below 5 %."""

_EXACT_PAIRS = 100

_ANYTHING = log(1000)
"""Of very few pairs, and those that are looked at after each, the interval may be that wide, and tells nothing."""


class Verdict(StrEnum):
    """What the second measurement is, compared with the first."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "same"
    INCONCLUSIVE = "inconclusive"


class ComparisonMethod(StrEnum):
    """How the interval and the p-value of a comparison were obtained; see `compare`."""

    PAIRED_PROCESSES = "trimmed_t_over_process_pairs"
    PAIRED_BLOCKS = "wilcoxon_over_block_pairs"
    PROCESSES = "welch_t_over_processes"


@dataclass(frozen=True)
class Side:
    """One of two measurements to compare: median latencies in nanoseconds, by (process, block) and by process.

    `planned` is how many processes there might have been, where somebody looked at them and stopped when it was enough.
    """

    blocks: Mapping[tuple[int, int], float]
    processes: Mapping[int, float]
    planned: int | None = None

    @classmethod
    def of(cls, samples: Iterable[BlockSamples], excluded: Excluded = (), planned: int | None = None) -> "Side":
        """The medians of a measurement's raw latencies, iterated once. Raises ValueError when one is negative."""
        blocks: dict[tuple[int, int], float] = {}
        processes: dict[int, Gathering] = {}
        for one in samples:
            if one.latency_ns.size and (one.process, one.block) not in excluded:
                blocks[one.process, one.block] = float(np.median(one.latency_ns))
                processes.setdefault(one.process, Gathering()).add(one.latency_ns)
        return cls(blocks, {process: one.distribution().median for process, one in processes.items()}, planned)


@dataclass(frozen=True)
class Comparison:
    """How much longer the second measurement takes than the first: `ratio` 1.1 is 10 % slower.

    `low` and `high` are the ends of the ratio's 95 % interval, `p_value` that of the ratio being 1, two-sided; None
    where nothing can be told. `note` is a sentence on what limits the verdict, or empty.
    """

    ratio: float | None
    low: float | None
    high: float | None
    p_value: float | None
    verdict: Verdict
    method: ComparisonMethod | None
    note: str = ""


def compare(a: Side, b: Side, *, paired: bool, practical: float = PRACTICAL) -> Comparison:
    """Compare `b` with `a`; `paired` when their processes lived at the same time and took turns block by block.

    Paired, with several processes: each pair of processes is one observation, `paired.log_ratio`, and the interval is
    `paired.interval` over them (the process as the unit: Kalibera and Jones, ISMM 2013), or the wider
    `paired.sequential_interval` where their number was not fixed before. Paired, with one process each:
    Wilcoxon's signed-rank test of the blocks' log ratios, with the interval of Hodges and Lehmann; it knows these two
    processes only. Not paired: Welch's t test of the processes' log medians.

    The verdict is SAME when the whole interval lies within ±`practical`, FASTER or SLOWER when it excludes 1 and the
    ratio differs from 1 by more than `practical`, else INCONCLUSIVE. A median of 0 has no ratio.
    """
    found = _without_ratio(a, b, paired) or (_paired(a, b) if paired else _unpaired(a, b))
    if isinstance(found, str):
        return Comparison(None, None, None, None, Verdict.INCONCLUSIVE, None, found)
    return Comparison(
        ratio=exp(found.middle),
        low=exp(found.low),
        high=exp(found.high),
        p_value=found.p_value,
        verdict=_verdict(found, log1p(practical)),
        method=found.method,
        note=found.note,
    )


def corrected(comparisons: Sequence[Comparison]) -> tuple[Comparison, ...]:
    """Comparisons made together, with `holm`'s p-values; a difference that is no longer significant is inconclusive."""
    known = [one.p_value for one in comparisons if one.p_value is not None]
    adjusted = iter(holm(known))
    return tuple(one if one.p_value is None else _with_p_value(one, next(adjusted)) for one in comparisons)


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """P-values of m tests made together, adjusted so that the chance of any false positive stays at the level.

    The i-th smallest becomes the largest of (m − j + 1)·p_j over all j ≤ i, at most 1 (Holm, "A Simple Sequentially
    Rejective Multiple Test Procedure", Scandinavian Journal of Statistics 6, 1979).
    """
    order = np.argsort(p_values, kind="stable")
    factors = np.arange(len(p_values), 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(factors * np.asarray(p_values, dtype=np.float64)[order]), 1)
    return tuple(float(value) for value in adjusted[np.argsort(order, kind="stable")])


@dataclass(frozen=True)
class _Estimate:
    """A log ratio with its interval."""

    middle: float
    low: float
    high: float
    p_value: float
    method: ComparisonMethod
    note: str = ""


def _verdict(estimate: _Estimate, margin: float) -> Verdict:
    if -margin <= estimate.low and estimate.high <= margin:
        return Verdict.SAME
    if estimate.low > 0 and estimate.middle > margin:
        return Verdict.SLOWER
    if estimate.high < 0 and estimate.middle < -margin:
        return Verdict.FASTER
    return Verdict.INCONCLUSIVE


def _with_p_value(comparison: Comparison, p_value: float) -> Comparison:
    differs = comparison.verdict in (Verdict.FASTER, Verdict.SLOWER)
    lost = differs and p_value > 1 - LEVEL
    return replace(comparison, p_value=p_value, verdict=Verdict.INCONCLUSIVE if lost else comparison.verdict)


def _without_ratio(a: Side, b: Side, paired: bool) -> str | None:
    """Why there is no ratio of the medians that are to be compared; None where there is."""
    medians = [median for side in (a, b) for median in (side.blocks if paired else side.processes).values()]
    if all(median > 0 for median in medians):
        return None
    return "a median latency of 0 ns has no ratio: the inferences are shorter than the clock can tell"


def _paired(a: Side, b: Side) -> _Estimate | str:
    common: dict[int, list[tuple[int, int]]] = {}
    for key in sorted(a.blocks.keys() & b.blocks.keys()):
        common.setdefault(key[0], []).append(key)
    if not common:
        return "a pair without blocks in common cannot be compared"  # maybe one of many that are ranked
    medians = [([a.blocks[key] for key in keys], [b.blocks[key] for key in keys]) for keys in common.values()]
    if len(medians) == 1:
        return _signed_ranks(np.log(medians[0][1]) - np.log(medians[0][0]))
    ratios = [ratio for one in medians if (ratio := log_ratio(*one)) is not None]
    return _over_pairs(ratios, a.planned or b.planned)


def _unpaired(a: Side, b: Side) -> _Estimate | str:
    if min(len(a.processes), len(b.processes)) < 2:
        return "one process each tells nothing of the differences between processes; measure with two or more"
    logs = [np.array([log(median) for median in side.processes.values()]) for side in (a, b)]
    return _welch(*logs)


def _over_pairs(log_ratios: Sequence[float], planned: int | None) -> _Estimate | str:
    if (found := estimate(log_ratios)) is None:
        return "one pair of processes is too few to tell"
    ends, p_value = interval(log_ratios), found.p_value
    if planned is not None:
        ends, p_value = sequential_interval(log_ratios, planned), sequential_p_value(log_ratios, planned) or 0.0
    assert ends is not None  # noqa: S101  # as there is an estimate
    if ends.half > _ANYTHING:
        where = "" if planned is None else ", where it is looked at after each"
        return f"{len(log_ratios)} pairs of processes are too few to tell{where}"
    return _Estimate(ends.middle, ends.low, ends.high, p_value, ComparisonMethod.PAIRED_PROCESSES)


def _welch(a: NDArray[np.float64], b: NDArray[np.float64]) -> _Estimate:
    middle, error, degrees = intervals.welch(a, b)
    half = student_t.quantile((1 + LEVEL) / 2, degrees) * error
    found = intervals.welch_p_value(middle, error, degrees)
    return _Estimate(middle, middle - half, middle + half, found, ComparisonMethod.PROCESSES)


def _signed_ranks(ratios: NDArray[np.float64]) -> _Estimate | str:
    """Wilcoxon's test by Walsh averages, the means of all pairs: W is how many of them are positive, zeros half.

    The median of these averages estimates the shift, and those that leave out c at each end, with P(W ≤ c) ≤ 2.5 %,
    are its interval (Hodges and Lehmann, "Estimates of Location Based on Rank Tests", Annals of Mathematical Statistics
    34, 1963; Hollander and Wolfe, "Nonparametric Statistical Methods", chapter 3).
    """
    if ratios.size < MIN_PAIRS:
        pairs = "one pair of blocks is" if ratios.size == 1 else f"{ratios.size} pairs of blocks are"
        return f"{pairs} too few to tell; {MIN_PAIRS} are needed"
    rows, columns = np.triu_indices(ratios.size)
    averages = np.sort((ratios[rows] + ratios[columns]) / 2)
    positive = float(np.count_nonzero(averages > 0) + np.count_nonzero(averages == 0) / 2)
    chances = _signed_rank_chances(ratios.size)
    left_out = int(np.searchsorted(chances, (1 - LEVEL) / 2, side="right")) - 1
    extreme = int(np.ceil(min(positive, averages.size - positive)))
    return _Estimate(
        middle=float(np.median(averages)),
        low=float(averages[left_out]),
        high=float(averages[averages.size - 1 - left_out]),
        p_value=min(1.0, 2 * float(chances[extreme])),
        method=ComparisonMethod.PAIRED_BLOCKS,
        note="one process each: what differs from process to process is not in the interval",
    )


@cache
def _signed_rank_chances(pairs: int) -> NDArray[np.float64]:
    """P(W ≤ w) for w = 0 … n(n + 1)/2 when nothing differs; from 100 pairs on, the normal approximation."""
    largest = pairs * (pairs + 1) // 2
    if pairs > _EXACT_PAIRS:
        from scipy.special import ndtr  # noqa: PLC0415  # it takes a quarter of the start of every command

        deviation = np.sqrt(largest * (2 * pairs + 1) / 12)
        approximate: NDArray[np.float64] = ndtr((np.arange(largest + 1) + 0.5 - largest / 2) / deviation)
        return approximate
    chances = np.zeros(largest + 1)
    chances[0] = 1.0
    for rank in range(1, pairs + 1):  # each rank is positive or not, with equal chances
        chances[rank:] = chances[rank:] + chances[: chances.size - rank]
        chances /= 2
    return np.cumsum(chances)
