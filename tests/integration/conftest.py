"""Fixtures of the integration tests."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_server import AgentProcess
from integration.bench import Bench, tiny_model
from integration.ssh_machine import SSH, SSHD, SshMachine


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """A home whose own agent knows two engines, or those of the mark `engines`: some take seconds to be asked."""
    marked = request.node.get_closest_marker("engines")
    return Bench.of_engines(tmp_path / "home", *(marked.args if marked else ("fake", "onnxruntime")))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "tiny.onnx")


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[Callable[..., AgentProcess]]:
    """Starts agents, by default with the fake engine, that are stopped when the test ends."""
    agents: list[AgentProcess] = []

    def start(name: str = "agent", **options: object) -> AgentProcess:
        agents.append(AgentProcess(tmp_path / name, **options))  # type: ignore[arg-type]  # passed through to AgentProcess
        return agents[-1]

    yield start
    for agent in agents:
        agent.stop(signal.SIGINT)  # SIGTERM would wait for what a test left running


@pytest.fixture(scope="session")
def shared_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent with all engines, for tests that do not hurt it, so that they are discovered once."""
    agent = AgentProcess(tmp_path_factory.mktemp("shared-agent"), config=None)
    yield agent
    agent.stop()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SshMachine]:
    """A machine to log in to, with the `ssh` that may do so first on the PATH."""
    if SSH is None or SSHD is None:
        pytest.skip("no SSH server here, and nobody who may install one (tests/integration/install.sh)")
    machine = SshMachine(tmp_path / "machine")
    monkeypatch.setenv("PATH", f"{machine.bin}:{os.environ['PATH']}")
    yield machine
    machine.stop()


@pytest.fixture
def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
