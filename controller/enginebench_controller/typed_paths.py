"""Paths as people type them."""

from os import PathLike
from pathlib import Path

from enginebench_controller.errors import InputError


def typed_path(typed: str | PathLike[str]) -> Path:
    """A path as a person typed it, with the home folder that a `~` means: no shell has put it into `--out=~/DIR`.

    Raises `InputError` where this machine knows no such home.
    """
    path = Path(typed)
    try:
        return path.expanduser()
    except RuntimeError:  # what pathlib says of an account that this machine does not know
        raise InputError(f"{path}: this machine knows no home folder {path.parts[0]}; write the whole path") from None


def is_file(text: str) -> bool:
    """Whether this is the path of a file. Raises `InputError` where that cannot be told, as of a name too long."""
    try:
        return Path(text).is_file()
    except OSError as error:
        raise InputError(f"cannot use {text}: {error.strerror}; mind its name, and whose it is") from None


def leads_nowhere(path: Path) -> str:
    """Which link on the way to `path` leads to nothing, and what to do, as the end of a sentence; "" without one."""
    for part in (*reversed(path.absolute().parents), path):
        if part.is_symlink() and not part.exists():
            return f"{part} is a link to {part.readlink()}, which is not there; mount that, or remove the link"
    return ""
