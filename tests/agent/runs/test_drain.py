"""An agent that is asked to stop lets its runs end, for a while; who insists is obeyed at once."""

import asyncio
import signal
import time
from collections.abc import Callable

import grpc
import pytest
from agent_process import ENDLESS_MS, Client, connected, is_alive, make_spec, refused
from grpc_health.v1 import health_pb2

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_proto.v1 import run_pb2

pytestmark = pytest.mark.slow


async def _begin(client: Client, model: bytes, duration_ms: int) -> None:
    await client.upload(model)
    await client.start(make_spec(model, duration_ms=duration_ms))
    await client.wait_for_phase("run-1", "steady_state")


async def test_sigterm_lets_a_run_end_and_its_caller_fetch_the_result(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent(config=f"drain_seconds = 60\n{ONLY_FAKE}")
    async with connected(agent) as client:
        await _begin(client, model, duration_ms=2_000)
        agent.process.send_signal(signal.SIGTERM)
        await _until_not_serving(client)
        async with refused(grpc.StatusCode.UNAVAILABLE, "about to stop"):
            await client.start(make_spec(model, "another"))
        assert await client.start(make_spec(model, duration_ms=2_000)) == run_pb2.RUN_STATE_RUNNING
        await client.watch("run-1")
        assert (await client.outcome("run-1")).result.outcome == run_pb2.OUTCOME_OK
        await client.acknowledge("run-1")
    assert await asyncio.to_thread(agent.process.wait, 20) == 0


async def _until_not_serving(client: Client) -> None:
    async with asyncio.timeout(10):
        while await client.health_status() == health_pb2.HealthCheckResponse.SERVING:
            await asyncio.sleep(0.02)


async def test_what_has_not_ended_in_time_is_cancelled_and_its_outcome_kept(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent(config=f"drain_seconds = 1\n{ONLY_FAKE}")
    async with connected(agent) as client:
        await _begin(client, model, duration_ms=ENDLESS_MS)
        began = time.monotonic()
        assert await asyncio.to_thread(agent.stop) == 0
        assert time.monotonic() - began > 1
    agent.restart()
    async with connected(agent) as client:
        assert (await client.list_runs())["run-1"].outcome == run_pb2.OUTCOME_CANCELLED


@pytest.mark.parametrize("insisting", [signal.SIGTERM, signal.SIGINT])
async def test_a_second_signal_ends_it_at_once(
    start_agent: Callable[..., AgentProcess], model: bytes, insisting: signal.Signals
) -> None:
    agent = start_agent(config=f"drain_seconds = 1000\n{ONLY_FAKE}")
    async with connected(agent) as client:
        await _begin(client, model, duration_ms=ENDLESS_MS)
        (child,) = agent.children()
        agent.process.send_signal(signal.SIGTERM)
        await _until_not_serving(client)
        assert is_alive(child)
        assert await asyncio.to_thread(agent.stop, insisting) == 0
    assert not is_alive(child)


async def test_ctrl_c_and_a_starter_that_is_gone_end_it_at_once(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    for number, folder in ((signal.SIGINT, "interrupted"), (None, "orphaned")):
        agent = start_agent("--exit-with-stdin", folder=folder, config=f"drain_seconds = 1000\n{ONLY_FAKE}")
        async with connected(agent) as client:
            await _begin(client, model, duration_ms=ENDLESS_MS)
            if number is None:
                agent.process.stdin.close()
            else:
                agent.process.send_signal(number)
            assert await asyncio.to_thread(agent.process.wait, 20) == 0


async def test_without_runs_there_is_nothing_to_wait_for(start_agent: Callable[..., AgentProcess]) -> None:
    agent = start_agent(config=f"drain_seconds = 1000\n{ONLY_FAKE}")
    assert await asyncio.to_thread(agent.stop) == 0
