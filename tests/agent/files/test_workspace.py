"""Where links cannot be, a run's files are copied into its folder; and the agent listens meanwhile."""

import asyncio
import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agent_process import digest

from enginebench_agent.files.cache import FileCache
from enginebench_agent.files.workspace import place_inputs, place_model
from enginebench_proto.v1.configuration_pb2 import InputFile
from enginebench_proto.v1.model_pb2 import ModelFile

ELSEWHERE = Path("/dev/shm")
CONTENTS = tuple(f"content {number}".encode() for number in range(8))
DIGESTS = tuple(map(digest, CONTENTS))


@pytest.fixture
def far_cache(tmp_path: Path) -> Iterator[FileCache]:
    """A cache on another file system than the runs, so that no link leads from one to the other."""
    if not ELSEWHERE.is_dir() or ELSEWHERE.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system here")
    with TemporaryDirectory(dir=ELSEWHERE) as folder:
        yield filled(Path(folder))


def filled(folder: Path) -> FileCache:
    for sha256, content in zip(DIGESTS, CONTENTS, strict=True):
        (folder / sha256).write_bytes(content)
    return FileCache(folder)


async def test_a_model_is_copied_where_it_cannot_be_linked(tmp_path: Path, far_cache: FileCache) -> None:
    files = [ModelFile(name="net/m.onnx", sha256=DIGESTS[0])]
    path = await place_model(tmp_path / "model", files, far_cache)
    assert (path.relative_to(tmp_path), path.read_bytes()) == (Path("model/net/m.onnx"), CONTENTS[0])


async def test_inputs_are_copied_where_they_cannot_be_linked(tmp_path: Path, far_cache: FileCache) -> None:
    files = [InputFile(input="x", sha256=sha256) for sha256 in (*DIGESTS, DIGESTS[0])]
    folder = await place_inputs(tmp_path / "inputs", files, far_cache)
    assert folder is not None
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == dict(zip(DIGESTS, CONTENTS, strict=True))


async def test_what_can_be_linked_takes_no_room(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    path = await place_model(
        tmp_path / "model", [ModelFile(name="m.onnx", sha256=DIGESTS[0])], filled(tmp_path / "files")
    )
    assert path.samefile(tmp_path / "files" / DIGESTS[0])


def shares(read: int, written: int, count: int, offset: int) -> int:
    """As on XFS: what is written takes no room of its own. A few bytes at a time, from where it was told."""
    return os.write(written, os.pread(read, min(count, 4), offset))


def shares_nothing(*_: Any) -> int:
    """As of some network file systems."""
    return 0


def cannot(*_: Any) -> int:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


@pytest.mark.parametrize(("kernel", "sent"), [(shares, 1), (shares_nothing, 2), (cannot, 2)])
async def test_a_model_of_several_files_shares_their_blocks_where_that_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel: Callable[..., int], sent: int
) -> None:
    calls = []

    def send(*arguments: int) -> int:
        calls.append(sendfile(*arguments))
        return calls[-1]

    sendfile = os.sendfile
    monkeypatch.setattr(os, "sendfile", send)
    monkeypatch.setattr(os, "copy_file_range", kernel)
    (tmp_path / "files").mkdir()
    files = [ModelFile(name=f"m{number}.onnx", sha256=DIGESTS[number]) for number in range(2)]
    await place_model(tmp_path / "model", files, filled(tmp_path / "files"))

    for number, file in enumerate(files):
        path = tmp_path / "model" / file.name
        assert (path.read_bytes(), path.stat().st_nlink) == (CONTENTS[number], 1)
    assert len(calls) == sent * len(files)


async def test_a_file_that_vanished_from_the_cache_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await place_model(tmp_path / "model", [ModelFile(name="m.onnx", sha256=DIGESTS[0])], FileCache(tmp_path))


async def test_the_agent_listens_while_a_slow_disk_places_inputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = os.link

    def link_slowly(*places: Any) -> None:
        time.sleep(0.05)
        link(*places)

    monkeypatch.setattr(os, "link", link_slowly)
    (tmp_path / "files").mkdir()
    files = [InputFile(input="x", sha256=sha256) for sha256 in DIGESTS]
    placing = asyncio.ensure_future(place_inputs(tmp_path / "inputs", files, filled(tmp_path / "files")))
    turns = 0
    while not placing.done():
        turns += 1
        await asyncio.sleep(0.01)
    assert turns > len(files)
    assert len(list((await placing or tmp_path).iterdir())) == len(files)
