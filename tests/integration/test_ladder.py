"""The ladders from the command line, on real engines and a tiny model."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from agent_server import AgentProcess
from integration.bench import BRIEF, UNWAITING, Bench

QUICK = (
    *("--duration", "60ms", "--max-duration", "600ms", "--iterations", "12", "--processes", "1"),
    *BRIEF,
)


def numbered(document: dict) -> list[str]:
    return [rung["rung"] for rung in document["rungs"] if rung["fps"] is not None]


def test_the_throughput_ladder_measures_what_there_is_and_names_what_is_not(
    bench: Bench, model: Path, tmp_path: Path, shared_agent: AgentProcess
) -> None:
    chart = tmp_path / "ladder.svg"
    arguments = ("--target", shared_agent.address, "--batches", "4,8", "--chart", chart)
    document = bench.json("ladder", "throughput", model, *QUICK, *arguments)
    assert numbered(document) == [
        "pytorch",
        "openvino",
        "batch-4",
        "batch-8",
        "async",
        "throughput",
        "auto",
        "cumulative",
    ]
    (gpu,) = (rung for rung in document["rungs"] if rung["rung"] == "gpu")
    assert (gpu["available"], gpu["fps"], gpu["status"]) == (False, None, None)
    assert "has no device 'GPU'" in gpu["reason"]
    for rung in document["rungs"]:
        if rung["available"]:
            assert 0 < rung["first_inference_s"] < 5
            assert rung["seconds_per_image"] == pytest.approx(1 / rung["fps"])
            assert rung["measurement"]["images"] >= 12
            assert not [flag for flag in rung["measurement"]["flags"] if flag.startswith("precision")]
    assert "THROUGHPUT on GPU" in chart.read_text() and "not available" in chart.read_text()


def test_a_ladder_is_a_benchmark_that_can_be_shown_and_run_again(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    arguments = ("--target", shared_agent.address, "--cores", "1", "--skip", "gpu,threads,hint")
    first = bench.json("ladder", "latency", model, *QUICK, *arguments)
    assert numbered(first) == ["pytorch", "onnx", "openvino", "shared-memory"]
    shown = bench.json("show", first["benchmark"]["id"])
    assert len(shown["measurements"]) == 4
    assert {one.configuration.stop.warmup_ns for one in bench.measurements(first)} == {50_000_000}
    again = bench.json("rerun", first["benchmark"]["id"])
    assert again["benchmark"]["rerun_of"] == first["benchmark"]["id"]
    assert numbered(bench.json("ladder", "show", again["benchmark"]["id"])) == numbered(first)


@pytest.mark.engines("torch", "openvino")
def test_a_saved_program_climbs_when_its_owner_trusts_it(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(torch.nn.Linear(8, 4).eval(), (torch.zeros(1, 8),)), path)
    arguments = ("ladder", "throughput", path, *QUICK, "--shape", "x=1x8", "--skip", "batch,async,gpu,auto,cumulative")
    refused = bench.cli(*arguments, expect=2)
    assert "can run any code when it is loaded; give --trust" in refused.stderr
    document = bench.json(*arguments, "--trust")
    assert numbered(document) == ["pytorch", "openvino", "throughput"]
    again = bench.json("rerun", document["benchmark"]["id"], "--trust")
    assert [one["failure"] for one in again["measurements"]] == [None] * 3
    # The permission was for this one command: the agent's own folder allows nothing.
    later = bench.json("run", path, "--engine", "torch", "--shape", "x=1x8", "--duration", "60ms", *UNWAITING, expect=1)
    assert "allow_executable_formats" in later["measurements"][0]["failure"]["message"]


def test_every_rung_sees_the_same_images(bench: Bench, tmp_path: Path, shared_agent: AgentProcess) -> None:
    (tmp_path / "photos").mkdir()
    for index in range(3):
        pixels = np.random.default_rng(index).integers(0, 255, (40, 30, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / "photos" / f"{index}.jpg")
    arguments = ("--inputs", tmp_path / "photos", "--skip", "gpu,auto,cumulative,async,throughput")
    target = ("--target", shared_agent.address)
    document = bench.json("ladder", "throughput", "zoo:squeezenet", *QUICK, *arguments, *target)
    assert numbered(document) == ["pytorch", "openvino", "batch-4"]
    shown = bench.json("show", document["benchmark"]["id"])
    sets = {m["configuration"]["input_set"]["name"] for m in shown["measurements"]}
    assert sets == {"photos"}


def test_a_model_is_converted_from_the_command_line(bench: Bench, model: Path, tmp_path: Path) -> None:
    child = bench.json("models", "convert", model, "--to", "openvino-ir-fp16")
    assert (child["format"], child["derivation"]) == ("openvino_ir", "OpenVINO IR, FP16 weights")
    refused = bench.cli("models", "convert", model, "--to", "coreml", expect=2).stderr
    assert "cannot be converted to 'coreml'; there are openvino-ir-fp16, ncnn, tflite" in refused
    unread = bench.cli("models", "convert", model, "--to", "tflite", expect=2).stderr
    assert "no engine that was asked reads tflite: `enginebench-agent environment add litert --engine" in unread
    assert "enginebench devices" not in unread, "they have been listed just now"
    (tmp_path / "a.net").write_bytes(b"net")
    unknown = bench.cli("models", "add", tmp_path / "a.net", expect=2).stderr
    assert "no engine that was asked reads it" in unknown and "enginebench devices" not in unknown


def test_what_cannot_be_is_refused_before_anything_runs(bench: Bench, model: Path, tmp_path: Path) -> None:
    for arguments, words in (
        (("--skip", "gpus"), "no rung 'gpus' to skip"),
        (("--chart", tmp_path / "ladder.gif"), "written as .svg or .png"),
        (("--batches", "one"), "not a list of batch sizes"),
        (("--duration", "soon"), "not a duration"),
    ):
        assert words in bench.cli("ladder", "throughput", model, *arguments, expect=2).stderr
