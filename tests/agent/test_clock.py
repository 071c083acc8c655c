"""A wall clock that is set back by an hour, again and again, changes instants and nothing else."""

import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from agent_process import Client, connected, make_spec
from clock_going_back import HOUR_NS, executable

import agent_server
from enginebench_proto.v1 import run_pb2

pytestmark = [pytest.mark.slow, pytest.mark.fault(20)]

SECOND = 1_000_000_000


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[agent_server.AgentProcess]:
    """An agent whose own clock goes back, and those of its children too."""
    of_agent, of_child = (executable(tmp_path, tmp_path / name) for name in ("agent-clock", "child-clock"))
    config = f'[environments.default]\npython = "{of_child}"\nengines = ["fake"]\n'
    agent = agent_server.AgentProcess(tmp_path / "data", config=config, python=str(of_agent))
    yield agent
    agent.stop()


@pytest.fixture
async def client(agent: agent_server.AgentProcess, model: bytes) -> AsyncIterator[Client]:
    async with connected(agent) as client:  # type: ignore[arg-type]  # it only wants an address
        await client.upload(model)
        yield client


async def test_durations_of_agent_and_child_are_true_while_the_clock_goes_back(
    client: Client, model: bytes, tmp_path: Path
) -> None:
    begun = time.monotonic_ns()
    outcome = await client.run(make_spec(model, "clock", duration_ms=50))
    lasted_ns = time.monotonic_ns() - begun

    assert outcome.result.outcome == run_pb2.OUTCOME_OK
    assert (tmp_path / "agent-clock").exists() and (tmp_path / "child-clock").exists()
    assert outcome.result.started_at_unix_ns < time.time_ns() - HOUR_NS, "the instant did jump"
    elapsed = [event.elapsed_ns for event in await client.watch("clock")]
    assert elapsed == sorted(elapsed) and elapsed[-1] <= lasted_ns
    phases = {phase.name: phase.duration_ns for phase in outcome.result.measurement.phases}
    assert phases["steady_state"] >= 50_000_000
    assert sum(phases.values()) <= lasted_ns
    assert sum(block.duration_ns for block in outcome.blocks) <= outcome.result.measurement.steady_state_ns <= lasted_ns
    assert all(500_000 <= sample_ns <= lasted_ns for sample_ns in outcome.samples_ns)


async def test_a_time_limit_holds_while_the_clock_goes_back(client: Client, model: bytes) -> None:
    hanging = make_spec(model, "limit", options={"fault": "hang", "fault_phase": "compile"}, timeout_ns=1 * SECOND)
    begun = time.monotonic_ns()
    outcome = await client.run(hanging)
    assert outcome.result.failure.kind == run_pb2.FAILURE_KIND_TIMED_OUT
    assert 1 * SECOND <= time.monotonic_ns() - begun < 60 * SECOND
