"""What is said of a model's inputs: their shapes in text form, and which dimension of each is the batch.

The batch of an input is the dimension that `--batch-axis` says; one called so (batch, batch_size, bs); one that is
called as another input's batch is; an open first dimension, unless its name is that of a sequence or of something else
in another input; one called N or B behind a sequence. Where no input has one, a fixed first dimension that all inputs
share is the model's fixed batch.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches

from enginebench_controller.errors import ModelError
from enginebench_controller.models.formats.signature import Dims, InputDescription

SEQUENCE = re.compile(r"(^|_)(seq|sequence|time|tokens?|frames|len|length|t)(_|$|\d)|seqlen|sequence", re.I)
_BATCH = re.compile(r".*batch.*|bs", re.I | re.S)
_PERHAPS_BATCH = re.compile(r"n|b", re.I)
"""Behind a sequence these mean the batch; elsewhere any number of anything."""
_GENERATED = re.compile(r".*\d", re.S)
"""What tools call dimensions: "unk__12", "s0", "DynamicDimension.3". Equal sizes have different names there."""
_ONE_LETTER_SEQUENCE = re.compile(r"l|s", re.I)

DTYPES = (
    "float16", "float32", "float64", "bfloat16", "bool",
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip

_MAX_DIGITS = 18
_SHAPE = re.compile(
    r"(?:(?P<dtype>[a-z]+[0-9]*):)?(?:(?P<dims>[0-9]+(?:x[0-9]+)*)|\[(?P<listed>\s*[0-9]+(?:\s*,\s*[0-9]+)*\s*)\])",
    re.IGNORECASE,
)
_SEPARATING = re.compile(r",(?![^\[\]]*\])")
"""A comma, but for those of `[1,3,224,224]`."""


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
    """Read `1x3x224x224`, `[1,3,224,224]` or `int64:1x128`. Raises `ModelError` with the form expected."""
    if digits := re.search(rf"\d{{{_MAX_DIGITS + 1},}}", text):
        raise ModelError(f"a size of {len(digits[0])} digits is more than any machine could hold; give a smaller one")
    match = _SHAPE.fullmatch(text.strip())
    sizes = re.split("[x,]", (match["dims"] or match["listed"]).lower()) if match else ()
    dims = tuple(map(int, sizes))
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


def separated(text: str) -> list[str]:
    """The parts of a list with commas, of which `[1,3,224,224]` is one."""
    return [part.strip() for part in _SEPARATING.split(text)]


def split_shapes(texts: Iterable[str]) -> dict[str, str]:
    """Split `--shape` values, each `NAME=SHAPE` or several of them with commas, for `parse_shapes`.

    Raises `ModelError` for a part without a name or a name given twice.
    """
    return split_by_input(texts, "--shape", "INPUT=SIZES, such as input=1x3x224x224")


def split_by_input(texts: Iterable[str], option: str, form: str) -> dict[str, str]:
    """Split the values of an option, each `NAME=TEXT` or several of them with commas. Raises as `split_shapes` does."""
    found: dict[str, str] = {}
    for part in (part for text in texts for part in separated(text)):
        # The last "=": a tensor's name may hold one, what is said of it never does.
        name, equals, said = part.rpartition("=")
        if not (name and equals):
            raise ModelError(f"{option} {part!r} names no input: write {form}")
        if name in found:
            raise ModelError(f"{option} gives {name!r} twice: keep one of {found[name]} and {said}")
        found[name] = said
    return found


def batch_axes(inputs: Iterable[InputDescription], given: Mapping[str, GivenShape]) -> dict[str, int | None]:
    """Which dimension of each input is the batch, None for one that has none: by the rule above.

    Raises `ModelError` for a dimension that an input does not have.
    """
    all_dims = {item.name: item.dims or () for item in inputs}
    told = {
        name: told_axis(name, shape, all_dims[name]) for name, shape in given.items() if shape.batch_axis is not None
    }
    axes: dict[str, int | None] = dict(told)
    for find in (_named_batch, _behind_a_sequence):
        found = {name: axis for name, dims in all_dims.items() if (axis := find(dims)) is not None}
        axes = {**found, **axes}
    _join_by_name(axes, all_dims)
    others = {dim for name, axis in axes.items() for place, dim in enumerate(all_dims[name]) if place != axis}
    others |= _other_counts(axes, all_dims)
    for name, dims in all_dims.items():
        if name not in axes and (axis := _open_axis(dims, others)) is not None:
            axes[name] = axis
    _join_by_name(axes, all_dims)
    _join_by_size(axes, all_dims, told)
    rest = {name: dims for name, dims in all_dims.items() if name not in axes}
    firsts = {dims[0] for dims in rest.values() if dims}
    shared = not any(axis is not None for axis in axes.values()) and len(firsts) == 1 and all(firsts)
    shared = shared and isinstance(next(iter(firsts)), int)
    return {**axes, **{name: 0 if shared and dims else None for name, dims in rest.items()}}


def _other_counts(axes: Mapping[str, int | None], all_dims: Mapping[str, Dims]) -> set[str]:
    """Names of first dimensions that are not the batch, such as num_nodes beside num_edges, or num_boxes beside batch.

    Who names dimensions gives the same thing the same name.
    """
    firsts = {dims[0] for name, dims in all_dims.items() if name not in axes and dims and isinstance(dims[0], str)}
    named = {one for one in firsts if not _GENERATED.fullmatch(one) and not _PERHAPS_BATCH.fullmatch(one)}
    has_batch = any(axis is not None for axis in axes.values()) or any(map(_PERHAPS_BATCH.fullmatch, firsts))
    return named if has_batch or len(named) > 1 else set()


def told_axis(name: str, shape: GivenShape, dims: Dims) -> int | None:
    """The dimension that a person says is the batch; None where they say that there is none."""
    if shape.batch_axis == NO_BATCH:
        return None
    axis = int(shape.batch_axis or 0)
    if axis >= len(dims):
        most = f"0 to {len(dims) - 1}" if len(dims) > 1 else "0" if dims else "none: it is a scalar"
        raise ModelError(
            f"--batch-axis {name}={axis}: {name!r} is {joined(dims) or 'a scalar'}, so its dimensions are {most}"
        )
    return axis


def _named_batch(dims: Dims) -> int | None:
    return _first(dims, _BATCH)


def _first(dims: Dims, pattern: re.Pattern[str]) -> int | None:
    return next((axis for axis, dim in enumerate(dims) if isinstance(dim, str) and pattern.fullmatch(dim)), None)


def _join_by_name(axes: dict[str, int | None], all_dims: Mapping[str, Dims]) -> None:
    """A dimension that is called as another input's batch is the batch as well."""
    names = {dim for name, axis in axes.items() if axis is not None and isinstance(dim := all_dims[name][axis], str)}
    for name, dims in all_dims.items():
        axis = next((place for place, dim in enumerate(dims) if dim in names), None)
        if name not in axes and axis is not None:
            axes[name] = axis


