"""Between a case and its runs: what is asked of the agent, what it answers, and processes merged into one."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from enginebench_controller import wire
from enginebench_controller.errors import DiskFullError, EnginebenchError
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import (
    Block,
    Configuration,
    EngineRef,
    Failure,
    FailureKind,
    InputTensor,
    LatencySummary,
    Measurement,
    PassOrder,
    Process,
    Profile,
    Status,
    StopReason,
    StopRule,
)
from enginebench_controller.records.figures import totals
from enginebench_controller.runs.sample_file import SampleFile
from enginebench_controller.stats.summary import drifts, process_medians, process_spread, summarize, throughput
from enginebench_proto.v1 import run_pb2
from enginebench_proto.v1.measurement_pb2 import Measurement as Told

_MOST_NAMED = 6
_MOST_FOUND = 64


def drawn_inputs(configuration: Configuration) -> str:
    """Which inputs have drawn integers, bools or single numbers, from what, and how to give others; "" for none."""
    said = {one.input for one in configuration.input_set.values}
    drawn = [] if configuration.input_set.items else [one for one in configuration.inputs if one.name not in said]
    ranges = {one.name: words for one in drawn if (words := _range(one))}
    if not ranges:
        return ""
    named = [f"{name} from {words}" for name, words in ranges.items()]
    more = f" and {len(named) - _MOST_NAMED} more" if len(named) > _MOST_NAMED else ""
    remedy = f"give one by --input {next(iter(ranges))}=VALUE, or all by --inputs FOLDER"
    return f"Values were drawn, which may be why: {', '.join(named[:_MOST_NAMED])}{more}; {remedy}"


def _range(tensor: InputTensor) -> str:
    """What was drawn from; "" for tensors of floating-point numbers, which models have to take as they come."""
    if tensor.dtype == "bool":
        return "false and true"
    if tensor.dtype.startswith(("float", "bfloat")):
        return "" if tensor.shape else "around 0"
    return "0 and 1" if tensor.integer_bound in {None, 2} else f"0 to {(tensor.integer_bound or 2) - 1}"


_MAY_FOLLOW_FROM_INPUTS = {FailureKind.INFERENCE_FAILED, FailureKind.CRASHED}
_FIRST_OF_EACH_INPUT = {"first_inference", "warm_up"}

RESTARTED = "it was restarted during each of {} attempts"


def run_spec(
    case: Case,
    run_id: str,
    kind: run_pb2.RunKind,
    timeout_ns: int,
    process: int = 0,
    interleaving: run_pb2.Interleaving | None = None,
) -> run_pb2.RunSpec:
    """What the agent is asked to do for one process of a case."""
    configuration = replace(case.configuration, stop=share_of_one_process(case.configuration.stop))
    return run_pb2.RunSpec(
        run_id=run_id,
        kind=kind,
        engine=case.engine.name,
        environment=case.engine.environment,
        model=wire.to_model(case.model),
        configuration=wire.to_configuration(configuration, process),
        timeout_ns=timeout_ns,
        interleaving=interleaving,
    )


def share_of_one_process(rule: StopRule) -> StopRule:
    """What each process has to do, so that all of them together keep the rule of the measurement."""
    return replace(
        rule,
        min_duration_ns=rule.min_duration_ns // rule.processes,
        min_iterations=-(-rule.min_iterations // rule.processes),
        max_duration_ns=rule.max_duration_ns // rule.processes,
        processes=1,
    )


def without_numbers(
    case: Case, benchmark_id: str, measurement_id: str, failure: Failure | None, status: Status | None = None
) -> Measurement:
    """A measurement without numbers: one whose numbers are still to come, or a failure, which its status follows."""
    return Measurement(
        id=measurement_id,
        benchmark_id=benchmark_id,
        target=case.target,
        engine=case.engine,
        model_digest=case.model.digest,
        model_name=case.model.name,
        configuration=case.configuration,
        status=status or _status_of_failure(failure),
        failure=failure,
    )


def failure_of(case: Case, result: run_pb2.RunResult) -> Failure | None:
    """Why a run has no numbers; None when it has. Drawn inputs that may be the reason are named."""
    if result.HasField("failure"):
        failure = wire.from_failure(result.failure)
        may_follow = failure.kind in _MAY_FOLLOW_FROM_INPUTS and failure.phase in _FIRST_OF_EACH_INPUT
        drawn = drawn_inputs(case.configuration) if may_follow else ""
        return replace(failure, message=f"{failure.message.rstrip('.')}. {drawn}") if drawn else failure
    if result.outcome not in run_pb2.Outcome.values():
        return Failure(
            FailureKind.INTERNAL, "the agent is newer and ended the run in a way unknown here: upgrade enginebench here"
        )
    return None


def agent_lost(case: Case, why: str) -> Failure:
    """The typed failure for a run whose agent went away."""
    return Failure(FailureKind.AGENT_LOST, f"target {case.target!r} was lost: {why}")


def not_taken(error: EnginebenchError) -> Failure:
    """What a target did not take in or begin: for want of room, which says nothing of the case, or at all."""
    kind = FailureKind.SHORTAGE if isinstance(error, DiskFullError) else FailureKind.REFUSED
    return Failure(kind, str(error))


def profiled(case: Case, order: PassOrder, profile_id: str, result: run_pb2.RunResult) -> Profile:
    """The profile an agent's result amounts to, not matched to the model's graph yet."""
    message = result.profile
    return replace(
        unprofiled(case, order, profile_id, failure_of(case, result)),
        engine=engine_of(case, result),
        status=status_of(result),
        created_at_unix_ns=result.started_at_unix_ns or order.created_at_unix_ns,
        effective=wire.from_effective(message.effective),
        iterations=message.iterations or None,
        profiled_latency_ns=message.profiled_latency_ns if message.HasField("profiled_latency_ns") else None,
        unprofiled_latency_ns=message.unprofiled_latency_ns or None,
        layers=tuple(wire.from_layer(layer) for layer in message.layers),
        phases=wire.from_phases(message.phases),
        bystanders=wire.from_bystanders(message.bystanders) if message.HasField("bystanders") else None,
    )


def unprofiled(case: Case, order: PassOrder, profile_id: str, failure: Failure | None) -> Profile:
    """A profile without layers."""
    return Profile(
        id=profile_id,
        name=order.name or case.model.name,
        target=case.target,
        engine=case.engine,
        model_digest=case.model.digest,
        model_name=case.model.name,
        configuration=case.configuration,
        status=_status_of_failure(failure),
        created_at_unix_ns=order.created_at_unix_ns,
        failure=failure,
        model_size_bytes=case.model.size_bytes,
        host=order.hosts[case.target],
        plan=order.plan,
        order_id=order.id,
    )


def status_of(result: run_pb2.RunResult) -> Status:
    """How a run ended."""
    return wire.from_outcome(result.outcome)


def engine_of(case: Case, result: run_pb2.RunResult) -> EngineRef:
    """The engine with the version that really ran, where it got so far."""
    return replace(case.engine, version=wire.short(result.engine_version) or case.engine.version)


def _status_of_failure(failure: Failure | None) -> Status:
    return Status.CANCELLED if failure and failure.kind is FailureKind.CANCELLED else Status.FAILED


BlockKey = tuple[int, int]
"""Process and index of a block."""


def merge(
    case: Case,
    benchmark_id: str,
    measurement_id: str,
    results: Sequence[run_pb2.RunResult],
    samples: SampleFile,
    interleaving_group: str | None = None,
) -> Measurement:
    """The measurement that the results of its processes, in their order and at least one, amount to.

    The first process that failed makes the whole a failure, and so do two versions of the engine; without these there
    are numbers. Fewer processes than the rule asks for are never conclusive. Goes through the samples several times,
    so it takes a while for many.
    """
    begun = _begun(case, benchmark_id, measurement_id, results)
    begun = replace(begun, interleaving_group=interleaving_group)
    if begun.failure is not None:
        return begun
    if not any(block.iterations for block in samples.blocks):
        return replace(begun, status=Status.FAILED, failure=_nothing_came(case))
    return _with_numbers(begun, samples)


def _begun(case: Case, benchmark_id: str, measurement_id: str, results: Sequence[run_pb2.RunResult]) -> Measurement:
    """What is known of a measurement without its samples: how it ended, and what its processes did."""
    failure, status = _ending(case, results)
    first, processes = results[0], tuple(wire.from_process(index, result) for index, result in enumerate(results))
    return replace(
        without_numbers(case, benchmark_id, measurement_id, failure, status),
        configuration=_with_found_inputs(case.configuration, first.measurement),
        started_at_unix_ns=processes[0].started_at_unix_ns,
        engine=engine_of(case, first),
        effective=processes[0].effective,
        phases=processes[0].phases,
        processes=processes,
        **totals(Measurement, processes),
        input_set_sha256=first.measurement.input_set_sha256 or None,
        captured_outputs=tuple(map(wire.from_captured_output, first.measurement.captured_outputs)),
    )


def _with_found_inputs(configuration: Configuration, told: Told) -> Configuration:
    """The configuration with the inputs that an engine found in a file which only it reads."""
    asked = {one.name: one for one in configuration.inputs}
    if len(told.inputs) <= len(asked):
        return configuration
    found = [wire.from_input(one) for one in told.inputs[:_MOST_FOUND]]
    inputs = (asked.get(one.name) or _with_axis(one, configuration.batch) for one in found)
    return replace(configuration, inputs=tuple(inputs))


def _with_axis(found: InputTensor, batch: int) -> InputTensor:
    return replace(found, batch_axis=0 if found.shape[:1] == (batch,) else None)


def _ending(case: Case, results: Sequence[run_pb2.RunResult]) -> tuple[Failure | None, Status]:
    for index, result in enumerate(results):
        if (failure := failure_of(case, result)) is not None:
            which = f"process {index + 1} of {case.configuration.stop.processes}: " if index else ""
            return replace(failure, message=which + failure.message), status_of(result)
    versions = [engine_of(case, result).version for result in results]
    other = next((index for index, version in enumerate(versions) if version != versions[0]), None)
    if other is not None:  # pip ran meanwhile, or before the rest was gone on with
        message = f"the engine was {versions[0]} in process 1 and {versions[other]} in process {other + 1}"
        return Failure(FailureKind.REFUSED, f"{message}: measure it again"), Status.FAILED
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


def _nothing_came(case: Case) -> Failure:
    return Failure(FailureKind.INTERNAL, f"target {case.target!r} sent a result without samples; see its log")
