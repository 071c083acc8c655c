"""Standard streams that may be closed, lose their reader or lack letters: a command still ends as it would have."""

import codecs
import io
import os
import sys
from pathlib import Path
from select import select
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STDOUT, _STDERR = 1, 2
_READABLE = "enginebench.readable"
_SPELLED = {"×": "x", "÷": "/", "−": "-", "–": "-", "±": "+/-", "°": "^", "µ": "u", "…": "...", "·": "|", "•": "*"} | {
    **{"≠": "!=", "≤": "<=", "≥": ">=", "≈": "~", "→": "->", "←": "<-", "²": "^2", "√": "sqrt", "∞": "inf"},
    **{"Σ": "sum", "Δ": "delta", "“": '"', "”": '"', "✗": "x", "✓": "v", "\ufffd": "?", "\N{NO-BREAK SPACE}": " "},
}
"""How the signs of our sentences and tables stand where an encoding lacks them; other letters stand as escapes."""


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
    """Let standard output and standard error be ones that may be closed, or lose their reader, at any time.

    What their encoding lacks is written so that it can be read; see `as_shown` and `refuse_unwritable`.
    """
    codecs.register_error(_READABLE, _spelled)
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
        errors=_errors_of(stream),
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def as_shown(text: str) -> str:
    """The text as standard output writes it, for whom lays it out: what stands for a letter may be wider."""
    if getattr(sys.stdout, "errors", None) != _READABLE:
        return text
    return text.encode(sys.stdout.encoding, _READABLE).decode(sys.stdout.encoding)


def refuse_unwritable(text: str) -> None:
    """Raise `UnicodeEncodeError` for what standard output would write in other letters, and a program is to read."""
    if getattr(sys.stdout, "errors", None) == _READABLE:
        text.encode(sys.stdout.encoding)


def _errors_of(stream: io.TextIOWrapper) -> str | None:
    """Ours in place of the interpreter's own; not where somebody asked for another, nor where bytes pass as they are.

    CPython takes `surrogateescape` for standard output where the locale is C, in whatever encoding.
    """
    passes_all = stream.errors == "surrogateescape" and codecs.lookup(stream.encoding).name == "utf-8"
    is_own = stream.errors in {"strict", "surrogateescape", "backslashreplace"}
    return _READABLE if is_own and not passes_all else stream.errors


def _spelled(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacked = error.object[error.start : error.end]
    return "".join(_SPELLED.get(one) or _escaped(one) for one in lacked), error.end


def _escaped(character: str) -> str:
    return character.encode("ascii", "backslashreplace").decode("ascii")
