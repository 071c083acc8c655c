"""Finished results on disk until somebody has stored them.

A run has two files: `<run id>.blocks` grows while it is measured, and `<run id>` with its result comes last and whole.
A run without the latter has no result, whatever an agent that was killed has left of it. Both hold parts, each with its
length and a checksum: disks forget, and a number with one bit of it turned is still a number.
"""

import asyncio
import contextlib
import errno
import logging
import os
import shutil
import struct
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import BinaryIO, Self

from enginebench_agent.errors import InvalidRequestError, NotReadyError
from enginebench_agent.names import check_run_id
from enginebench_agent.runs import endings
from enginebench_agent.worker.pipe import FramingError, check_length, parse, read_frame
from enginebench_proto.agreed.durable import whole_file
from enginebench_proto.v1.run_pb2 import OUTCOME_INCONCLUSIVE, OUTCOME_OK, ResultPart, RunResult, RunSpec
from enginebench_proto.v1.worker_pb2 import WorkerMessage

BLOCKS_SUFFIX = ".blocks"
UNFINISHED_SUFFIX = ".unfinished"
DAMAGED_FOLDER = "damaged"
"""Where files go that cannot be read, below the spool; they stay until somebody has looked at them."""

MAX_RESULT_BYTES = 4 * 1024**3
"""Bound on what one run may leave on the disk: some 400 million raw samples."""

MIN_FREE_BYTES = 16 * 1024**2
"""Room that must remain: without it a run would end with a result that cannot be kept."""

CHECK_EVERY_BYTES = 4 * 1024**2
"""How often the free room is looked at. Less than `MIN_FREE_BYTES`, so that the look is in time."""

_MAGIC = b"EBS2"
"""How files with checksums begin. Read as a length it is more than any: files without checksums begin with one."""
_HEAD = struct.Struct("<II")
"""Before each part: its length in bytes and its CRC-32, little-endian."""
_LOST = frozenset({errno.EIO, errno.ENOENT})
"""What the disk says of content that is gone."""
_UNREADABLE = "the result of the run %s cannot be read (%s): let the agent's account read it, and ask again."

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
        self.written_bytes = 0
        self._checked_bytes = -CHECK_EVERY_BYTES

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def add(self, part: ResultPart) -> None:
        """Append a block or samples of it. Blocks on the disk.

        Raises `OversizeError` for more than an agent keeps of one run, and `OSError` where the disk is full.
        """
        self.written_bytes += part.ByteSize()
        self._check_room()
        if self._blocks is None:
            self._blocks = self._blocks_path.open("wb")
            self._blocks.write(_MAGIC)
        _write_part(self._blocks, part)

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
        if self.written_bytes > self._max_bytes:
            raise OversizeError(
                f"the run's raw samples exceed the {self._max_bytes / 1e9:.1f} GB that an agent keeps of one run; "
                "shorten the measurement"
            )
        if self.written_bytes - self._checked_bytes >= CHECK_EVERY_BYTES:
            self._checked_bytes = self.written_bytes
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

        A damaged result is set aside, never deleted, and a failure that says so takes its place. One that this account
        may not read stays where it is: of that only the id is told, with a line in the log.
        """
        for path in sorted(path for path in self._folder.iterdir() if path.is_file()):
            if path.suffix == UNFINISHED_SUFFIX or (path.suffix == BLOCKS_SUFFIX and not path.with_suffix("").exists()):
                path.unlink(missing_ok=True)
            elif path.suffix == "" and (result := self._head(path)) is not None:
                yield result

    async def read(self, run_id: str) -> AsyncIterator[ResultPart]:
        """The result, then its blocks with their samples in the order measured; one part in memory at a time.

        All is looked at before anything is told: where a part is damaged, a failure that says so is the result.
        Raises `NotReadyError` where this account may not read it.
        """
        path = self._folder / run_id
        result = await asyncio.to_thread(self._whole, path)
        if not result.measurement.blocks:
            yield ResultPart(result=result)
            return
        # Opened before anything is told, so that a caller who acknowledges in the middle still gets the rest.
        with await asyncio.to_thread(path.with_suffix(BLOCKS_SUFFIX).open, "rb") as stream:
            yield ResultPart(result=result)
            parts = _parts(stream)
            while (part := await asyncio.to_thread(next, parts, None)) is not None:
                yield part

    def remove(self, run_id: str) -> None:
        """Forget a run; harmless when it is not there. A result that may not be read stays: nobody has it yet."""
        if (self._folder / run_id).exists() and not os.access(self._folder / run_id, os.R_OK):
            return
        # The result first: what a crash leaves of the blocks is then removed when the agent comes back.
        (self._folder / run_id).unlink(missing_ok=True)
        (self._folder / (run_id + BLOCKS_SUFFIX)).unlink(missing_ok=True)

    def _head(self, path: Path) -> RunResult | None:
        """A result without its blocks, or what is to be said in its place; None for what is no run's."""
        known = RunResult(run_id=path.name, spec=RunSpec(run_id=path.name))
        try:
            return _read_result(path)
        except (FramingError, OSError) as error:
            if _is_damage(error, path):
                return self._set_aside(path, error, known)
            # It may be sound: it is no reason to keep the others back, and none to call the run unknown.
            _log.error(_UNREADABLE, path.name, error)
            return known if _is_run(path) else None

    def _whole(self, path: Path) -> RunResult:
        """A result whose blocks are all there and undamaged, or the failure in its place."""
        result = RunResult(run_id=path.name, spec=RunSpec(run_id=path.name))
        try:
            result = _read_result(path)
            _check_blocks(path.with_suffix(BLOCKS_SUFFIX), result)
        except (FramingError, OSError) as error:
            if isinstance(error, PermissionError):
                raise NotReadyError(_UNREADABLE % (path.name, error)) from error
            if not _is_damage(error, path):
                raise
            return self._set_aside(path, error, result) or result
        return result

    def _set_aside(self, path: Path, error: Exception, known: RunResult) -> RunResult | None:
        """Keep the files of a run elsewhere and store a failure in their place; None for a file that is no run's."""
        _log.error("the spooled result %s is damaged and was set aside: %s", path, error)
        folder = self._folder / DAMAGED_FOLDER
        folder.mkdir(mode=0o700, exist_ok=True)
        for damaged in (path, path.with_suffix(BLOCKS_SUFFIX)):
            with contextlib.suppress(FileNotFoundError):  # another reader was quicker, or it was never there
                damaged.rename(folder / damaged.name)
        if not _is_run(path):
            return None
        result = endings.failed(endings.of_damage(folder, str(error)))
        result.run_id, result.started_at_unix_ns = known.run_id, known.started_at_unix_ns
        result.engine_version = known.engine_version
        result.spec.CopyFrom(known.spec)
        _write_durably(path, result)
        return result