def _behind_a_sequence(dims: Dims) -> int | None:
    """A dimension called N or B behind one that is a sequence, by its name or by its fixed size above 1."""
    if not dims:
        return None
    is_steps = dims[0] not in {0, 1} if isinstance(dims[0], int) else _is_sequence(dims)
    return _first(dims, _PERHAPS_BATCH) if is_steps else None


def _is_sequence(dims: Dims) -> bool:
    """Whether the first dimension is called one; four dimensions are pictures, of which there may be a sequence."""
    first = dims[0]
    named = isinstance(first, str) and bool(_ONE_LETTER_SEQUENCE.fullmatch(first) or SEQUENCE.search(first))
    return named and len(dims) < 4


def _open_axis(dims: Dims, others: Collection[int | str | None]) -> int | None:
    """An open first dimension that is nothing else."""
    if not dims or isinstance(dims[0], int) or _is_sequence(dims):
        return None
    return None if dims[0] is not None and dims[0] in others else 0


def _join_by_size(axes: dict[str, int | None], all_dims: Mapping[str, Dims], told: Mapping[str, int | None]) -> None:
    """Where a fixed dimension is said to be the batch, the others' only dimension of that size is it too."""
    sizes = {all_dims[name][axis] for name, axis in told.items() if axis is not None}
    size = sizes.pop() if len(sizes) == 1 else None
    for name, dims in all_dims.items():
        if isinstance(size, int) and name not in axes and dims.count(size) == 1:
            axes[name] = dims.index(size)


def nearest(name: str, names: list[str]) -> str:
    """What may have been meant by the name of an input that the model does not have."""
    near = get_close_matches(name, names, n=1, cutoff=0.4)
    return f"did you mean {near[0]!r}?" if near else "its inputs are " + (", ".join(map(repr, names)) or "none")


def joined(dims: Iterable[int | str | None]) -> str:
    """Sizes in text form; "?" for an open one."""
    return "x".join("?" if size is None else str(size) for size in dims)
