"""The measurement: a model timed under its load, without layer counters."""

from collections.abc import Sequence

from enginebench_agent import convert
from enginebench_agent.worker.inputs import digest_inputs
from enginebench_agent.worker.job import Job
from enginebench_agent.worker.phases import PhaseRecorder
from enginebench_agent.worker.session import Session, SteadyState, open_session
from enginebench_agent.worker.timing import Limits, ReportProgress, Timings
from enginebench_proto.v1.configuration_pb2 import InputTensor, StopRule
from enginebench_proto.v1.measurement_pb2 import Measurement, OutputTensor


def open_and_measure(job: Job, recorder: PhaseRecorder, report: ReportProgress) -> tuple[Session, Measurement, Timings]:
    """Measure the model; returns the session, still open, so that a failure to release it costs no numbers."""
    session = open_session(job, recorder, job.settings.load, profiling=False)
    outputs = session.first_inference(recorder)
    session.warm_up(recorder, report)
    steady = session.steady_state(recorder, report, _limits(job.configuration.stop))
    return session, _to_measurement(session, steady, outputs), steady.timings


def _to_measurement(session: Session, steady: SteadyState, outputs: Sequence[OutputTensor]) -> Measurement:
    return Measurement(
        effective=session.effective(steady.threads),
        iterations=len(steady.timings.latency_ns),
        batch=session.job.settings.batch,
        steady_state_ns=steady.timings.wall_ns,
        cpu_time_ns=steady.cpu_time_ns,
        inputs=_inputs(session),
        input_set_sha256=digest_inputs(session.inputs),
        outputs=outputs,
    )


def _inputs(session: Session) -> list[InputTensor]:
    asked = {tensor.name: tensor for tensor in session.job.configuration.inputs}
    bounds = {name: each.integer_bound for name, each in asked.items() if each.HasField("integer_bound")}
    return [convert.to_tensor(tensor, bounds.get(tensor.name)) for tensor in session.compiled.inputs]


def _limits(stop: StopRule) -> Limits:
    return Limits(stop.min_duration_ns, stop.min_iterations, stop.max_duration_ns or None)
