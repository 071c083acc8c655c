"""A calibration in a real child: real engines reach something, and what one cannot do has its reason."""

from collections.abc import Callable
from pathlib import Path

import pytest

from enginebench_proto.v1 import peaks_pb2, run_pb2
from enginebench_proto.v1.model_pb2 import ModelVersion

pytestmark = pytest.mark.slow


@pytest.fixture
def calibrate(run_worker: Callable, make_spec: Callable, tmp_path: Path) -> Callable[..., run_pb2.RunResult]:
    def run(engine: str, **changes: object) -> object:
        spec = make_spec(engine, run_pb2.RUN_KIND_PEAKS, precision="default", **changes)
        spec.model.CopyFrom(ModelVersion(format="onnx"))
        return run_worker("run", str(tmp_path), spec=spec)

    return run


def test_a_real_engine_has_peaks_in_every_kind(calibrate: Callable) -> None:
    child = calibrate("onnxruntime")
    result = child.result
    assert result.outcome == run_pb2.OUTCOME_OK, (result.failure, child.stderr)
    assert "peaks" in child.phases
    assert any(message.HasField("progress") for message in child.messages)

    assert {(peak.engine, peak.environment, peak.device, peak.cores) for peak in result.peaks} == {
        ("onnxruntime", "default", "CPU", 1)
    }
    assert len({peak.measured_at_unix_ns for peak in result.peaks}) == 1
    assert result.peaks[0].engine_version == result.engine_version != ""
    assert all(peak.rate.low_per_s <= peak.rate.median_per_s <= peak.rate.high_per_s for peak in result.peaks)
    assert all(peak.rate.blocks >= 3 for peak in result.peaks)

    operations = [peak for peak in result.peaks if peak.kind == peaks_pb2.PEAK_KIND_FLOPS]
    assert {peak.precision for peak in operations} == {"f32", "int8"}
    assert all(peak.rate.median_per_s > 1e8 and peak.provider == "CPUExecutionProvider" for peak in operations)
    memory = [peak for peak in result.peaks if peak.kind == peaks_pb2.PEAK_KIND_BANDWIDTH]
    assert len({peak.working_set_bytes for peak in memory}) >= 3
    assert all(peak.rate.median_per_s > 1e8 for peak in memory)


def test_what_an_engine_cannot_do_has_a_reason(calibrate: Callable) -> None:
    result = calibrate("fake", device="FAKE:0").result
    assert result.outcome == run_pb2.OUTCOME_OK
    quantized = [peak for peak in result.peaks if peak.precision == "int8"]
    assert quantized and all("DequantizeLinear" in peak.failure and not peak.HasField("rate") for peak in quantized)
    memory = [peak for peak in result.peaks if peak.kind == peaks_pb2.PEAK_KIND_BANDWIDTH]
    assert [peak.HasField("rate") for peak in memory] == [False]
    assert "processor only" in memory[0].failure


def test_an_engine_that_computes_something_else_has_no_peak(calibrate: Callable) -> None:
    result = calibrate("fake", device="FAKE:0", options={"wrong": "scaled"}).result
    wrong = [peak for peak in result.peaks if peak.precision == "f32"]
    assert wrong and all("came out wrong" in peak.failure for peak in wrong), wrong


def test_an_engine_that_crashes_ends_the_calibration_with_a_failure(calibrate: Callable) -> None:
    child = calibrate("fake", device="FAKE:0", options={"fault": "segfault", "fault_phase": "inference"})
    assert child.returncode != 0


def test_too_many_cores_are_refused(calibrate: Callable) -> None:
    result = calibrate("onnxruntime", cores=10_000).result
    assert result.failure.kind == run_pb2.FAILURE_KIND_REFUSED
    assert "10000 physical cores" in result.failure.message
    assert not result.peaks
