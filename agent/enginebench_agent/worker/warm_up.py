"""The warm-up: inferences under load until two consecutive halves of a window are alike, or time is up."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from enginebench_agent.worker.keeper import Pauses
from enginebench_agent.worker.loads.block import TimedLoad
from enginebench_agent.worker.phases import ReportProgress
from enginebench_proto.v1 import configuration_pb2
from enginebench_proto.v1.measurement_pb2 import WarmUp


def mann_whitney_p(first: Sequence[float], second: Sequence[float]) -> float:
    """Two-sided p of the Mann–Whitney U test by its normal approximation, with corrections for ties and continuity.

    1 where either is empty or all numbers are equal. Source: Mann and Whitney, "On a Test of Whether one of Two Random
    Variables is Stochastically Larger than the Other", Annals of Mathematical Statistics 18, 1947; the correction for
    ties as in Lehmann, "Nonparametrics", 1975, §1.4.
    """
    m, n = len(first), len(second)
    rank_sum, ties = _rank_sum_and_ties(first, second)
    total = m + n
    if not (m and n) or ties == total**3 - total:
        return 1.0
    mean = m * n / 2
    variance = m * n / 12 * (total + 1 - ties / (total * (total - 1)))
    distance = max(0.0, abs(rank_sum - m * (m + 1) / 2 - mean) - 0.5)
    return math.erfc(distance / math.sqrt(2 * variance))


def _rank_sum_and_ties(first: Sequence[float], second: Sequence[float]) -> tuple[float, int]:
    """The sum of the ranks of `first` among all, tied ones sharing their mean, and Σ(t³ − t) over groups of t ties."""
    ordered = sorted([(value, 1) for value in first] + [(value, 0) for value in second])
    rank_sum, ties, before = 0.0, 0, 0
    for _, group in groupby(ordered, key=lambda pair: pair[0]):
        members = [belongs for _, belongs in group]
        size = len(members)
        rank_sum += sum(members) * (before + (size + 1) / 2)
        ties += size**3 - size
        before += size
    return rank_sum, ties


LARGEST_DIFFERENCE = 0.05
"""Quartiles of both halves may differ by this share: pyperf's bound for Q1 and Q3, here for the median too."""

SIGNIFICANCE = 0.01
"""A difference counts when halves of one distribution would differ so only once in a hundred windows.

Without that, a latency with two modes or rare stalls would seldom be steady: its quartiles jump by themselves.
"""

FEWEST = 6
"""Smaller halves cannot differ significantly, whatever they hold: even 5 values below 5 others have p = 0.012."""

_QUARTILES = ("lower quartile", "median", "upper quartile")


def unsteadiness(first: Sequence[int], second: Sequence[int]) -> str:
    """What differs between two consecutive halves of latencies, in a few words; empty when they are alike.

    Halves of fewer than `FEWEST` latencies are judged by their quartiles alone.
    """
    if _begins_with_outlier(first):
        times = first[0] / statistics.median(first)
        return f"the first inference still took {times:{',.0f' if times >= 10 else '.2g'}} times the median"
    before, after = _quartiles(first), _quartiles(second)
    changes = [later / earlier - 1 if earlier else 0.0 for earlier, later in zip(before, after, strict=True)]
    largest = max(range(3), key=lambda index: abs(changes[index]))
    if abs(changes[largest]) <= LARGEST_DIFFERENCE:
        return ""
    moved = "rose" if changes[largest] > 0 else "fell"
    words = f"the {_QUARTILES[largest]} still {moved} by {100 * abs(changes[largest]):.0f} % between its two halves"
    if is_too_few(first, second):
        return f"too few inferences to tell ({len(first)} and {len(second)}): {words}"
    return words if mann_whitney_p(first, second) < SIGNIFICANCE else ""


