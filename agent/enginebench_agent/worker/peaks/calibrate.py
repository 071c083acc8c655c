"""One calibration: all peaks of an engine on one device and so many cores."""

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from enginebench_agent.host import read_host_facts
from enginebench_agent.worker.failures import exception_text
from enginebench_agent.worker.job import Job
from enginebench_agent.worker.loads.block import clock
from enginebench_agent.worker.peaks.bandwidth import WORKING_SETS_BYTES, bandwidths
from enginebench_agent.worker.peaks.kernels import Arithmetic, Kernel, kernels
from enginebench_agent.worker.peaks.operations import reach
from enginebench_agent.worker.peaks.rates import RateMeter
from enginebench_agent.worker.phases import PEAKS, PhaseRecorder
from enginebench_agent.worker.progress import ReportProgress
from enginebench_plugins.spec import Precision
from enginebench_proto.v1.peaks_pb2 import PEAK_KIND_BANDWIDTH, PEAK_KIND_FLOPS, Peak
from enginebench_proto.v1.run_pb2 import RunSpec

INT8 = "int8"
_FLOATS = (Precision.F32, Precision.BF16, Precision.F16)

_Step = Callable[[], Peak]


def calibrate(job: Job, spec: RunSpec, folder: Path, recorder: PhaseRecorder, report: ReportProgress) -> Iterator[Peak]:
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


def _operations(job: Job, folder: Path, meter: RateMeter) -> list[_Step]:
    steps: list[_Step] = []
    for precision in _FLOATS:
        if precision in job.device.precisions:
            steps += [partial(_reach, job, folder, meter, make, precision) for make in kernels(Arithmetic.F32)]
    # Quantized models leave the floating precision of what stays floating to be chosen; nothing here stays so.
    return steps + [partial(_reach, job, folder, meter, make, None) for make in kernels(Arithmetic.INT8)]


def _reach(job: Job, folder: Path, meter: RateMeter, make: Callable[[], Kernel], precision: Precision | None) -> Peak:
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


def _bandwidths(job: Job, meter: RateMeter) -> Iterator[Peak]:
    if "cpu" not in job.device.resources:
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
