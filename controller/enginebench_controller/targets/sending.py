"""Sending a file no faster than its target takes it in, and compressed where the line is slower than compressing.

What HTTP/2 and the kernel would take at once is megabytes: on a slow line everything else, the pings that tell whether
the other end lives among it, would wait behind them for half a minute.
"""

import asyncio
import math
import time
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from enginebench_controller.errors import UnreadableFileError
from enginebench_controller.records import InputFile, ModelFile
from enginebench_proto.v1 import model_pb2

CHUNK_BYTES = 256 * 1024
SMALLEST_CHUNK_BYTES = 16 * 1024
FIRST_BYTES = 128 * 1024
"""Under way before the target has said how fast it takes them in: at 1 Mbit/s a second."""
AHEAD_SECONDS = 2.0
"""How much is under way, by the time that it takes: several round trips, and less than pings wait for their answers."""
ASK_SECONDS = 0.25
"""A target is asked this often how much it has; at once where the sender waits."""
UNTOLD_SECONDS = 3.0
"""A target that says nothing of an upload for so long is of those that never do."""
SLOW_BYTES_PER_S = 4_000_000
"""Compressing runs at some 20 MB/s, and weights shrink by a tenth: on faster lines it takes longer than it saves."""
WORTH_IT = 0.97

Received = Callable[[], Awaitable[int | None]]
"""Asks how many bytes of the file the target has taken in; None of one that does not tell."""


class Sending:
    """One upload: the messages, and how far the target has taken them in. `offset` is where they begin."""

    def __init__(
        self, file: ModelFile | InputFile, path: Path, offset: int, on_taken: Callable[[int, int], None]
    ) -> None:
        """`on_taken` receives how far into the file the target has it, and by how much more that is than before."""
        self._file = file
        self._path = path
        self._sent = self._taken = self._first = offset
        self._on_taken = on_taken
        self._ahead: float = FIRST_BYTES
        self._rate = math.inf
        """Of the file, in bytes a second; on the line it is that times `_share`."""
        self._share = 1.0
        self._waits = self._is_over = False
        self._moved = asyncio.Event()
        self._failure: OSError | None = None

    async def parts(self) -> AsyncIterator[model_pb2.UploadRequest]:
        """The messages of the upload, each when the target has taken in most of those before.

        They end where the file cannot be read on: what is raised here gRPC takes for a cancellation, and tells nobody.
        """
        file = self._file
        header = model_pb2.UploadHeader(sha256=file.sha256, size_bytes=file.size_bytes, offset_bytes=self._first)
        yield model_pb2.UploadRequest(header=header)
        try:
            with self._path.open("rb") as stream:
                stream.seek(self._first)
                while chunk := await asyncio.to_thread(stream.read, self._chunk_bytes()):
                    await self._room()
                    if self._is_over:
                        return
                    yield await asyncio.to_thread(self._message, chunk)
                    self._sent += len(chunk)
        except OSError as error:
            self._failure = error

    async def watch(self, received: Received) -> None:
        """Ask how much has arrived, until that is all, or until the target turns out not to tell."""
        began = asked = time.monotonic()
        while self._taken < self._file.size_bytes:
            await self._pause()
            found = await received()
            now = time.monotonic()
            if found is None:
                if now - began > UNTOLD_SECONDS:
                    self._ahead = math.inf
                    self._moved.set()
                    return
            elif found > self._taken:
                self._hear(found, now - asked)
                asked = now

    def taken(self) -> None:
        """The target has taken in all that was sent. Raises `UnreadableFileError` where that is not the whole file."""
        if self._failure is not None:
            raise UnreadableFileError(self._path, self._failure)
        self._tell(self._file.size_bytes)

    def stop(self) -> None:
        """Let the messages end: where a call has failed, gRPC takes no more of them, and ends them not either."""
        self._is_over = True
        self._moved.set()

    def _hear(self, found: int, seconds: float) -> None:
        rate = (found - self._taken) / max(seconds, 1e-6)
        # One late answer is no slow line.
        self._rate = rate if math.isinf(self._rate) else max(rate, self._rate / 2)
        self._ahead = max(2 * SMALLEST_CHUNK_BYTES, self._rate * AHEAD_SECONDS)
        self._tell(found)
        self._moved.set()

    def _tell(self, found: int) -> None:
        if found > self._taken:
            more, self._taken = found - self._taken, found
            self._on_taken(found, more)

    async def _room(self) -> None:
        while self._sent - self._taken >= self._ahead and not self._is_over:
            self._waits = True
            self._moved.clear()
            await self._moved.wait()
        self._waits = False

    async def _pause(self) -> None:
        """Until it is time to ask again: sooner where the sender waits."""
        until = time.monotonic() + ASK_SECONDS
        while time.monotonic() < until and not self._waits:
            await asyncio.sleep(0.005)

    def _chunk_bytes(self) -> int:
        return int(min(CHUNK_BYTES, max(SMALLEST_CHUNK_BYTES, self._ahead / 8)))

    def _message(self, chunk: bytes) -> model_pb2.UploadRequest:
        is_slow = self._rate * self._share < SLOW_BYTES_PER_S
        small = zlib.compress(chunk) if is_slow else chunk
        is_worth_it = len(small) < WORTH_IT * len(chunk)
        self._share = len(small) / len(chunk) if is_worth_it else 1.0
        return model_pb2.UploadRequest(deflated=small) if is_worth_it else model_pb2.UploadRequest(chunk=chunk)
