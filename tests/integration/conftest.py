"""Fixtures of the integration tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from integration.bench import Agent, Bench, tiny_model


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "home")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_model(tmp_path / "tiny.onnx")


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    """Starts agents that are stopped when the test ends."""
    agents: list[Agent] = []

    def start(name: str = "agent", **options: object) -> Agent:
        agents.append(Agent(tmp_path / name, **options))  # type: ignore[arg-type]  # passed through to Agent
        return agents[-1]

    yield start
    for agent in agents:
        agent.stop()


@pytest.fixture(scope="session")
def shared_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """One agent for tests that do not hurt it, so that its engines are discovered once."""
    agent = Agent(tmp_path_factory.mktemp("shared-agent"))
    yield agent
    agent.stop()
