"""The profile pass: the model with the engine's layer counters and without them, in turns.

Both are read, compiled and warmed up in one process and stay alive together, so that what changes on the machine
meanwhile changes both: one after the other they can differ by half. Latencies of both are medians over as many
inferences of one request; those with counters are the very inferences that the layers were timed in, as the plugin
clocked them. The first inference of a turn finds the caches cold and the other side's threads still spinning (ONNX
Runtime takes up to twice as long for it), so that it is left out on both sides; but not where an engine compiles anew
for each profiled inference, which it does between the turns.
"""

import math
import operator
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from enginebench_agent import wire
from enginebench_agent.machine import this_process
from enginebench_agent.worker import phases
from enginebench_agent.worker.assignment import Assignment
from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_agent.worker.loads.closed import SyncLoad
from enginebench_agent.worker.overhead import collector_paused
from enginebench_agent.worker.phases import PhaseRecorder, ReportProgress, a_few_times_a_second
from enginebench_agent.worker.session import Session, open_session
from enginebench_agent.worker.warm_up import WarmUpRule, warm_up, warm_up_rule
from enginebench_plugins.spec import LayerProfile, LayerState, Load, ModelProfile, nothing
from enginebench_proto.v1.profile_pb2 import Profile

_SAID_BY_PLUGINS = {LayerState.EXECUTED, LayerState.NOT_EXECUTED, LayerState.OPTIMIZED_AWAY}
BLOCK = 2
"""Inferences that count, in a row on either side: few, so that both sides see the same of a machine that changes."""

BRIEFLY_NS = 100_000_000
"""A window of the warm-up with counters, beside a network that is warm."""


