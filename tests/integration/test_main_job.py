"""The main job: from a model file through an agent into the store and out again."""

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_server import AgentProcess, only
from enginebench_controller.runs import remote_run
from integration.bench import BRIEF, QUICK, UNHURRIED, Bench, tiny_model


def test_run_without_a_target_starts_and_stops_a_local_agent(bench: Bench, model: Path) -> None:
    document = bench.json("run", model, "--engine", "onnxruntime", "--batch", "1,4", "--cores", "1", *QUICK)
    assert [m["target"] for m in document["measurements"]] == ["local", "local"]
    assert not any(f"{bench.home}/agent" in line for line in _processes())


def test_json_has_what_users_rely_on_and_show_prints_the_same(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    arguments = ("--engine", "onnxruntime,openvino,torch", "--batch", "1,4", "--cores", "1,2", "--precision", "f32")
    document = bench.json("run", model, *arguments, "--target", shared_agent.address, *QUICK)
    assert document["schema_version"] == 2
    assert len(document["measurements"]) == 3 * 2 * 2
    for measurement in document["measurements"]:
        assert measurement["status"] == "ok", measurement
        assert {"name", "version", "environment"} <= set(measurement["engine"])
        assert measurement["effective"]["precision"]["value"] == "f32"
        assert measurement["latency"]["samples"] >= 10
        assert measurement["latency"]["median_ns"] > 0
        assert measurement["throughput_items_per_s"] > 0
    assert bench.json("show", document["benchmark"]["id"]) == document


def test_bf16_against_f32_is_flagged_as_unlike_also_where_it_was_asked_for(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    (target,) = bench.json("devices", "--target", shared_agent.address)["targets"]
    openvino = next(engine for engine in target["engines"] if engine["name"] == "openvino")
    if "bf16" not in openvino["available"]["devices"][0]["precisions"]:
        pytest.skip("this processor has no bf16")
    arguments = ("--engine", "openvino", "--precision", "f32,bf16", "--target", shared_agent.address)
    document = bench.json("run", model, *arguments, *QUICK)
    assert any("effective precision differs: bf16 on openvino" in remark for remark in document["remarks"])
    (compared,) = bench.json("compare", document["benchmark"]["id"])["comparisons"]
    assert any("effective precision differs" in remark for remark in compared["remarks"])


def test_throughput_counts_items_of_every_request_in_flight(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    arguments = ("--engine", "fake", "--load", "async", "--requests", "2", "--batch", "4")
    sleeping = ("--option", "fake.latency_us=20000", "--option", "fake.wait=sleep")
    measuring = (*QUICK, "--duration", "1s")
    document = bench.json("run", model, *arguments, *sleeping, *measuring, "--target", shared_agent.address)
    (measurement,) = document["measurements"]
    # Two requests of 4 items every 20 ms are 400 items a second; a loaded machine may reach less, never more. The time
    # from the completion of one request to the last one of the other is short of a turn, and so one more may be in it.
    edge = 1 - 1 / measurement["iterations"]
    assert 200 < measurement["throughput_items_per_s"] <= 400 / edge
    assert measurement["latency"]["min_ns"] >= 20_000_000


def test_rerun_is_a_new_linked_benchmark_with_the_same_model(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    first = bench.json("run", model, "--engine", "fake", "--target", shared_agent.address, *QUICK)
    tiny_model(model, seed=1)
    second = bench.json("rerun", first["benchmark"]["id"])
    assert second["benchmark"]["rerun_of"] == first["benchmark"]["id"]
    assert second["measurements"][0]["model"]["digest"] == first["measurements"][0]["model"]["digest"]
    assert len(bench.json("list")["benchmarks"]) == 2
    old = second["benchmark"]["id"]
    third = bench.cli("rerun", old)
    command = re.search(rf"`enginebench (compare {old} \w+)`", third.stderr)
    bench.cli(*command[1].split())


def test_one_engine_that_cannot_run_a_model_fails_alone_and_in_its_own_words(
    bench: Bench, model: Path, shared_agent: AgentProcess
) -> None:
    failing = ("--option", "fake.fault=compile_error", "--option", "fake.fault_phase=compile")
    arguments = ("--engine", "fake,onnxruntime", "--target", shared_agent.address)
    document = bench.json("run", model, *arguments, *failing, *QUICK, expect=1)
    by_engine = {m["engine"]["name"]: m for m in document["measurements"]}
    assert by_engine["onnxruntime"]["status"] == "ok"
    assert by_engine["fake"]["failure"]["kind"] == "compile_failed"
    assert by_engine["fake"]["failure"]["detail"]
    assert by_engine["fake"]["latency"] is None


@pytest.mark.fault(1)
def test_a_killed_agent_loses_only_its_own_configurations(
    bench: Bench, model: Path, start_agent: Callable[..., AgentProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "RECONNECT_SECONDS", 3.0)
    lost, kept = start_agent("lost"), start_agent("kept")
    bench.cli("targets", "add", "lost", lost.address)
    bench.cli("targets", "add", "kept", kept.address)
    watcher = threading.Thread(target=_kill_when_busy, args=(lost,))
    watcher.start()
    arguments = ("--engine", "fake", "--target", "lost,kept", "--batch", "1,2,3", *QUICK, "--duration", "1500ms")
    document = bench.json("run", model, *arguments, expect=1)
    watcher.join()
    by_target = {name: [m for m in document["measurements"] if m["target"] == name] for name in ("lost", "kept")}
    assert [m["status"] for m in by_target["kept"]] == ["ok"] * 3
    assert {m["failure"]["kind"] for m in by_target["lost"]} == {"agent_lost"} and len(by_target["lost"]) == 3
    assert bench.cli("targets", "check", expect=3)
    lost.restart()
    again = bench.json("rerun", document["benchmark"]["id"])
    assert again["benchmark"]["rerun_of"] == document["benchmark"]["id"]
    assert {m["status"] for m in again["measurements"]} == {"ok"}


@pytest.mark.fault(11)
def test_a_child_killed_by_a_signal_is_typed_and_the_next_run_passes(
    bench: Bench, model: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    agent = start_agent(config=only("onnxruntime"))
    bench.cli("targets", "add", "here", agent.address)
    bench.cli("devices", "--target", "here")
    killer = threading.Thread(target=_signal_worker, args=(agent, signal.SIGSEGV))
    killer.start()
    document = bench.json(
        "run", model, "--engine", "onnxruntime", "--target", "here", "--duration", "20s", *UNHURRIED, expect=1
    )
    killer.join()
    failure = document["measurements"][0]["failure"]
    assert (failure["kind"], failure["signal"]) == ("crashed", "SIGSEGV")
    assert bench.json("targets", "check")[0]["health"] == "serving"
    assert bench.json("run", model, "--engine", "onnxruntime", "--target", "here", *QUICK)


@pytest.mark.fault(15)
def test_ctrl_c_ends_the_child_and_keeps_what_was_finished(
    bench: Bench, model: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    agent = start_agent()
    bench.cli("devices", "--target", agent.address)
    command = [sys.executable, "-m", "enginebench_controller", "run", str(model), "--engine", "fake"]
    options = ["--target", agent.address, "--duration", "30s", *UNHURRIED]
    running = subprocess.Popen([*command, *options], env=bench.variables, stderr=subprocess.PIPE, text=True)
    _wait_for_worker(agent)
    running.send_signal(signal.SIGINT)
    _, remarks = running.communicate(timeout=30)
    assert running.returncode == 130 and "Traceback" not in remarks
    assert agent.children() == []
    assert list((agent.data_dir / "spool").iterdir()) == [], "what is stored stays nobody's to collect"
    (listed,) = bench.json("list")["benchmarks"]
    assert bench.json("show", listed["id"])["measurements"][0]["status"] == "cancelled"


def test_export_and_import_lose_nothing_and_double_nothing(
    bench: Bench, model: Path, shared_agent: AgentProcess, tmp_path: Path
) -> None:
    document = bench.json("run", model, "--engine", "fake", "--target", shared_agent.address, *QUICK)
    bench.cli("export", document["benchmark"]["id"], "--output", tmp_path / "export.json")
    elsewhere = Bench(tmp_path / "elsewhere")
    for _ in range(2):
        elsewhere.cli("import", tmp_path / "export.json")
    (listed,) = elsewhere.json("list")["benchmarks"]
    assert listed["imported"]
    assert elsewhere.json("show", listed["id"])["measurements"] == document["measurements"]


def test_profile_shows_every_layer(bench: Bench, model: Path, shared_agent: AgentProcess) -> None:
    engines = "onnxruntime,openvino,torch,fake"
    document = bench.json(
        "profile", model, "--engine", engines, "--target", shared_agent.address, "--iterations", "5", *BRIEF
    )
    assert len(document["profiles"]) == 4
    for profile in document["profiles"]:
        executed = [layer for layer in profile["layers"] if layer["state"] == "executed"]
        assert executed and all(len(layer["time_ns"]) == 5 for layer in executed), profile["engine"]
        assert profile["profiled_latency_ns"] > 0 and profile["unprofiled_latency_ns"] > 0


@pytest.mark.parametrize("verb", ["list", "devices"])
def test_output_to_a_closed_pipe_is_no_error(bench: Bench, shared_agent: AgentProcess, verb: str) -> None:
    bench.cli("targets", "add", "here", shared_agent.address)
    shell = f"{sys.executable} -m enginebench_controller {verb} | true"
    done = subprocess.run(["bash", "-c", shell], env=bench.variables, capture_output=True, text=True, check=True)
    assert "Traceback" not in done.stderr


def _processes() -> list[str]:
    return [
        path.read_bytes().decode(errors="replace") for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()
    ]


def _wait_for_worker(agent: AgentProcess, seconds: float = 60) -> int:
    """The process id of a child that has been measuring for a moment."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for pid in agent.children():
            command = Path(f"/proc/{pid}/cmdline")
            if command.exists() and b"\0run\0" in command.read_bytes():
                time.sleep(0.7)
                return pid
        time.sleep(0.02)
    raise AssertionError("the agent started no run")


def _kill_when_busy(agent: AgentProcess) -> None:
    _wait_for_worker(agent)
    agent.kill()


def _signal_worker(agent: AgentProcess, number: signal.Signals) -> None:
    os.kill(_wait_for_worker(agent), number)
