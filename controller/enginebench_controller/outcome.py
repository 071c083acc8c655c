"""From what an agent answers to what the store keeps: one run's outcome as a measurement or a profile."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from enginebench_controller import convert
from enginebench_controller.expand import Job
from enginebench_controller.records import (
    EngineRef,
    Failure,
    FailureKind,
    Measurement,
    Profile,
    Status,
)
from enginebench_controller.stats.summary import summarize, throughput_items_per_s
from enginebench_proto.v1 import run_pb2


def run_spec(job: Job, run_id: str, kind: run_pb2.RunKind, timeout_ns: int) -> run_pb2.RunSpec:
    """What the agent is asked to do for one job."""
    return run_pb2.RunSpec(
        run_id=run_id,
        kind=kind,
        engine=job.engine.name,
        environment=job.engine.environment,
        model=convert.to_model(job.model),
        configuration=convert.to_configuration(job.configuration),
        timeout_ns=timeout_ns,
    )


def measured(job: Job, benchmark_id: str, result: run_pb2.RunResult, samples: Sequence[Any]) -> Measurement:
    """The measurement an agent's result and samples amount to."""
    blank = failed(job, benchmark_id, result.run_id, _failure(result), _status(result))
    started = replace(blank, started_at_unix_ns=result.started_at_unix_ns or None, engine=_engine(job, result))
    if not result.HasField("measurement"):
        return started
    message = result.measurement
    samples_ns = convert.from_samples(list(samples))
    timed = started.failure is None and len(samples_ns) > 0
    return replace(
        started,
        effective=convert.from_effective(message.effective),
        phases=convert.from_phases(message.phases),
        iterations=message.iterations or None,
        steady_state_ns=message.steady_state_ns or None,
        cpu_time_ns=message.cpu_time_ns if message.HasField("cpu_time_ns") else None,
        input_set_sha256=message.input_set_sha256 or None,
        latency=summarize(samples_ns) if timed else None,
        throughput_items_per_s=_throughput(message) if timed else None,
        samples_ns=samples_ns if timed else None,
    )


def failed(
    job: Job, benchmark_id: str, run_id: str, failure: Failure | None, status: Status = Status.FAILED
) -> Measurement:
    """A measurement without numbers."""
    return Measurement(
        id=run_id,
        benchmark_id=benchmark_id,
        target=job.target,
        engine=job.engine,
        model_digest=job.model.digest,
        model_name=job.model.name,
        configuration=job.configuration,
        status=status,
        failure=failure,
    )


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
        engine=_engine(job, result),
        model_digest=job.model.digest,
        model_name=job.model.name,
        configuration=job.configuration,
        status=_status(result),
        created_at_unix_ns=result.started_at_unix_ns,
        failure=_failure(result),
        effective=convert.from_effective(message.effective),
        iterations=message.iterations or None,
        profiled_latency_ns=message.profiled_latency_ns if message.HasField("profiled_latency_ns") else None,
        unprofiled_latency_ns=message.unprofiled_latency_ns or None,
        layers=tuple(convert.from_layer(layer) for layer in message.layers),
    )


def _status(result: run_pb2.RunResult) -> Status:
    return convert.STATUSES.get(result.outcome, Status.FAILED)


def _failure(result: run_pb2.RunResult) -> Failure | None:
    return convert.from_failure(result.failure) if result.HasField("failure") else None


def _engine(job: Job, result: run_pb2.RunResult) -> EngineRef:
    return replace(job.engine, version=result.engine_version or job.engine.version)


def _throughput(message: Any) -> float:
    return throughput_items_per_s(message.iterations, message.batch, message.steady_state_ns)
