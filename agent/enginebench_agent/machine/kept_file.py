"""A file of /proc or /sys that is kept open and read again and again, and what a source of such facts is."""

import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

_ENOUGH_BYTES = 512
"""More than any line of interest is long; /proc/stat goes on for pages."""


class AbsentError(Exception):
    """A fact the machine does not tell. The text says why, in a few words."""


class KeptFile:
    """An open file of /proc or /sys; closed with the object."""

    def __init__(self, path: Path, root: Path, must_answer: bool = True) -> None:
        """Raises `AbsentError` where the file cannot be read. `root` is left out of the reason.

        Without `must_answer` it need only open: a sensor of cores that are switched off may answer later.
        """
        name = f"/{path.relative_to(root)}" if path.is_relative_to(root) else str(path)
        self._name = os.fsencode(name).decode(errors="replace")  # a message holds no bytes that are not UTF-8
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise AbsentError(reason(error, self._name)) from error
        if must_answer:
            self.read()

    def read(self) -> bytes:
        """What the file says now, from its beginning. Raises `AbsentError` where the kernel gives an error instead."""
        try:
            return os.pread(self._descriptor, _ENOUGH_BYTES, 0)
        except OSError as error:
            raise AbsentError(reason(error, self._name)) from error

    def integer(self, base: int = 10) -> int:
        """The number the file consists of. Raises `AbsentError` for anything else."""
        text = self.read()
        try:
            return int(text, base)
        except ValueError:
            raise AbsentError(f"not a number: {self._name}") from None

    def within(self, lowest: int, highest: int) -> int:
        """The number, if it can be true. Raises `AbsentError` for one that is beyond."""
        if not lowest <= (number := self.integer()) <= highest:
            raise AbsentError(f"no number that can be true: {self._name}")
        return number

    def text(self) -> str:
        """The word the file consists of."""
        return self.read().decode(errors="replace").strip()

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def reason(error: OSError, name: str) -> str:
    """Why a file cannot be read, in a few words."""
    if isinstance(error, FileNotFoundError):
        return f"no {name} here"
    if isinstance(error, PermissionError):
        return f"permission denied: {name}"
    return f"{(error.strerror or type(error).__name__).lower()}: {name}"


Probe = Callable[[], Mapping[str, Any]]

_Answer = TypeVar("_Answer")


def answers(asked: Iterable[Callable[[], _Answer]]) -> list[_Answer]:
    """What those answer that can: one dead file of several does not hide the others.

    Raises `AbsentError` where none can, with the reason of the first.
    """
    found, refusals = [], []
    for ask in asked:
        try:
            found.append(ask())
        except AbsentError as error:
            refusals.append(error)
    if not found:
        raise refusals[0] if refusals else AbsentError("nothing here tells")
    return found


def kept(paths: Iterable[Path], root: Path) -> list[KeptFile]:
    """Those of these files that open, whether or not they answer now; raises as `answers` does."""
    return answers(partial(KeptFile, path, root, must_answer=False) for path in paths)


def word(path: Path) -> str:
    """The file's content in lower case; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip().lower()
    except OSError:
        return ""


def sensor_chips(root: Path) -> list[Path]:
    """The folders of the kernel's sensor chips, in the order of their numbers."""
    return sorted((root / "sys/class/hwmon").glob("hwmon[0-9]*"), key=lambda one: (len(one.name), one.name))
