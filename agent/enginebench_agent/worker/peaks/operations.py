"""Operations a second by the engine's own kernels: generated models, compiled and timed like any model."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from enginebench_agent import convert
from enginebench_agent.worker.failures import BrokenOutputError
from enginebench_agent.worker.job import Job
from enginebench_agent.worker.loads.synchronous import SyncLoad
from enginebench_agent.worker.peaks.kernels import INPUT, OUTPUT, Arithmetic, Kernel
from enginebench_agent.worker.peaks.rates import RateMeter, Work
from enginebench_agent.worker.phases import PhaseRecorder
from enginebench_agent.worker.session import Session, open_session
from enginebench_plugins.spec import Load, ModelSource, Precision, TensorSpec
from enginebench_proto.v1.configuration_pb2 import Configuration, InputSet
from enginebench_proto.v1.peaks_pb2 import Rate

WARM_UP_NS = 50_000_000
BLOCK_NS = 20_000_000

LARGEST_ERROR = 0.1
"""Of the spread of the outputs: enough for bf16 and for rounding to u8, and far from what skipped work would give."""

_BYTE_VALUES = 256


@dataclass(frozen=True)
class Reached:
    """The rate of one kernel, and who computed it in the engine's words."""

    rate: Rate
    provider: str


def reach(job: Job, folder: Path, kernel: Kernel, precision: Precision, meter: RateMeter) -> Reached:
    """Compile and time one kernel. Raises what the engine raises, and `BrokenOutputError` for wrong outputs."""
    path = folder / "kernel.onnx"
    path.write_bytes(kernel.content)
    silent = PhaseRecorder(lambda _: None)
    session = open_session(_kernel_job(job, path, kernel, precision), silent, Load.SYNC, None, profiling=False)
    try:
        check_outputs(kernel, session)
        load = SyncLoad(session.requests[0], session.inputs)
        load.block(WARM_UP_NS)
        rate = meter.measure(_block_of(load, kernel.operations))
        provider = session.compiled.effective().provider
        return Reached(rate, "" if provider is None else provider.value)
    finally:
        session.close(silent)


def check_outputs(kernel: Kernel, session: Session) -> None:
    """Raises `BrokenOutputError` unless the engine computes what NumPy computes, as far as one row tells."""
    given = session.inputs[0]
    outputs = session.requests[0].infer(given)
    got, wanted = kernel.pair(given[INPUT], np.asarray(outputs[OUTPUT]))
    error = float(np.abs(got.astype(np.float64) - wanted).max() / np.std(wanted))
    if not error <= LARGEST_ERROR:
        raise BrokenOutputError(f"{kernel.what} came out wrong: off by {error:.2g} of the outputs' own spread")


def _kernel_job(job: Job, path: Path, kernel: Kernel, precision: Precision) -> Job:
    tensor = TensorSpec(INPUT, kernel.dtype, kernel.shape)
    bound = None if kernel.arithmetic is Arithmetic.F32 else _BYTE_VALUES
    configuration = Configuration(inputs=[convert.to_tensor(tensor, bound)], input_set=InputSet(seed=1, count=1))
    return replace(
        job,
        source=ModelSource(path, job.source.format, (tensor,)),
        settings=replace(job.settings, batch=kernel.shape[0], precision=precision),
        configuration=configuration,
    )


def _block_of(load: SyncLoad, operations: int) -> Callable[[], Work]:
    def block() -> Work:
        timed = load.block(BLOCK_NS)
        return operations * len(timed.latency_ns), sum(timed.latency_ns)

    return block
