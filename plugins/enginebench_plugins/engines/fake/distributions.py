"""Latencies with known truth: what the fake engine draws from, and what statistics over it must come to.

Every stationary distribution is given by its quantile function; a latency is that function of a uniform random number
(inverse transform sampling), so truth and samples cannot disagree. Nothing here needs more than the standard library.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, cycle, repeat

FAST_SHARE = 0.7
"""Bimodal: this share of the inferences takes the latency, the others `SLOW_FACTOR` times as long."""

SLOW_FACTOR = 2.0
STALL_FACTOR = 20.0
"""Stalls: every n-th inference takes this many times the latency."""

PARETO_SHAPE = 2.5
"""Heavy tail: a Pareto distribution, whose variance is finite and whose third moment is not."""

DRIFT_FACTOR = 2.0
"""Drift: the first inference takes this many times the latency."""

MOST_JITTER = 0.3
"""Beyond it the modes of the bimodal distribution would overlap."""

TABLE_SIZE = 1 << 16
"""Latencies drawn in advance for each request, then repeated."""


class LatencyDistribution(StrEnum):
    """The distributions, as values of the option "distribution"."""

    CONSTANT = "constant"
    BIMODAL = "bimodal"
    HEAVY_TAIL = "heavy_tail"
    STALLS = "stalls"
    DRIFT = "drift"


@dataclass(frozen=True)
class Latency:
    """How long inferences take.

    `typical_ns` is the latency the others are multiples of, and near the median of all of them once
    drift is over. `jitter` spreads it evenly over ± this share, but for the heavy tail, which is spread already.
    `stall_every` counts the inferences of one request from one stall to the next. `drift_iterations` is the number of
    inferences, those of warm-up included, over which drift falls in a straight line to what it stays at.
    """

    typical_ns: int
    distribution: LatencyDistribution = LatencyDistribution.CONSTANT
    jitter: float = 0.0
    stall_every: int = 100
    drift_iterations: int = 1000


def quantile_ns(latency: Latency, share: float) -> float:
    """The true latency that `share` (0 ≤ share < 1) of the inferences stay below, in nanoseconds.

    Of drift it is what holds once the drift is over.
    """
    return latency.typical_ns * _QUANTILES[latency.distribution](latency, share)


def latencies_ns(latency: Latency, seed: int | str) -> Iterator[int]:
    """Latencies without end, in whole nanoseconds: the same for the same seed, repeated after `TABLE_SIZE` or so.

    Stalls come exactly at every n-th, not at random. The table is drawn before the first latency is handed out.
    """
    if latency.distribution is LatencyDistribution.CONSTANT and not latency.jitter:
        return repeat(latency.typical_ns)
    generator = random.Random(seed)  # noqa: S311 - nothing secret
    if latency.distribution is LatencyDistribution.STALLS:
        return cycle(_stalling(latency, generator))
    table = [round(quantile_ns(latency, generator.random())) for _ in range(TABLE_SIZE)]
    if latency.distribution is not LatencyDistribution.DRIFT:
        return cycle(table)
    ramp = [
        round(factor * each) for factor, each in zip(_falling(latency.drift_iterations), cycle(table), strict=False)
    ]
    return chain(ramp, cycle(table))


def _stalling(latency: Latency, generator: random.Random) -> list[int]:
    every = latency.stall_every
    periods = max(1, TABLE_SIZE // every)
    factors = ([1.0] * (every - 1) + [STALL_FACTOR]) * periods
    return [round(latency.typical_ns * factor * _spread(latency.jitter, generator.random())) for factor in factors]


def _falling(iterations: int) -> list[float]:
    return [DRIFT_FACTOR - (DRIFT_FACTOR - 1.0) * index / iterations for index in range(iterations)]


def _spread(jitter: float, share: float) -> float:
    """The quantile function of the even distribution over 1 ± jitter."""
    return 1.0 + jitter * (2.0 * share - 1.0)


def _constant(latency: Latency, share: float) -> float:
    return _spread(latency.jitter, share)


def _bimodal(latency: Latency, share: float) -> float:
    if share < FAST_SHARE:
        return _spread(latency.jitter, share / FAST_SHARE)
    return SLOW_FACTOR * _spread(latency.jitter, (share - FAST_SHARE) / (1.0 - FAST_SHARE))


def _stalls(latency: Latency, share: float) -> float:
    stalled = 1.0 / latency.stall_every
    if share < 1.0 - stalled:
        return _spread(latency.jitter, share / (1.0 - stalled))
    return STALL_FACTOR * _spread(latency.jitter, (share - 1.0 + stalled) / stalled)


def _pareto(latency: Latency, share: float) -> float:
    median_is_one: float = (2.0 * (1.0 - share)) ** (-1.0 / PARETO_SHAPE)
    return median_is_one


_QUANTILES: dict[LatencyDistribution, Callable[[Latency, float], float]] = {
    LatencyDistribution.CONSTANT: _constant,
    LatencyDistribution.BIMODAL: _bimodal,
    LatencyDistribution.HEAVY_TAIL: _pareto,
    LatencyDistribution.STALLS: _stalls,
    LatencyDistribution.DRIFT: _constant,
}
