"""The profile pass: the model first without the engine's layer counters, then again with them.

Both passes go from reading to releasing the model in one process, because `compile` may consume what `read` returned.
Latencies of both are medians over as many inferences of one request; those with counters are the very inferences that
the layers were timed in, as the plugin clocked them.
"""

import math
import operator
import statistics
from collections.abc import Sequence

from enginebench_agent import convert
from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_agent.worker.job import Job
from enginebench_agent.worker.phases import PhaseRecorder
from enginebench_agent.worker.session import Session, SteadyState, open_session
from enginebench_agent.worker.timing import Limits, ReportProgress
from enginebench_plugins.spec import LayerProfile, LayerState, Load, ModelProfile
from enginebench_proto.v1.profile_pb2 import Profile

DEFAULT_ITERATIONS = 20


def profile(job: Job, recorder: PhaseRecorder, report: ReportProgress) -> Profile:
    """Profile the model's layers. Raises what the engine raises, and `BrokenOutputError` for impossible layers."""
    iterations = job.configuration.stop.min_iterations or DEFAULT_ITERATIONS
    unprofiled = _warm_session(job, recorder, report, profiling=False)
    steady = _time(unprofiled, recorder, report, iterations)
    unprofiled.close(recorder)

    session = _warm_session(job, recorder, report, profiling=True)
    profiled = session.compiled.profile(session.inputs, iterations)
    check_profile(profiled, iterations)
    outcome = Profile(
        effective=session.effective(steady.threads),
        iterations=iterations,
        profiled_latency_ns=_median_ns(profiled.latency_ns) if profiled.latency_ns else None,
        unprofiled_latency_ns=_median_ns(steady.timings.latency_ns),
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


def _warm_session(job: Job, recorder: PhaseRecorder, report: ReportProgress, *, profiling: bool) -> Session:
    session = open_session(job, recorder, Load.SYNC, profiling=profiling)
    session.first_inference(recorder)
    session.warm_up(recorder, report)
    return session


def _time(session: Session, recorder: PhaseRecorder, report: ReportProgress, iterations: int) -> SteadyState:
    return session.steady_state(recorder, report, Limits(min_duration_ns=0, min_iterations=iterations))


def _median_ns(latency_ns: Sequence[int]) -> int:
    return round(statistics.median(latency_ns))
