"""Finished results on disk until somebody has stored them: one file a run, complete or not there at all."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Self

from enginebench_agent.framing import FramingError, read_frame, write_frame
from enginebench_agent.reception import sync_folder
from enginebench_proto.v1.run_pb2 import ResultPart, RunResult
from enginebench_proto.v1.worker_pb2 import WorkerMessage

UNFINISHED_SUFFIX = ".unfinished"
DAMAGED_SUFFIX = ".damaged"

_log = logging.getLogger(__name__)


class SpoolWriter:
    """A result on its way into the spool: invisible until `commit`, and gone without it when the block is left."""

    def __init__(self, target: Path) -> None:
        self._target = target
        self._path = target.with_name(target.name + UNFINISHED_SUFFIX)
        self._stream = self._path.open("wb")
        self.written_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def add(self, part: ResultPart) -> None:
        """Append one part. Blocks on the disk."""
        write_frame(self._stream, WorkerMessage(part=part))
        self.written_bytes += part.ByteSize()

    def commit(self) -> None:
        """Make the result durable, then visible. Blocks on the disk."""
        os.fsync(self._stream.fileno())
        self._stream.close()
        self._path.rename(self._target)
        sync_folder(self._target.parent)

    def discard(self) -> None:
        """Forget the result; harmless after `commit`."""
        if not self._stream.closed:
            self._stream.close()
            self._path.unlink(missing_ok=True)


class Spool:
    """The folder of finished results, by run id. Callers check the run id before it gets here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def begin(self, run_id: str) -> SpoolWriter:
        """Start writing the result of a run."""
        return SpoolWriter(self._folder / run_id)

    def recover(self) -> Iterator[RunResult]:
        """The results an earlier agent left, without their samples. Unfinished files are removed.

        A file that cannot be read is set aside under another name and reported in the log, never deleted.
        """
        for path in sorted(self._folder.iterdir()):
            if path.suffix == UNFINISHED_SUFFIX:
                path.unlink()
            elif path.suffix != DAMAGED_SUFFIX and (result := _head(path)) is not None:
                yield result

    async def read(self, run_id: str) -> AsyncIterator[ResultPart]:
        """The parts of a result in order, one in memory at a time."""
        with await asyncio.to_thread((self._folder / run_id).open, "rb") as stream:
            while (message := await asyncio.to_thread(read_frame, stream)) is not None:
                yield message.part

    def remove(self, run_id: str) -> None:
        """Forget a result; harmless when it is not there."""
        (self._folder / run_id).unlink(missing_ok=True)


def _head(path: Path) -> RunResult | None:
    try:
        with path.open("rb") as stream:
            message = read_frame(stream)
        if message is not None and message.part.result.run_id == path.name:
            return message.part.result
        reason = "it holds no result of that name"
    except FramingError as error:
        reason = str(error)
    path.rename(path.with_name(path.name + DAMAGED_SUFFIX))
    _log.error("the spooled result %s cannot be read and was set aside: %s", path, reason)
    return None
