"""What a model is fed: values that somebody said, values that were drawn, and models that cannot be fed at all."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import numpy as np
import onnx
import pytest
from filelock import FileLock
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

from agent.agent_process import AgentProcess
from enginebench_controller.cli import make_app
from enginebench_controller.errors import UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import LOCAL_TARGET
from enginebench_controller.runs.benchmarking import BenchmarkOrder, plan_only
from enginebench_controller.targets import session
from integration.bench import BRIEF, QUICK, Bench


def rated_model(path: Path) -> Path:
    """It multiplies `x` by a gain that `sr` selects: of two for 8,000 and 16,000, and of none for 0 and 1."""
    weights = {"gains": np.array([1, 2], np.float32), "step": np.array(8000), "first": np.array(1)}
    nodes = [
        helper.make_node("Max", ["sr", "first"], ["positive"]),
        helper.make_node("Div", ["step", "positive"], ["fraction"]),
        helper.make_node("Gather", ["gains", "fraction"], ["gain"]),
        helper.make_node("Mul", ["x", "gain"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", 16]) for name in "xy")
    sr = helper.make_tensor_value_info("sr", TensorProto.INT64, [])
    stored = [numpy_helper.from_array(values, name) for name, values in weights.items()]
    graph = helper.make_graph(nodes, "rated", [x, sr], [y], stored)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_failure_at_a_drawn_value_names_it_and_the_value_can_be_given(
    bench: Bench, tmp_path: Path, shared_agent: AgentProcess
) -> None:
    model = rated_model(tmp_path / "rated.onnx")
    order = ("run", model, "--engine", "onnxruntime", "--target", shared_agent.address, *QUICK)
    (failed,) = bench.json(*order, expect=1)["measurements"]
    assert failed["failure"]["kind"] == "inference_failed"
    assert "sr from 0 and 1; give one by --input sr=VALUE" in failed["failure"]["message"]
    (given,) = bench.json(*order, "--input", "sr=16000")["measurements"]
    (range_,) = bench.json(*order, "--input", "sr=15000..16000")["measurements"]
    assert given["configuration"]["input_set"]["name"] == "random with sr=16000"
    assert range_["configuration"]["input_set"]["name"] == "random with sr=15000..16000"
    assert given["input_set_sha256"] != range_["input_set_sha256"]
    target = ("--engine", "onnxruntime", "--target", shared_agent.address)
    profiled = bench.json("profile", model, *target, "--iterations", "2", "--input", "sr=16000", *BRIEF)
    assert profiled["profiles"][0]["status"] == "ok"


def test_items_are_counted_along_the_axis_that_was_said(
    bench: Bench, tmp_path: Path, shared_agent: AgentProcess
) -> None:
    """Seven steps of a sequence, then the batch: each inference is of four items and takes 2 ms."""
    model = tmp_path / "steps.onnx"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [7, "width", 10]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "steps", [x], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    slow = ("--engine", "fake", "--option", "fake.latency_us=2000", "--target", shared_agent.address, *QUICK)
    (found,) = bench.json("run", model, "--batch-axis", "x=1", "--batch", "4", *slow)["measurements"]
    (tensor,) = found["configuration"]["inputs"]
    assert (tensor["shape"], tensor["batch_axis"], found["configuration"]["batch"]) == ([7, 4, 10], 1, 4)
    items = found["throughput_items_per_s"] * found["latency"]["mean_ns"] / 1e9
    assert items == pytest.approx(4, rel=0.2)


def test_one_damaged_model_of_several_is_named_and_the_others_run(
    bench: Bench, model: Path, tmp_path: Path, shared_agent: AgentProcess
) -> None:
    damaged = tmp_path / "damaged.onnx"
    damaged.write_bytes(model.read_bytes()[:200])
    order = (model, damaged, "--engine", "fake", "--target", shared_agent.address, *QUICK, "--json")
    done = bench.cli("run", *order, expect=1)
    assert "damaged.onnx is left out: " in done.stderr and "is cut off" in done.stderr
    (listed,) = bench.json("list")["benchmarks"]
    assert [one["status"] for one in bench.json("show", listed["id"])["measurements"]] == ["ok"]
    missing = bench.cli("run", model, tmp_path / "missing.onnx", "--engine", "fake", *QUICK, expect=2)
    assert "there is no model file" in missing.stderr


async def test_a_dry_run_waits_for_nobody_who_uses_this_machine(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    bench.cli("run", model, "--engine", "fake", "--target", shared_agent.address, "--dry-run")
    home = Home(bench.home)
    (seen,) = home.store.snapshots()
    home.store.save_snapshot(replace(seen, target=LOCAL_TARGET))
    order = BenchmarkOrder(make_plan({"models": [str(model)], "engines": ["fake"]}, "run"))
    with FileLock(bench.home / "local-agent.lock"):
        expansion = await plan_only(home, order)
        assert [case.target for case in expansion.cases] == [LOCAL_TARGET]
        (bench.home / "agent" / "environments").mkdir(parents=True, mode=0o700)
        with pytest.raises(TimeoutError):  # it waits, as what was seen may no longer be so
            await asyncio.wait_for(plan_only(home, order), 1)
        ahead = replace(seen, target=LOCAL_TARGET, seen_at_unix_ns=time.time_ns() + 3600 * 10**9)
        home.store.save_snapshot(ahead)
        with pytest.raises(TimeoutError):  # likewise, as nobody knows when it was seen
            await asyncio.wait_for(plan_only(home, order), 1)


def test_who_is_trusted_reaches_the_agent_of_this_machine(
    bench: Bench, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, trusted = Home(bench.home), []

    def local_agent(_home: Path, _data: Path, *, trusted_models: Sequence[str]) -> NoReturn:
        trusted.append(tuple(trusted_models))
        raise UnreachableError("not today")

    monkeypatch.setattr(session, "local_agent", local_agent)
    monkeypatch.setenv("ENGINEBENCH_HOME", str(bench.home))
    for command in ("run", "profile"):
        for options in ([], ["--trust"]):
            CliRunner().invoke(make_app(), [command, str(model), *options])
    digest = home.library.resolve(str(model)).digest
    assert trusted == [(), (digest,), (), (digest,)]
