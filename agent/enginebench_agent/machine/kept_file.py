"""A file of /proc or /sys that is kept open and read again and again, and what a source of such facts is."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

_ENOUGH_BYTES = 512
"""More than any line of interest is long; /proc/stat goes on for pages."""


class AbsentError(Exception):
    """A fact the machine does not tell. The text says why, in a few words."""


class KeptFile:
    """An open file of /proc or /sys; closed with the object."""

    def __init__(self, path: Path, root: Path) -> None:
        """Raises `AbsentError` where the file cannot be read. `root` is left out of the reason."""
        self._name = f"/{path.relative_to(root)}" if path.is_relative_to(root) else str(path)
        self._descriptor = -1
        try:
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise AbsentError(reason(error, self._name)) from error
        self.read()

    def read(self) -> bytes:
        """What the file says now, from its beginning. Raises `AbsentError` where the kernel gives an error instead."""
        try:
            return os.pread(self._descriptor, _ENOUGH_BYTES, 0)
        except OSError as error:
            raise AbsentError(reason(error, self._name)) from error

    def integer(self) -> int:
        """The number the file consists of. Raises `AbsentError` for anything else."""
        text = self.read()
        try:
            return int(text)
        except ValueError:
            raise AbsentError(f"not a number: {self._name}") from None

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


def word(path: Path) -> str:
    """The file's content in lower case; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip().lower()
    except OSError:
        return ""


def sensor_chips(root: Path) -> list[Path]:
    """The folders of the kernel's sensor chips, in the order of their numbers."""
    return sorted((root / "sys/class/hwmon").glob("hwmon[0-9]*"), key=lambda one: (len(one.name), one.name))
