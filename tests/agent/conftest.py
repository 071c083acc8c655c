"""Agents, clients and a tiny model. Makes `agent_process` importable from the tests beside it."""

import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("agent_process")
sys.path.insert(0, str(Path(__file__).parent))

from agent_process import Client, connected  # noqa: E402
from onnx import TensorProto, helper  # noqa: E402

from agent_server import AgentProcess  # noqa: E402


@pytest.fixture
def start_agent(tmp_path: Path) -> Iterator[Callable[..., AgentProcess]]:
    """Starts agents, by default with one data folder, and stops them when the test ends."""
    agents: list[AgentProcess] = []

    def start(*arguments: str, folder: str = "agent", **options: str) -> AgentProcess:
        agents.append(AgentProcess(tmp_path / folder, *arguments, **options))
        return agents[-1]

    yield start
    for agent in agents:
        agent.stop(signal.SIGINT)  # SIGTERM would wait for what a test left running


@pytest.fixture(scope="session")
def shared_agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """One agent for tests that do not hurt it; each uses run ids of its own."""
    agent = AgentProcess(tmp_path_factory.mktemp("shared-agent"))
    yield agent
    agent.stop()


@pytest.fixture
async def shared(shared_agent: AgentProcess, model: bytes) -> AsyncIterator[Client]:
    """A client of the shared agent, which holds the model."""
    async with connected(shared_agent) as client:
        await client.upload(model)
        yield client


@pytest.fixture
def agent(start_agent: Callable[..., AgentProcess]) -> AgentProcess:
    return start_agent()


@pytest.fixture
async def client(agent: AgentProcess) -> AsyncIterator[Client]:
    async with connected(agent) as client:
        yield client


@pytest.fixture(scope="session")
def model() -> bytes:
    """y = relu(x @ w) with x: float32[batch, 4]; a few hundred bytes."""
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], [0.1 * i for i in range(12)])
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["z"], "matmul"), helper.make_node("Relu", ["z"], ["y"], "relu")],
        "tiny",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 3])],
        [weights],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


@pytest.fixture
async def ready(client: Client, model: bytes) -> Client:
    """A client whose agent holds the model."""
    await client.upload(model)
    return client
