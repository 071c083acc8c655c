"""What a person reads of a thousand raw latencies: centre, spread and tail, and the rate of the whole run."""

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.records import LatencySummary

NS_PER_S = 1_000_000_000


def summarize(samples_ns: NDArray[np.int64]) -> LatencySummary:
    """Summarize raw latencies, an int64 array of shape (n,) with n ≥ 1, in nanoseconds and any order.

    Median and percentiles are interpolated order statistics: with the samples sorted as x_0 … x_(n-1), the quantile p
    is the value at position h = (n-1)·p, linear between its neighbours (definition 7 of Hyndman and Fan, "Sample
    Quantiles in Statistical Packages", The American Statistician 50, 1996; also NumPy's default). A percentile is
    None unless at least one sample is expected above it, n·(1-p) ≥ 1: the p99 of twenty samples would be a guess
    made from the maximum. The standard deviation is the sample's (divisor n-1), None for a single sample.

    Raises ValueError when there are no samples or one is negative.
    """
    _require_latencies(samples_ns)
    return LatencySummary(
        samples=int(samples_ns.size),
        mean_ns=float(np.mean(samples_ns)),
        sd_ns=float(np.std(samples_ns, ddof=1)) if samples_ns.size > 1 else None,
        min_ns=int(np.min(samples_ns)),
        max_ns=int(np.max(samples_ns)),
        median_ns=float(np.median(samples_ns)),
        p90_ns=_percentile_ns(samples_ns, 90),
        p95_ns=_percentile_ns(samples_ns, 95),
        p99_ns=_percentile_ns(samples_ns, 99),
    )


def throughput_items_per_s(iterations: int, batch: int, steady_state_ns: int) -> float:
    """Items completed per second of wall clock over the whole steady state: iterations · batch ÷ duration.

    Not the inverse of the mean latency, which differs as soon as requests overlap or the harness takes time.
    Raises ValueError unless the duration is positive.
    """
    if steady_state_ns <= 0:
        raise ValueError(f"a steady state of {steady_state_ns} ns has no throughput")
    return iterations * batch * NS_PER_S / steady_state_ns


def _require_latencies(samples_ns: NDArray[np.int64]) -> None:
    if samples_ns.ndim != 1 or samples_ns.size == 0:
        raise ValueError(f"latencies of shape (n,) with n ≥ 1 are needed, not {samples_ns.shape}")
    if np.min(samples_ns) < 0:
        raise ValueError("a latency is negative")


def _percentile_ns(samples_ns: NDArray[np.int64], percent: int) -> float | None:
    # In integers: 20 · (1 - 0.95) is 1.0000000000000009 in floats, and 10 · (1 - 0.9) is 0.9999999999999998.
    if samples_ns.size * (100 - percent) < 100:
        return None
    return float(np.percentile(samples_ns, percent, method="linear"))
