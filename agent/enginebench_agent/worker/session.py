"""One model on one engine from reading to releasing it, each step a phase of its own."""

from dataclasses import dataclass, replace
from pathlib import Path

from enginebench_agent import wire
from enginebench_agent.machine import this_process
from enginebench_agent.worker import phases
from enginebench_agent.worker.assignment import Assignment
from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_agent.worker.inputs import Tensors, make_inputs
from enginebench_agent.worker.outputs import describe_outputs
from enginebench_agent.worker.phases import PhaseRecorder
from enginebench_plugins import spec
from enginebench_proto.agreed import processor
from enginebench_proto.agreed.words import PROCESSOR
from enginebench_proto.v1.measurement_pb2 import Effective, OutputTensor


@dataclass(frozen=True)
class Session:
    """A compiled model with its requests and inputs. Made by `open_session`; `close` ends it."""

    job: Assignment
    compiled: spec.CompiledModel
    inputs: list[Tensors]
    requests: list[spec.InferRequest]

    def first_inference(self, recorder: PhaseRecorder) -> list[OutputTensor]:
        """Run the very first inference; returns what came out of it. Raises `BrokenOutputError` for no outputs."""
        with recorder.phase(phases.FIRST_INFERENCE):
            outputs = self.requests[0].infer(self.inputs[0])
        return describe_outputs(outputs)

    def effective(self, threads: int | None) -> Effective:
        """What the engine says it used; what it does not tell is filled from `threads` seen and the processor.

        Where the processor only feeds another device, neither says what computed.
        """
        told = self.compiled.effective()
        on_processor = PROCESSOR in self.job.device.resources
        if told.threads is None and threads is not None and on_processor:
            told = replace(told, threads=spec.Readback(threads, spec.Source.OBSERVED))
        widest = processor.widest_instruction_set() if on_processor else None
        if told.isa is None and widest is not None:
            told = replace(told, isa=spec.Readback(widest, spec.Source.ASSUMED))
        return wire.to_effective(told, this_process.affinity())

    def close(self, recorder: PhaseRecorder) -> None:
        """Release requests and model."""
        with recorder.phase(phases.TEARDOWN):
            for request in self.requests:
                request.close()
            self.compiled.close()


def open_session(
    job: Assignment, recorder: PhaseRecorder, load: spec.Load, input_folder: Path | None, *, profiling: bool
) -> Session:
    """Read, convert (where the engine does so) and compile the model, then make its inputs and requests.

    `input_folder` holds the files of the input set, where it has any.
    """
    engine, settings = job.engine, replace(job.settings, profiling=profiling)
    source = replace(job.source, settings=settings)
    with recorder.phase(phases.READ):
        model = engine.read(source)
    if type(engine).convert is not spec.Engine.convert:
        with recorder.phase(phases.CONVERT):
            model = engine.convert(model, source)
    with recorder.phase(phases.COMPILE):
        compiled = engine.compile(model, source, settings)
    if not isinstance(compiled, spec.CompiledModel):
        raise BrokenOutputError(f"compile() returned {type(compiled).__name__} instead of a CompiledModel")
    compiled.effective()
    configuration = job.configuration
    inputs = make_inputs(compiled.inputs, configuration.inputs, configuration.input_set, input_folder)
    in_flight = job.settings.requests if load is spec.Load.ASYNC else 1
    return Session(job, compiled, inputs, [compiled.create_request() for _ in range(in_flight)])
