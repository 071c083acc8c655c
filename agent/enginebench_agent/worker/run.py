"""One run from its specification to its outcome; whatever an engine does on the way becomes a typed failure."""

import traceback
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from enginebench_agent.worker.channel import Channel
from enginebench_agent.worker.failures import to_failure
from enginebench_agent.worker.job import Job, check_job, load_engine
from enginebench_agent.worker.phases import PhaseRecorder
from enginebench_proto.v1.run_pb2 import (
    OUTCOME_FAILED,
    OUTCOME_INCONCLUSIVE,
    OUTCOME_OK,
    RUN_KIND_PROFILE,
    RunResult,
    RunSpec,
)


@dataclass
class Report:
    """What will be sent; filled as the run goes on, so that a late failure keeps what is known."""

    result: RunResult
    samples_ns: Sequence[int] = field(default_factory=lambda: array("q"))


def execute(spec: RunSpec, model_path: Path, channel: Channel) -> None:
    """Carry out one run and send its outcome, a failure included. Raises only for a broken channel."""
    recorder = PhaseRecorder(channel.phase)
    report = Report(RunResult(run_id=spec.run_id, outcome=OUTCOME_OK))
    try:
        _carry_out(spec, model_path, channel, recorder, report)
    except BaseException as error:  # SystemExit and panics of native modules included
        traceback.print_exception(error)
        report.result.outcome = OUTCOME_FAILED
        model = spec.model.files[0].name if spec.model.files else model_path.name
        report.result.failure.CopyFrom(to_failure(error, recorder.current, spec.engine, model))
    _add_phases(report.result, recorder)
    channel.result(report.result, report.samples_ns)


def _carry_out(spec: RunSpec, model_path: Path, channel: Channel, recorder: PhaseRecorder, report: Report) -> None:
    engine, info, devices = load_engine(spec)
    report.result.engine_version = info.version
    job = check_job(spec, model_path, engine, info, devices)
    if spec.kind == RUN_KIND_PROFILE:
        _profile(job, channel, recorder, report)
    else:
        _measure(job, channel, recorder, report)


# The two modules below need NumPy, whose thread pool takes its size at import: only after the process is confined.


def _measure(job: Job, channel: Channel, recorder: PhaseRecorder, report: Report) -> None:
    from enginebench_agent.worker.measure import open_and_measure  # noqa: PLC0415

    session, measurement, timings = open_and_measure(job, recorder, channel.progress)
    report.result.measurement.CopyFrom(measurement)
    report.samples_ns = timings.latency_ns
    if not timings.conclusive:
        report.result.outcome = OUTCOME_INCONCLUSIVE
    session.close(recorder)


def _profile(job: Job, channel: Channel, recorder: PhaseRecorder, report: Report) -> None:
    from enginebench_agent.worker.profile import profile  # noqa: PLC0415

    report.result.profile.CopyFrom(profile(job, recorder, channel.progress))


def _add_phases(result: RunResult, recorder: PhaseRecorder) -> None:
    if result.HasField("measurement"):
        result.measurement.phases.extend(recorder.completed)
    if result.HasField("profile"):
        result.profile.phases.extend(recorder.completed)
