"""One run from its specification to its outcome; whatever an engine does on the way becomes a typed failure."""

import traceback
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent.worker.assignment import Assignment, check_job, check_known, load_engine
from enginebench_agent.worker.failures import to_failure
from enginebench_agent.worker.keeper import Pauses
from enginebench_agent.worker.model_files import refuse_unconfined
from enginebench_agent.worker.phases import PhaseRecorder
from enginebench_agent.worker.pipe import Channel, Turns
from enginebench_proto.v1.measurement_pb2 import STOP_REASON_TARGET_MET
from enginebench_proto.v1.run_pb2 import (
    OUTCOME_FAILED,
    OUTCOME_INCONCLUSIVE,
    OUTCOME_OK,
    RUN_KIND_PEAKS,
    RUN_KIND_PROFILE,
    RunResult,
    RunSpec,
)


@dataclass(frozen=True)
class Place:
    """Where a run takes place: the model's main file, the folder of input files if any, the pipe for turns, and what a
    keeper tells of pauses.

    A calibration has a folder in place of the model's file, for the models it makes.
    """

    model_path: Path
    input_folder: Path | None = None
    turns_descriptor: int | None = None
    pauses: Pauses | None = None


def execute(spec: RunSpec, place: Place, channel: Channel) -> None:
    """Carry out one run and send its outcome, a failure included. Raises only for a broken channel."""
    recorder = PhaseRecorder(channel.phase, place.pauses)
    # Filled as the run goes on, so that a late failure keeps what is known.
    result = RunResult(run_id=spec.run_id, outcome=OUTCOME_OK)
    try:
        _carry_out(spec, place, channel, recorder, result)
    except BaseException as error:  # SystemExit and panics of native modules included
        traceback.print_exception(error)
        result.outcome = OUTCOME_FAILED
        result.failure.CopyFrom(to_failure(error, recorder.current, spec.engine, _model_name(spec, place)))
    _add_phases(result, recorder)
    channel.result(result)


def _carry_out(spec: RunSpec, place: Place, channel: Channel, recorder: PhaseRecorder, result: RunResult) -> None:
    check_known(spec)
    engine, info, devices = load_engine(spec)
    result.engine_version = info.version
    job = check_job(spec, place.model_path, engine, info, devices)
    if spec.kind == RUN_KIND_PEAKS:
        _calibrate(job, spec, place, channel, recorder, result)
        return
    refuse_unconfined(place.model_path, job.source.format, info.own_formats)
    if spec.kind == RUN_KIND_PROFILE:
        _profile(job, place, channel, recorder, result)
    else:
        _measure(job, spec.interleaving.members, place, channel, recorder, result)


# The modules below need NumPy, whose thread pool takes its size at import: only after the process is confined.


def _measure(
    job: Assignment, members: int, place: Place, channel: Channel, recorder: PhaseRecorder, result: RunResult
) -> None:
    from enginebench_agent.worker.measure import Surroundings, open_and_measure  # noqa: PLC0415

    descriptor = place.turns_descriptor
    turns = None if descriptor is None else Turns(descriptor, channel.turn_wanted, members)
    if turns is not None:
        turns.await_turn(unfinished=True)  # the first is for all that comes before the blocks
    around = Surroundings(recorder, channel, place.input_folder, turns, place.pauses)
    session = open_and_measure(job, around, result.measurement)
    if result.measurement.stop_reason != STOP_REASON_TARGET_MET:
        result.outcome = OUTCOME_INCONCLUSIVE
    session.close(recorder)


def _profile(job: Assignment, place: Place, channel: Channel, recorder: PhaseRecorder, result: RunResult) -> None:
    from enginebench_agent.worker.profile import profile  # noqa: PLC0415

    result.profile.CopyFrom(profile(job, place.input_folder, recorder, channel.progress))


def _calibrate(
    job: Assignment, spec: RunSpec, place: Place, channel: Channel, recorder: PhaseRecorder, result: RunResult
) -> None:
    from enginebench_agent.worker.peaks.calibration import calibrate  # noqa: PLC0415

    result.peaks.extend(calibrate(job, spec, place.model_path, recorder, channel.progress))


def _model_name(spec: RunSpec, place: Place) -> str:
    if spec.kind == RUN_KIND_PEAKS:
        return "its calibration"
    return spec.model.files[0].name if spec.model.files else place.model_path.name


def _add_phases(result: RunResult, recorder: PhaseRecorder) -> None:
    if result.HasField("measurement"):
        result.measurement.phases.extend(recorder.completed)
    if result.HasField("profile"):
        result.profile.phases.extend(recorder.completed)
