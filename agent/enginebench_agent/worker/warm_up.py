"""The warm-up: inferences under load until two consecutive halves of a window are alike, or time is up."""

from collections.abc import Sequence
from dataclasses import dataclass

from enginebench_agent.worker.loads.block import TimedLoad
from enginebench_agent.worker.pauses import Pauses
from enginebench_agent.worker.progress import ReportProgress
from enginebench_agent.worker.verdicts.steadiness import FEWEST, is_too_few, unsteadiness
from enginebench_proto.v1 import configuration_pb2
from enginebench_proto.v1.measurement_pb2 import WarmUp

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

    def run(self, wanted: int = 0) -> list[int]:
        """Latencies of half a window; a fair selection where there are many.

        It is made longer until there are as many as `wanted`, or the warm-up takes as long as it may.
        """
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
        return _selection(latencies)


def _selection(values: Sequence[int]) -> list[int]:
    """At most `MOST_KEPT` of the values, evenly spread and in order."""
    size = min(len(values), MOST_KEPT)
    return [values[index * len(values) // size] for index in range(size)]
