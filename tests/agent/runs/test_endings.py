"""Judgement without a process: how ends of children are read, events thinned, errors mapped, the machine granted."""

import asyncio
import errno
import resource
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from agent_process import refused

from enginebench_agent.door.interceptors import STATUS_OF_CODE, Errors
from enginebench_agent.errors import AgentError, ErrorCode, NotFoundError
from enginebench_agent.runs import endings
from enginebench_agent.runs.child import ChildExit, ChildStartError, spawned
from enginebench_agent.runs.queue import Lease
from enginebench_agent.runs.reservations import Reservations
from enginebench_agent.runs.run import MAX_EVENTS, EventLog
from enginebench_proto.v1 import agent_pb2, agent_pb2_grpc, run_pb2


@pytest.mark.parametrize(
    ("end", "oom_killed", "kind"),
    [
        (ChildExit(None, "SIGKILL", ""), True, run_pb2.FAILURE_KIND_OUT_OF_MEMORY),
        (ChildExit(None, "SIGKILL", ""), False, run_pb2.FAILURE_KIND_CRASHED),
        (ChildExit(None, "SIGSEGV", ""), True, run_pb2.FAILURE_KIND_CRASHED),
        (ChildExit(None, "SIGABRT", "terminate called: std::bad_alloc"), False, run_pb2.FAILURE_KIND_OUT_OF_MEMORY),
        (ChildExit(3, "", "bye"), False, run_pb2.FAILURE_KIND_CRASHED),
    ],
)
def test_the_end_of_a_child_is_typed(end: ChildExit, oom_killed: bool, kind: int) -> None:
    failure = endings.of_exit(end, "compile", oom_killed=oom_killed)
    assert failure.kind == kind
    assert failure.stderr_tail == end.stderr_tail
    assert failure.signal == end.signal_name
    assert "compile" in failure.message


async def test_a_long_log_keeps_states_phases_and_the_newest_progress() -> None:
    log = EventLog()
    log.state(run_pb2.RUN_STATE_RUNNING)
    log.phase(run_pb2.PhaseStarted(name="steady_state"))
    for count in range(5 * MAX_EVENTS):
        log.progress(run_pb2.Progress(iterations=count))
    log.state(run_pb2.RUN_STATE_FINISHED, run_pb2.OUTCOME_OK)
    events = [event async for event in log.watch(0)]
    assert len(events) <= MAX_EVENTS
    assert [event.WhichOneof("event") for event in events[:2]] == ["state", "phase"]
    assert events[-2].progress.iterations == 5 * MAX_EVENTS - 1
    numbers = [event.sequence for event in events]
    assert numbers == sorted(set(numbers))


async def test_a_watcher_that_came_early_hears_what_comes_later() -> None:
    log = EventLog()
    watching = asyncio.ensure_future(_all(log.watch(0)))
    await asyncio.sleep(0)
    log.state(run_pb2.RUN_STATE_QUEUED)
    await asyncio.sleep(0)
    log.state(run_pb2.RUN_STATE_FINISHED, run_pb2.OUTCOME_OK)
    assert [event.sequence for event in await watching] == [0, 1]


async def test_the_machine_is_granted_in_the_order_of_asking() -> None:
    lease, order = Lease(Reservations(Path("nowhere"), 1)), []

    async def use(name: str) -> None:
        async with lease.hold():
            order.append(f"{name} begins")
            await asyncio.sleep(0.001)
            order.append(f"{name} ends")

    async with asyncio.timeout(5):
        await asyncio.gather(*map(use, "123"))
    assert order == [f"{name} {what}" for name in "123" for what in ("begins", "ends")]


