"""Paths as people type them."""

import os
import sys
from os import PathLike
from pathlib import Path

from enginebench_controller.errors import InputError

SET_UTF8 = "set PYTHONUTF8=1 or LANG=C.UTF-8"
"""What helps where the interpreter takes the names of files for text of another encoding."""


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


def why_no_text(name: str) -> str:
    """Why the bytes of a file's name stand as surrogates in it, and what to do; "" for a name that is text.

    Documents and the store can only have text.
    """
    if name.isascii() or not any("\ud800" <= one <= "\udfff" for one in name):
        return ""
    encoding = sys.getfilesystemencoding()
    try:
        os.fsencode(name).decode()
    except UnicodeError:
        return "is no UTF-8, as plans are: rename the file, or run what `models add` makes of it"
    return f"has letters that this Python, which reads names as {encoding}, does not know: {SET_UTF8}"


def leads_nowhere(path: Path) -> str:
    """Which link on the way to `path` leads to nothing, and what to do, as the end of a sentence; "" without one."""
    for part in (*reversed(path.absolute().parents), path):
        if part.is_symlink() and not part.exists():
            return f"{part} is a link to {part.readlink()}, which is not there; mount that, or remove the link"
    return ""
