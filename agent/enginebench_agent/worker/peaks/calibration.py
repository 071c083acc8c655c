"""One calibration: all peaks of an engine on one device and so many cores, by its own kernels and by NumPy's loops."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from enginebench_agent import wire
from enginebench_agent.machine.host import read_host_facts
from enginebench_agent.worker.assignment import Assignment
from enginebench_agent.worker.failures import BrokenOutputError, exception_text
from enginebench_agent.worker.loads.block import clock
from enginebench_agent.worker.loads.closed import SyncLoad
from enginebench_agent.worker.peaks.bandwidth import WORKING_SETS_BYTES, bandwidths
from enginebench_agent.worker.peaks.kernels import INPUT, OUTPUT, Arithmetic, Kernel, kernels
from enginebench_agent.worker.peaks.rates import RateMeter, Work
from enginebench_agent.worker.phases import PEAKS, PhaseRecorder, ReportProgress
from enginebench_agent.worker.session import Session, open_session
from enginebench_plugins.spec import Load, ModelSource, Precision, TensorSpec
from enginebench_proto.agreed.words import PROCESSOR
from enginebench_proto.v1.configuration_pb2 import Configuration, InputSet
from enginebench_proto.v1.peaks_pb2 import PEAK_KIND_BANDWIDTH, PEAK_KIND_FLOPS, Peak, Rate
from enginebench_proto.v1.run_pb2 import RunSpec

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


def reach(job: Assignment, folder: Path, kernel: Kernel, precision: Precision, meter: RateMeter) -> Reached:
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


def _kernel_job(job: Assignment, path: Path, kernel: Kernel, precision: Precision) -> Assignment:
    tensor = TensorSpec(INPUT, kernel.dtype, kernel.shape)
    bound = None if kernel.arithmetic is Arithmetic.F32 else _BYTE_VALUES
    configuration = Configuration(inputs=[wire.to_tensor(tensor, bound)], input_set=InputSet(seed=1, count=1))
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


INT8 = "int8"
_FLOATS = (Precision.F32, Precision.BF16, Precision.F16)

_Step = Callable[[], Peak]


def calibrate(
    job: Assignment, spec: RunSpec, folder: Path, recorder: PhaseRecorder, report: ReportProgress
) -> Iterator[Peak]:
    """Every peak, one after the other; a kernel that the engine cannot run is a peak with the reason.

    `folder` takes the generated models. Takes about 10 s a number of cores on a desktop processor.
    """
    common = Peak(
        engine=spec.engine,
        environment=spec.environment,
        engine_version=job.info.version,
        device=job.device.name,
        cores=job.settings.cores,
        measured_at_unix_ns=time.time_ns(),
    )
    meter = RateMeter(job.settings.cores)
    with recorder.phase(PEAKS):
        for peak in _with_progress(_operations(job, folder, meter), _bandwidths(job, meter), report):
            peak.MergeFrom(common)
            yield peak


def _with_progress(steps: list[_Step], memory: Iterator[Peak], report: ReportProgress) -> Iterator[Peak]:
    """Carry out the steps, then the walks through memory; every peak counts as an equal part of the whole."""
    total, begin = len(steps) + 3 * len(WORKING_SETS_BYTES), clock()
    for done, peak in enumerate(_chained(steps, memory), start=1):
        elapsed_ns = clock() - begin
        report(elapsed_ns, max(elapsed_ns, math.ceil(elapsed_ns * total / done)), done)
        yield peak


def _chained(steps: list[_Step], memory: Iterator[Peak]) -> Iterator[Peak]:
    for step in steps:
        yield step()
    yield from memory


def _operations(job: Assignment, folder: Path, meter: RateMeter) -> list[_Step]:
    steps: list[_Step] = []
    for precision in _FLOATS:
        if precision in job.device.precisions:
            steps += [partial(_reach, job, folder, meter, make, precision) for make in kernels(Arithmetic.F32)]
    # Quantized models leave the floating precision of what stays floating to be chosen; nothing here stays so.
    return steps + [partial(_reach, job, folder, meter, make, None) for make in kernels(Arithmetic.INT8)]


def _reach(
    job: Assignment, folder: Path, meter: RateMeter, make: Callable[[], Kernel], precision: Precision | None
) -> Peak:
    kernel = make()
    peak = Peak(
        kind=PEAK_KIND_FLOPS,
        precision=precision or INT8,
        what=kernel.what,
        may_be_winograd=kernel.may_be_winograd,
    )
    try:
        reached = reach(job, folder, kernel, precision or Precision.DEFAULT, meter)
    except Exception as error:  # whatever an engine raises about one kernel leaves the others untouched
        peak.failure = exception_text(error)
    else:
        peak.rate.CopyFrom(reached.rate)
        peak.provider = reached.provider
    return peak


def _bandwidths(job: Assignment, meter: RateMeter) -> Iterator[Peak]:
    if PROCESSOR not in job.device.resources:
        reason = "Memory bandwidth is measured on the processor only, and this device has memory of its own."
        yield Peak(kind=PEAK_KIND_BANDWIDTH, failure=reason)
        return
    memory_bytes = read_host_facts().memory_bytes or None
    for found in bandwidths(job.settings.cores, memory_bytes, meter):
        yield Peak(
            kind=PEAK_KIND_BANDWIDTH,
            working_set_bytes=found.working_set_bytes,
            what=found.what,
            rate=found.rate,
        )
