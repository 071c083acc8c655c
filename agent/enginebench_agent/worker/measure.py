"""The measurement: a model timed under its load, without layer counters."""

import threading
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent import wire
from enginebench_agent.machine import this_process
from enginebench_agent.machine.evidence import EvidenceReader
from enginebench_agent.machine.meters import Metered
from enginebench_agent.worker import phases
from enginebench_agent.worker.afterwards import look_afterwards
from enginebench_agent.worker.assignment import Assignment
from enginebench_agent.worker.inputs import digest_inputs
from enginebench_agent.worker.keeper import Pauses
from enginebench_agent.worker.loads.block import TimedLoad
from enginebench_agent.worker.loads.closed import closed_load, open_loop
from enginebench_agent.worker.loads.open_loop import OpenLoop
from enginebench_agent.worker.outputs import run_each_input
from enginebench_agent.worker.overhead import collector_paused, cost_of_measuring
from enginebench_agent.worker.phases import TIMED_PERIOD_NS, PhaseRecorder, a_few_times_a_second
from enginebench_agent.worker.pipe import Channel, Turns
from enginebench_agent.worker.session import Session, open_session
from enginebench_agent.worker.standstill import Standstill
from enginebench_agent.worker.steady_state import BesideLoad, ReferenceWork, SteadyState
from enginebench_agent.worker.stopping import Stopping, from_stop_rule
from enginebench_agent.worker.warm_up import warm_up, warm_up_rule
from enginebench_plugins.spec import Load
from enginebench_proto.agreed.overload import is_overload
from enginebench_proto.agreed.words import PROCESSOR
from enginebench_proto.v1.configuration_pb2 import InputTensor
from enginebench_proto.v1.measurement_pb2 import STOP_REASON_MAX_DURATION, Measurement


@dataclass(frozen=True)
class Surroundings:
    """What a measurement has beside its job: where it reports to, its input files, whose turn it is, and its pauses."""

    recorder: PhaseRecorder
    channel: Channel
    input_folder: Path | None = None
    turns: Turns | None = None
    pauses: Pauses | None = None


def open_and_measure(job: Assignment, around: Surroundings, measurement: Measurement) -> Session:
    """Measure the model; returns the session, still open, so that a failure to release it costs no numbers.

    `measurement` stays empty until the first block is sent; a later error leaves it with what is known by then.
    """
    session = open_session(job, around.recorder, job.settings.load, around.input_folder, profiling=False)
    known = Measurement(batch=job.settings.batch, inputs=_inputs(session))
    known.input_set_sha256 = digest_inputs(session.inputs)
    known.outputs.extend(session.first_inference(around.recorder))
    known.calibration.CopyFrom(cost_of_measuring(job.configuration.stop))
    load = closed_load(job.settings.load, session.requests, session.inputs)
    try:
        with collector_paused(), closing(load):
            _warm_up(session, load, around, known)
            threads = _steady_state(session, load, around, measurement, known.calibration.block_ns)
            timed_ns = measurement.steady_state_ns
            latency_ns = timed_ns / max(measurement.iterations, 1)
            known.afterwards.CopyFrom(look_afterwards(session, known.captured_outputs, latency_ns, timed_ns))
        known.effective.CopyFrom(session.effective(threads))
        if (written := this_process.written_bytes()) is not None:
            known.written_bytes = written
    finally:
        if measurement.blocks:
            measurement.MergeFrom(known)
    return session


def _warm_up(session: Session, load: TimedLoad, around: Surroundings, known: Measurement) -> None:
    job = session.job
    with around.recorder.phase(phases.WARM_UP):
        outputs, iterations = run_each_input(job.settings.load, session.requests, session.inputs)
        known.captured_outputs.extend(outputs)
        rule = warm_up_rule(job.configuration.stop, len(session.requests))
        report = a_few_times_a_second(around.channel.progress)
        known.warm_up.CopyFrom(warm_up(load, rule, report, iterations, around.pauses))


def _steady_state(
    session: Session, warm: TimedLoad, around: Surroundings, measurement: Measurement, block_ns: int
) -> int | None:
    """Fill `measurement` from the blocks; returns how many threads did the work, as far as the kernel tells.

    A closed load goes on from the warm-up; an open loop takes its place, since a queue that grows is never steady.
    """
    job, open_load = session.job, open_loop(session.job.configuration, session.requests, session.inputs)
    if open_load is not None or around.turns is not None:
        warm.close()
    standstill = Standstill(around.pauses, job.settings.cores)
    on_processor = tuple(job.device.resources) == (PROCESSOR,)  # what may choose another device, too, may be on that
    metered = Metered(on_processor, paced=open_load is not None)
    bench = BesideLoad(
        around.channel,
        EvidenceReader(this_process.affinity(), metered=metered),
        job.settings.cores,
        block_ns,
        standstill,
        ReferenceWork(),
    )
    stopping = Stopping(from_stop_rule(job.configuration.stop))
    sharing = 1 if around.turns is None else around.turns.members
    report = a_few_times_a_second(around.channel.progress, sharing * TIMED_PERIOD_NS)
    with around.recorder.phase(phases.STEADY_STATE), closing(open_load or warm) as load:
        threads_before = this_process.thread_times_ns()
        SteadyState(load, stopping, bench, measurement, report).run(around.turns)
        ours = [] if job.settings.load is Load.SYNC else [threading.get_native_id()]
        ours += [open_load.sender_id] if open_load is not None and open_load.sender_id is not None else []
        threads = this_process.working_threads(threads_before, this_process.thread_times_ns(), ours)
    if open_load is not None:
        _count_arrivals(open_load, measurement)
    return threads


def _count_arrivals(load: OpenLoop, measurement: Measurement) -> None:
    measurement.scheduled_arrivals = load.scheduled
    measurement.unsent_arrivals = load.unsent + load.late
    if is_overload(measurement.unsent_arrivals, load.scheduled):  # latencies follow how long it went on
        measurement.stop_reason = STOP_REASON_MAX_DURATION


def _inputs(session: Session) -> list[InputTensor]:
    asked = {tensor.name: tensor for tensor in session.job.configuration.inputs}
    bounds = {name: each.integer_bound for name, each in asked.items() if each.HasField("integer_bound")}
    return [wire.to_tensor(tensor, bounds.get(tensor.name)) for tensor in session.compiled.inputs]
