"""What survives an agent that ends: results until they are acknowledged, and no running child."""

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
from agent_process import ENDLESS_MS, connected, eventually, is_alive, make_spec, refused

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_proto.v1 import run_pb2

pytestmark = pytest.mark.slow


@pytest.mark.fault(4)
async def test_a_result_survives_the_agent_until_it_is_acknowledged(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent()
    spec = make_spec(model)
    async with connected(agent) as client:
        await client.upload(model)
        before = await client.run(spec)
        seen = await client.watch("run-1")
    agent.kill()
    agent.restart()
    async with connected(agent) as client:
        assert await client.outcome("run-1") == before
        assert await client.start(spec) == run_pb2.RUN_STATE_FINISHED
        async with refused(grpc.StatusCode.ALREADY_EXISTS):
            await client.start(make_spec(model, duration_ms=21))
        (last,) = await client.watch("run-1", from_sequence=len(seen))
        assert (last.sequence, last.state.outcome) == (len(seen), run_pb2.OUTCOME_OK)
        await client.acknowledge("run-1")
        await client.acknowledge("run-1")  # harmless when repeated
        assert await client.list_runs() == {}
        async with refused(grpc.StatusCode.NOT_FOUND, "run-1"):
            await client.outcome("run-1")
    assert list((agent.data_dir / "spool").iterdir()) == []


@pytest.mark.fault(1)
async def test_a_run_dies_with_its_agent_and_is_unknown_to_the_next(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent()
    async with connected(agent) as client:
        await client.upload(model)
        await client.start(make_spec(model, duration_ms=ENDLESS_MS))
        await client.wait_for_phase("run-1", "steady_state")
        (child,) = agent.children()
        spool = agent.data_dir / "spool"
        await eventually((spool / "run-1.blocks").exists)
    agent.kill()
    await eventually(lambda: not is_alive(child))
    agent.restart()
    async with connected(agent) as client:
        async with refused(grpc.StatusCode.NOT_FOUND):
            await client.watch("run-1")
        assert list((agent.data_dir / "runs").glob("run-1*")) == []
    assert list(spool.iterdir()) == [], "blocks without a result are nobody's"


async def test_sigterm_cancels_runs_spools_their_outcome_and_exits_with_zero(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent(config=f"drain_seconds = 1\n{ONLY_FAKE}")
    async with connected(agent) as client:
        await client.upload(model)
        await client.start(make_spec(model, duration_ms=ENDLESS_MS))
        await client.wait_for_phase("run-1", "steady_state")
        (child,) = agent.children()
        assert await asyncio.to_thread(agent.stop) == 0
    assert not is_alive(child)
    agent.restart()
    async with connected(agent) as client:
        assert (await client.list_runs())["run-1"].outcome == run_pb2.OUTCOME_CANCELLED


@pytest.mark.fault(21)
async def test_a_damaged_spool_file_is_set_aside_and_the_others_are_served(
    start_agent: Callable[..., AgentProcess], model: bytes
) -> None:
    agent = start_agent()
    async with connected(agent) as client:
        await client.upload(model)
        await client.run(make_spec(model))
    agent.stop()
    (agent.data_dir / "spool" / "broken").write_bytes(b"\xff" * 20)
    (agent.data_dir / "spool" / "half.unfinished").write_bytes(b"")
    agent.restart()
    async with connected(agent) as client:
        runs = await client.list_runs()
        assert {run_id: run.outcome for run_id, run in runs.items()} == {
            "run-1": run_pb2.OUTCOME_OK,
            "broken": run_pb2.OUTCOME_FAILED,
        }
        assert "damaged on its disk" in (await client.outcome("broken")).result.failure.message
        await client.acknowledge("broken")
    spooled = {path.name for path in (agent.data_dir / "spool").iterdir()}
    assert spooled == {"run-1", "run-1.blocks", "damaged"}
    assert [path.name for path in (agent.data_dir / "spool" / "damaged").iterdir()] == ["broken"]


async def test_what_an_agent_of_version_0_1_left_is_served_after_the_upgrade(
    start_agent: Callable[..., AgentProcess], tmp_path: Path
) -> None:
    """The files in `spool_0_1` are of that version and stay as they are: without checksums, and read all the same."""
    shutil.copytree(Path(__file__).parent / "spool_0_1", tmp_path / "agent" / "spool")
    async with connected(start_agent()) as client:
        outcome = await client.outcome("left-behind")
        assert (await client.list_runs())["left-behind"].outcome == run_pb2.OUTCOME_OK
        await client.acknowledge("left-behind")
    assert len(outcome.samples_ns) == outcome.result.measurement.iterations > 0
    assert list((tmp_path / "agent" / "spool").iterdir()) == []