async def test_a_cancelled_waiter_leaves_its_place_free() -> None:
    lease = Lease(Reservations(Path("nowhere"), 1))
    async with lease.hold():
        waiting = asyncio.ensure_future(lease.hold().__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
    async with asyncio.timeout(5), lease.hold():
        pass


def test_every_error_code_has_one_status() -> None:
    assert set(STATUS_OF_CODE) == set(ErrorCode)
    shared = [status for status, codes in Counter(STATUS_OF_CODE.values()).items() if codes > 1]
    assert shared == [grpc.StatusCode.RESOURCE_EXHAUSTED], (
        "a full disk, a full queue, a reservation; all others are told apart"
    )
    assert {error.code for error in AgentError.__subclasses__()} == set(ErrorCode)


class Faulty(agent_pb2_grpc.AgentServiceServicer):  # its methods have the names of the wire
    async def GetHost(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise ValueError("the password is swordfish")

    async def ListEngines(self, request: Any, context: Any) -> Any:  # noqa: N802
        raise NotFoundError("no such thing: " + "x" * 20_000)


class Homeless(agent_pb2_grpc.AgentServiceServicer):
    async def GetHost(self, request: Any, context: Any) -> Any:  # noqa: N802
        Path("/nowhere/of/swordfish").read_bytes()

    async def ListEngines(self, request: Any, context: Any) -> Any:  # noqa: N802
        async with asyncio.TaskGroup() as asking:
            asking.create_task(self.GetHost(request, context))


@asynccontextmanager
async def asked(servicer: agent_pb2_grpc.AgentServiceServicer) -> AsyncIterator[agent_pb2_grpc.AgentServiceStub]:
    """A stub of this servicer, behind what maps errors."""
    server = grpc.aio.server(interceptors=[Errors()])
    agent_pb2_grpc.add_AgentServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield agent_pb2_grpc.AgentServiceStub(channel)
    await server.stop(None)


async def test_unexpected_errors_reach_the_log_and_not_the_caller(caplog: pytest.LogCaptureFixture) -> None:
    async with asked(Faulty()) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as failure:
            await stub.GetHost(agent_pb2.GetHostRequest())
        assert failure.value.code() == grpc.StatusCode.INTERNAL
        assert "swordfish" not in (failure.value.details() or "")
        assert "swordfish" in caplog.text
        async with refused(grpc.StatusCode.NOT_FOUND, "no such thing"):
            await stub.ListEngines(agent_pb2.ListEnginesRequest())


async def test_a_file_that_the_agent_cannot_use_is_told_as_that_and_not_by_its_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with asked(Homeless()) as stub:
        for call in (stub.GetHost(agent_pb2.GetHostRequest()), stub.ListEngines(agent_pb2.ListEnginesRequest())):
            with pytest.raises(grpc.aio.AioRpcError) as failure:
                await call
            told = failure.value.details() or ""
            assert "could not use a file or folder of its own (No such file or directory); its log" in told
            assert "swordfish" not in told
    assert caplog.text.count("/nowhere/of/swordfish") >= 2


async def _all(events: AsyncIterator[run_pb2.RunEvent]) -> list[run_pb2.RunEvent]:
    return [event async for event in events]


@pytest.mark.fault(30)
async def test_what_the_machine_did_not_give_is_not_blamed_on_the_environment(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(ChildStartError) as refused_start:
            async with spawned(Path(sys.executable), ["list"], tmp_path, stdin=None):
                pass
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert refused_start.value.number == errno.EMFILE
    failure = endings.of_unstartable(str(refused_start.value), refused_start.value.number)
    told = failure.message
    assert failure.kind == run_pb2.FAILURE_KIND_SHORTAGE
    assert "may not have more files open" in told and "remove it" not in told


def test_of_a_shortage_the_agent_says_cause_and_cure_and_who_asked_what_to_repeat() -> None:
    told = [endings.of_full_disk(""), *(endings.of_shortage(number, "") for number in endings.SHORTAGES)]
    for failure in told:
        assert failure.kind == run_pb2.FAILURE_KIND_SHORTAGE
        assert ": " in failure.message and "again" not in failure.message


@pytest.mark.fault(30)
async def test_an_interpreter_that_is_gone_is_blamed_on_the_environment(tmp_path: Path) -> None:
    with pytest.raises(ChildStartError) as refused_start:
        async with spawned(tmp_path / "python", ["list"], tmp_path, stdin=None):
            pass
    told = endings.of_unstartable(str(refused_start.value), refused_start.value.number).message
    assert "the environment of this engine is broken; remove it and add it again" in told
