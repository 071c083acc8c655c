"""`enginebench compare` as a person and a CI job use it: real profiles and benchmarks, files, exit codes."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from agent_server import AgentProcess
from integration.bench import BRIEF, QUICK, Bench, tiny_model

ENGINES = ("onnxruntime", "openvino")

pytestmark = pytest.mark.xdist_group("compare")  # one worker measures for all of them


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, shared_agent: AgentProcess) -> Bench:
    """A home with profiles of two engines and a benchmark of an invented one."""
    folder = tmp_path_factory.mktemp("compare")
    bench, model, target = Bench(folder / "home"), tiny_model(folder / "tiny.onnx"), shared_agent.address
    bench.cli("profile", model, "--engine", ",".join(ENGINES), "--target", target, "--name", "duel", *BRIEF)
    bench.cli("run", model, "--engine", "fake", "--batch", "1,2", "--target", target, "--name", "runs", *QUICK)
    return bench


def profile_ids(bench: Bench) -> dict[str, str]:
    listed = bench.json("profiles", "list")["profiles"]
    return {one["engine"]["name"]: one["id"] for one in listed}


def test_two_engines_are_joined_layer_by_layer(bench: Bench) -> None:
    ids = profile_ids(bench)
    document = bench.json("compare", *(ids[engine] for engine in ENGINES))
    (pair,) = document["comparisons"]
    assert [side["engine"]["name"] for side in document["sides"]] == list(ENGINES)
    matmul = next(one for one in pair["coverage"]["operators"] if one["operator"] == "MatMul")
    assert (matmul["first"], matmul["second"], matmul["matched"]) == (2, 2, 2)
    for which, side in enumerate(("first", "second")):
        times = [row[side]["time_ns"] or 0 for row in pair["layers"]]
        assert sum(times) == pair["coverage"]["total_ns"][which]
        assert pair["coverage"]["joined_share"][which] > 0.9
    assert {row["operator"] for row in pair["layers"] if row["verdict"]} >= {"MatMul"}


def test_a_name_alone_compares_the_profiles_of_one_command(bench: Bench) -> None:
    document = bench.json("compare", "duel")
    assert [side["engine"]["name"] for side in document["sides"]] == list(ENGINES)
    printed = bench.cli("compare", "duel")
    for wanted in ("Layer types", "MatMul", "Settings that differ", "engine.name"):
        assert wanted in printed.stdout
    assert "add up to the totals exactly" in printed.stderr


def test_files_are_written_once_unless_forced(bench: Bench, tmp_path: Path) -> None:
    files = {kind: tmp_path / f"report.{kind}" for kind in ("html", "markdown", "junit")}
    options = [word for kind, file in files.items() for word in (f"--{kind}", file)]
    condition = ("--fail-if", "coverage<1%")
    bench.cli("compare", "duel", *options, *condition)
    assert files["html"].read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert files["markdown"].read_text(encoding="utf-8").startswith("## ")
    assert ElementTree.parse(files["junit"]).getroot().get("tests") == "1"
    assert len(list(tmp_path.iterdir())) == 3

    refused = bench.cli("compare", "duel", *options, *condition, expect=2)
    assert "--force" in refused.stderr
    bench.cli("compare", "duel", *options, *condition, "--force")


def test_a_condition_that_holds_is_an_exit_code_of_its_own(bench: Bench) -> None:
    done = bench.cli("compare", "duel", "--fail-if", "coverage<100.1%", "--json", expect=4)
    assert [check["outcome"] for check in json.loads(done.stdout)["checks"]] == ["failed"]
    bench.cli("compare", "duel", "--fail-if", "coverage<1%", expect=0)


def test_what_noise_hides_fails_only_when_strict(bench: Bench) -> None:
    """Single processes tell nothing of the differences between processes."""
    ids = measurement_ids(bench)
    done = bench.cli("compare", *ids, "--fail-if", "slower>3%", expect=0)
    assert "inconclusive" in done.stderr
    bench.cli("compare", *ids, "--fail-if", "slower>3%", "--strict", expect=5)


def measurement_ids(bench: Bench) -> list[str]:
    return [one["id"] for one in bench.json("show", "runs")["measurements"]]


def test_single_measurements_are_compared_and_unlike_work_is_told(bench: Bench, tmp_path: Path) -> None:
    ids = measurement_ids(bench)
    document: Any = bench.json("compare", *ids, "--html", tmp_path / "m.html", "--markdown", tmp_path / "m.md")
    (found,) = document["comparisons"]
    assert [found["first"]["id"], found["second"]["id"]] == ids
    assert "the batch differs: 1 and 2" in found["remarks"] or "the batch differs: 2 and 1" in found["remarks"]
    assert "the batch differs" in (tmp_path / "m.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("duel", "runs"), "only things of one kind"),
        (("duel", "nobody"), "there is no benchmark, profile or measurement 'nobody'"),
        (("duel", "--fail-if", "slower"), "--fail-if does not understand"),
        (("duel", "--junit", "x.xml"), "--junit goes with --fail-if"),
        (("duel", "--strict"), "--strict goes with --fail-if"),
        (("duel", "--practical", "lots"), "--practical"),
        (("runs", "--fail-if", "coverage<95%"), "about layers"),
        (("duel", "--html", "/nowhere/x.html"), "cannot write /nowhere/x.html"),
    ],
)
def test_wrong_input_is_one_sentence(bench: Bench, arguments: tuple[str, ...], sentence: str) -> None:
    if arguments[0] == "runs":
        arguments = ("runs", "runs", *arguments[1:])
    done = bench.cli("compare", *arguments, expect=2)
    assert sentence in done.stderr
    assert done.stderr.count("error:") == 1


def test_a_model_and_its_int8_version_stand_side_by_side(
    bench: Bench, tmp_path: Path, shared_agent: AgentProcess
) -> None:
    model, target = tiny_model(tmp_path / "net.onnx", features=16), shared_agent.address
    bench.cli("models", "add", model)
    bench.cli("models", "quantize", "net")
    for name in ("net", "net-int8"):
        measured = ("--engine", "onnxruntime", "--batch", "1,2", "--target", target, "--name", f"{name} grid")
        grid = bench.json("run", name, *measured, *QUICK)
        assert not [one["marks"] for one in grid["measurements"] if "impossible" in one["marks"]]

    document = bench.json("compare", "net grid", "net-int8 grid")
    found = document["comparisons"]
    assert [(one["first"]["model"]["name"], one["second"]["configuration"]["batch"]) for one in found] == [
        ("net", 1),
        ("net", 2),
    ]
    assert all(one["verdict"] for one in found)
    said = [remark for one in found for remark in one["remarks"]]
    assert any(remark.startswith("net-int8 is a version of net: int8 QDQ") for remark in said)
    assert any(remark.startswith("outputs of net-int8 differ by at most") for remark in said)
    printed = bench.cli("compare", "net grid", "net-int8 grid")
    assert "net → net-int8" in printed.stdout and "is a version of net: int8 QDQ" in printed.stderr


def test_int8_before_a_model_measures_it_in_turns_with_that_version_which_a_note_names(
    bench: Bench, tmp_path: Path, shared_agent: AgentProcess
) -> None:
    bench.cli("models", "add", tiny_model(tmp_path / "wide.onnx", features=32))
    where = ("--engine", "onnxruntime", "--target", shared_agent.address, *QUICK)
    done = bench.cli("run", "wide", "int8:wide", "--name", "both", *where)
    assert "wide-int8" in done.stdout and "which was made now: int8 QDQ" in done.stderr
    (one,) = bench.json("compare", "both")["comparisons"]
    assert [one[side]["model"]["name"] for side in ("first", "second")] == ["wide", "wide-int8"]
    assert "which was there already" in bench.cli("run", "wide", "int8:wide", "--name", "again", *where).stderr

    refused = bench.cli("run", "wide", "int8:wide-int8", "--name", "none", *where, expect=2).stderr
    assert "there is no INT8 version: wide-int8 cannot be quantized: it is quantized already" in refused
    assert "none" not in bench.cli("list").stdout
