"""Runs of one group on a real agent: they are alive together, take turns, and end with equally many blocks."""

import asyncio
import os
import signal

import grpc
import pytest
from agent_process import ENDLESS_MS, Client, Outcome, make_spec, refused

from agent_server import AgentProcess
from enginebench_proto.v1 import run_pb2

pytestmark = pytest.mark.slow


def _member(model: bytes, run_id: str, latency_us: int = 500, /, **changes: object) -> run_pb2.RunSpec:
    interleaving = run_pb2.Interleaving(group=str(changes.pop("group")), members=2, seed=7)
    options = {"latency_us": str(latency_us)}
    return make_spec(model, run_id, interleaving=interleaving, options=options, **changes)


async def _finish(client: Client, *run_ids: str) -> list[Outcome]:
    for run_id in run_ids:
        await client.watch(run_id)
    return [await client.outcome(run_id) for run_id in run_ids]


async def test_two_runs_of_unequal_speed_alternate_and_end_with_equally_many_blocks(
    shared: Client, model: bytes
) -> None:
    await shared.start(_member(model, "pair-quick", 100, group="pair", duration_ms=300))
    await shared.start(_member(model, "pair-slow", 2_000, group="pair", duration_ms=300))
    outcomes = await _finish(shared, "pair-quick", "pair-slow")
    assert [outcome.result.outcome for outcome in outcomes] == [run_pb2.OUTCOME_OK] * 2
    assert len(outcomes[0].blocks) == len(outcomes[1].blocks) >= 2
    for outcome in outcomes:
        # Who waits for the others' blocks begins its own later than the sum of its own.
        last = outcome.blocks[-1]
        assert last.begin_ns > sum(block.duration_ns for block in outcome.blocks[:-1])


async def test_runs_on_two_devices_take_turns_too(shared: Client, model: bytes) -> None:
    await shared.start(_member(model, "device-0", group="devices", duration_ms=200))
    await shared.start(_member(model, "device-1", group="devices", duration_ms=200, device="FAKE:1"))
    outcomes = await _finish(shared, "device-0", "device-1")
    assert [outcome.result.outcome for outcome in outcomes] == [run_pb2.OUTCOME_OK] * 2


async def test_a_member_that_crashes_leaves_the_device_to_the_other(
    ready: Client, agent: AgentProcess, model: bytes
) -> None:
    await ready.start(_member(model, "broken", group="g", duration_ms=ENDLESS_MS))
    await ready.wait_for_phase("broken", "compile")
    (child,) = agent.children()
    await ready.start(_member(model, "sound", group="g", duration_ms=200))
    await ready.wait_for_phase("sound", "steady_state")
    await asyncio.sleep(0.3)
    os.kill(child, signal.SIGSEGV)
    broken, sound = await _finish(ready, "broken", "sound")
    assert broken.result.failure.kind == run_pb2.FAILURE_KIND_CRASHED
    assert sound.result.outcome == run_pb2.OUTCOME_OK
    assert (await ready.run(make_spec(model, "next"))).result.outcome == run_pb2.OUTCOME_OK


@pytest.mark.parametrize("fault", ["compile_error", "segfault"])
async def test_a_member_that_fails_before_its_first_turn_is_not_waited_for(
    shared: Client, model: bytes, fault: str
) -> None:
    broken = _member(model, f"{fault}-broken", group=fault)
    broken.configuration.options["fault"] = fault
    await shared.start(broken)
    await shared.watch(broken.run_id)
    await shared.start(_member(model, f"{fault}-sound", group=fault))
    (sound,) = await _finish(shared, f"{fault}-sound")
    assert sound.result.outcome == run_pb2.OUTCOME_OK


async def test_cancelling_a_member_lets_the_other_finish(shared: Client, model: bytes) -> None:
    await shared.start(_member(model, "cancel-a", group="cancel", duration_ms=ENDLESS_MS))
    await shared.start(_member(model, "cancel-b", group="cancel", duration_ms=200))
    await shared.wait_for_phase("cancel-b", "steady_state")
    await shared.cancel("cancel-a")
    cancelled, other = await _finish(shared, "cancel-a", "cancel-b")
    assert cancelled.result.outcome == run_pb2.OUTCOME_CANCELLED
    assert other.result.outcome == run_pb2.OUTCOME_OK


async def test_a_group_has_no_more_members_than_announced(shared: Client, model: bytes) -> None:
    await shared.start(_member(model, "full-a", group="full", duration_ms=ENDLESS_MS))
    await shared.start(_member(model, "full-b", group="full", duration_ms=ENDLESS_MS))
    async with refused(grpc.StatusCode.INVALID_ARGUMENT, "complete"):
        await shared.start(_member(model, "full-c", group="full"))
    await asyncio.gather(shared.cancel("full-a"), shared.cancel("full-b"))


async def test_the_limit_of_a_member_is_its_own_whoever_else_is_in_the_group(shared: Client, model: bytes) -> None:
    spec = _member(model, "limit-a", group="limit", timeout_ns=1_000_000_000)
    spec.configuration.options["fault"] = "hang"
    await shared.start(spec)
    (outcome,) = await _finish(shared, "limit-a")
    assert outcome.result.failure.kind == run_pb2.FAILURE_KIND_TIMED_OUT
    assert "within 1 s" in outcome.result.failure.message
    # Somebody still waits for the second member: its start is welcome.
    await shared.start(_member(model, "limit-b", group="limit"))
    (other,) = await _finish(shared, "limit-b")
    assert other.result.outcome == run_pb2.OUTCOME_OK
