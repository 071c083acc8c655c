"""Files that are on the disk, whole, once they have their name; for their owner only where that matters."""

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700


@contextmanager
def whole_path(path: Path, *, partial: Path | None = None) -> Iterator[Path]:
    """A path beside `path` for somebody else to write to; what is there takes the name, and is gone where it failed."""
    draft = partial or path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield draft
        draft.replace(path)
    finally:
        with suppress(OSError):  # the folder that could not be written to cannot be tidied either
            draft.unlink()


@contextmanager
def whole_file(
    path: Path, *, mode: int | None = None, durable: bool = True, partial: Path | None = None
) -> Iterator[BinaryIO]:
    """A stream whose content takes the place of what `path` was, once it is on the disk unless not `durable`.

    With a `mode` the file has it from its first byte: a key that is narrowed afterwards was open to others until then.
    """
    with whole_path(path, partial=partial) as draft:
        flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if mode is None else os.O_EXCL)
        with os.fdopen(os.open(draft, flags, 0o666 if mode is None else mode), "wb") as stream:
            yield stream
            stream.flush()
            if durable:
                os.fsync(stream.fileno())
    if durable:
        sync_folder(path.parent)


def write_whole(path: Path, content: bytes, *, mode: int | None = None, durable: bool = True) -> None:
    """Give a file this content, in the place of one before."""
    with whole_file(path, mode=mode, durable=durable) as stream:
        stream.write(content)


def copy_whole(source: Path, target: Path) -> None:
    """Copy bytes under another name, in the place of what has it."""
    with source.open("rb") as read, whole_file(target) as write:
        shutil.copyfileobj(read, write, 1 << 20)


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def is_at(path: Path, stream: IO[Any]) -> bool:
    """Whether an open file still has this name: it may be gone since it was opened, or another in its place."""
    try:
        return os.path.samestat(os.fstat(stream.fileno()), path.stat())
    except FileNotFoundError:
        return False


def make_private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner only, whatever the umask says.

    One that is there stays as it is.
    """
    if path.is_dir():
        return
    if not path.parent.exists():
        make_private_folder(path.parent)
    try:
        path.mkdir(PRIVATE_FOLDER)
    except FileExistsError:
        if not path.is_dir():  # another process was quicker, or it is no folder
            raise
    else:
        path.chmod(PRIVATE_FOLDER)
