"""A home whose jobs are real processes, and an agent with the fake engine for them."""

import pytest

from agent_server import AgentProcess
from controller.jobs.waiting import ended
from enginebench_controller.home import Home
from enginebench_controller.jobs.control import cancel, jobs
from enginebench_controller.plan.plan import make_plan
from integration.bench import Bench, tiny_model


@pytest.fixture
def home(tmp_path):
    """Ends, and waits for, whatever a test left running."""
    home = Home(Bench.of_engines(tmp_path / "home", "fake").home)
    yield home
    for one in jobs(home):
        cancel(one)
    for one in jobs(home):
        ended(home, one)


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    """One agent, so that its engines are discovered once."""
    agent = AgentProcess(tmp_path_factory.mktemp("agent"))
    yield agent
    agent.stop()


@pytest.fixture
def plan(agent, tmp_path):
    """A plan of one cell a batch on the fake engine, of about 0.2 s each."""
    model = tiny_model(tmp_path / "tiny.onnx")

    def make(**fields):
        quick = {"processes": 1, "duration": "100ms", "warmup": "50ms", "max_duration": "5s", "interval": "0%"}
        quick |= {"retry_noisy": False, "wait_quiet": "0s"}
        usual = {"models": [str(model)], "engines": ["fake"], "targets": [agent.address], "devices": ["FAKE:0"]}
        return make_plan(usual | quick | fields, "test")

    return make
