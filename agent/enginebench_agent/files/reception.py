"""Taking in one file in chunks: hashed on the way, continued after an interruption, published once verified."""

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from enginebench_agent.errors import DiskFullError, InvalidRequestError, UploadUnderWayError
from enginebench_agent.uninterrupted import run_to_end
from enginebench_proto.agreed.durable import sync_folder

BLOCK_BYTES = 1024 * 1024
"""Bytes gathered before a thread hashes and writes them. Measured: 4 MiB took longer and held 20 MB more."""

SYNC_EVERY_BYTES = 64 * 1024 * 1024
DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
"""Errors of a disk, or of somebody's share of it, that has no room."""


class Reception:
    """One file on its way in. The committed size is the size of the unfinished file on disk."""

    def __init__(self, part: Path, target: Path, sha256: str, size_bytes: int, stream: BinaryIO) -> None:
        self._part = part
        self._target = target
        self._sha256 = sha256
        self._size_bytes = size_bytes
        self._stream = stream
        self._digest = hashlib.sha256()
        self._gathered = bytearray()
        self._unsynced_bytes = 0
        self._hashed_bytes = 0

    @classmethod
    @contextlib.contextmanager
    def opened(cls, part: Path, target: Path, sha256: str, size_bytes: int, offset_bytes: int) -> Iterator["Reception"]:
        """Open the unfinished file at `offset_bytes`.

        Raises `UploadUnderWayError` for an offset that is not the committed size: since the caller asked for it, an
        upload that ended has written its rest, or the file was removed. What was received stays on disk when the block
        is left early; an empty file does not.
        """
        try:
            with _disk_errors(), part.open("a+b") as stream:
                committed_bytes = stream.seek(0, os.SEEK_END)
                if offset_bytes != committed_bytes:
                    raise UploadUnderWayError(
                        f"the upload of {sha256} must continue at byte {committed_bytes}, not at {offset_bytes}."
                    )
                yield cls(part, target, sha256, size_bytes, stream)
        finally:
            _remove_empty(part)

    @property
    def received_bytes(self) -> int:
        """Bytes taken in so far, whether written yet or not."""
        return self._hashed_bytes + len(self._gathered)

    async def resume(self) -> None:
        """Hash what an earlier upload left on disk. Call once, before the first chunk."""
        self._stream.seek(0)
        while block := await run_to_end(self._stream.read, BLOCK_BYTES):
            await run_to_end(self._digest.update, block)
            self._hashed_bytes += len(block)
        self._refuse_overlong()

    async def add(self, chunk: bytes) -> None:
        """Take in the next bytes. Raises `InvalidRequestError` when they exceed the announced size."""
        self._gathered += chunk
        self._refuse_overlong()
        if len(self._gathered) >= BLOCK_BYTES:
            await self.flush()

    async def flush(self) -> None:
        """Write what was gathered, so that it counts as committed."""
        block, self._gathered = self._gathered, bytearray()
        if block:
            self._hashed_bytes += len(block)
            await run_to_end(self._write, block)

    async def finish(self) -> int:
        """Write the rest and, if the file is whole, verify and publish it; returns the bytes held.

        Raises `InvalidRequestError` for content that does not match the digest; nothing is kept of it.
        """
        await self.flush()
        await run_to_end(self._sync)
        if self._hashed_bytes == self._size_bytes:
            self._verify()
            await run_to_end(self._publish)
        return self._hashed_bytes

    def _write(self, block: bytearray) -> None:
        with _disk_errors():
            self._digest.update(block)
            self._stream.write(block)
            self._stream.flush()
            self._unsynced_bytes += len(block)
            if self._unsynced_bytes >= SYNC_EVERY_BYTES:
                self._sync()

    def _sync(self) -> None:
        os.fsync(self._stream.fileno())
        self._unsynced_bytes = 0

    def _refuse_overlong(self) -> None:
        if self.received_bytes > self._size_bytes:
            self._part.unlink(missing_ok=True)
            raise InvalidRequestError(
                f"the upload of {self._sha256} brought more than the announced {self._size_bytes} bytes; "
                "nothing of it was kept."
            )

    def _verify(self) -> None:
        if (found := self._digest.hexdigest()) != self._sha256:
            self._part.unlink(missing_ok=True)
            raise InvalidRequestError(
                f"the uploaded content has the sha256 {found}, not {self._sha256}: it was damaged on the way or "
                "changed meanwhile; nothing of it was kept."
            )

    def _publish(self) -> None:
        self._part.chmod(0o444)  # runs link to this very file, and no engine may change it
        self._part.rename(self._target)
        sync_folder(self._target.parent)


def _remove_empty(part: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        if part.stat().st_size == 0:
            part.unlink()


@contextlib.contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_FULL:
            raise
        raise DiskFullError(
            "the disk of the agent's data folder is full: remove files there; what has arrived is kept."
        ) from error
