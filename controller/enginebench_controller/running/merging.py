"""The results of a measurement's fresh processes merged into one measurement."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from enginebench_controller import convert
from enginebench_controller.planning.expand import Job
from enginebench_controller.records import (
    Block,
    Failure,
    FailureKind,
    LatencySummary,
    Measurement,
    Process,
    Status,
    StopReason,
    StopRule,
)
from enginebench_controller.running import outcome
from enginebench_controller.running.sample_file import SampleFile
from enginebench_controller.stats.drift import drifts
from enginebench_controller.stats.summary import process_medians, process_spread, summarize, throughput
from enginebench_proto.v1 import run_pb2

BlockKey = tuple[int, int]
"""Process and index of a block."""


def merge(
    job: Job,
    benchmark_id: str,
    measurement_id: str,
    results: Sequence[run_pb2.RunResult],
    samples: SampleFile,
    interleaving_group: str | None = None,
) -> Measurement:
    """The measurement that the results of its processes, in their order and at least one, amount to.

    The first process that failed makes the whole a failure; without one there are numbers. Fewer processes than the
    rule asks for are never conclusive. Goes through the samples several times, so it takes a while for many.
    """
    begun = _begun(job, benchmark_id, measurement_id, results)
    begun = replace(begun, interleaving_group=interleaving_group)
    if begun.failure is not None:
        return begun
    if not any(block.iterations for block in samples.blocks):
        return replace(begun, status=Status.FAILED, failure=_nothing_came(job))
    return _with_numbers(begun, samples)


def _begun(job: Job, benchmark_id: str, measurement_id: str, results: Sequence[run_pb2.RunResult]) -> Measurement:
    """What is known of a measurement without its samples: how it ended, and what its processes did."""
    failure, status = _ending(job, results)
    first, processes = results[0], tuple(convert.from_process(index, result) for index, result in enumerate(results))
    return replace(
        outcome.without_numbers(job, benchmark_id, measurement_id, failure, status),
        started_at_unix_ns=processes[0].started_at_unix_ns,
        engine=outcome.engine_of(job, first),
        effective=processes[0].effective,
        phases=processes[0].phases,
        processes=processes,
        iterations=_total([process.iterations for process in processes]),
        steady_state_ns=_total([process.steady_state_ns for process in processes]),
        cpu_time_ns=_total([process.cpu_time_ns for process in processes]),
        input_set_sha256=first.measurement.input_set_sha256 or None,
        captured_outputs=tuple(map(convert.from_captured_output, first.measurement.captured_outputs)),
    )


def _ending(job: Job, results: Sequence[run_pb2.RunResult]) -> tuple[Failure | None, Status]:
    for index, result in enumerate(results):
        if (failure := outcome.failure_of(job, result)) is not None:
            which = f"process {index + 1} of {job.configuration.stop.processes}: " if index else ""
            return replace(failure, message=which + failure.message), outcome.status_of(result)
    return None, Status.OK


def _with_numbers(begun: Measurement, samples: SampleFile) -> Measurement:
    rule, batch = begun.configuration.stop, begun.configuration.batch
    blocks = samples.blocks
    paused, noisy = _paused(blocks), _measured_again(rule, blocks)
    excluded = next((each for each in (paused | noisy, paused) if _leaves_something(each, blocks)), frozenset())
    latency, medians = summarize(samples, excluded), process_medians(samples, excluded)
    drifted = drifts(samples, excluded)
    rate, rate_interval = throughput(blocks, batch, excluded)
    counted = sum(block.iterations for block in blocks if (block.process, block.index) not in paused | noisy)
    return replace(
        begun,
        status=_verdict(rule, begun.processes, latency, counted),
        processes=tuple(
            replace(_with_medians(process, medians, blocks, batch, excluded), drift=drifted.get(process.index))
            for process in begun.processes
        ),
        blocks=blocks,
        latency=latency,
        throughput_items_per_s=rate,
        throughput_interval=rate_interval,
        process_spread=process_spread(medians),
    )


def _with_medians(
    process: Process, medians: dict[int, float], blocks: Sequence[Block], batch: int, excluded: Collection[BlockKey]
) -> Process:
    own = [block for block in blocks if block.process == process.index]
    rate = throughput(own, batch, excluded)[0] if process.index in medians else None
    return replace(process, median_ns=medians.get(process.index), throughput_items_per_s=rate)


def _paused(blocks: Sequence[Block]) -> frozenset[BlockKey]:
    """The blocks in which a process stood still: their times are not the engine's."""
    return frozenset((block.process, block.index) for block in blocks if block.paused_ns)


def _measured_again(rule: StopRule, blocks: Sequence[Block]) -> frozenset[BlockKey]:
    """The disturbed blocks, where they were to be measured again."""
    noisy = frozenset((block.process, block.index) for block in blocks if block.disturbances)
    return noisy if rule.retry_noisy else frozenset()


def _leaves_something(noisy: Collection[BlockKey], blocks: Sequence[Block]) -> bool:
    """Whether every process has a quiet block: disturbed numbers are better than none."""
    quiet = {block.process for block in blocks if block.iterations and (block.process, block.index) not in noisy}
    return quiet == {block.process for block in blocks}


def _verdict(rule: StopRule, processes: Sequence[Process], latency: LatencySummary, counted: int) -> Status:
    """Whether the numbers are as sure as was asked for.

    A single process decides for itself; of several, the interval over all of them does.
    """
    if len(processes) < rule.processes:
        return Status.INCONCLUSIVE
    if rule.processes == 1 or not rule.target_relative_half_width:
        met = all(process.stop_reason is StopReason.TARGET_MET for process in processes)
    else:
        half_width = latency.median_relative_half_width
        close = half_width is not None and half_width <= rule.target_relative_half_width
        met = close and counted >= rule.min_iterations
    return Status.OK if met else Status.INCONCLUSIVE


def _nothing_came(job: Job) -> Failure:
    return Failure(FailureKind.INTERNAL, f"target {job.target!r} sent a result without samples; see its log")


def _total(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None