def check_room(folder: Path) -> None:
    """Raises `OSError` (`ENOSPC`) where the disk of a folder has next to no room left."""
    if shutil.disk_usage(folder).free < MIN_FREE_BYTES:
        raise OSError(errno.ENOSPC, "too little room", str(folder))


def _is_run(path: Path) -> bool:
    try:
        check_run_id(path.name)
    except InvalidRequestError:
        return False
    return True


def _is_damage(error: FramingError | OSError, path: Path) -> bool:
    """Whether it tells of content that is damaged or gone, and not of a result that was forgotten meanwhile."""
    return isinstance(error, FramingError) or (error.errno in _LOST and path.exists())


def _write_durably(path: Path, result: RunResult) -> None:
    with whole_file(path, partial=path.with_suffix(UNFINISHED_SUFFIX)) as stream:
        stream.write(_MAGIC)
        _write_part(stream, ResultPart(result=result))


def _read_result(path: Path) -> RunResult:
    with path.open("rb") as stream:
        part = next(_parts(stream), None)
    if part is None or part.result.run_id != path.name:
        raise FramingError(f"{path} holds no result of that name.")
    return part.result


def _check_blocks(path: Path, result: RunResult) -> None:
    """Read all blocks of a result. Raises `FramingError` where one is damaged, or not all are there."""
    told = result.measurement
    if not told.blocks:
        return
    blocks = samples = 0
    with path.open("rb") as stream:
        for part in _parts(stream):
            blocks += part.HasField("block")
            samples += len(part.samples.latency_ns)
    # A run that failed in the middle may have told less, or more, than it sent.
    if result.outcome in (OUTCOME_OK, OUTCOME_INCONCLUSIVE) and (blocks, samples) != (told.blocks, told.iterations):
        raise FramingError(f"{path} holds {blocks} of {told.blocks} blocks, {samples} of {told.iterations} samples.")


def _write_part(stream: BinaryIO, part: ResultPart) -> None:
    payload = WorkerMessage(part=part).SerializeToString()
    check_length(len(payload))
    stream.write(_HEAD.pack(len(payload), zlib.crc32(payload)) + payload)
    stream.flush()


def _parts(stream: BinaryIO) -> Iterator[ResultPart]:
    """The parts of a file to its end. Raises `FramingError` for what is damaged."""
    if stream.read(len(_MAGIC)) != _MAGIC:
        stream.seek(0)  # of an agent before checksums
        while (message := read_frame(stream)) is not None:
            yield message.part
        return
    while head := stream.read(_HEAD.size):
        if len(head) < _HEAD.size:
            raise FramingError(f"A file ends {len(head)} bytes into the head of a part.")
        length, checksum = _HEAD.unpack(head)
        check_length(length)
        payload = stream.read(length)
        if zlib.crc32(payload) != checksum:
            raise FramingError(f"A part of {length} bytes does not have its checksum.")
        yield parse(payload, length).part
