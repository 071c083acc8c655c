"""Files and folders for their owner only: made with mode 0600 from the first byte, whole or not at all."""

import os
import uuid
from contextlib import suppress
from pathlib import Path

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700


def make_private_folder(path: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner only, whatever the umask says.

    One that is there stays as it is. Raises `OSError`.
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


def write_private(path: Path, content: bytes) -> None:
    """Give a file this content, in the place of one before, once it is on the disk. Raises `OSError`."""
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        # Made with its mode: a key that is narrowed afterwards was open to others for a moment.
        handle = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(path)
    finally:
        with suppress(FileNotFoundError):
            partial.unlink()
