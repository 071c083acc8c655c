"""Finished results on disk until somebody has stored them.

A run has two files: `<run id>.blocks` grows while it is measured, and `<run id>` with its result comes last and whole.
A run without the latter has no result, whatever an agent that was killed has left of it.
"""

import asyncio
import contextlib
import errno
import logging
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO, Self

from enginebench_agent.framing import FramingError, read_frame, write_frame
from enginebench_agent.reception import sync_folder
from enginebench_proto.v1.run_pb2 import ResultPart, RunResult
from enginebench_proto.v1.worker_pb2 import WorkerMessage

BLOCKS_SUFFIX = ".blocks"
UNFINISHED_SUFFIX = ".unfinished"
DAMAGED_SUFFIX = ".damaged"

MAX_RESULT_BYTES = 4 * 1024**3
"""Bound on what one run may leave on the disk: some 400 million raw samples."""

MIN_FREE_BYTES = 16 * 1024**2
"""Room that must remain: without it a run would end with a result that cannot be kept."""

CHECK_EVERY_BYTES = 4 * 1024**2
"""How often the free room is looked at. Less than `MIN_FREE_BYTES`, so that the look is in time."""

_log = logging.getLogger(__name__)


class OversizeError(Exception):
    """A run measured more than an agent keeps of one; the text is a sentence."""


class SpoolWriter:
    """A run on its way into the spool: invisible until `commit`, and gone without it when the block is left."""

    def __init__(self, folder: Path, run_id: str, max_bytes: int) -> None:
        self._result_path = folder / run_id
        self._blocks_path = folder / (run_id + BLOCKS_SUFFIX)
        self._max_bytes = max_bytes
        self._blocks: BinaryIO | None = None
        self._committed = False
        self._written_bytes = 0
        self._checked_bytes = -CHECK_EVERY_BYTES

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def add(self, part: ResultPart) -> None:
        """Append a block or samples of it. Blocks on the disk.

        Raises `OversizeError` for more than an agent keeps of one run, and `OSError` where the disk is full.
        """
        self._written_bytes += part.ByteSize()
        self._check_room()
        if self._blocks is None:
            self._blocks = self._blocks_path.open("wb")
        write_frame(self._blocks, WorkerMessage(part=part))

    def commit(self, result: RunResult) -> None:
        """Make the blocks and then the result durable and visible. Blocks on the disk.

        Blocks stay only beside a measurement, which tells what they are worth.
        """
        if self._blocks is not None:
            os.fsync(self._blocks.fileno())
        _write_durably(self._result_path, result)
        self._committed = True
        if not result.HasField("measurement"):
            self._blocks_path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Forget the run; harmless after `commit`."""
        if self._blocks is not None:
            with contextlib.suppress(OSError):  # a full disk refuses the last bytes once more
                self._blocks.close()
        if not self._committed:
            self._blocks_path.unlink(missing_ok=True)
            self._result_path.with_suffix(UNFINISHED_SUFFIX).unlink(missing_ok=True)

    def _check_room(self) -> None:
        if self._written_bytes > self._max_bytes:
            raise OversizeError(
                f"the run's raw samples exceed the {self._max_bytes / 1e9:.1f} GB that an agent keeps of one run; "
                "shorten the measurement"
            )
        if self._written_bytes - self._checked_bytes >= CHECK_EVERY_BYTES:
            self._checked_bytes = self._written_bytes
            check_room(self._result_path.parent)


class Spool:
    """The folder of finished results, by run id. Callers check the run id before it gets here."""

    def __init__(self, folder: Path, max_result_bytes: int = MAX_RESULT_BYTES) -> None:
        self._folder = folder
        self._max_result_bytes = max_result_bytes

    def begin(self, run_id: str) -> SpoolWriter:
        """Start writing the outcome of a run."""
        return SpoolWriter(self._folder, run_id, self._max_result_bytes)

    def recover(self) -> Iterator[RunResult]:
        """The results an earlier agent left, without their blocks. What belongs to no result is removed.

        A file that cannot be read is set aside under another name and reported in the log, never deleted.
        """
        for path in sorted(self._folder.iterdir()):
            if path.suffix == UNFINISHED_SUFFIX or (path.suffix == BLOCKS_SUFFIX and not path.with_suffix("").exists()):
                path.unlink(missing_ok=True)
            elif path.suffix == "" and (result := _head(path)) is not None:
                yield result

    async def read(self, run_id: str) -> AsyncIterator[ResultPart]:
        """The result, then its blocks with their samples in the order measured; one part in memory at a time."""
        path = self._folder / run_id
        result = await asyncio.to_thread(_read_result, path)
        if not result.measurement.blocks:
            yield ResultPart(result=result)
            return
        # Opened before anything is told, so that a caller who acknowledges in the middle still gets the rest.
        with await asyncio.to_thread(path.with_suffix(BLOCKS_SUFFIX).open, "rb") as stream:
            yield ResultPart(result=result)
            while (message := await asyncio.to_thread(read_frame, stream)) is not None:
                yield message.part

    def remove(self, run_id: str) -> None:
        """Forget a run; harmless when it is not there."""
        # The result first: what a crash leaves of the blocks is then removed when the agent comes back.
        (self._folder / run_id).unlink(missing_ok=True)
        (self._folder / (run_id + BLOCKS_SUFFIX)).unlink(missing_ok=True)


def check_room(folder: Path) -> None:
    """Raises `OSError` (`ENOSPC`) where the disk of a folder has next to no room left."""
    if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        raise OSError(errno.ENOSPC, "too little room", str(folder))


def _write_durably(path: Path, result: RunResult) -> None:
    unfinished = path.with_suffix(UNFINISHED_SUFFIX)
    with unfinished.open("wb") as stream:
        write_frame(stream, WorkerMessage(part=ResultPart(result=result)))
        os.fsync(stream.fileno())
    unfinished.rename(path)
    sync_folder(path.parent)


def _read_result(path: Path) -> RunResult:
    with path.open("rb") as stream:
        message = read_frame(stream)
    if message is None or message.part.result.run_id != path.name:
        raise FramingError(f"{path} holds no result of that name.")
    return message.part.result


def _head(path: Path) -> RunResult | None:
    try:
        return _read_result(path)
    except FramingError as error:
        _log.error("the spooled result %s cannot be read and was set aside: %s", path, error)
    for damaged in (path, path.with_suffix(BLOCKS_SUFFIX)):
        if damaged.exists():
            damaged.rename(damaged.with_name(damaged.name + DAMAGED_SUFFIX))
    return None
