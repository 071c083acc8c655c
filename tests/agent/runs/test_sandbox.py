"""A run's child in bubblewrap, as its agent and the machine see it; and that an owner may do without."""

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_process import connected, is_alive, make_spec
from logging_agent import logging_agent

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_agent import server
from enginebench_agent.config import load_config
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.server import ServeOptions
from enginebench_proto.v1 import run_pb2

pytestmark = pytest.mark.slow

HANGING = {"fault": "hang"}


@pytest.fixture
def bubblewrap() -> str:
    program = shutil.which("bwrap")
    if (
        program is None
        or subprocess.run([program, "--unshare-user", "--ro-bind", "/", "/", "true"], check=False).returncode
    ):
        pytest.skip("bubblewrap cannot be used here")
    return program


@pytest.mark.usefixtures("bubblewrap")
async def test_the_child_of_a_run_sees_its_own_folder_and_no_other_of_its_agent(
    start_agent: Callable[..., AgentProcess], model: bytes, tmp_path: Path
) -> None:
    keys = tmp_path / "agent" / "tls" / "agent.key"
    keys.parent.mkdir(parents=True)
    keys.write_text("secret")
    agent = start_agent("--plain-text")
    async with connected(agent) as client:
        await client.upload(model)
        await client.start(make_spec(model, options=HANGING))
        await client.wait_for_phase("run-1", "compile")
        (child,) = agent.children()
        root = Path(f"/proc/{child}/root")
        seen = {path.name for path in (root / str(agent.data_dir)[1:]).iterdir()}
        own = {path.name for path in (root / str(agent.data_dir)[1:] / "runs").iterdir()}
        await client.cancel("run-1")
    assert seen == {"runs"} and own == {"run-1"}
    assert not is_alive(child)


@pytest.mark.usefixtures("bubblewrap")
async def test_the_signal_that_ends_a_child_is_told_as_its_own(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent()
    async with connected(agent) as client:
        await client.upload(model)
        await client.start(make_spec(model, options=HANGING))
        await client.wait_for_phase("run-1", "compile")
        (child,) = agent.children()
        os.kill(child, 11)
        await client.watch("run-1")
        failure = (await client.outcome("run-1")).result.failure
    assert (failure.kind, failure.signal) == (run_pb2.FAILURE_KIND_CRASHED, "SIGSEGV")


async def test_an_owner_may_turn_it_off(start_agent: Callable[..., AgentProcess], model: bytes) -> None:
    agent = start_agent(config="sandbox = false\n" + ONLY_FAKE)
    async with connected(agent) as client:
        await client.upload(model)
        await client.start(make_spec(model, options=HANGING))
        await client.wait_for_phase("run-1", "compile")
        (child,) = agent.children()
        assert Path(f"/proc/{child}/root{agent.data_dir}/agent.toml").exists()
        await client.cancel("run-1")


def test_the_log_says_what_children_are_shut_in_by(tmp_path: Path, bubblewrap: str) -> None:
    with logging_agent(tmp_path, "--verbose", "--log-format", "json") as agent:
        (line,) = agent.lines("listening")
    assert line["shut_in_by"] == bubblewrap


def test_without_the_program_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert load_config(DataFolder(tmp_path)).child_limits.sandbox is None


def test_keys_that_lie_elsewhere_are_hidden_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "bwrap"
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    options = ServeOptions("127.0.0.1", 0, DataFolder(tmp_path / "data"), tls=tmp_path / "tls")
    sandbox = server._load_config(options).child_limits.sandbox
    assert sandbox is not None and sandbox.hidden == (tmp_path / "data", tmp_path / "home", tmp_path / "tls")
