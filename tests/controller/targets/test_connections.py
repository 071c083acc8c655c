"""Connections to more targets than are open at once: who gets a place, who keeps one, and who lets go of it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import grpc
import pytest

from enginebench_controller.targets import client as client_module
from enginebench_controller.targets.client import AgentClient
from enginebench_controller.targets.connections import Connections
from enginebench_proto.v1 import run_pb2, run_pb2_grpc

MINUTE_NS = 60_000_000_000


@dataclass
class Agents(run_pb2_grpc.RunServiceServicer):
    """Agents in one server: which connections they have seen, and a run that goes on until it is let end."""

    expected_ns: int = 0
    seen: list[str] = field(default_factory=list)
    watched_from: list[int] = field(default_factory=list)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def List(self, request, context):  # noqa: N802
        self.seen.append(context.peer())
        return run_pb2.ListResponse()

    async def Watch(self, request, context):  # noqa: N802
        self.watched_from.append(request.from_sequence)
        if request.from_sequence == 0:
            yield run_pb2.RunEvent(sequence=0, progress=run_pb2.Progress(expected_ns=self.expected_ns))
        await self.ended.wait()
        yield run_pb2.RunEvent(sequence=1, state=run_pb2.StateChanged(state=run_pb2.RUN_STATE_FINISHED))


@contextlib.asynccontextmanager
async def clients(agents: Agents, count: int, at_once: int | Connections) -> AsyncIterator[list[AgentClient]]:
    server = grpc.aio.server()
    run_pb2_grpc.add_RunServiceServicer_to_server(agents, server)
    # A port each: to the same address gRPC has one connection for all.
    ports = [server.add_insecure_port("127.0.0.1:0") for _ in range(count)]
    await server.start()
    among = Connections(at_once) if isinstance(at_once, int) else at_once
    async with contextlib.AsyncExitStack() as stack:
        made = (AgentClient(f"agent at {port}", f"127.0.0.1:{port}", among=among) for port in ports)
        yield [await stack.enter_async_context(one) for one in made]
    await server.stop(None)


async def watched(client: AgentClient) -> list[int]:
    async with contextlib.aclosing(client.watch("run", 0)) as events:
        return [event.sequence async for event in events]


async def waited_for(what: list[int], count: int) -> None:
    async with asyncio.timeout(10):
        while len(what) < count:
            await asyncio.sleep(0.01)


async def test_of_many_targets_each_is_reached_though_few_are_connected() -> None:
    async with clients(agents := Agents(), 12, at_once=3) as all_of_them:
        await asyncio.gather(*(one.runs() for one in all_of_them for _ in range(3)))
    assert len(agents.seen) == 36


async def test_who_has_idled_longest_gives_up_its_place_and_connects_again() -> None:
    async with clients(agents := Agents(), 3, at_once=2) as (first, second, third):
        for one in (first, second, third, second, first):
            await one.runs()
    a, b, c, again, anew = agents.seen
    assert again == b, "the second had been used since the first, and was closed before it"
    assert anew not in {a, b, c}


async def test_what_is_kept_is_not_closed_for_others_until_it_is_let_go() -> None:
    async with clients(agents := Agents(), 2, at_once=1) as (kept, other):
        async with kept.kept():
            await kept.runs()
            waiting = asyncio.create_task(other.runs())
            await asyncio.sleep(0.1)
            await kept.runs()
            assert not waiting.done()
        await waiting
    assert agents.seen[0] == agents.seen[1] != agents.seen[2]


async def test_a_run_that_takes_a_while_yet_lets_others_connect_and_is_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "LONGEST_REST_SECONDS", 0.2)
    monkeypatch.setattr(client_module, "SHORTEST_REST_SECONDS", 0.1)
    monkeypatch.setattr(client_module, "SILENT_SECONDS", 0.05)
    async with (
        clients(agents := Agents(expected_ns=MINUTE_NS), 2, at_once=1) as (measuring, other),
        measuring.kept(),
    ):
        watching = asyncio.create_task(watched(measuring))
        await waited_for(agents.watched_from, 1)
        async with asyncio.timeout(10):
            await other.runs()
        await waited_for(agents.watched_from, 2)
        agents.ended.set()
        assert await watching == [0, 1]
    assert agents.watched_from[:2] == [0, 1], "what was told before is not told again"


async def test_a_run_is_watched_all_the_time_where_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "SILENT_SECONDS", 0.05)
    async with clients(agents := Agents(expected_ns=MINUTE_NS), 2, at_once=2) as (measuring, other):
        watching = asyncio.create_task(watched(measuring))
        await waited_for(agents.watched_from, 1)
        await other.runs()
        await asyncio.sleep(0.3)
        agents.ended.set()
        assert await watching == [0, 1]
    assert agents.watched_from == [0]


async def test_a_run_that_is_nearly_over_keeps_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    async with clients(agents := Agents(expected_ns=MINUTE_NS // 60), 2, at_once=1) as (measuring, other):
        watching = asyncio.create_task(watched(measuring))
        await waited_for(agents.watched_from, 1)
        waiting = asyncio.create_task(other.runs())
        await asyncio.sleep(0.2)
        assert not waiting.done()
        agents.ended.set()
        assert await watching == [0, 1]
        await waiting
    assert agents.watched_from == [0]


async def test_who_gives_up_waiting_takes_no_place_along() -> None:
    async with clients(agents := Agents(), 2, at_once=1) as (kept, other):
        async with kept.kept():
            await kept.runs()
            for _ in range(3):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(other.runs(), 0.05)
        await asyncio.wait_for(other.runs(), 5)
        await asyncio.wait_for(kept.runs(), 5)
    assert len(agents.seen) == 3


async def test_a_target_that_cannot_be_reached_takes_no_place_along() -> None:
    async with clients(Agents(), 1, at_once=(among := Connections(1))) as (reachable,):
        for _ in range(3):
            with pytest.raises(Exception, match="certificate"):
                async with AgentClient("far", "tls://192.0.2.1:1", among=among):
                    raise AssertionError("not reached")
        await asyncio.wait_for(reachable.runs(), 5)
