"""Writing a file that a person named: whole or not at all, and never over another one unasked."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from enginebench_controller.errors import InputError
from enginebench_proto.agreed.durable import whole_path


def check_new_files(*paths: Path | None, force: bool | None) -> None:
    """Raise `InputError` for the first of these that could not be written, before minutes are spent on it.

    `force` is None of a command that has no --force.
    """
    for path in filter(None, paths):
        if path.is_dir():
            raise InputError(f"{path} is a folder; name a file")
        folder = _way(path)[-1].parent
        if not folder.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {folder}")
        # Root may rename a file over /dev/stdout, and then nobody on this machine has one any more.
        if _leads_to_a_stream(path) or (path.exists() and not path.is_file()):
            raise InputError(f"{path} is a stream or a device; name a file")
        if path.exists() and not force:
            advice = "name another one" if force is None else "name another one, or replace it with --force"
            raise InputError(f"there is a file {path} already; {advice}")
        if not os.access(folder, os.W_OK):
            raise InputError(f"cannot write {path}: you may not write to {folder}")


_MOST_LINKS = 40
"""So many the kernel follows, too."""


def _way(path: Path) -> list[Path]:
    """The file itself at last, behind the links that lead to it. Raises `InputError` where they lead nowhere."""
    way = [path]
    while way[-1].is_symlink():
        if len(way) > _MOST_LINKS:
            raise InputError(f"{path} is a link that leads back to itself; name a file")
        way.append(way[-1].parent / way[-1].readlink())
    return way


def _leads_to_a_stream(path: Path) -> bool:
    """Whether a link such as /dev/stdout is on the way: where a shell sends that stream to a file, it leads to one."""
    return any(one.is_relative_to("/proc") for one in _way(path))


@contextmanager
def new_file(path: Path, *, force: bool | None) -> Iterator[Path]:
    """Yield a path beside `path` to write to; it takes that name once the block is through, and is gone if it raises.

    Raises `InputError` where there is a file already, unless `force`, and where it cannot be written.
    """
    check_new_files(path, force=force)
    try:
        with whole_path(_way(path)[-1]) as partial:  # a link stays one
            yield partial
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None


def kept(text: str, path: Path | None, *, force: bool | None) -> str | None:
    """Write a text to a new file as UTF-8 and return None, or return the text where no file is named.

    Raises `InputError` as `new_file` does.
    """
    if path is None:
        return text
    with new_file(path, force=force) as partial:
        partial.write_text(text, encoding="utf-8", newline="")
    return None
