"""Prospects and advice from the command line: on the fake engine, whose times are known, and on a real one."""

from pathlib import Path

import numpy as np
import pytest

from agent_server import AgentProcess
from integration.bench import UNWAITING, Bench

QUICK = ("--iterations", "2", "--warmup", "1ms", *UNWAITING)
FAKE = ("--engine", "fake", "--option", "fake.latency_us=300", *QUICK)


def pruning(bench: Bench, model: Path, agent: AgentProcess, *more: object, expect: int = 0) -> dict:
    arguments = ("--target", agent.address, *FAKE, *more)
    return bench.json("prospects", "pruning", model, *arguments, expect=expect)


def test_estimated_imposed_and_measured_stand_on_one_table(
    bench: Bench, model: Path, shared_agent: AgentProcess, tmp_path: Path
) -> None:
    table = tmp_path / "parts.csv"
    document = pruning(
        bench, model, shared_agent, "--sparsity", "0.5,0.9", "--measure", "0.75", "--cap", "0.9", "--csv", table
    )
    dense, half, most, alike, by_weight = document["outcomes"]
    # Two products and a Relu of 0.1 ms each: the products take no time for zeros.
    assert [one["imposed"]["latency_ns"] for one in (dense, half, most)] == [300_000, 200_000, 120_000]
    assert alike["measured"]["latency_ns"] == pytest.approx(150_000)
    assert alike["estimated"]["latency_ns"] == pytest.approx(150_000, rel=1e-6)
    assert abs(alike["estimate_error"]) < 1e-6
    assert alike["measured"]["speedup"] == pytest.approx(2)
    assert by_weight["is_copy"] and abs(by_weight["estimate_error"]) < 0.01
    assert [part["nodes"] for part in document["parts"]] == [["matmul_1"], ["relu"], ["matmul_2"]]
    assert len(table.read_text().splitlines()) == 4

    passes = bench.json("profiles", "list")["profiles"]
    assert {one["order_id"] for one in passes} == {document["order_id"]}
    assert {one["optimization_level"] for one in passes} == {0}
    assert bench.json("prospects", "show", document["order_id"][:6]) == document
    assert bench.json("prospects", "show", passes[0]["id"]) == document
    shown = bench.cli("prospects", "show", document["order_id"]).stdout
    assert "estimated ms" in shown and "measured ms" in shown and "tiny-sparse75" in shown
    (advice,) = [one for one in bench.json("advise", dense["profile_id"])["advice"] if one["rule"] == "pruning-pays"]
    assert advice["evidence"]["speedup"] == pytest.approx(2.5)


def test_a_pass_that_crashes_is_told_and_nothing_is_pruned(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    arguments = ("--target", shared_agent.address, *FAKE, "--sparsity", "0.5", "--option", "fake.fault=segfault")
    said = bench.cli("prospects", "pruning", model, *arguments, expect=1).stderr
    assert "no prospects: there is no dense pass to compare with; a pass failed" in said
    assert {one["status"] for one in bench.json("profiles", "list")["profiles"]} == {"failed"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--engine", "onnxruntime"), "onnxruntime cannot impose sparsity: that takes an engine with the option"),
        (("--engine", "fake,onnxruntime"), "engines has several: name one"),
        (("--engine", "all"), "engines has several: name one"),
        (("--sparsity", "half"), "--sparsity: 'half' is not a list of shares"),
        (("--measure", "2"), "--measure: 2 is no share of zeros"),
        (("--measure", "0"), "--measure: a copy without zeros is the model itself"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    bench: Bench, model: Path, shared_agent: AgentProcess, arguments: tuple[str, ...], said: str
) -> None:
    where = () if "--engine" in arguments else ("--engine", "fake")
    done = bench.cli("prospects", "pruning", model, "--target", shared_agent.address, *where, *arguments, expect=2)
    assert said in done.stderr
    assert bench.json("profiles", "list")["profiles"] == []


def test_prospects_that_are_not_there_are_told(bench: Bench, model: Path, shared_agent: AgentProcess) -> None:
    profile = ("profile", model, "--engine", "fake", "--target", shared_agent.address, *QUICK)
    (plain,) = bench.json(*profile)["profiles"]
    assert "has no passes with sparsity imposed" in bench.cli("prospects", "show", plain["id"], expect=2).stderr
    assert "no profile" in bench.cli("prospects", "show", "nonsense", expect=2).stderr
    assert "no profile" in bench.cli("advise", "nonsense", expect=2).stderr


def test_a_real_int8_model_is_advised_on_against_the_floating_one(
    bench: Bench, model: Path, shared_agent: AgentProcess, tmp_path: Path
) -> None:
    samples = tmp_path / "samples"
    samples.mkdir()
    for number in range(4):
        np.save(samples / f"{number}.npy", np.random.default_rng(number).standard_normal(8).astype("f"))
    quantized = bench.json("models", "quantize", model, "--inputs", samples)
    assert "4 inputs of samples" in quantized["derivation"]
    where = (
        "--engine",
        "onnxruntime",
        "--target",
        shared_agent.address,
        "--iterations",
        "5",
        "--warmup",
        "1ms",
        *UNWAITING,
    )
    (floating,) = bench.json("profile", model, *where)["profiles"]
    (small,) = bench.json("profile", quantized["digest"], *where)["profiles"]
    document = bench.json("advise", small["id"], "--against", floating["id"])
    assert (document["profile_id"], document["against_id"]) == (small["id"], floating["id"])
    names = {layer["name"] for layer in small["layers"]}
    # What else there is depends on times, and a busy machine's are any.
    assert "other-settings" in {one["rule"] for one in document["advice"]}
    for one in document["advice"]:
        assert one["sentence"] and one["remedy"]
        for layer in one["layers"]:
            assert small["layers"][layer["position"]]["name"] == layer["name"] in names
    shown = bench.cli("advise", small["id"]).stdout
    assert all(one["rule"] in shown for one in bench.json("advise", small["id"])["advice"])


def test_calibration_that_does_not_fit_is_refused_in_a_sentence(bench: Bench, model: Path, tmp_path: Path) -> None:
    said = bench.cli("models", "quantize", model, "--inputs", tmp_path / "absent", expect=2).stderr
    assert "cannot read the folder of inputs" in said
    (tmp_path / "empty").mkdir()
    assert "holds no inputs" in bench.cli("models", "quantize", model, "--inputs", tmp_path / "empty", expect=2).stderr
    said = bench.cli("models", "quantize", model, "--inputs", tmp_path, "--image-layout", "odd", expect=2).stderr
    assert "--image-layout: 'odd' is not one of nchw or nhwc" in said
    said = bench.cli("models", "quantize", model, "--image-layout", "nchw", expect=2).stderr
    assert "options for images need a folder" in said
