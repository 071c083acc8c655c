"""A stranger's engine with files of its own: they are found, sent, looked into by that engine alone, and measured."""

import json
from pathlib import Path

import pytest

from integration.bench import BRIEF, QUICK, Bench, tiny_model
from plugged import SCALE, Environment

pytestmark = pytest.mark.slow


def bench_with(tmp_path: Path, *, runs_code: bool = False) -> Bench:
    environment = Environment(tmp_path / "venv")
    environment.add_plugin("scale", SCALE.format(runs_code=runs_code))
    bench = Bench.of_engines(tmp_path / "home", "fake")
    config = tmp_path / "home" / "agent" / "agent.toml"
    strange = f"[environments.strange]\npython = '{environment.python}'\nengines = ['scale']\n"
    config.write_text(config.read_text() + strange)
    return bench


@pytest.fixture
def scale(tmp_path: Path) -> Path:
    (tmp_path / "twice.scale").write_text("SCALE of x and ids")
    (tmp_path / "twice.factor").write_text("2.0")
    return tmp_path / "twice.scale"


def test_its_files_are_run_before_anything_was_listed_and_their_inputs_are_found_by_the_engine(
    tmp_path: Path, scale: Path
) -> None:
    bench = bench_with(tmp_path)
    document = bench.json("run", scale, "--engine", "scale", "--batch", "1,2", *QUICK)
    assert {m["status"] for m in document["measurements"]} == {"ok"}
    shapes = {m["configuration"]["batch"]: m["configuration"]["inputs"] for m in document["measurements"]}
    for batch, inputs in shapes.items():
        assert [(one["name"], one["dtype"], one["shape"]) for one in inputs] == [
            ("x", "float32", [batch, 4096, 64]),
            ("ids", "int32", [3]),
        ]
    (stored,) = bench.json("models", "list")["models"]
    assert (stored["name"], stored["format"]) == ("twice", "scale")
    assert [file["name"] for file in stored["files"]] == ["model.scale", "model.factor"]

    given = bench.json("run", "twice", "--engine", "scale", "--shape", "x=1x5", "--batch", "2", *QUICK)
    assert [one["shape"] for one in given["measurements"][0]["configuration"]["inputs"]] == [[2, 5], [3]]
    wrong = bench.json("run", "twice", "--engine", "scale", "--shape", "y=1x5", *QUICK, expect=1)
    assert "y is no input of this model; it has x, ids" in wrong["measurements"][0]["failure"]["message"]


def test_its_files_are_added_before_anything_was_listed(tmp_path: Path, scale: Path) -> None:
    added = bench_with(tmp_path).json("models", "add", scale)
    assert (added["name"], added["format"]) == ("twice", "scale")


def test_its_profile_has_times_and_no_work(tmp_path: Path, scale: Path) -> None:
    bench = bench_with(tmp_path)
    (profile,) = bench.json("profile", scale, "--engine", "scale", "--iterations", "3", *BRIEF)["profiles"]
    assert profile["status"] == "ok"
    assert [layer["name"] for layer in profile["layers"]] == ["scale"]
    assert profile["coverage"] is None and profile["work"] is None, "unknown, and not 0"
    told = bench.cli("flops", "twice", expect=2).stderr
    assert "twice is scale, which only its engine reads: its work is unknown" in told


def test_no_other_engine_gets_them_and_no_other_file_passes_for_one(tmp_path: Path, scale: Path) -> None:
    bench = bench_with(tmp_path)
    assert "fake does not read scale (twice)" in bench.cli("run", scale, "--engine", "fake", expect=2).stderr
    onnx = tiny_model(tmp_path / "tiny.onnx")
    assert "scale does not read onnx (tiny)" in bench.cli("run", onnx, "--engine", "scale", expect=2).stderr
    (tmp_path / "other.scale").write_text("other")
    assert "does not begin as one" in bench.cli("models", "add", tmp_path / "other.scale", expect=2).stderr
    (tmp_path / "other.mesh").write_text("other")
    told = bench.cli("run", tmp_path / "other.mesh", "--engine", "scale", expect=2).stderr
    assert ".pt2, .scale" in told


def test_files_that_can_run_code_run_where_they_are_trusted(tmp_path: Path, scale: Path) -> None:
    bench = bench_with(tmp_path, runs_code=True)
    refused = bench.json("run", scale, "--engine", "scale", *QUICK, expect=1)
    assert "can execute code when it is loaded" in refused["measurements"][0]["failure"]["message"]
    trusted = json.loads(bench.cli("run", scale, "--engine", "scale", "--trust", "--json", *QUICK).stdout)
    assert trusted["measurements"][0]["status"] == "ok"
