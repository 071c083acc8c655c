"""Standard streams that may be closed, or lose their reader, at any time: a command still ends as it would have."""

import io
import os
import sys
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDOUT, _STDERR = 1, 2


class _Outlet(io.FileIO):
    """A standard stream that leads nowhere once it cannot be written to, so that a command still ends as it would.

    Below all that writes, as Rich and Typer end a command whose reader has gone, and the interpreter fails at its exit.
    A reader that goes, as in `enginebench list | head`, loses nothing that it wanted; nor is a lost remark a failure.
    Raises `OSError` that names standard output where data is lost, such as on a full disk.
    """

    def write(self, data: "ReadableBuffer", /) -> int:
        """Write all of it: of a large text the kernel may take a part, and of whom is slower than we are nothing yet.

        Whoever writes through, as with `PYTHONUNBUFFERED`, would not notice.
        """
        whole = memoryview(data).cast("B")
        written = 0
        try:
            while written < len(whole):
                taken = super().write(whole[written:])
                if taken is None:  # a pipe that does not wait, and is full
                    select([], [self], [])
                written += taken or 0
        except OSError as error:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if self.fileno() == _STDOUT and not isinstance(error, BrokenPipeError):
                raise OSError(error.errno, error.strerror, "standard output") from None
        return len(whole)


def keep_streams() -> None:
    """Let standard output and standard error be ones that may be closed, or lose their reader, at any time."""
    if sys.stdout is sys.__stdout__:  # else whoever put another one there knows what becomes of it
        sys.stdout = _kept(sys.stdout, _STDOUT)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _kept(sys.stderr, _STDERR)


def _kept(stream: TextIO | None, number: int) -> TextIO:
    if not isinstance(stream, io.TextIOWrapper):  # None where it was closed, as by `>&-`
        return Path(os.devnull).open("w", encoding="utf-8")
    outlet = _Outlet(number, "w", closefd=False)
    return io.TextIOWrapper(
        outlet if stream.write_through else io.BufferedWriter(outlet),  # as CPython does
        encoding=stream.encoding,
        errors=stream.errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
