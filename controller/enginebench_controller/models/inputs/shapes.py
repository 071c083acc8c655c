"""The text form of what a person says of inputs: `input=1x3x224x224`, `ids=int64:1x128`, and `x=1` for a batch axis."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from enginebench_controller.errors import ModelError

DTYPES = (
    "float16", "float32", "float64", "bfloat16", "bool",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip

_MAX_DIGITS = 18
_SHAPE = re.compile(r"(?:(?P<dtype>[a-z]+\d*):)?(?P<dims>\d+(?:x\d+)*)", re.IGNORECASE)


NO_BATCH = "none"
"""Said in place of a batch axis of an input that has none."""


@dataclass(frozen=True)
class GivenShape:
    """What a person gave for one input: None for what was left out. `dtype` is the NumPy name.

    `batch_axis` is the dimension that is the batch, or `NO_BATCH`.
    """

    dims: tuple[int, ...] | None
    dtype: str | None = None
    batch_axis: int | str | None = None


def parse_shape(text: str) -> GivenShape:
    """Read `1x3x224x224` or `int64:1x128`. Raises `ModelError` with the form expected."""
    if digits := re.search(rf"\d{{{_MAX_DIGITS + 1},}}", text):
        raise ModelError(f"a size of {len(digits[0])} digits is more than any machine could hold; give a smaller one")
    match = _SHAPE.fullmatch(text.strip())
    dims = tuple(int(size) for size in match["dims"].lower().split("x")) if match else ()
    dtype = match["dtype"] if match else None
    if not dims or (dtype is not None and dtype not in DTYPES):
        raise ModelError(
            f"{text!r} is not a shape: write sizes joined by x, such as 1x3x224x224, with the element "
            f"type in front where it matters, such as int64:1x128 (types: {', '.join(DTYPES)})"
        )
    return GivenShape(dims, dtype)


def parse_shapes(texts: Mapping[str, str], batch_axes: Mapping[str, int | str] | None = None) -> dict[str, GivenShape]:
    """Read shapes by input name, keeping their order, and add the batch axes said. Raises `ModelError`."""
    shapes = {name: parse_shape(text) for name, text in texts.items()}
    nothing = GivenShape(None)
    said = {name: replace(shapes.get(name, nothing), batch_axis=axis) for name, axis in (batch_axes or {}).items()}
    return {**shapes, **said}


def split_shapes(texts: Iterable[str]) -> dict[str, str]:
    """Split `--shape` values, each `NAME=SHAPE` or several of them with commas, for `parse_shapes`.

    Raises `ModelError` for a part without a name or a name given twice.
    """
    return split_by_input(texts, "--shape", "INPUT=SIZES, such as input=1x3x224x224")


def split_by_input(texts: Iterable[str], option: str, form: str) -> dict[str, str]:
    """Split the values of an option, each `NAME=TEXT` or several of them with commas. Raises as `split_shapes` does."""
    found: dict[str, str] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        # The last "=": a tensor's name may hold one, what is said of it never does.
        name, equals, said = part.rpartition("=")
        if not (name and equals):
            raise ModelError(f"{option} {part!r} names no input: write {form}")
        if name in found:
            raise ModelError(f"{option} gives {name!r} twice: keep one of {found[name]} and {said}")
        found[name] = said
    return found
