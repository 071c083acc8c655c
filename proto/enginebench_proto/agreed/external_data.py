"""Where a weight's content lies that a model keeps in another file, and whether there can be as much as it claims.

Engines look at this too, each as far as it goes: ONNX Runtime and OpenVINO follow hard links, both know a location that
stands for an address in memory, and the onnx package, which others load with, allows any size. So both ends look first.
"""

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_IN_MEMORY = "_ORT_MEM_ADDR_"
"""Part of the location by which ONNX Runtime and OpenVINO mean an address in memory instead of a file."""

_FORBIDDEN = frozenset("\\:\0\n\r")
"""What makes a path of one system another on the next, or ends it."""

_ELEMENTS_A_BYTE = 8
"""No element type is smaller than a bit."""

_MAX_DIMENSIONS = 64
"""As many as NumPy takes."""

_MAX_DIGITS = 19
"""Of a place in a file."""


class MisplacedError(ValueError):
    """What is wrong, such as "lies at '/etc/passwd', outside its folder, and could be any file"."""


@dataclass(frozen=True)
class ExternalPlace:
    """A stretch of a file beside the model; `length` None reaches to its end."""

    location: PurePosixPath
    offset: int
    length: int | None


def external_place(entries: Collection[tuple[str, str]]) -> ExternalPlace:
    """The place that the entries of a tensor's `external_data` tell.

    Raises `MisplacedError` for one outside the model's folder, and for what is told twice: loaders differ in which they
    follow.
    """
    return ExternalPlace(_location(entries), _number(entries, "offset") or 0, _number(entries, "length"))


def fewest_bytes(dims: Sequence[int]) -> int:
    """The bytes that so many elements take at least. Raises `MisplacedError` for dimensions that no loader takes."""
    if len(dims) > _MAX_DIMENSIONS:
        raise MisplacedError(f"has {len(dims):,} dimensions")
    # A negative dimension is taken for a very large one, as loaders do that read it without a sign.
    return -(-math.prod(dim if dim >= 0 else 1 << 63 for dim in dims) // _ELEMENTS_A_BYTE)


def refuse_oversize(dims: Sequence[int], content_bytes: int) -> None:
    """Raise `MisplacedError` where so many bytes cannot hold the elements that the dimensions claim."""
    if fewest_bytes(dims) > content_bytes:
        raise MisplacedError(f"is to have more elements than the {content_bytes:,} bytes it brings can hold")


def _location(entries: Iterable[tuple[str, str]]) -> PurePosixPath:
    told = [value for key, value in entries if key == "location"]
    if len(told) != 1:
        raise MisplacedError(f"names {len(told)} files for its content, of which one may lie outside its folder")
    path = PurePosixPath(told[0])
    is_escape = not path.parts or path.is_absolute() or ".." in path.parts or _IN_MEMORY in told[0]
    if is_escape or not _FORBIDDEN.isdisjoint(told[0]):
        raise MisplacedError(f"lies at {told[0][:200]!r}, outside its folder, and could be any file")
    return path


def _number(entries: Iterable[tuple[str, str]], wanted: str) -> int | None:
    told = [value for key, value in entries if key == wanted]
    if len(told) > 1 or not all(one.isascii() and one.isdigit() and len(one) <= _MAX_DIGITS for one in told):
        raise MisplacedError(f"lies at no place in its file, with the {wanted} {' and '.join(told)[:200]!r}")
    return int(told[0]) if told else None
