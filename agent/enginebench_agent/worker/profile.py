"""The profile pass: the model first without the engine's layer counters, then again with them.

Both passes go from reading to releasing the model in one process, because `compile` may consume what `read` returned.
Latencies of both are medians over as many inferences of one request; those with counters are the very inferences that
the layers were timed in, as the plugin clocked them.
"""

import math
import operator
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent import convert
from enginebench_agent.worker import observe, phases
from enginebench_agent.worker.calibration import collector_paused
from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_agent.worker.job import Job
from enginebench_agent.worker.loads.synchronous import SyncLoad
from enginebench_agent.worker.phases import PhaseRecorder
from enginebench_agent.worker.progress import ReportProgress, a_few_times_a_second
from enginebench_agent.worker.session import Session, open_session
from enginebench_agent.worker.warm_up import warm_up, warm_up_rule
from enginebench_plugins.spec import LayerProfile, LayerState, Load, ModelProfile
from enginebench_proto.v1.profile_pb2 import Profile

DEFAULT_ITERATIONS = 20


@dataclass(frozen=True)
class _Unprofiled:
    """Latencies without counters, and how many threads worked meanwhile, as far as the kernel tells."""

    latency_ns: Sequence[int]
    threads: int | None


def profile(job: Job, input_folder: Path | None, recorder: PhaseRecorder, report: ReportProgress) -> Profile:
    """Profile the model's layers. Raises what the engine raises, and `BrokenOutputError` for impossible layers."""
    iterations = job.configuration.stop.min_iterations or DEFAULT_ITERATIONS
    session = _warm_session(job, input_folder, recorder, report, profiling=False)
    unprofiled = _time(session, recorder, iterations)
    session.close(recorder)

    session = _warm_session(job, input_folder, recorder, report, profiling=True)
    profiled = session.compiled.profile(session.inputs, iterations)
    check_profile(profiled, iterations)
    outcome = Profile(
        effective=session.effective(unprofiled.threads),
        iterations=iterations,
        profiled_latency_ns=_median_ns(profiled.latency_ns) if profiled.latency_ns else None,
        unprofiled_latency_ns=_median_ns(unprofiled.latency_ns),
        layers=[convert.to_layer(layer) for layer in profiled.layers],
    )
    session.close(recorder)
    return outcome


def check_profile(profile: ModelProfile, iterations: int) -> None:
    """Raise `BrokenOutputError` unless every layer has a name of its own and there is a time for each iteration."""
    if not isinstance(profile, ModelProfile):
        raise BrokenOutputError(f"profile() returned {type(profile).__name__} instead of a ModelProfile")
    if len(profile.latency_ns) not in (0, iterations):
        raise BrokenOutputError(f"profile() returned {len(profile.latency_ns)} latencies for {iterations} iterations")
    _check_times("the inferences", profile.latency_ns)
    check_layers(profile.layers, iterations)


def check_layers(layers: Sequence[LayerProfile], iterations: int) -> None:
    """Raise `BrokenOutputError` unless every layer has a name of its own and a time for each iteration."""
    if not layers:
        raise BrokenOutputError("profile() returned no layers")
    names = [layer.name for layer in layers]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BrokenOutputError(f"profile() returned two layers named '{twice}'")
    for layer in layers:
        expected = iterations if layer.state is LayerState.EXECUTED else 0
        if len(layer.time_ns) != expected:
            raise BrokenOutputError(
                f"profile() returned {len(layer.time_ns)} times for the layer '{layer.name}' "
                f"({layer.state}) in {iterations} iterations; {expected} belong to it"
            )
        _check_times(f"the layer '{layer.name}'", layer.time_ns)


def _check_times(what: str, times_ns: Sequence[int]) -> None:
    for time_ns in times_ns:
        if math.isnan(time_ns) or time_ns < 0:
            raise BrokenOutputError(f"profile() returned the time {time_ns} ns for {what}")
        try:
            operator.index(time_ns)
        except TypeError:
            raise BrokenOutputError(
                f"profile() returned {time_ns} ns for {what}; times are whole nanoseconds"
            ) from None


def _warm_session(
    job: Job, input_folder: Path | None, recorder: PhaseRecorder, report: ReportProgress, *, profiling: bool
) -> Session:
    session = open_session(job, recorder, Load.SYNC, input_folder, profiling=profiling)
    session.first_inference(recorder)
    with recorder.phase(phases.WARM_UP):
        load = SyncLoad(session.requests[0], session.inputs)
        warm_up(load, warm_up_rule(job.configuration.stop, requests=1), a_few_times_a_second(report))
    return session


def _time(session: Session, recorder: PhaseRecorder, iterations: int) -> _Unprofiled:
    load = SyncLoad(session.requests[0], session.inputs)
    with collector_paused(), recorder.phase(phases.STEADY_STATE):
        threads_before = observe.thread_times_ns()
        timed = load.block(0, iterations)
        threads = observe.working_threads(threads_before, observe.thread_times_ns())
    return _Unprofiled(timed.latency_ns, threads)


def _median_ns(latency_ns: Sequence[int]) -> int:
    return round(statistics.median(latency_ns))
