"""The profile pass: the model first without the engine's layer counters, then again with them.

Both passes go from reading to releasing the model in one process, because `compile` may consume what `read` returned.
Latencies of both are medians over as many inferences of one request.
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
from enginebench_plugins.spec import LayerProfile, LayerState, Load
from enginebench_proto.v1.profile_pb2 import Profile

DEFAULT_ITERATIONS = 20


def profile(job: Job, recorder: PhaseRecorder, report: ReportProgress) -> Profile:
    """Profile the model's layers. Raises what the engine raises, and `BrokenOutputError` for impossible layers."""
    iterations = job.configuration.stop.min_iterations or DEFAULT_ITERATIONS
    unprofiled = _warm_session(job, recorder, report, profiling=False)
    unprofiled_latency_ns = _median_ns(_time(unprofiled, recorder, report, iterations))
    unprofiled.close(recorder)

    profiled = _warm_session(job, recorder, report, profiling=True)
    steady = _time(profiled, recorder, report, iterations)
    layers = profiled.compiled.profile(profiled.inputs, iterations)
    check_layers(layers, iterations)
    outcome = Profile(
        effective=profiled.effective(steady.threads),
        iterations=iterations,
        profiled_latency_ns=_median_ns(steady),
        unprofiled_latency_ns=unprofiled_latency_ns,
        layers=[convert.to_layer(layer) for layer in layers],
    )
    profiled.close(recorder)
    return outcome


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
        _check_times(layer)


def _check_times(layer: LayerProfile) -> None:
    for time_ns in layer.time_ns:
        if math.isnan(time_ns) or time_ns < 0:
            raise BrokenOutputError(f"profile() returned the time {time_ns} ns for the layer '{layer.name}'")
        try:
            operator.index(time_ns)
        except TypeError:
            raise BrokenOutputError(
                f"profile() returned {time_ns} ns for the layer '{layer.name}'; times are whole nanoseconds"
            ) from None


def _warm_session(job: Job, recorder: PhaseRecorder, report: ReportProgress, *, profiling: bool) -> Session:
    session = open_session(job, recorder, Load.SYNC, profiling=profiling)
    session.first_inference(recorder)
    session.warm_up(recorder, report)
    return session


def _time(session: Session, recorder: PhaseRecorder, report: ReportProgress, iterations: int) -> SteadyState:
    return session.steady_state(recorder, report, Limits(min_duration_ns=0, min_iterations=iterations))


def _median_ns(steady: SteadyState) -> int:
    return round(statistics.median(steady.timings.latency_ns))