@dataclass(frozen=True)
class Alternation:
    """`iterations` inferences that count, in blocks of a quarter of them but of no more than `BLOCK`.

    Each block but the first has one more before it, which does not count, where a profiled inference feels the turn.
    """

    iterations: int
    feels_turns: bool = True

    @property
    def block(self) -> int:
        """How many inferences of a block count."""
        return max(1, min(BLOCK, self.iterations // 4))

    @property
    def uncounted(self) -> frozenset[int]:
        """Which inferences do not count, by their places from 0 among all."""
        if not self.feels_turns:
            return frozenset()
        switches = math.ceil(self.iterations / self.block) - 1
        return frozenset(switch * (self.block + 1) - 1 for switch in range(1, switches + 1))

    @property
    def inferences(self) -> int:
        """All of them."""
        return self.iterations + len(self.uncounted)

    def ends_block(self, inferences: int) -> bool:
        """Whether so many inferences end with a whole block."""
        return (inferences + self.feels_turns) % (self.block + self.feels_turns) == 0

    def counted(self, times_ns: Sequence[int]) -> tuple[int, ...]:
        """What remains of a time for each inference, or of none."""
        return tuple(time for place, time in enumerate(times_ns) if place not in self.uncounted)


class Unprofiled:
    """The model without counters, run a block at a time while it is profiled."""

    def __init__(self, session: Session, turns: Alternation) -> None:
        self.latency_ns: list[int] = []
        self._request = session.requests[0]
        self._inputs = session.inputs
        self._load = SyncLoad(self._request, session.inputs)
        self._turns = turns
        self._missing = turns.iterations
        self._profiled = 0

    def after_profiled(self) -> None:
        """One more inference was profiled: whenever they make a block, run another one here."""
        self._profiled += 1
        if self._turns.ends_block(self._profiled):
            self._run(min(self._turns.block, self._missing))

    def run_missing(self) -> None:
        """Run what is left: all of it, where an engine profiles without a break."""
        self._run(self._missing)

    def _run(self, fewest: int) -> None:
        if fewest > 0:
            self._request.infer(self._inputs[0])  # the caches and the threads are the other side's as yet
            self.latency_ns += self._load.block(0, fewest).latency_ns
            self._missing -= fewest


def profile(job: Assignment, input_folder: Path | None, recorder: PhaseRecorder, report: ReportProgress) -> Profile:
    """Profile the model's layers. Raises what the engine raises, and `BrokenOutputError` for impossible layers."""
    open_warm = _Opener(job, input_folder, recorder, report)
    if _profiles_something_else(job):
        with_counters, threads = open_warm(profiling=True)
        outcome = _profile(job, with_counters, None, recorder)
        outcome.effective.CopyFrom(with_counters.effective(threads))
    else:
        without, threads = open_warm(profiling=False)
        with_counters, _ = open_warm(profiling=True, beside_another=True)
        outcome = _profile(job, with_counters, without, recorder)
        outcome.effective.CopyFrom(without.effective(threads))
        without.close(recorder)
    with_counters.close(recorder)
    return outcome


def _profiles_something_else(job: Assignment) -> bool:
    """Whether an option changes what runs for the profile, so that no latency without counters is to be had."""
    return any(option.profile_only and option.name in job.settings.options for option in job.info.options)


def _profile(job: Assignment, with_counters: Session, without: Session | None, recorder: PhaseRecorder) -> Profile:
    compiled = with_counters.compiled
    iterations = job.configuration.stop.min_iterations or compiled.usual_profile_iterations
    with collector_paused(), recorder.phase(phases.STEADY_STATE):
        if without is None:
            profiled = checked_profile(compiled.profile(with_counters.inputs, iterations, nothing), iterations)
            unprofiled_ns = None
        else:
            turns = Alternation(iterations, feels_turns=not compiled.compiles_for_each_profiled_inference)
            profiled, unprofiled_ns = _in_turns(with_counters, without, turns)
    layers, inferences = profiled.layers, iterations
    if with_counters.job.info.mean_profiles:
        layers, inferences = tuple(map(_mean, layers)), profiled.inferences or iterations
    return Profile(
        iterations=inferences,
        profiled_latency_ns=_median_ns(profiled.latency_ns) if profiled.latency_ns else None,
        unprofiled_latency_ns=unprofiled_ns,
        layers=[wire.to_layer(layer) for layer in layers],
    )


def _mean(layer: LayerProfile) -> LayerProfile:
    """A layer with the mean that it has for each inference told once: the same time again has no spread to show."""
    return replace(layer, time_ns=layer.time_ns[:1])


def _in_turns(with_counters: Session, without: Session, turns: Alternation) -> tuple[ModelProfile, int]:
    """The profile of the inferences that count, and the median latency in ns of as many without counters."""
    unprofiled = Unprofiled(without, turns)
    profiled = with_counters.compiled.profile(with_counters.inputs, turns.inferences, unprofiled.after_profiled)
    unprofiled.run_missing()
    profiled = checked_profile(profiled, turns.inferences)
    layers = tuple(replace(layer, time_ns=turns.counted(layer.time_ns)) for layer in profiled.layers)
    counted = replace(profiled, layers=layers, latency_ns=turns.counted(profiled.latency_ns))
    return counted, _median_ns(unprofiled.latency_ns)


@dataclass(frozen=True)
class _Opener:
    """Opens sessions of one job and warms them up."""

    job: Assignment
    input_folder: Path | None
    recorder: PhaseRecorder
    report: ReportProgress

    def __call__(self, *, profiling: bool, beside_another: bool = False) -> tuple[Session, int | None]:
        """A warm session, and how many threads worked to warm it, as far as the kernel tells.

        One that is profiled beside a warm one is warmed briefly: an engine may keep an event of each layer each time.
        """
        session = open_session(self.job, self.recorder, Load.SYNC, self.input_folder, profiling=profiling)
        session.first_inference(self.recorder)
        before = this_process.thread_times_ns()
        with self.recorder.phase(phases.WARM_UP):
            load = SyncLoad(session.requests[0], session.inputs)
            rule = warm_up_rule(self.job.configuration.stop, requests=1)
            if beside_another:
                rule = WarmUpRule(min(rule.window_ns, BRIEFLY_NS), min(rule.max_ns, 10 * BRIEFLY_NS))
            warm_up(load, rule, a_few_times_a_second(self.report))
        return session, this_process.working_threads(before, this_process.thread_times_ns())


def checked_profile(profile: ModelProfile, iterations: int) -> ModelProfile:
    """A profile in which every layer has a name of its own and there is a time for each iteration.

    Raises `BrokenOutputError` for any other. Plugins also give generators, of which the first look would take all.
    """
    if not isinstance(profile, ModelProfile):
        raise BrokenOutputError(f"profile() returned {type(profile).__name__} instead of a ModelProfile")
    if profile.inferences is not None and profile.inferences < 1:
        raise BrokenOutputError(f"profile() returned means over {profile.inferences} inferences")
    if len(profile.latency_ns) not in (0, iterations):
        raise BrokenOutputError(f"profile() returned {len(profile.latency_ns)} latencies for {iterations} iterations")
    _check_times("the inferences", profile.latency_ns)
    profile = replace(profile, layers=tuple(profile.layers))
    check_layers(profile.layers, iterations)
    return profile


def check_layers(layers: Sequence[LayerProfile], iterations: int) -> None:
    """Raise `BrokenOutputError` unless every layer has a name of its own and a time for each iteration."""
    if not layers:
        raise BrokenOutputError("profile() returned no layers")
    names = [layer.name for layer in layers]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BrokenOutputError(f"profile() returned two layers named '{twice}'")
    for layer in layers:
        if layer.state not in _SAID_BY_PLUGINS:
            raise BrokenOutputError(f"profile() returned the state '{layer.state}' for the layer '{layer.name}'")
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


def _median_ns(latency_ns: Sequence[int]) -> int:
    return round(statistics.median(latency_ns))
