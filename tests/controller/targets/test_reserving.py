"""Targets that are reserved, all or none: what is told where a line breaks meanwhile."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from enginebench_controller.errors import UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.targets.addresses import new_target
from enginebench_controller.targets.reserving import ReservationOrder, reserve
from enginebench_proto.v1 import agent_pb2, agent_pb2_grpc, reservation_pb2, reservation_pb2_grpc

ORDER = ReservationOrder(3600 * 10**9)


class Reserved(agent_pb2_grpc.AgentServiceServicer, reservation_pb2_grpc.ReservationServiceServicer):
    """Can be reserved; where it `is_cut_off`, its line breaks before the answer is through."""

    def __init__(self, is_cut_off: bool, answers_after_s: float = 0.0) -> None:
        self.is_cut_off = is_cut_off
        self.answers_after_s = answers_after_s
        self.is_reserved = False

    async def GetHost(self, request, context):  # noqa: N802
        return agent_pb2.GetHostResponse()

    async def Reserve(self, request, context):  # noqa: N802
        self.is_reserved = True
        await asyncio.sleep(self.answers_after_s)
        if self.is_cut_off:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        return reservation_pb2.ReserveResponse(reservation=reservation_pb2.Reservation(holder="me"))

    async def Release(self, request, context):  # noqa: N802
        self.is_reserved = False
        return reservation_pb2.ReleaseResponse()


@contextlib.asynccontextmanager
async def serving(home: Home, **targets: Reserved) -> AsyncIterator[None]:
    """The targets of these names, in the store."""
    async with contextlib.AsyncExitStack() as stack:
        for name, servicer in targets.items():
            server = grpc.aio.server()
            agent_pb2_grpc.add_AgentServiceServicer_to_server(servicer, server)
            reservation_pb2_grpc.add_ReservationServiceServicer_to_server(servicer, server)
            home.store.add_target(new_target(name, f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"))
            await server.start()
            stack.push_async_callback(server.stop, None)
        yield


async def test_a_target_whose_answer_is_lost_is_told_to_be_perhaps_reserved(tmp_path: Path) -> None:
    a, b = Reserved(is_cut_off=False), Reserved(is_cut_off=True)
    async with serving(home := Home(tmp_path), a=a, b=b):
        with pytest.raises(UnreachableError, match=r"none was to be reserved, but b may be: .*targets release"):
            await reserve(home, ["a", "b"], ORDER, print)
    assert (a.is_reserved, b.is_reserved) == (False, True)


async def test_so_is_the_only_one(tmp_path: Path) -> None:
    async with serving(home := Home(tmp_path), b=Reserved(is_cut_off=True)):
        with pytest.raises(UnreachableError, match="but b may be: "):
            await reserve(home, ["b"], ORDER, print)


async def test_who_gives_up_while_a_target_answers_leaves_nothing_reserved(tmp_path: Path) -> None:
    a, b = Reserved(is_cut_off=False), Reserved(is_cut_off=False, answers_after_s=0.3)
    async with serving(home := Home(tmp_path), a=a, b=b):
        asking = asyncio.create_task(reserve(home, ["a", "b"], ORDER, print))
        while not b.is_reserved:
            await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (a.is_reserved, b.is_reserved) == (False, False)
