"""Writing a file that a person named: whole or not at all, and never over another one unasked."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from enginebench_controller.errors import InputError


@contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield a path beside `path` to write to; it takes that name once the block is through, and is gone if it raises.

    Raises `InputError` where there is a file already, unless `force`, and where it cannot be written.
    """
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file")
    if path.exists() and not force:
        raise InputError(f"there is a file {path} already; name another one, or replace it with --force")
    partial = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.part")
    try:
        yield partial
        partial.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        _remove(partial)


def _remove(partial: Path) -> None:
    try:
        partial.unlink(missing_ok=True)
    except OSError:
        return  # the folder that could not be written to cannot be tidied either
