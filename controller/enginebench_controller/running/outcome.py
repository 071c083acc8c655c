"""Between a job and its runs: what the agent is asked to do, and what its answers say of one run."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from enginebench_controller import convert
from enginebench_controller.planning.expand import Job
from enginebench_controller.records import (
    EngineRef,
    Failure,
    FailureKind,
    Measurement,
    Profile,
    Status,
    StopRule,
)
from enginebench_controller.trust.drawn_inputs import drawn_inputs
from enginebench_proto.v1 import run_pb2

_MAY_FOLLOW_FROM_INPUTS = {FailureKind.INFERENCE_FAILED, FailureKind.CRASHED}
_FIRST_OF_EACH_INPUT = {"first_inference", "warm_up"}

RESTARTED = "it was restarted during each of {} attempts"


@dataclass(frozen=True)
class PassOrder:
    """What the profiles of one command have in common; `hosts` has the facts of each target's machine by its name."""

    id: str
    name: str | None
    created_at_unix_ns: int
    plan: Mapping[str, Any]
    hosts: Mapping[str, Mapping[str, Any]]


def run_spec(
    job: Job,
    run_id: str,
    kind: run_pb2.RunKind,
    timeout_ns: int,
    process: int = 0,
    interleaving: run_pb2.Interleaving | None = None,
) -> run_pb2.RunSpec:
    """What the agent is asked to do for one process of a job."""
    configuration = replace(job.configuration, stop=share_of_one_process(job.configuration.stop))
    return run_pb2.RunSpec(
        run_id=run_id,
        kind=kind,
        engine=job.engine.name,
        environment=job.engine.environment,
        model=convert.to_model(job.model),
        configuration=convert.to_configuration(configuration, process),
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
    job: Job, benchmark_id: str, measurement_id: str, failure: Failure | None, status: Status | None = None
) -> Measurement:
    """A measurement without numbers: one whose numbers are still to come, or a failure, which its status follows."""
    return Measurement(
        id=measurement_id,
        benchmark_id=benchmark_id,
        target=job.target,
        engine=job.engine,
        model_digest=job.model.digest,
        model_name=job.model.name,
        configuration=job.configuration,
        status=status or _status_of_failure(failure),
        failure=failure,
    )


def failure_of(job: Job, result: run_pb2.RunResult) -> Failure | None:
    """Why a run has no numbers; None when it has. Drawn inputs that may be the reason are named."""
    if result.HasField("failure"):
        failure = convert.from_failure(result.failure)
        may_follow = failure.kind in _MAY_FOLLOW_FROM_INPUTS and failure.phase in _FIRST_OF_EACH_INPUT
        drawn = drawn_inputs(job.configuration) if may_follow else ""
        return replace(failure, message=f"{failure.message.rstrip('.')}. {drawn}") if drawn else failure
    if result.outcome not in run_pb2.Outcome.values():
        return Failure(
            FailureKind.INTERNAL, "the agent is newer and ended the run in a way unknown here: upgrade enginebench here"
        )
    return None


def agent_lost(job: Job, why: str) -> Failure:
    """The typed failure for a run whose agent went away."""
    return Failure(FailureKind.AGENT_LOST, f"target {job.target!r} was lost: {why}")


def profiled(job: Job, order: PassOrder, profile_id: str, result: run_pb2.RunResult) -> Profile:
    """The profile an agent's result amounts to, not matched to the model's graph yet."""
    message = result.profile
    return replace(
        unprofiled(job, order, profile_id, failure_of(job, result)),
        engine=engine_of(job, result),
        status=status_of(result),
        created_at_unix_ns=result.started_at_unix_ns or order.created_at_unix_ns,
        effective=convert.from_effective(message.effective),
        iterations=message.iterations or None,
        profiled_latency_ns=message.profiled_latency_ns if message.HasField("profiled_latency_ns") else None,
        unprofiled_latency_ns=message.unprofiled_latency_ns or None,
        layers=tuple(convert.from_layer(layer) for layer in message.layers),
        phases=convert.from_phases(message.phases),
    )


def unprofiled(job: Job, order: PassOrder, profile_id: str, failure: Failure | None) -> Profile:
    """A profile without layers."""
    return Profile(
        id=profile_id,
        name=order.name or job.model.name,
        target=job.target,
        engine=job.engine,
        model_digest=job.model.digest,
        model_name=job.model.name,
        configuration=job.configuration,
        status=_status_of_failure(failure),
        created_at_unix_ns=order.created_at_unix_ns,
        failure=failure,
        model_size_bytes=job.model.size_bytes,
        host=order.hosts[job.target],
        plan=order.plan,
        order_id=order.id,
    )


def status_of(result: run_pb2.RunResult) -> Status:
    """How a run ended."""
    return convert.from_outcome(result.outcome)


def engine_of(job: Job, result: run_pb2.RunResult) -> EngineRef:
    """The engine with the version that really ran, where it got so far."""
    return replace(job.engine, version=convert.short(result.engine_version) or job.engine.version)


def _status_of_failure(failure: Failure | None) -> Status:
    return Status.CANCELLED if failure and failure.kind is FailureKind.CANCELLED else Status.FAILED
