"""Calibrations: as runs of a real agent, as `enginebench-agent calibrate`, and what is kept of them."""

import json
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from agent_process import ONLY_FAKE, AgentProcess, Client, connected, make_spec, refused, run_command

from enginebench_agent.calibrating import core_counts
from enginebench_agent.calibration_report import best_peaks
from enginebench_agent.peak_file import PeakFile
from enginebench_proto.v1 import agent_pb2, model_pb2, run_pb2
from enginebench_proto.v1.peaks_pb2 import PEAK_KIND_BANDWIDTH, PEAK_KIND_FLOPS, Peak, Rate


def _spec(model: bytes, run_id: str = "peaks-1", **changes: object) -> run_pb2.RunSpec:
    spec = make_spec(model, run_id, kind=run_pb2.RUN_KIND_PEAKS, options={"latency_us": "100"}, **changes)
    spec.model.CopyFrom(model_pb2.ModelVersion(format="onnx"))
    return spec


async def _told_peaks(client: Client) -> list[Peak]:
    return list((await client.agent.ListEngines(agent_pb2.ListEnginesRequest())).peaks)


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


def test_counts_of_cores_are_powers_of_two_and_all() -> None:
    assert [core_counts(available) for available in (1, 2, 6, 8)] == [(1,), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8)]


def test_the_best_of_each_precision_is_shown_and_winograd_apart() -> None:
    fastest, winograd = _peak(1, 5e9, what="Conv"), _peak(1, 9e9, may_be_winograd=True)
    cannot = [_peak(1, None, precision="int8"), _peak(1, None, precision="int8", may_be_winograd=True)]
    assert best_peaks([_peak(1, 3e9), fastest, winograd, *cannot]) == [fastest, winograd, cannot[0]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "agent.toml").write_text(ONLY_FAKE)
    return folder


def test_the_command_prints_a_table_or_json_and_keeps_the_peaks(folder: Path) -> None:
    arguments = ("calibrate", "--data-dir", str(folder), "--engine", "fake", "--cores", "1")
    done = run_command(*arguments)
    assert done.returncode == 0, done.stderr
    assert "fake 1.0 (default), FAKE:0, 1 core" in done.stdout
    assert "Gop/s" in done.stdout and "MatMul" in done.stdout
    kept = json.loads((folder / "peaks.json").read_text())

    document = json.loads(run_command(*arguments, "--json").stdout)
    assert document["failures"] == []
    assert [peak["what"] for peak in document["peaks"]] == [peak["what"] for peak in kept["peaks"]]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--engine", "nope"), "there is no engine 'nope' here"),
        (("--engine", "fake@nowhere"), "there is no engine 'fake@nowhere' here"),
        (("--engine", "fake", "--device", "GPU"), "has no device 'GPU' here"),
        (("--engine", "fake", "--cores", "0"), "no whole number of at least 1"),
        ((), "no engine can be used here"),
    ],
)
def test_what_cannot_be_calibrated_is_told_in_a_sentence(
    folder: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    done = run_command("calibrate", "--data-dir", str(folder), *arguments)
    assert done.returncode == 2
    assert sentence in done.stderr and "Traceback" not in done.stderr


def test_too_many_cores_fail_that_calibration_only(folder: Path) -> None:
    done = run_command("calibrate", "--data-dir", str(folder), "--engine", "fake", "--cores", "10000", "--cores", "1")
    assert done.returncode == 1
    assert "10000 physical cores" in done.stdout
    assert "FAKE:0, 1 core" in done.stdout and "MatMul" in done.stdout


def test_a_folder_in_use_is_left_alone_and_the_way_through_its_agent_told(
    start_agent: Callable[..., AgentProcess],
) -> None:
    agent = start_agent()
    done = run_command("calibrate", "--data-dir", str(agent.data_dir), "--engine", "fake")
    assert done.returncode == 2
    assert "enginebench targets calibrate HOST:PORT" in done.stderr