def is_too_few(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether halves so small could not be told apart."""
    return min(len(first), len(second)) < FEWEST


def _begins_with_outlier(values: Sequence[int]) -> bool:
    """pyperf's rule (pyperf/_worker.py): the first value lies above Q3 + 1.5·IQR of the others.

    And by more than `LARGEST_DIFFERENCE` above the median, because the quartiles of a constant latency coincide.
    """
    if len(values) < FEWEST:
        return False
    lower, median, upper = _quartiles(values[1:])
    return values[0] > max(upper + 1.5 * (upper - lower), (1 + LARGEST_DIFFERENCE) * median)


def _quartiles(values: Sequence[int]) -> tuple[float, float, float]:
    if len(values) < 2:
        return (values[0],) * 3
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return lower, median, upper


FEWEST_OF_HALF = 2
"""Inferences of each request in half a window, however long they take."""

MOST_KEPT = 2048
"""Latencies looked at of half a window, so that neither memory nor the verdict grows with the speed of the engine."""

_STRETCH_NS = 250_000_000
_CAP_IN_WINDOWS = 10


@dataclass(frozen=True)
class WarmUpRule:
    """How long a window lasts and when to give up, in nanoseconds, and the fewest inferences of half a window."""

    window_ns: int
    max_ns: int
    fewest_of_half: int = FEWEST_OF_HALF


def warm_up_rule(stop: configuration_pb2.StopRule, requests: int) -> WarmUpRule:
    """The rule of a configuration with so many requests in flight."""
    cap_ns = stop.max_warmup_ns or _CAP_IN_WINDOWS * stop.warmup_ns
    return WarmUpRule(stop.warmup_ns, cap_ns, FEWEST_OF_HALF * requests)


def warm_up(
    load: TimedLoad, rule: WarmUpRule, report: ReportProgress, iterations: int = 0, pauses: Pauses | None = None
) -> WarmUp:
    """Run windows, each beginning in the middle of the one before, until one is steady or the time is up.

    `iterations` are inferences run before, which the outcome counts too; what `pauses` tell of takes no time. Where too
    few to tell fit into a window, its halves have as many as it takes; a model too slow even for that is undecided,
    which is no finding.
    """
    halves = _Halves(load, rule, report, iterations, pauses)
    first, second = halves.run(), halves.run()
    while (reason := unsteadiness(first, second)) and halves.elapsed_ns < rule.max_ns:
        first, second = second, halves.run(FEWEST if is_too_few(first, second) else 0)
    undecided = bool(reason) and is_too_few(first, second)
    return WarmUp(steady=not reason, iterations=halves.iterations, reason=reason, undecided=undecided)


class _Halves:
    """Runs half a window at a time, in stretches short enough to tell how far it has come."""

    def __init__(
        self, load: TimedLoad, rule: WarmUpRule, report: ReportProgress, iterations: int, pauses: Pauses | None
    ) -> None:
        self.elapsed_ns = 0
        self.iterations = iterations
        self._load = load
        self._rule = rule
        self._report = report
        self._pauses = pauses
        self._ran = 0

    def run(self, wanted: int = 0) -> list[int]:
        """Latencies of half a window; a fair selection where there are many.

        It is made longer until there are as many as `wanted`, or the warm-up takes as long as it may.
        """
        # To look at the half before was a pause, after which the first inference is slower; of few, one more is much.
        if self._ran >= FEWEST * self._rule.fewest_of_half:
            self._load.align()
        before = self.iterations
        latencies: list[int] = []
        missing_ns, missing = self._rule.window_ns // 2, self._rule.fewest_of_half
        while missing_ns > 0 or missing > 0 or (len(latencies) < wanted and self.elapsed_ns < self._rule.max_ns):
            block = self._load.block(min(missing_ns, _STRETCH_NS))
            latencies += _selection(block.latency_ns)
            paused_ns = self._pauses.total_ns(block.begin_ns, block.end_ns) if self._pauses else 0
            missing_ns = max(0, missing_ns - (block.duration_ns - paused_ns))
            missing -= len(block.latency_ns)
            self.iterations += len(block.latency_ns)
            self.elapsed_ns += block.duration_ns - paused_ns
            self._report(self.elapsed_ns, max(self.elapsed_ns, self._rule.window_ns), self.iterations)
        self._ran = self.iterations - before
        return _selection(latencies)


def _selection(values: Sequence[int]) -> list[int]:
    """At most `MOST_KEPT` of the values, evenly spread and in order."""
    size = min(len(values), MOST_KEPT)
    return [values[index * len(values) // size] for index in range(size)]
