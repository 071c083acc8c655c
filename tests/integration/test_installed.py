"""What pip makes of us: a small base whose agent serves, and strangers' plugins beside our own engines."""

import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_server import AgentProcess
from integration.bench import BRIEF, QUICK, ROOT, Bench

FORBIDDEN = {"numpy", "duckdb", "streamlit", "psutil", "pandas", "pyarrow", "onnx", "typer", "rich"}
IDLE_LIMIT_BYTES = 60_000_000


def pip(python: Path) -> list[str]:
    """Our own pip, at work in another environment: one that is installed there takes seconds."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python)]


def _environment(folder: Path, *requirements: str) -> Path:
    """A fresh virtual environment with these requirements; returns its interpreter."""
    venv.create(folder)
    python = folder / "bin" / "python"
    constraints = ("--constraint", ROOT / "constraints.txt")
    subprocess.run([*pip(python), "install", "--quiet", *constraints, *requirements], check=True)
    return python


@pytest.fixture(scope="module")
def base_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, AgentProcess]]:
    folder = tmp_path_factory.mktemp("base")
    python = _environment(folder / "venv", str(ROOT))
    agent = AgentProcess(folder / "agent", config=None, python=str(python))
    yield python, agent
    agent.stop()


@pytest.mark.xdist_group("base")
def test_the_base_pulls_in_nothing_heavy(base_agent: tuple[Path, AgentProcess]) -> None:
    python, _ = base_agent
    listing = subprocess.run([*pip(python), "list", "--format=freeze"], capture_output=True, text=True, check=True)
    installed = {line.partition("==")[0].lower() for line in listing.stdout.splitlines()}
    assert "grpcio" in installed and not installed & FORBIDDEN


@pytest.mark.xdist_group("base")
def test_commands_of_the_base_alone_say_what_they_need(base_agent: tuple[Path, AgentProcess]) -> None:
    python, _ = base_agent
    done = subprocess.run([python.with_name("enginebench"), "list"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert 'pip install "enginebench[controller]"' in done.stderr


@pytest.mark.xdist_group("base")
def test_the_base_alone_serves_and_tells_what_is_missing(base_agent: tuple[Path, AgentProcess], bench: Bench) -> None:
    _, agent = base_agent
    (target,) = bench.json("devices", "--target", agent.address)["targets"]
    reasons = {e["name"]: e["unavailable"] for e in target["engines"]}
    assert {"onnxruntime", "openvino", "torch", "deepsparse", "tract"} <= set(reasons)
    assert all(unavailable["reason"] for unavailable in reasons.values())


@pytest.mark.xdist_group("base")
def test_the_idle_agent_is_small(base_agent: tuple[Path, AgentProcess], bench: Bench) -> None:
    _, agent = base_agent
    bench.cli("devices", "--target", agent.address)
    resident_bytes = agent.resident_bytes()
    print(f"idle agent: {resident_bytes / 1e6:.1f} MB")
    assert resident_bytes < IDLE_LIMIT_BYTES


@pytest.mark.fault(18)
def test_strangers_plugins_work_beside_a_broken_one(tmp_path: Path, bench: Bench, model: Path) -> None:
    plugins = (str(ROOT / "tests" / "example_plugin"), str(ROOT / "tests" / "broken_plugin"))
    python = _environment(tmp_path / "venv", str(ROOT), *plugins)
    agent = AgentProcess(tmp_path / "agent", config=None, python=str(python))
    try:
        (target,) = bench.json("devices", "--target", agent.address)["targets"]
        engines = {engine["name"]: engine for engine in target["engines"]}
        assert "libbroken.so.1" in str(engines["broken"]["unavailable"])
        assert engines["reference"]["available"]["devices"]
        target_and_engine = ("--engine", "reference", "--target", agent.address)
        measured = bench.json("run", model, *target_and_engine, *QUICK, "--batch", "1,4")
        assert [m["status"] for m in measured["measurements"]] == ["ok", "ok"]
        (profile,) = bench.json("profile", model, *target_and_engine, "--iterations", "3", *BRIEF)["profiles"]
        assert {"matmul_1", "relu", "matmul_2"} <= {layer["name"] for layer in profile["layers"]}
    finally:
        agent.stop()


def test_two_environments_hold_two_versions_of_one_engine(tmp_path: Path, bench: Bench, model: Path) -> None:
    data_dir = bench.home / "agent"
    add = [sys.executable, "-m", "enginebench_agent", "environment", "add", "old", "--engine", "onnxruntime==1.23.2"]
    subprocess.run([*add, "--data-dir", data_dir], check=True)
    document = bench.json("run", model, "--engine", "onnxruntime@*", *QUICK)
    versions = {m["engine"]["environment"]: m["engine"]["version"] for m in document["measurements"]}
    assert versions["old"] == "1.23.2" and versions["default"] != "1.23.2"
    assert {m["status"] for m in document["measurements"]} == {"ok"}
