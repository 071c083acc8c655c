"""Between a job and its runs: what the agent is asked to do, and what its answers say of one run."""

from dataclasses import replace

from enginebench_controller import convert
from enginebench_controller.expand import Job
from enginebench_controller.records import EngineRef, Failure, FailureKind, Measurement, Profile, Status, StopRule
from enginebench_proto.v1 import run_pb2


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


def failed(
    job: Job, benchmark_id: str, measurement_id: str, failure: Failure | None, status: Status = Status.FAILED
) -> Measurement:
    """A measurement without numbers."""
    return Measurement(
        id=measurement_id,
        benchmark_id=benchmark_id,
        target=job.target,
        engine=job.engine,
        model_digest=job.model.digest,
        model_name=job.model.name,
        configuration=job.configuration,
        status=status,
        failure=failure,
    )


def failure_of(result: run_pb2.RunResult) -> Failure | None:
    """Why a run has no numbers; None when it has."""
    return convert.from_failure(result.failure) if result.HasField("failure") else None


def agent_lost(job: Job, why: str) -> Failure:
    """The typed failure for a run whose agent went away."""
    return Failure(FailureKind.AGENT_LOST, f"target {job.target!r} was lost: {why}")


def profiled(job: Job, name: str, result: run_pb2.RunResult) -> Profile:
    """The profile an agent's result amounts to."""
    message = result.profile
    return Profile(
        id=result.run_id,
        name=name,
        target=job.target,
        engine=engine_of(job, result),
        model_digest=job.model.digest,
        model_name=job.model.name,
        configuration=job.configuration,
        status=status_of(result),
        created_at_unix_ns=result.started_at_unix_ns,
        failure=failure_of(result),
        effective=convert.from_effective(message.effective),
        iterations=message.iterations or None,
        profiled_latency_ns=message.profiled_latency_ns if message.HasField("profiled_latency_ns") else None,
        unprofiled_latency_ns=message.unprofiled_latency_ns or None,
        layers=tuple(convert.from_layer(layer) for layer in message.layers),
    )


def status_of(result: run_pb2.RunResult) -> Status:
    """How a run ended."""
    return convert.STATUSES.get(result.outcome, Status.FAILED)


def engine_of(job: Job, result: run_pb2.RunResult) -> EngineRef:
    """The engine with the version that really ran, where it got so far."""
    return replace(job.engine, version=result.engine_version or job.engine.version)
