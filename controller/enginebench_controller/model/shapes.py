"""The text form of shapes: `input=1x3x224x224`, `ids=int64:1x128`."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from enginebench_controller.errors import ModelError

DTYPES = (
    "float16", "float32", "float64", "bfloat16", "bool",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip

_SHAPE = re.compile(r"(?:(?P<dtype>[a-z]+\d*):)?(?P<dims>\d+(?:x\d+)*)", re.IGNORECASE)


@dataclass(frozen=True)
class GivenShape:
    """What a person gave for one input. `dtype` is the NumPy name, None where it was left out."""

    dims: tuple[int, ...]
    dtype: str | None = None


def parse_shape(text: str) -> GivenShape:
    """Read `1x3x224x224` or `int64:1x128`. Raises `ModelError` with the form expected."""
    match = _SHAPE.fullmatch(text.strip())
    dims = tuple(int(size) for size in match["dims"].lower().split("x")) if match else ()
    dtype = match["dtype"] if match else None
    if not dims or 0 in dims or (dtype is not None and dtype not in DTYPES):
        raise ModelError(
            f"{text!r} is not a shape: write sizes of at least 1 joined by x, such as 1x3x224x224, with the element "
            f"type in front where it matters, such as int64:1x128 (types: {', '.join(DTYPES)})"
        )
    return GivenShape(dims, dtype)


def parse_shapes(texts: Mapping[str, str]) -> dict[str, GivenShape]:
    """Read shapes by input name, keeping their order. Raises `ModelError`."""
    return {name: parse_shape(text) for name, text in texts.items()}


def split_shapes(texts: Iterable[str]) -> dict[str, str]:
    """Split `--shape` values, each `NAME=SHAPE` or several of them with commas, for `parse_shapes`.

    Raises `ModelError` for a part without a name or a name given twice.
    """
    found: dict[str, str] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        # The last "=": a tensor's name may hold one, a shape never does.
        name, equals, shape = part.rpartition("=")
        if not (name and equals):
            raise ModelError(f"--shape {part!r} names no input: write INPUT=SIZES, such as input=1x3x224x224")
        if name in found:
            raise ModelError(f"--shape gives {name!r} twice: keep one of {found[name]} and {shape}")
        found[name] = shape
    return found
