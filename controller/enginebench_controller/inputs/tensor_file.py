"""Reading one array out of a .npy or .npz file of a user, without trusting the file: no pickle, bounded size.

Both are read in two steps: the header says what the file claims, and content is read only once that was accepted.
"""

import contextlib
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.errors import InputError

MAX_BYTES = 1 << 30
"""Content of one array; a larger one is refused, whatever its file's size on disk."""

NPY, NPZ = ".npy", ".npz"

_NO_ARRAY = (
    *(ArithmeticError, EOFError, LookupError, MemoryError, RuntimeError, SyntaxError, TypeError, ValueError),
    *(struct.error, tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
"""What NumPy and the standard library raise over bytes that are no array; headers are read as Python is."""


@dataclass(frozen=True)
class ArrayFile:
    """An array in a file: `member` names it within a .npz, None for a .npy. `dtype` is in native byte order."""

    path: Path
    member: str | None
    dtype: "np.dtype[Any]"
    shape: tuple[int, ...]

    @property
    def label(self) -> str:
        """How error sentences call it."""
        return str(self.path) if self.member is None else f"{self.path}, array {self.member!r}"

    def read(self) -> NDArray[Any]:
        """The array, C-contiguous, in native byte order. Raises `InputError` where the file is cut off or changed."""
        with _opened(self.path, self.member) as stream:
            header = _read_header(stream, self.label)
            if (header.shape, header.dtype.newbyteorder("=")) != (self.shape, self.dtype):
                raise InputError(f"{self.label} changed while it was read; run the command again")
            size_bytes = math.prod(self.shape) * self.dtype.itemsize
            content = stream.read(size_bytes)
        if len(content) < size_bytes:
            raise InputError(
                f"{self.label} is cut off: its header promises {size_bytes} bytes of content; save it again"
            )
        values = np.frombuffer(content, header.dtype).reshape(self.shape, order=header.order)
        return np.ascontiguousarray(values, self.dtype)


def npz_names(path: Path) -> list[str]:
    """Names of the arrays in a .npz, in the file's order. Raises `InputError`."""
    with _as_sentence(str(path)), zipfile.ZipFile(path) as archive:
        return [name.removesuffix(NPY) for name in archive.namelist() if name.endswith(NPY)]


def open_array(path: Path, member: str | None = None) -> ArrayFile:
    """Read the header of a .npy file, or of the array `member` of a .npz.

    Raises `InputError` for pickled objects, a damaged file, and an array above `MAX_BYTES`.
    """
    label = ArrayFile(path, member, np.dtype(np.uint8), ()).label
    with _opened(path, member) as stream:
        header = _read_header(stream, label)
    if header.dtype.hasobject:
        raise InputError(
            f"{label} holds pickled Python objects, which can run code and are not read; save numbers only"
        )
    if any(size < 0 for size in header.shape):
        raise InputError(f"{label} has the impossible shape {header.shape}; save it again with NumPy")
    size_bytes = math.prod(header.shape) * header.dtype.itemsize
    if size_bytes > MAX_BYTES:
        raise InputError(f"{label} comes to {size_bytes} bytes; at most {MAX_BYTES} are read: split it up")
    return ArrayFile(path, member, header.dtype.newbyteorder("="), header.shape)


@dataclass(frozen=True)
class _Header:
    shape: tuple[int, ...]
    order: Any
    dtype: "np.dtype[Any]"


def _read_header(stream: IO[bytes], label: str) -> _Header:
    """What stands before the content; NumPy bounds its length and evaluates literals only."""
    with _as_sentence(label):
        version = np.lib.format.read_magic(stream)
        if version not in {(1, 0), (2, 0)}:
            raise ValueError(f"its format version is {version[0]}.{version[1]}")
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = read(stream)
        return _Header(tuple(shape), "F" if is_fortran else "C", dtype)


@contextlib.contextmanager
def _opened(path: Path, member: str | None) -> Iterator[IO[bytes]]:
    """The bytes of a .npy file, wherever they lie; a compressed one is unpacked as it is read, never whole."""
    label = ArrayFile(path, member, np.dtype(np.uint8), ()).label
    with _as_sentence(label):
        if member is None:
            with path.open("rb") as file:
                yield file
        else:
            with zipfile.ZipFile(path) as archive, archive.open(member + NPY) as stream:
                yield stream


@contextlib.contextmanager
def _as_sentence(label: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read {label}: {error.strerror or error}") from error
    except _NO_ARRAY as error:
        reason = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
        raise InputError(f"{label} is not a whole {NPY} or {NPZ} file: {reason}; save it again with NumPy") from error
