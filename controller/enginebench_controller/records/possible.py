"""Which figures of a measurement cannot be, whoever told them: what an import refuses, and `store check` finds.

Not a number is not possible, so each bound is put as what has to hold. And which dates cannot be: those of a clock that
was wrong.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from math import inf

from enginebench_controller.records.measurement import Interval, LatencySummary
from enginebench_controller.records.run import Status

_ROUNDING = 1e-9

EARLIEST_UNIX_NS = 1_577_836_800_000_000_000
"""2020: there was no enginebench before."""
_AHEAD_NS = 300_000_000_000
_LATEST_UNIX_NS = 2**63 - 1


def possible_dates(now_unix_ns: int) -> tuple[int, int]:
    """The first and the last instant at which something was measured, where it is `now_unix_ns` by a clock.

    Other clocks may be some minutes ahead of it. One that is before enginebench is wrong itself, and bounds nothing.
    """
    latest = now_unix_ns + _AHEAD_NS if now_unix_ns >= EARLIEST_UNIX_NS else _LATEST_UNIX_NS
    return EARLIEST_UNIX_NS, latest


def why_impossible(
    status: Status,
    iterations: int | None,
    latency: LatencySummary | None,
    rate: float | None,
    rate_interval: Interval | None,
    medians_ns: Sequence[float | None],
    rates: Sequence[float | None],
) -> str | None:
    """Why figures that a measurement is told to have cannot be, in a sentence; None where they can.

    The rates are throughputs in items a second; `medians_ns` and `rates` are those of its processes.
    """
    own_ns, own_rates = ([one for one in each if one is not None] for each in (medians_ns, rates))
    return next(
        chain(
            _of_ending(status, latency, rate),
            _of_processes(own_ns, own_rates),
            _of_rate(rate, rate_interval, own_rates),
            _of_latency(latency, iterations, own_ns) if latency else (),
        ),
        None,
    )


def _of_ending(status: Status, latency: LatencySummary | None, rate: float | None) -> Iterator[str]:
    if not status.has_numbers and (latency is not None or rate is not None):
        yield f"one that ended as {status.value} has no latency and no throughput"


def _of_processes(medians_ns: Sequence[float], rates: Sequence[float]) -> Iterator[str]:
    yield from (f"a process has no median of {one:g} ns" for one in medians_ns if not 0 <= one < inf)
    yield from (f"a process has no throughput of {one:g}" for one in rates if not 0 < one < inf)


def _of_rate(rate: float | None, interval: Interval | None, own: Sequence[float]) -> Iterator[str]:
    if rate is not None and not 0 < rate < inf:
        yield f"a throughput of {rate:g} cannot be"
    if interval is not None:
        yield from _of_interval("throughput", rate, interval, own)


def _of_latency(told: LatencySummary, iterations: int | None, own_ns: Sequence[float]) -> Iterator[str]:
    least, most = told.min_ns * (1 - _ROUNDING), told.max_ns * (1 + _ROUNDING)
    if not (0 <= least <= told.median_ns <= most and least <= told.mean_ns <= most):
        yield (
            f"a latency between {told.min_ns:,} and {told.max_ns:,} ns has no median of {told.median_ns:g} and no "
            f"mean of {told.mean_ns:g}"
        )
    ladder = [least, *(one.value_ns for one in told.percentiles if one.value_ns is not None), most]
    if not all(lower <= upper * (1 + _ROUNDING) for lower, upper in pairwise(ladder)):
        yield f"its percentiles do not rise from {told.min_ns:,} to {told.max_ns:,} ns"
    spreads = {"standard deviation": told.sd_ns, "cv": told.cv, "median absolute deviation": told.mad_ns}
    for name, spread in spreads.items():
        if spread is not None and not 0 <= spread < inf:
            yield f"a {name} of {spread:g} cannot be"
    if not (told.samples >= 1 and told.excluded >= 0 and 0 <= told.outliers <= told.samples):
        yield f"of {told.samples:,} samples {told.outliers:,} cannot be outliers and {told.excluded:,} left out"
    if iterations is not None and told.samples + told.excluded != iterations:
        yield f"{told.samples:,} samples that count and {told.excluded:,} that do not are not {iterations:,} iterations"
    for one in told.percentiles:
        if one.interval is not None:
            yield from _of_interval(f"p{one.percent:g}", None, one.interval, ())
    if told.median_interval is not None:
        yield from _of_interval("median", told.median_ns, told.median_interval, own_ns)


def _of_interval(name: str, point: float | None, told: Interval, own: Sequence[float]) -> Iterator[str]:
    """That over processes lies around the mean of their `own`, so of many the pooled point may lie beside it."""
    if not -inf < told.low <= told.high < inf:
        yield f"the interval of its {name} ends before it begins, or nowhere"
    least, most = min(told.low, *own, inf) * (1 - _ROUNDING), max(told.high, *own, -inf) * (1 + _ROUNDING)
    if point is not None and not least <= point <= most:
        yield f"a {name} of {point:g} is not between {told.low:g} and {told.high:g}"
