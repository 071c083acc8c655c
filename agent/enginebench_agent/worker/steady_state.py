"""The steady state: blocks under load, with evidence between them, until the stop rule is satisfied.

Where an engine has become slower and this has too, it was the machine. It never runs in a block nor while inferences
are in flight, and the inference that settles caches and threads comes after it.
"""

import gc
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from enginebench_agent.machine import this_process
from enginebench_agent.machine.disturbances import disturbances, to_message
from enginebench_agent.machine.evidence import EvidenceReader
from enginebench_agent.worker.loads.block import TimedBlock, TimedLoad, clock
from enginebench_agent.worker.phases import ReportProgress
from enginebench_agent.worker.pipe import SAMPLES_PER_PART, Channel, Turns
from enginebench_agent.worker.standstill import Pause, Standstill
from enginebench_agent.worker.stopping import Stopping
from enginebench_proto.v1.measurement_pb2 import (
    STOP_REASON_MAX_DURATION,
    STOP_REASON_UNSPECIFIED,
    Block,
    Evidence,
    Measurement,
    Samples,
    StopReason,
)

MOST_OF_THE_TIME = 0.05
"""Of the time of blocks, at most, the reference work takes."""

SIDE = 64
PRODUCTS = 48
"""Squares of 16 KB in a core's own cache: too small for libraries to use more than the calling thread, whose other
threads would go on spinning into the block. 25 million operations of float32."""

STREAM_BYTES = 2 << 20
"""Twice that, read and written, is more than most caches of a single core. It is held from the steady state on."""

UNSETTLED_NS = 130_000_000
"""A block of one inference is not settled by another; where that is shorter than this, caches that this work has used
would show in it."""

_SEED = 20_260_101


