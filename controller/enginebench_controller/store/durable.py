"""Files that are on the disk, whole, once they have their name."""

import os
import shutil
from contextlib import suppress
from pathlib import Path


def copy_file(source: Path, target: Path) -> None:
    """Copy bytes under another name, and give the copy its own, in the place of what has it, once it is on the disk.

    Raises `OSError`, and leaves nothing behind then.
    """
    partial = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        with source.open("rb") as read, partial.open("wb") as write:
            shutil.copyfileobj(read, write, 1 << 20)
            write.flush()
            os.fsync(write.fileno())
        partial.replace(target)
        sync_folder(target.parent)
    finally:
        with suppress(FileNotFoundError, NotADirectoryError):
            partial.unlink()


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
