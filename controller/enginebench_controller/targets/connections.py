"""The connections of one command: so many are open at once, however many targets it has."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import grpc

from enginebench_controller.targets.channels import open_channel, reachable
from enginebench_proto.v1 import agent_pb2_grpc, model_pb2_grpc, reservation_pb2_grpc, run_pb2_grpc

AT_ONCE = 128
"""A connection takes 0.11 MB and a file descriptor, by ssh a process too; to open one takes 2 ms."""


class Connections:
    """Places for open connections. Whoever comes when all are taken gets that of one that idles, or waits his turn."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._places = asyncio.Semaphore(at_once)
        self._idle: dict[Connection, None] = {}
        self._waiting = 0

    @property
    def are_wanted(self) -> bool:
        """Whether somebody waits for a place."""
        return self._waiting > 0

    async def take(self) -> None:
        """Have a place; of those that idle, the one that has for longest gives up its own."""
        while self._places.locked() and self._idle:
            await next(iter(self._idle)).give_way()
        self._waiting += 1
        try:
            await self._places.acquire()
        finally:
            self._waiting -= 1

    def give_back(self) -> None:
        """Let another have the place."""
        self._places.release()

    def idles(self, one: "Connection") -> None:
        """Nobody uses it now."""
        self._idle[one] = None

    def is_used(self, one: "Connection") -> None:
        """It is used, or closed."""
        self._idle.pop(one, None)


class Stubs:
    """An open channel to an agent, with the services to call there."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self.agent = agent_pb2_grpc.AgentServiceStub(channel)
        self.models = model_pb2_grpc.ModelServiceStub(channel)
        self.runs = run_pb2_grpc.RunServiceStub(channel)
        self.reservations = reservation_pb2_grpc.ReservationServiceStub(channel)


class Connection:
    """The way to one agent: opened when it is used, closed when others need its place and nobody uses or keeps it."""

    def __init__(self, address: str, tls: Path | None, among: Connections) -> None:
        self._address = address
        self._tls = tls
        self._among = among
        self._changing = asyncio.Lock()
        self._users = self._keepers = self._resting = 0
        self._open: tuple[Stubs, contextlib.AsyncExitStack] | None = None

    @property
    def is_wanted(self) -> bool:
        """Whether another waits for a place."""
        return self._among.are_wanted

    @contextlib.asynccontextmanager
    async def used(self) -> AsyncIterator[Stubs]:
        """Give the services, over a connection that stays open at least as long as the block lasts.

        Raises what `open_channel` and `reachable` raise where it has to be opened.
        """
        self._users += 1
        try:
            self._among.is_used(self)
            async with self._changing:
                if self._open is None:
                    self._open = await self._opened()
                stubs, _ = self._open
            yield stubs
        finally:
            self._users -= 1
            await self._left()

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Have it stay open between the uses in this block: each anew would take longer than what most of them do."""
        self._keepers += 1
        try:
            yield
        finally:
            self._keepers -= 1
            await self._left()

    async def rest(self, seconds: float) -> None:
        """Do without it for so long, kept or not."""
        self._resting += 1
        try:
            await self._left()
            await asyncio.sleep(seconds)
        finally:
            self._resting -= 1

    async def give_way(self) -> None:
        """Close it unless somebody uses it by now; whoever uses it later opens it again."""
        self._among.is_used(self)
        async with self._changing:
            if self._is_free:
                await self._close()

    async def close(self) -> None:
        """Close it, whatever goes on there."""
        self._among.is_used(self)
        async with self._changing:
            await self._close()

    async def _close(self) -> None:
        if self._open is None:
            return
        (_, way), self._open = self._open, None
        try:
            await way.aclose()
        finally:
            self._among.give_back()

    async def _opened(self) -> tuple[Stubs, contextlib.AsyncExitStack]:
        await self._among.take()
        try:
            async with contextlib.AsyncExitStack() as way:
                place = await way.enter_async_context(reachable(self._address))
                channel = open_channel(grpc.aio, place, self._tls)
                way.push_async_callback(channel.close)
                return Stubs(channel), way.pop_all()
        except BaseException:
            self._among.give_back()
            raise

    @property
    def _is_free(self) -> bool:
        return not self._users and (not self._keepers or self._resting > 0)

    async def _left(self) -> None:
        if not self._is_free or self._open is None:
            return
        if self._among.are_wanted:
            await self.give_way()
        else:
            self._among.idles(self)
