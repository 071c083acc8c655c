"""What raw latencies amount to: centre, spread, tail, intervals, the rate, and whether they still moved."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import Block, BlockSamples, Interval, LatencySummary, Percentile
from enginebench_controller.records.run import BlockLatency
from enginebench_controller.stats import intervals
from enginebench_controller.stats.distribution import Distribution, Gathering

PERCENTS = (50.0, 90.0, 95.0, 99.0, 99.9)
"""The percentiles of every summary."""

CONFIDENCE = 0.99
"""With which at least two samples are to lie above a percentile that is shown."""


@cache
def samples_needed(percent: float) -> int:
    """The smallest number of samples with which a percentile, 50 ≤ percent < 100, is shown.

    It is the smallest n with P(Binomial(n, 1 − percent/100) ≤ 1) ≤ 1 − `CONFIDENCE`: two or more samples above the true
    percentile are then all but certain, so it is not a guess made from the maximum. The rule is MLPerf LoadGen's
    (early_stopping.cc) with one discarded sample.
    """
    if not 50 <= percent < 100:
        raise ValueError(f"percentiles from 50 to below 100 are known, not {percent}")
    above = (100 - percent) / 100
    enough, too_few = 2, 1
    while not _enough(enough, above):
        enough, too_few = enough * 2, enough
    while enough - too_few > 1:
        middle = (enough + too_few) // 2
        enough, too_few = (middle, too_few) if _enough(middle, above) else (enough, middle)
    return enough


def _enough(samples: int, above: float) -> bool:
    none = (1 - above) ** samples
    one = samples * above * (1 - above) ** (samples - 1)
    return none + one <= 1 - CONFIDENCE


NS_PER_S = 1_000_000_000

Excluded = Collection[tuple[int, int]]
"""Blocks that count nowhere, as (process, block index): disturbed ones that were measured again, and paused ones."""


def summarize(samples: Iterable[BlockSamples], excluded: Excluded = ()) -> LatencySummary:
    """Summarize the raw latencies of one measurement, which are iterated up to twice and never held all at once.

    The numbers are those of all samples together. The intervals of median and percentiles are, with one process,
    `intervals.of_quantile` over its blocks; with several, `intervals.over_processes` over the processes' own values,
    each of which must have enough samples. That interval lies around the mean of the processes' values; with up to
    four processes it always contains the pooled value too.

    A percentile has a number only with `samples_needed` samples. Outliers are samples outside Tukey's fences
    (Exploratory Data Analysis, 1977): 1.5 interquartile ranges below the first or above the third quartile.

    Raises ValueError when no samples are left, or one is negative.
    """
    processes, left_out = _distributions(samples, excluded)
    pooled = Distribution.merged(processes.values())
    found = _quantile_intervals(samples, excluded, pooled, processes)
    return LatencySummary(
        samples=pooled.size,
        mean_ns=pooled.mean,
        sd_ns=pooled.sd,
        cv=pooled.sd / pooled.mean if pooled.sd is not None and pooled.mean else None,
        min_ns=pooled.minimum,
        max_ns=pooled.maximum,
        median_ns=pooled.median,
        median_interval=found[50.0],
        mad_ns=pooled.mad,
        percentiles=tuple(_percentile(percent, pooled, found[percent]) for percent in PERCENTS),
        outliers=_outliers(pooled),
        excluded=left_out,
    )


def process_medians(samples: Iterable[BlockSamples], excluded: Excluded = ()) -> dict[int, float]:
    """The median latency of each process by its index, in nanoseconds; processes without samples are left out."""
    return {process: one.median for process, one in _distributions(samples, excluded)[0].items()}


def process_spread(medians: Mapping[int, float]) -> float | None:
    """By how much processes that do the same differ: largest ÷ smallest median − 1; None with fewer than two."""
    if len(medians) < 2 or min(medians.values()) <= 0:
        return None
    return max(medians.values()) / min(medians.values()) - 1


def throughput(blocks: Sequence[Block], batch: int, excluded: Excluded = ()) -> tuple[float, Interval | None]:
    """Items completed per second of wall clock: Σ iterations · batch ÷ Σ durations of the blocks; and its interval.

    Not the inverse of the mean latency, which differs as soon as requests overlap or the harness takes time. The
    interval is `intervals.of_ratio` over the blocks of one process, or `intervals.over_processes` over their rates.

    Raises ValueError unless the blocks left have a duration.
    """
    counted = [block for block in blocks if (block.process, block.index) not in excluded and block.duration_ns > 0]
    if not counted:
        raise ValueError("a steady state without duration has no throughput")
    items = np.array([block.iterations for block in counted], dtype=np.float64) * batch
    seconds = np.array([block.duration_ns for block in counted], dtype=np.float64) / NS_PER_S
    process = np.array([block.process for block in counted])
    return float(items.sum() / seconds.sum()), _rate_interval(items, seconds, process)


def _rate_interval(
    items: NDArray[np.float64], seconds: NDArray[np.float64], process: NDArray[np.int64]
) -> Interval | None:
    members = [process == index for index in np.unique(process)]
    if len(members) == 1:
        return intervals.of_ratio(items, seconds)
    return intervals.over_processes([float(items[one].sum() / seconds[one].sum()) for one in members])


def _distributions(samples: Iterable[BlockSamples], excluded: Excluded) -> tuple[dict[int, Distribution], int]:
    """The distribution of each process by its index, in one pass; and how many samples were left out."""
    gathered: dict[int, Gathering] = {}
    left_out = 0
    for one in samples:
        if (one.process, one.block) in excluded:
            left_out += one.latency_ns.size
        elif one.latency_ns.size:
            gathered.setdefault(one.process, Gathering()).add(one.latency_ns)
    return {process: gathered[process].distribution() for process in sorted(gathered)}, left_out


def _quantile_intervals(
    samples: Iterable[BlockSamples], excluded: Excluded, pooled: Distribution, processes: Mapping[int, Distribution]
) -> dict[float, Interval | None]:
    if len(processes) > 1:
        return {percent: _over_processes(percent, processes.values()) for percent in PERCENTS}
    return _over_blocks((one for one in samples if (one.process, one.block) not in excluded), pooled)


def _over_processes(percent: float, processes: Collection[Distribution]) -> Interval | None:
    if percent != 50 and any(one.size < samples_needed(percent) for one in processes):
        return None
    return intervals.over_processes([one.quantile(percent / 100) for one in processes])


def _over_blocks(samples: Iterable[BlockSamples], pooled: Distribution) -> dict[float, Interval | None]:
    bounds = [pooled.quantile(percent / 100) for percent in PERCENTS]
    below, up_to, sizes = (np.array(each, dtype=np.float64) for each in _counts(samples, bounds))
    return {
        percent: intervals.of_quantile(percent / 100, below[:, column], up_to[:, column], sizes, pooled.quantile)
        for column, percent in enumerate(PERCENTS)
    }


def _counts(
    samples: Iterable[BlockSamples], bounds: Sequence[float]
) -> tuple[list[NDArray[np.intp]], list[NDArray[np.intp]], list[int]]:
    """Of each block: how many samples are below each bound, how many up to it, and how many there are."""
    below, up_to, sizes = [], [], []
    for one in samples:
        ordered = np.sort(one.latency_ns)
        below.append(np.searchsorted(ordered, bounds, side="left"))
        up_to.append(np.searchsorted(ordered, bounds, side="right"))
        sizes.append(one.latency_ns.size)
    return below, up_to, sizes


def _percentile(percent: float, pooled: Distribution, interval: Interval | None) -> Percentile:
    needed = samples_needed(percent)
    if pooled.size < needed:
        return Percentile(percent, None, needed)
    return Percentile(percent, pooled.quantile(percent / 100), needed, interval)


def _outliers(pooled: Distribution) -> int:
    first, third = pooled.quantile(0.25), pooled.quantile(0.75)
    reach = 1.5 * (third - first)
    return pooled.count_below(first - reach) + pooled.count_above(third + reach)


def mean_interval(blocks: Sequence[BlockLatency], excluded: Excluded = ()) -> Interval | None:
    """The interval of the mean latency: `intervals.over_processes` over their means, or over the blocks of one process.

    None where there are too few of either. `excluded` blocks count for nothing.
    """
    counted = [one for one in blocks if (one.process, one.block) not in excluded and one.samples]
    members = {process: [one for one in counted if one.process == process] for process in {b.process for b in counted}}
    if len(members) != 1:
        return intervals.over_processes([_mean_ns(own) for own in members.values()])
    totals = np.array([one.total_ns for one in counted], dtype=np.float64)
    return intervals.of_ratio(totals, np.array([one.samples for one in counted], dtype=np.float64))


def _mean_ns(blocks: Sequence[BlockLatency]) -> float:
    return sum(one.total_ns for one in blocks) / sum(one.samples for one in blocks)


FEWEST_BLOCKS = 12
"""With fewer blocks their halves are too small to differ by more than chance."""

LARGEST_CHANGE = 0.03
"""Halves that differ by less are alike."""

SIGNIFICANCE = 0.01
"""And so are those that would differ as much by chance once in a hundred processes."""


@dataclass(frozen=True)
class Halves:
    """`change`: the median block of the second half ÷ that of the first, less 1; `p_value` that of equal halves."""

    change: float
    p_value: float

    @property
    def is_drift(self) -> bool:
        """Whether the change is too large, and too unlikely, to be passed over."""
        return abs(self.change) > LARGEST_CHANGE and self.p_value < SIGNIFICANCE


def drifts(samples: Iterable[BlockSamples], excluded: Excluded = ()) -> dict[int, float]:
    """The change of each process that drifted, by its index; processes that stayed as they were are left out.

    `samples` are iterated once. The halves are those of the blocks in their order.
    """
    medians: dict[int, dict[int, float]] = {}
    for one in samples:
        if one.latency_ns.size and (one.process, one.block) not in excluded:
            medians.setdefault(one.process, {})[one.block] = float(np.median(one.latency_ns))
    compared = {process: compare_halves([own[block] for block in sorted(own)]) for process, own in medians.items()}
    return {process: halves.change for process, halves in compared.items() if halves and halves.is_drift}


def compare_halves(medians_ns: list[float]) -> Halves | None:
    """Compare the two halves of a process's blocks, given their medians in order; None for too few blocks or zeros.

    The p-value is that of Welch's t test on the logarithms, with the blocks as observations.
    """
    values = np.asarray(medians_ns, dtype=np.float64)
    if values.size < FEWEST_BLOCKS or values.min() <= 0:
        return None
    first, second = values[: values.size // 2], values[values.size // 2 :]
    change = float(np.median(second) / np.median(first)) - 1
    return Halves(change, intervals.welch_p_value(*intervals.welch(np.log(first), np.log(second))))
