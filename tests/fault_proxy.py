"""A network between a caller and an agent that fails on request: real sockets, cut, delayed or stalled."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress

PIECE_BYTES = 64 * 1024


class FaultProxy:
    """Passes bytes on to a port of this machine, until told otherwise. Made by `fault_proxy`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._loop = asyncio.get_running_loop()
        self._flows = asyncio.Event()
        self._flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._refuses = False
        self._stall_at: int | None = None
        self._cut_at: int | None = None
        self.address = ""
        self.sent_bytes = 0
        """Bytes that have come from callers so far."""
        self.delay_seconds = 0.0
        """How long each piece is held up, in both directions."""
        self.bytes_per_s = float("inf")
        """What the line carries, in each direction."""
        self.connections = 0

    def cut(self) -> None:
        """Break all connections, as a pulled cable does that is noticed; new ones are refused until `mend`."""
        self._refuses = True
        for writer in self._writers:
            writer.transport.abort()

    def cut_at(self, sent_bytes: int) -> None:
        """`cut` once callers have sent so much."""
        self._cut_at = sent_bytes

    def stall(self) -> None:
        """Pass nothing on any more, but keep the connections: a stopped peer, or a firewall that drops."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def stall_at(self, sent_bytes: int) -> None:
        """`stall` once callers have sent so much."""
        self._stall_at = sent_bytes

    def mend(self) -> None:
        """Everything works again; connections that were cut stay so."""
        self._refuses, self._cut_at, self._stall_at = False, None, None
        self._loop.call_soon_threadsafe(self._flows.set)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Carry one connection to its end."""
        self._writers.add(writer)
        with suppress(OSError):
            await self._carry(reader, writer)
        writer.transport.abort()
        self._writers.discard(writer)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            return
        from_agent, to_agent = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.add(to_agent)
        self.connections += 1
        ways = [asyncio.create_task(self._pump(reader, to_agent, counted=True))]
        ways.append(asyncio.create_task(self._pump(from_agent, writer, counted=False)))
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            to_agent.transport.abort()
            self._writers.discard(to_agent)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, counted: bool) -> None:
        with suppress(OSError):
            while piece := await reader.read(PIECE_BYTES):
                if counted:
                    self._count(len(piece))
                await asyncio.sleep(self.delay_seconds + len(piece) / self.bytes_per_s)
                await self._flows.wait()
                writer.write(piece)
                await writer.drain()

    def _count(self, size_bytes: int) -> None:
        self.sent_bytes += size_bytes
        if self._stall_at is not None and self.sent_bytes >= self._stall_at:
            self._flows.clear()
        if self._cut_at is not None and self.sent_bytes >= self._cut_at:
            self.cut()


@asynccontextmanager
async def fault_proxy(port: int) -> AsyncIterator[FaultProxy]:
    """A proxy before this port, in the running loop; `address` is where callers find it."""
    proxy = FaultProxy(port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.mend()
        proxy.cut()


@contextmanager
def fault_proxy_in_a_thread(port: int) -> Iterator[FaultProxy]:
    """The same for tests that are not asyncio: the proxy lives in a loop and a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    context = fault_proxy(port)
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(10)
    finally:
        asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
