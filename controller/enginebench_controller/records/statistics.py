"""Statistics: what the raw samples of one measurement amount to."""

from dataclasses import dataclass
from enum import StrEnum


class IntervalMethod(StrEnum):
    """How a confidence interval was obtained; see stats/intervals.py."""

    BLOCKS = "order_statistics_over_blocks"
    BLOCKS_T = "t_over_blocks"
    PROCESSES_T = "t_over_processes"
    ITERATIONS_T = "t_over_iterations"


@dataclass(frozen=True)
class Interval:
    """A confidence interval in the unit of what it belongs to; `level` is its nominal coverage."""

    low: float
    high: float
    level: float
    method: IntervalMethod


@dataclass(frozen=True)
class Percentile:
    """A percentile of latency, or None with fewer than `samples_needed` samples; `interval` None where unknown."""

    percent: float
    value_ns: float | None
    samples_needed: int
    interval: Interval | None = None


@dataclass(frozen=True)
class LatencySummary:
    """Statistics over the raw latencies of one measurement; None where there is too little to tell.

    `mad_ns` is the median absolute deviation from the median, not scaled. `outliers` are samples outside Tukey's
    fences, 1.5 interquartile ranges below the first or above the third quartile. `excluded` samples are kept but count
    nowhere here: those of paused blocks, and of disturbed ones that were measured again.
    """

    samples: int
    mean_ns: float
    sd_ns: float | None
    cv: float | None
    min_ns: int
    max_ns: int
    median_ns: float
    median_interval: Interval | None
    mad_ns: float
    percentiles: tuple[Percentile, ...]
    outliers: int
    excluded: int = 0

    def percentile_ns(self, percent: float) -> float | None:
        """The value of a percentile that is among `percentiles`, else None."""
        return next((one.value_ns for one in self.percentiles if one.percent == percent), None)

    @property
    def median_relative_half_width(self) -> float | None:
        """Half the width of the median's interval ÷ the median; None without an interval."""
        interval = self.median_interval
        return (interval.high - interval.low) / 2 / self.median_ns if interval and self.median_ns else None
