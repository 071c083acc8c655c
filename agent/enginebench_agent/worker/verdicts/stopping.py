"""When a process has measured enough."""

import math
from array import array
from dataclasses import dataclass

from enginebench_agent.worker.verdicts.median_precision import MedianPrecision
from enginebench_proto.v1 import configuration_pb2
from enginebench_proto.v1.measurement_pb2 import (
    STOP_REASON_DISTURBED,
    STOP_REASON_MAX_DURATION,
    STOP_REASON_TARGET_MET,
    STOP_REASON_UNSPECIFIED,
    StopReason,
)

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
