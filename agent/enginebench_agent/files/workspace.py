"""A run's private folder: the model's files under the names its main file knows them by, and given inputs."""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from enginebench_agent.files.cache import FileCache
from enginebench_agent.names import check_model_file_names
from enginebench_agent.uninterrupted import run_to_end
from enginebench_proto.v1.configuration_pb2 import InputFile
from enginebench_proto.v1.model_pb2 import ModelFile
from enginebench_proto.v1.run_pb2 import RunSpec

COPY_BYTES = 64 * 1024 * 1024
"""Bytes copied at a stretch; a cancellation waits for no more than that."""


async def place_model(folder: Path, files: Sequence[ModelFile], cache: FileCache) -> Path:
    """Put the model's files below `folder`, and return the path of the main one; `folder` itself where there are none.

    A single file is linked where that can be, which costs nothing. Several are copied: the loaders of external data
    refuse links, as a link could stand for a file outside the model.
    """
    paths = [folder / path for path in check_model_file_names([file.name for file in files])]
    folder.mkdir()
    if not files:
        return folder
    if len(files) == 1:
        paths[0].parent.mkdir(parents=True, exist_ok=True)
        await _link(cache.path(files[0].sha256), paths[0])
    else:
        for path, file in zip(paths, files, strict=True):
            path.parent.mkdir(parents=True, exist_ok=True)
            await _copy(cache.path(file.sha256), path)
    return paths[0]


async def place_inputs(folder: Path, files: Iterable[InputFile], cache: FileCache) -> Path | None:
    """Put the files of given inputs into `folder`, named by their digests; None where there are none."""
    digests = {file.sha256 for file in files}
    if not digests:
        return None
    folder.mkdir()
    for sha256 in digests:
        await _link(cache.path(sha256), folder / sha256)
    return folder


def input_files(spec: RunSpec) -> Iterator[InputFile]:
    """The files of the inputs given with a run; one that is used twice comes twice."""
    for item in spec.configuration.input_set.items:
        yield from item.files


def digests_needed(spec: RunSpec) -> list[str]:
    """What a run needs from the cache, each once."""
    digests = [file.sha256 for file in spec.model.files] + [file.sha256 for file in input_files(spec)]
    return list(dict.fromkeys(digests))


async def remove_folder(folder: Path) -> None:
    """Remove a private folder with all that an engine may have left in it."""
    await run_to_end(shutil.rmtree, folder, ignore_errors=True)


async def _link(source: Path, target: Path) -> None:
    try:
        await run_to_end(target.hardlink_to, source)
    except OSError:  # no links on this file system, such as vfat, or the cache is mounted from another one
        await _copy(source, target)


async def _copy(source: Path, target: Path) -> None:
    with source.open("rb") as reader, target.open("xb") as writer:
        offset = 0
        while copied := await run_to_end(_copy_stretch, reader, writer, offset):
            offset += copied


def _copy_stretch(reader: BinaryIO, writer: BinaryIO, offset: int) -> int:
    """Shares the blocks on a file system that can (XFS, Btrfs); where the kernel refuses, sends the bytes."""
    with contextlib.suppress(OSError):
        if copied := os.copy_file_range(reader.fileno(), writer.fileno(), COPY_BYTES, offset):
            return copied
    return os.sendfile(writer.fileno(), reader.fileno(), offset, COPY_BYTES)
