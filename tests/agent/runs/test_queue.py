"""Runs that wait for a device: how many are before each, and that a caller who is gone holds it for a bounded time."""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_process import Client, connected, eventually, make_spec
from scripted_runs import Bench, finished

from agent_server import ONLY_FAKE, AgentProcess
from enginebench_agent.runs.run import Run
from enginebench_proto.v1 import run_pb2

pytestmark = pytest.mark.slow

HANGS = {"fault": "hang"}
LIMIT_SECONDS = 5


def places(events: list[run_pb2.RunEvent]) -> list[int]:
    """How many runs were before this one, from the first event on."""
    return [event.state.runs_before for event in events if event.state.state == run_pb2.RUN_STATE_QUEUED]


async def test_a_queued_run_tells_how_many_are_before_it_as_they_become_fewer(ready: Client, model: bytes) -> None:
    await ready.start(make_spec(model, "holder", options=HANGS))
    await ready.wait_for_phase("holder", "compile")
    for name in ("a", "b", "c"):
        await ready.start(make_spec(model, name))
    await ready.start(make_spec(model, "other", device="FAKE:1"))
    runs = await ready.list_runs()
    assert [runs[name].runs_before for name in ("holder", "a", "b", "c", "other")] == [0, 1, 2, 3, 4]
    await ready.cancel("b")
    assert (await ready.list_runs())["c"].runs_before == 2
    await ready.cancel("holder")
    assert places(await ready.watch("c")) == [3, 2, 1]
    assert places(await ready.watch("a")) == [1]
    assert places(await ready.watch("other")) == [4, 3, 2, 1], "whatever it runs on"


async def test_members_of_a_group_wait_for_those_before_the_group_and_not_for_each_other(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    gates = [tmp_path / "gate", tmp_path / "another"]
    first, second = (f"while not os.path.exists({str(gate)!r}): time.sleep(0.01)\nresult()" for gate in gates)
    holder = bench.start(first, "holder")
    group = run_pb2.Interleaving(group="g", members=2, seed=1)
    members = [bench.start(script, name, interleaving=group) for name, script in (("m1", "result()"), ("m2", second))]
    last = bench.start("result()", "last")
    assert [run.runs_before for run in (*members, last)] == [1, 1, 3]
    gates[0].touch()
    await finished(holder, members[0])
    assert last.runs_before == 1
    gates[1].touch()
    await finished(members[1], last)
    assert [run.runs_before for run in (*members, last)] == [None] * 3
    assert await _told(last) == [3, 2, 1]


async def _told(run: Run) -> list[int]:
    return places([event async for event in run.log.watch(0)])


@pytest.mark.fault(13)
async def test_the_device_of_a_controller_that_is_killed_is_free_when_its_runs_time_is_up(
    start_agent: Callable[..., AgentProcess], model: bytes, tmp_path: Path
) -> None:
    agent = start_agent(config=f"max_run_seconds = {LIMIT_SECONDS}\n{ONLY_FAKE}")
    path = tmp_path / "tiny.onnx"
    path.write_bytes(model)
    async with connected(agent) as other:
        await other.upload(model)
        await other.engines()
        controller = _controller(agent, path, tmp_path / "home")
        await eventually(lambda: bool(_runs(agent)), 60)
        (abandoned,) = await other.list_runs()
        await other.start(make_spec(model, "other", duration_ms=100))
        assert (await other.list_runs())["other"].runs_before == 1
        controller.kill()
        controller.wait()
        finishing = asyncio.ensure_future(other.watch("other"))
        while not finishing.done():
            assert len(_runs(agent)) <= 1, "two children on one device"
            await asyncio.sleep(0.02)
        failure = (await other.outcome(abandoned)).result.failure
        assert failure.kind == run_pb2.FAILURE_KIND_TIMED_OUT, "kept for whoever asks for it"
        assert f"{LIMIT_SECONDS} s" in failure.message
        assert (await other.outcome("other")).result.outcome == run_pb2.OUTCOME_OK


def _controller(agent: AgentProcess, model: Path, home: Path) -> "subprocess.Popen[bytes]":
    """`enginebench run` on the agent's first fake device, where it hangs for longer than the agent allows."""
    command = [sys.executable, "-m", "enginebench_controller", "run", str(model), "--engine", "fake"]
    options = ["--option", "fake.fault=hang", "--duration", "1s", "--wait-quiet", "0s"]
    where = ["--target", agent.address, "--device", "FAKE:0"]
    variables = os.environ | {"ENGINEBENCH_HOME": str(home)}
    return subprocess.Popen([*command, *where, *options], env=variables, stdout=subprocess.DEVNULL)


def _runs(agent: AgentProcess) -> set[int]:
    """The process ids of the children that carry out runs."""
    found = set()
    for pid in agent.children():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if b"\0run\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.add(pid)
    return found


async def test_a_run_that_nobody_watches_is_finished_and_kept(ready: Client, agent: AgentProcess, model: bytes) -> None:
    async with connected(agent) as gone:
        await gone.start(make_spec(model, duration_ms=200))
    await ready.watch("run-1")
    assert (await ready.outcome("run-1")).result.outcome == run_pb2.OUTCOME_OK
