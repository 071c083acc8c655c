"""Ctrl-C at every stage of a run: the child is gone, the device is free, and the exit code says why."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from agent_server import AgentProcess
from enginebench_proto.v1 import run_pb2, run_pb2_grpc
from fault_proxy import fault_proxy_in_a_thread
from integration.bench import QUICK, UNHURRIED, UNWAITING, Bench

pytestmark = pytest.mark.fault(15)

CHILD_SECONDS = 2.0
BUSY_SECONDS = 5.0
"""What other work on this machine may add."""
ENDLESS = ("--duration", "60s", "--max-duration", "2m")
STAGES = {
    "compile": ("--option", "fake.fault=hang", "--option", "fake.fault_phase=compile"),
    "first_inference": ("--option", "fake.fault=hang", "--option", "fake.fault_phase=inference"),
    "warm_up": ("--warmup", "60s", *ENDLESS),
    "steady_state": ("--warmup", "10ms", *ENDLESS),
}


@pytest.fixture
def agent(start_agent: Callable[..., AgentProcess], bench: Bench) -> Iterator[AgentProcess]:
    agent = start_agent()
    bench.cli("devices", "--target", agent.address)
    return agent


@pytest.mark.parametrize("stage", STAGES)
def test_ctrl_c_in_a_run_ends_its_child_frees_the_device_and_exits_with_130(
    bench: Bench, model: Path, agent: AgentProcess, stage: str
) -> None:
    running = _run(bench, model, agent.address, STAGES[stage])
    _wait_for_phase(agent, stage)
    (child,) = agent.children()
    running.send_signal(signal.SIGINT)
    began = time.monotonic()
    _until(lambda: child not in agent.children(), running, "the child lives on")
    assert time.monotonic() - began < CHILD_SECONDS + BUSY_SECONDS
    assert _exit_code(running) == 130
    assert bench.json("run", model, "--engine", "fake", "--target", agent.address, *QUICK), "the device is free"


def test_ctrl_c_in_an_upload_leaves_what_was_sent_and_exits_with_130(
    bench: Bench, agent: AgentProcess, tmp_path: Path
) -> None:
    model = _large_model(tmp_path / "large.onnx")
    files = agent.data_dir / "files"
    with fault_proxy_in_a_thread(agent.port) as proxy:
        proxy.stall_at(4_000_000)
        running = _run(bench, model, proxy.address, ())
        _until(lambda: any(path.stat().st_size > 1_000_000 for path in files.glob("*.part")), running, "no upload")
        running.send_signal(signal.SIGINT)
        assert _exit_code(running) == 130
    assert agent.children() == []
    assert bench.json("run", model, "--engine", "fake", "--target", agent.address, *QUICK), "it goes on from there"


def test_a_time_limit_ends_the_child_and_frees_the_device(bench: Bench, model: Path, agent: AgentProcess) -> None:
    hanging = (*STAGES["compile"], "--timeout", "3s", *UNWAITING)
    document = bench.json("run", model, "--engine", "fake", "--target", agent.address, *hanging, expect=1)
    assert document["measurements"][0]["failure"]["kind"] == "timed_out"
    assert agent.children() == []
    assert bench.json("run", model, "--engine", "fake", "--target", agent.address, *QUICK)


def _run(bench: Bench, model: Path, address: str, options: Sequence[str]) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "enginebench_controller", "run", str(model), "--engine", "fake"]
    one = ["--target", address, "--processes", "1", "--interval", "0%", *UNHURRIED]
    return subprocess.Popen([*command, *one, *options], env=bench.variables, stderr=subprocess.PIPE, text=True)


def _wait_for_phase(agent: AgentProcess, name: str) -> None:
    """Wait until the agent's only run has come so far."""
    with grpc.insecure_channel(agent.address) as channel:
        runs = run_pb2_grpc.RunServiceStub(channel)
        deadline = time.monotonic() + 60
        while not (known := runs.List(run_pb2.ListRequest()).runs):
            assert time.monotonic() < deadline, "the controller started no run"
            time.sleep(0.05)
        for event in runs.Watch(run_pb2.WatchRequest(run_id=known[0].run_id), timeout=60):
            if event.phase.name == name:
                return
    raise AssertionError(f"the run ended before its phase {name}")


def _until(condition: Callable[[], bool], running: "subprocess.Popen[str]", otherwise: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            if condition():
                return
        except FileNotFoundError:  # a process or file that is gone meanwhile
            continue
        time.sleep(0.02)
    running.kill()
    raise AssertionError(otherwise)


def _exit_code(running: "subprocess.Popen[str]") -> int:
    _, remarks = running.communicate(timeout=30)
    assert "Traceback" not in remarks, remarks
    return running.returncode


def _large_model(path: Path) -> Path:
    weights = np.random.default_rng(0).standard_normal((1024, 4096), dtype=np.float32)
    tensor = helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.tobytes(), raw=True)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1024])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4096])
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"], "matmul")], "large", [x], [y], [tensor])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    return path
