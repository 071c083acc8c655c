"""Calibrations as runs of a real agent, and what is kept of them."""

import json
from pathlib import Path

import grpc
import pytest
from agent_process import Client, connected, make_spec, refused

from agent_server import AgentProcess
from enginebench_agent.runs.calibrations import PeakFile
from enginebench_proto.v1 import agent_pb2, model_pb2, run_pb2
from enginebench_proto.v1.peaks_pb2 import PEAK_KIND_BANDWIDTH, PEAK_KIND_FLOPS, Peak, Rate


def _spec(model: bytes, run_id: str = "peaks-1", **changes: object) -> run_pb2.RunSpec:
    spec = make_spec(model, run_id, kind=run_pb2.RUN_KIND_PEAKS, options={"latency_us": "100"}, **changes)
    spec.model.CopyFrom(model_pb2.ModelVersion(format="onnx"))
    return spec


async def _told_peaks(client: Client) -> list[Peak]:
    return list((await client.agent.ListEngines(agent_pb2.ListEnginesRequest())).peaks)


@pytest.mark.slow
async def test_a_calibration_is_a_run_whose_peaks_the_agent_keeps_and_tells(
    agent: AgentProcess, client: Client, model: bytes
) -> None:
    assert await _told_peaks(client) == []
    result = (await client.run(_spec(model))).result
    assert result.outcome == run_pb2.OUTCOME_OK, result.failure
    assert {peak.what for peak in result.peaks} >= {"MatMul 384×384×384", "Conv 3×3, 128→128, 28×28"}
    assert await _told_peaks(client) == list(result.peaks)

    await client.acknowledge("peaks-1")
    agent.stop()
    agent.restart()
    async with connected(agent) as again:
        assert await _told_peaks(again) == list(result.peaks)


@pytest.mark.slow
async def test_a_calibration_waits_for_a_measurement_on_its_device(client: Client, model: bytes) -> None:
    await client.upload(model)
    await client.start(make_spec(model, "measured", duration_ms=1_500))
    await client.wait_for_phase("measured", "steady_state")
    await client.start(_spec(model))
    assert (await client.list_runs())["peaks-1"].state == run_pb2.RUN_STATE_QUEUED
    await client.watch("measured")
    await client.wait_for_phase("peaks-1", "peaks")
    await client.cancel("peaks-1")
    assert (await client.outcome("peaks-1")).result.outcome == run_pb2.OUTCOME_CANCELLED
    assert await _told_peaks(client) == []


@pytest.mark.slow
async def test_a_calibration_takes_no_model_and_needs_an_engine_that_is_here(client: Client, model: bytes) -> None:
    with_model = make_spec(model, kind=run_pb2.RUN_KIND_PEAKS)
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "makes its own models"):
        await client.start(with_model)
    async with refused(grpc.StatusCode.NOT_FOUND, "there is no engine 'nope'"):
        await client.start(_spec(model, engine="nope"))
    of_another_format = _spec(model)
    of_another_format.model.format = "torchscript"
    async with refused(grpc.StatusCode.INVALID_ARGUMENT):
        await client.start(of_another_format)


def _peak(cores: int = 1, rate_per_s: float | None = 1e9, **changes: object) -> Peak:
    values: dict = {"engine": "e", "environment": "default", "engine_version": "1", "device": "CPU", "cores": cores}
    values |= {"kind": PEAK_KIND_FLOPS, "precision": "f32", "what": "MatMul", "measured_at_unix_ns": 1}
    outcome = {"failure": "cannot"} if rate_per_s is None else {"rate": Rate(median_per_s=rate_per_s, blocks=9)}
    return Peak(**values | outcome | changes)


def test_the_file_replaces_what_is_known_of_the_same_engine_and_cores(tmp_path: Path) -> None:
    path = tmp_path / "peaks.json"
    file = PeakFile(path)
    memory = _peak(2, kind=PEAK_KIND_BANDWIDTH, precision="", working_set_bytes=1 << 18)
    file.keep([_peak(1), _peak(1, None, precision="int8"), memory])
    file.keep([_peak(1, 2e9), _peak(1, engine_version="2")])
    assert set(map(str, file.all())) == set(map(str, [memory, _peak(1, 2e9), _peak(1, engine_version="2")]))
    assert PeakFile(path).all() == file.all()
    assert [each.name for each in tmp_path.iterdir()] == ["peaks.json"]
    document = json.loads(path.read_text())
    assert document["schema_version"] == 1
    assert document["peaks"][0]["precision"] is None  # unknown is null


@pytest.mark.parametrize("content", ["", "{", "[]", '{"schema_version": 99, "peaks": []}', '{"schema_version": 1}'])
def test_a_damaged_file_is_set_aside_and_not_lost(tmp_path: Path, content: str) -> None:
    path = tmp_path / "peaks.json"
    path.write_text(content)
    file = PeakFile(path)
    assert file.all() == ()
    assert (tmp_path / "peaks.json.damaged").read_text() == content
    file.keep([_peak()])
    assert PeakFile(path).all() == (_peak(),)