class ReferenceWork:
    """Does the work before a block where there is time for it, and tells what it took."""

    def __init__(self) -> None:
        generator = np.random.default_rng(_SEED)
        self._left = generator.standard_normal((SIDE, SIDE), dtype=np.float32)
        self._right = generator.standard_normal((SIDE, SIDE), dtype=np.float32)
        self._product = np.zeros((SIDE, SIDE), dtype=np.float32)
        self._source = np.ones(STREAM_BYTES // 4, dtype=np.float32)
        self._sink = np.zeros_like(self._source)
        self._spent_ns = 0
        self._blocks_ns = 0
        self._last: tuple[int, int] | None = None
        self._is_unsettled = False
        self._do()  # the library's own start belongs to no reading
        self._dear_ns = self._timed()
        self._last = None

    def before_block(self, length_ns: int) -> None:
        """Do it, unless it would then have taken more than its share of the blocks so far and the one to come."""
        allowed_ns = MOST_OF_THE_TIME * (self._blocks_ns + length_ns)
        if self._spent_ns + self._dear_ns <= allowed_ns and not self._is_unsettled:
            self._dear_ns = self._timed()
            self._spent_ns += self._dear_ns

    def after_block(self, duration_ns: int, iterations: int, evidence: Evidence) -> None:
        """Add what the work before this block took to its evidence; nothing where none was done."""
        self._blocks_ns += duration_ns
        self._is_unsettled = iterations == 1 and duration_ns < UNSETTLED_NS
        if self._last is not None:
            evidence.reference_product_ns, evidence.reference_stream_ns = self._last
        self._last = None

    def _timed(self) -> int:
        """Do it twice, as the first time finds in the caches what the engine left there; returns what both took."""
        begin = clock()
        self._do()
        self._last = self._do()
        return clock() - begin

    def _do(self) -> tuple[int, int]:
        left, right, product = self._left, self._right, self._product
        begin = clock()
        for _ in range(PRODUCTS):
            np.matmul(left, right, out=product)
        between = clock()
        np.multiply(self._source, np.float32(0.5), out=self._sink)
        return between - begin, clock() - between


@dataclass(frozen=True)
class BesideLoad:
    """What a steady state needs beside its load: where blocks go, what watches them, how long they are to be, who tells
    whether the process stood still, and the reference work between them.
    """

    channel: Channel
    evidence: EvidenceReader
    cores: int
    block_ns: int
    standstill: Standstill
    reference: ReferenceWork


class SteadyState:
    """Blocks are sent as they are measured and then forgotten; their sums go into `measurement`."""

    def __init__(
        self, load: TimedLoad, stopping: Stopping, bench: BesideLoad, measurement: Measurement, report: ReportProgress
    ) -> None:
        self._load = load
        self._stopping = stopping
        self._bench = bench
        self._measurement = measurement
        self._report = report
        self._begin_ns: int | None = None
        self._paused_ns = 0
        self._in_turn = False

    def run(self, turns: Turns | None) -> None:
        """Measure until the stop rule, or the agent that gives turns, ends it. Raises what an inference raises."""
        cpu_before_ns = this_process.process_cpu_time_ns()
        self._in_turn = turns is not None
        self._measurement.stop_reason = self._alone() if turns is None else self._in_turns(turns)
        if not self._measurement.HasField("cpu_time_ns"):
            self._measurement.cpu_time_ns = this_process.process_cpu_time_ns() - cpu_before_ns
        if (jump_ns := self._bench.standstill.clock_jump_ns()) is not None:
            self._measurement.clock_jump_ns = jump_ns

    def _alone(self) -> StopReason:
        if self._load.goes_on:
            self._align()
        while (reason := self._stopping.verdict()) == STOP_REASON_UNSPECIFIED:
            if not self._load.goes_on:
                self._align()
            self._take_in(self._load.block(self._length_ns()))
        maximum_ns = self._stopping.rule.max_duration_ns
        until_ns = None
        if maximum_ns is not None and self._begin_ns is not None:
            until_ns = self._begin_ns + maximum_ns + self._paused_ns
        for timed in self._load.remainder(self._bench.block_ns, until_ns):
            self._take_in(timed)
        return reason

    def _in_turns(self, turns: Turns) -> StopReason:
        """Each turn is a block of full length, so that those of the members can be compared one by one.

        A reason to stop stays one, though the median may become less certain in the turns that others still need.
        """
        reason: StopReason = STOP_REASON_UNSPECIFIED
        while turns.await_turn(unfinished=reason == STOP_REASON_UNSPECIFIED):
            self._bench.standstill.go_on()
            self._align()
            self._take_in(self._load.block(self._bench.block_ns, in_turn=True))
            self._load.drain()
            reason = reason or self._stopping.verdict()
        return reason or STOP_REASON_MAX_DURATION

    def _align(self) -> None:
        if self._in_turn or not self._load.goes_on:  # else inferences are in flight
            self._bench.reference.before_block(self._bench.block_ns)
        self._load.align()
        self._bench.standstill.begin()
        self._bench.evidence.begin()  # last, as the processor time of what goes before a block is not the block's

    def _length_ns(self) -> int:
        remaining_ns = self._stopping.remaining_ns()
        return self._bench.block_ns if remaining_ns is None else min(self._bench.block_ns, remaining_ns)

    def _take_in(self, timed: TimedBlock) -> None:
        """End the evidence of a block, begin that of the next one, and send the block on its way."""
        evidence = self._bench.evidence.end()
        self._bench.reference.after_block(timed.duration_ns, len(timed.latency_ns), evidence)
        found = self._bench.standstill.within(timed, evidence, goes_on=self._load.goes_on and not self._in_turn)
        self._bench.standstill.begin()
        self._bench.evidence.begin()
        if self._begin_ns is None:
            self._begin_ns = timed.begin_ns
        block = self._to_block(timed, evidence, found)
        self._paused_ns += found.lost_ns
        self._stopping.add(
            timed.latency_ns,
            timed.duration_ns - found.lost_ns,
            disturbed=bool(block.disturbances),
            paused=found.is_felt,
        )
        self._sum_up(block)
        self._bench.channel.block(block, timed.end_ns, to_samples(block.index, timed, self._begin_ns))
        self._report(self._stopping.elapsed_ns, self._stopping.expected_ns(), self._stopping.iterations)
        gc.collect()  # of what is new only: all else was set aside when the collector was paused

    def _to_block(self, timed: TimedBlock, evidence: Evidence, found: Pause) -> Block:
        bench = self._bench
        others = disturbances(evidence, timed.duration_ns, bench.cores, bench.evidence.highest_frequency_hz)
        disturbed_by = [*found.disturbances(), *others]
        return Block(
            index=self._measurement.blocks,
            begin_ns=timed.begin_ns - (self._begin_ns or 0),
            duration_ns=timed.duration_ns,
            iterations=len(timed.latency_ns),
            evidence=evidence,
            disturbances=map(str, disturbed_by),
            paused_ns=found.paused_ns,
            disturbed_by=map(to_message, disturbed_by),
        )

    def _sum_up(self, block: Block) -> None:
        total = self._measurement
        known = total.blocks == 0 or total.HasField("cpu_time_ns")
        if known and block.evidence.HasField("cpu_time_ns"):
            total.cpu_time_ns += block.evidence.cpu_time_ns
        else:
            total.ClearField("cpu_time_ns")
        total.blocks += 1
        total.iterations += block.iterations
        total.steady_state_ns += block.duration_ns


def to_samples(block: int, timed: TimedBlock, begin_ns: int) -> Iterator[Samples]:
    """The samples of a block in parts; `begin_ns` is when the steady state began, by the clock of the samples."""
    series = {
        "scheduled_ns": timed.scheduled_ns,
        "sent_ns": timed.sent_ns,
        "completed_ns": timed.completed_ns,
    }
    since_begin = {name: np.frombuffer(each, dtype=np.int64) - begin_ns for name, each in series.items() if each}
    for first in range(0, len(timed.latency_ns), SAMPLES_PER_PART):
        part = slice(first, first + SAMPLES_PER_PART)
        yield Samples(
            block=block,
            latency_ns=timed.latency_ns[part],
            **{name: values[part].tolist() for name, values in since_begin.items()},
        )
