"""The raw samples of one measurement on their way from the target to the store, on disk, so that memory stays flat."""

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.errors import AgentError, InputError
from enginebench_controller.records import Block, BlockSamples
from enginebench_proto.agreed.durable import make_private_folder

ITEM_BYTES = 8
MOST_IN_MEMORY_BYTES = 32 * 1024
"""Fewer are kept in memory: a thousand targets at once hold no more so than the opening of their files would take."""
Series = tuple[NDArray[np.int64], ...]


@dataclass
class _Stretch:
    """Where the parts of one block's samples lie: each an offset, a number of samples and a number of series."""

    block: Block
    parts: list[tuple[int, int, int]] = field(default_factory=list)


class SampleFile:
    """An `Iterable[BlockSamples]` that may be gone through any number of times, a block in memory at a time.

    The file, which is made for more than `MOST_IN_MEMORY_BYTES`, has no name, so nothing is left behind however the
    controller ends. Use as a context manager. Samples are in the order of processes and blocks.
    """

    def __init__(self, folder: Path) -> None:
        """Make the `folder` where the file is to be. Raises `InputError` where that cannot be."""
        self._folder = folder
        self._stretches: list[_Stretch] = []
        self._end = 0
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        try:
            make_private_folder(folder)
        except OSError as error:
            raise self._unusable(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()

    @property
    def blocks(self) -> tuple[Block, ...]:
        """All blocks so far."""
        return tuple(stretch.block for stretch in self._stretches)

    def begin(self, process: int) -> None:
        """Forget what has come of a process, and of those after it: its result is read from the start."""
        kept = [stretch for stretch in self._stretches if stretch.block.process < process]
        self._stretches = kept
        self._end = max((_end_of(part) for stretch in kept for part in stretch.parts), default=0)

    def add_block(self, block: Block) -> None:
        """Begin a block; its samples follow."""
        self._stretches.append(_Stretch(block))

    def add_samples(self, samples: BlockSamples) -> None:
        """Append to the block begun last. Raises `InputError` for a full disk, `AgentError` for another block's."""
        stretch = self._stretches[-1] if self._stretches else None
        if stretch is None or (stretch.block.process, stretch.block.index) != (samples.process, samples.block):
            raise AgentError(f"the target sent samples of block {samples.block} apart from the block")
        series = _series(samples)
        self._write(b"".join(values.astype("<i8", copy=False).tobytes() for values in series))
        stretch.parts.append((self._end, samples.latency_ns.size, len(series)))
        self._end = _end_of(stretch.parts[-1])

    def __iter__(self) -> Iterator[BlockSamples]:
        for stretch in tuple(self._stretches):
            parts = [self._read(*part) for part in stretch.parts]
            series = [np.concatenate(pieces) for pieces in zip(*parts, strict=True)] or [np.empty(0, np.int64)]
            yield BlockSamples(stretch.block.process, stretch.block.index, *series)

    def _read(self, offset: int, samples: int, series: int) -> Series:
        size_bytes = samples * series * ITEM_BYTES
        if self._file is None:
            content = bytes(self._memory[offset : offset + size_bytes])
        else:  # pread moves no file position, so several readers do not disturb each other or the writer
            content = _read_all(self._file.fileno(), size_bytes, offset)
        values = np.frombuffer(content, dtype="<i8").astype(np.int64, copy=False)
        return tuple(values.reshape(series, samples))

    def _write(self, content: bytes) -> None:
        if self._file is None:
            del self._memory[self._end :]
            self._memory += content
            if len(self._memory) <= MOST_IN_MEMORY_BYTES:
                return
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=self._folder, buffering=0)  # noqa: SIM115  # closed by __exit__
                _write_all(self._file.fileno(), self._memory, 0)
                self._memory.clear()
            else:
                _write_all(self._file.fileno(), content, self._end)
        except OSError as error:
            raise self._unusable(error) from error

    def _unusable(self, error: OSError) -> InputError:
        return InputError(f"raw samples cannot be kept in {self._folder} ({error.strerror}): make room there")


def _series(samples: BlockSamples) -> Series:
    instants = (samples.scheduled_ns, samples.sent_ns, samples.completed_ns)
    return (samples.latency_ns, *(values for values in instants if values is not None))


def _end_of(part: tuple[int, int, int]) -> int:
    offset, samples, series = part
    return offset + samples * series * ITEM_BYTES


def _write_all(descriptor: int, content: bytes | bytearray, offset: int) -> None:
    left = memoryview(bytes(content))
    while left:
        written = os.pwrite(descriptor, left, offset)
        offset, left = offset + written, left[written:]


def _read_all(descriptor: int, size_bytes: int, offset: int) -> bytes:
    """Read this much; one `pread` gives at most 2 GiB, and on a signal less."""
    pieces = []
    while size_bytes:
        piece = os.pread(descriptor, size_bytes, offset)
        if not piece:
            raise ValueError("the file of raw samples ends too early")
        pieces.append(piece)
        offset, size_bytes = offset + len(piece), size_bytes - len(piece)
    return b"".join(pieces)
