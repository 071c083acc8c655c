"""One model on one engine from reading to releasing it, each step a phase of its own."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from enginebench_agent import convert
from enginebench_agent.worker import observe, phases
from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_agent.worker.inputs import Tensors, make_inputs
from enginebench_agent.worker.job import Job
from enginebench_agent.worker.phases import PhaseRecorder
from enginebench_agent.worker.timing import Limits, ReportProgress, Timings, collector_paused, time_requests
from enginebench_plugins import spec
from enginebench_proto.v1.measurement_pb2 import Effective, OutputTensor

WARM_UP_ITERATIONS = 3
"""Inferences a request runs before it counts as warm, unless they take ten times the warm-up's duration."""


@dataclass(frozen=True)
class SteadyState:
    """Timings with what the kernel saw meanwhile; None where it does not tell."""

    timings: Timings
    cpu_time_ns: int | None
    threads: int | None


class Session:
    """A compiled model with its requests and inputs. Made by `open_session`; `close` ends it."""

    def __init__(
        self,
        job: Job,
        load: spec.Load,
        compiled: spec.CompiledModel,
        inputs: list[Tensors],
        requests: list[spec.InferRequest],
    ) -> None:
        self.job = job
        self.load = load
        self.compiled = compiled
        self.inputs = inputs
        self.requests = requests

    def first_inference(self, recorder: PhaseRecorder) -> list[OutputTensor]:
        """Run the very first inference; returns what came out of it. Raises `BrokenOutputError` for no outputs."""
        with recorder.phase(phases.FIRST_INFERENCE):
            outputs = self.requests[0].infer(self.inputs[0])
        return describe_outputs(outputs)

    def warm_up(self, recorder: PhaseRecorder, report: ReportProgress) -> None:
        """Run every request under the real load until it is warm."""
        duration_ns = self.job.configuration.stop.warmup_ns
        limits = Limits(duration_ns, WARM_UP_ITERATIONS * len(self.requests), 10 * duration_ns)
        with recorder.phase(phases.WARM_UP):
            time_requests(self.load, self.requests, self.inputs, limits, report)

    def steady_state(self, recorder: PhaseRecorder, report: ReportProgress, limits: Limits) -> SteadyState:
        """Take the samples, and note processor time and threads."""
        with collector_paused(), recorder.phase(phases.STEADY_STATE):
            threads_before, cpu_before = observe.thread_times_ns(), observe.process_cpu_time_ns()
            timings = time_requests(self.load, self.requests, self.inputs, limits, report)
            cpu_time_ns = observe.process_cpu_time_ns() - cpu_before
            threads = observe.working_threads(threads_before, observe.thread_times_ns())
        return SteadyState(timings, cpu_time_ns, threads)

    def effective(self, threads: int | None) -> Effective:
        """What the engine says it used; what it does not tell is filled from `threads` seen and the processor."""
        told = self.compiled.effective()
        if told.threads is None and threads is not None:
            told = replace(told, threads=spec.Readback(threads, spec.Source.OBSERVED))
        widest = observe.widest_instruction_set() if "cpu" in self.job.device.resources else None
        if told.isa is None and widest is not None:
            told = replace(told, isa=spec.Readback(widest, spec.Source.ASSUMED))
        return convert.to_effective(told, observe.affinity())

    def close(self, recorder: PhaseRecorder) -> None:
        """Release requests and model."""
        with recorder.phase(phases.TEARDOWN):
            for request in self.requests:
                request.close()
            self.compiled.close()


def open_session(job: Job, recorder: PhaseRecorder, load: spec.Load, *, profiling: bool) -> Session:
    """Read, convert (where the engine does so) and compile the model, then make its inputs and requests."""
    engine, source = job.engine, job.source
    with recorder.phase(phases.READ):
        model = engine.read(source)
    if type(engine).convert is not spec.Engine.convert:
        with recorder.phase(phases.CONVERT):
            model = engine.convert(model, source)
    with recorder.phase(phases.COMPILE):
        compiled = engine.compile(model, source, replace(job.settings, profiling=profiling))
    if not isinstance(compiled, spec.CompiledModel):
        raise BrokenOutputError(f"compile() returned {type(compiled).__name__} instead of a CompiledModel")
    compiled.effective()
    inputs = make_inputs(compiled.inputs, job.configuration.inputs, job.configuration.input_set)
    in_flight = job.settings.requests if load is spec.Load.ASYNC else 1
    return Session(job, load, compiled, inputs, [compiled.create_request() for _ in range(in_flight)])


def describe_outputs(outputs: Mapping[str, Any]) -> list[OutputTensor]:
    """Name, element type and shape of each output. Raises `BrokenOutputError` unless all are named arrays."""
    if not isinstance(outputs, Mapping) or not outputs:
        raise BrokenOutputError(f"infer() returned {type(outputs).__name__} instead of a mapping of named arrays")
    for name, values in outputs.items():
        if not isinstance(values, np.ndarray):
            raise BrokenOutputError(f"infer() returned {type(values).__name__} instead of an array as '{name}'")
    return [OutputTensor(name=name, dtype=each.dtype.name, shape=each.shape) for name, each in outputs.items()]
