"""Closes every open dimension of a model's inputs for one batch size.

The rules, in order:

1. An open first dimension is the batch. Where no input has one, a fixed first dimension that all inputs share is the
   model's fixed batch; asked for another, the binding says so in `fixed_batch`, and the caller may rewrite the model.
2. `--shape` gives one input whole. Its sizes must equal the model's fixed ones; they close the dimensions of the same
   name everywhere. At the place of the batch it may repeat the batch or say 1 and leave it to `--batch`; any other
   number contradicts `--batch` and is refused.
3. What is still open takes a default if its name is a common one (sequence, height, width), stated as an assumption.
4. Else the model cannot be bound, and the error says which `--shape` to give.

Where nobody can look inside (TorchScript), the shapes given are the inputs, in that order, and rule 2 holds with an
open batch.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from enginebench_controller.errors import ModelError
from enginebench_controller.model.shapes import GivenShape, parse_shape, parse_shapes, split_shapes
from enginebench_controller.model.signature import InputDescription, ModelDescription
from enginebench_controller.records import InputTensor

__all__ = ["Binding", "GivenShape", "bind", "parse_shape", "parse_shapes", "split_shapes"]

Shapes = Mapping[str, GivenShape | tuple[int, ...]]

_DEFAULTS = (
    (re.compile(r"(^|_)(seq|sequence|time|tokens?|frames|len|length|t)(_|$|\d)|seqlen|sequence", re.I), 128),
    (re.compile(r"(^|_)(height|width|h|w)(_|$|\d)", re.I), 224),
)
_CACHE = re.compile(r"past|total|cache", re.I)
"""Lengths of a decoder's memory follow from one another; no default fits them."""

_RUNNABLE = re.compile(r"(float|bfloat|u?int)\d+|bool")


@dataclass(frozen=True)
class Binding:
    """Inputs without open dimensions. `fixed_batch` is the model's own batch where it is not the one asked for.

    With `fixed_batch` set, `inputs` still have the model's own batch. `assumptions` are sentences for the report.
    """

    inputs: tuple[InputTensor, ...]
    fixed_batch: int | None = None
    assumptions: tuple[str, ...] = ()


def bind(description: ModelDescription, batch: int, shapes: Shapes | None = None) -> Binding:
    """Give every input of the model a full shape. Raises `ModelError` where the rules above leave one open."""
    given = {name: _given(shape) for name, shape in (shapes or {}).items()}
    if not description.inputs_known:
        return _bind_given(given, batch)
    _refuse_unknown_names(given, description.inputs)
    for item in description.inputs:
        _refuse_unrunnable(item)
    return _Binder(description.inputs, batch, given).binding()


class _Binder:
    def __init__(self, inputs: tuple[InputDescription, ...], batch: int, given: dict[str, GivenShape]) -> None:
        self._inputs = tuple(_with_rank(item, given) for item in inputs)
        self._batch = batch
        self._given = given
        self._own_batch = _fixed_batch(self._inputs)
        self._sizes = self._batch_sizes()
        self._assumptions: list[str] = []

    def binding(self) -> Binding:
        for item in self._inputs:
            if item.name in self._given:
                self._take(item, self._given[item.name].dims)
        open_dims = [text for item in self._inputs for text in self._still_open(item)]
        if open_dims:
            raise ModelError("; ".join(open_dims))
        tensors = tuple(
            InputTensor(item.name, item.dtype, self._shape(item), item.integer_bound) for item in self._inputs
        )
        return Binding(tensors, self._fixed(), tuple(self._assumptions))

    def _fixed(self) -> int | None:
        if any(_is_open(item, 0) for item in self._inputs):
            return None
        if self._own_batch is None and self._batch != 1:
            raise ModelError(
                f"this model cannot run at batch {self._batch}: its inputs ({_listed(self._inputs)}) share no first "
                "dimension that could be the batch; run it with --batch 1"
            )
        return self._own_batch if self._own_batch != self._batch else None

    def _batch_sizes(self) -> dict[str, int]:
        """Sizes by dimension name; the batch's own names come first."""
        firsts = [item.dims[0] for item in self._inputs if item.dims]
        return {name: self._batch for name in firsts if isinstance(name, str)}

    def _take(self, item: InputDescription, sizes: tuple[int, ...]) -> None:
        """Check a given shape against the model's and learn the sizes of named dimensions from it."""
        for axis, (own, size) in enumerate(zip(item.dims or (), sizes, strict=True)):
            if axis == 0 and size in self._allowed_firsts(own):
                continue
            known = self._sizes.setdefault(own, size) if isinstance(own, str) else own
            expected = self._batch if axis == 0 and own is None else known
            if expected not in {None, size}:
                self._refuse_size(item, axis, size, expected)

    def _allowed_firsts(self, own: int | str | None) -> set[int | str | None]:
        """What `--shape` may say at the place of the batch; a fixed first dimension that is none only says itself."""
        if isinstance(own, int) and own != self._own_batch:
            return {own}
        return {1, self._batch, self._own_batch}

    def _refuse_size(self, item: InputDescription, axis: int, size: int, expected: int | None) -> None:
        raise ModelError(
            f"--shape {item.name}={_joined(self._given[item.name].dims)} does not fit: dimension {axis} is {size}, "
            + (
                f"but --batch asks for {expected}; write 1 there and leave the rest to --batch"
                if axis == 0 and _is_open(item, 0)
                else f"but the model has {expected} ({item.name} is {_joined(item.dims or ())})"
            )
        )

    def _still_open(self, item: InputDescription) -> list[str]:
        """Close what a default closes; a sentence where dimensions remain open."""
        if item.name in self._given:
            return []
        names = [name for axis, name in enumerate(item.dims or ()) if axis > 0 and not self._closed(name)]
        if not names:
            return []
        listed = ", ".join(f"{name!r}" if name else "one without a name" for name in names)
        example = _joined([*self._known(item)])
        return [f"Input {item.name!r} has open dimensions ({listed}): give its sizes, --shape {item.name}={example}"]

    def _closed(self, size: int | str | None) -> bool:
        if not isinstance(size, str):
            return size is not None
        default = _default(size)
        if size not in self._sizes and default is not None:
            self._sizes[size] = default
            self._assumptions.append(f"dimension {size!r} is open and was set to {default}; --shape changes it")
        return size in self._sizes

    def _known(self, item: InputDescription) -> Iterable[int | str | None]:
        """The dims with what is known filled in, for an example."""
        first, *others = item.dims or (None,)
        yield first if isinstance(first, int) else self._batch
        for size in others:
            yield self._sizes.get(size, size) if isinstance(size, str) else size

    def _shape(self, item: InputDescription) -> tuple[int, ...]:
        given = self._given[item.name].dims if item.name in self._given else ()
        return tuple(self._size(size, axis, given) for axis, size in enumerate(item.dims or ()))

    def _size(self, size: int | str | None, axis: int, given: tuple[int, ...]) -> int:
        if isinstance(size, int):
            return size
        if axis == 0:
            return self._batch
        return self._sizes[size] if isinstance(size, str) else given[axis]


def _bind_given(given: Mapping[str, GivenShape], batch: int) -> Binding:
    """The inputs of a format that cannot be read from here."""
    if not given:
        raise ModelError(
            "this format does not tell its inputs: give them in the model's order, such as "
            "--shape input=1x3x224x224 --shape ids=int64:1x128"
        )
    for name, shape in given.items():
        if shape.dims[0] not in {1, batch}:
            raise ModelError(
                f"--shape {name}={_joined(shape.dims)} contradicts --batch {batch}: write 1 as its first size and "
                "leave the rest to --batch"
            )
    return Binding(
        tuple(InputTensor(name, shape.dtype or "float32", (batch, *shape.dims[1:])) for name, shape in given.items())
    )


def _given(shape: GivenShape | tuple[int, ...]) -> GivenShape:
    return shape if isinstance(shape, GivenShape) else GivenShape(tuple(shape))


def _with_rank(item: InputDescription, given: Mapping[str, GivenShape]) -> InputDescription:
    """The input with as many dims as `--shape` gives it, where the model does not tell its rank."""
    shape = given.get(item.name)
    if shape is None:
        if item.dims is None:
            raise ModelError(f"input {item.name!r} does not tell its shape: give it whole, --shape {item.name}=1x…")
        return item
    if shape.dtype not in {None, item.dtype}:
        raise ModelError(f"--shape gives {item.name!r} as {shape.dtype}, but the model takes {item.dtype}")
    if item.dims is None:
        return InputDescription(item.name, item.dtype, (None,) * len(shape.dims), item.integer_bound)
    if len(item.dims) != len(shape.dims):
        raise ModelError(
            f"--shape {item.name}={_joined(shape.dims)} has {len(shape.dims)} dimensions, but the model has "
            f"{len(item.dims)} ({item.name} is {_joined(item.dims)})"
        )
    return item


def _fixed_batch(inputs: Iterable[InputDescription]) -> int | None:
    """The fixed first dimension that all inputs with a rank share, or None."""
    firsts = {item.dims[0] for item in inputs if item.dims}
    first = firsts.pop() if len(firsts) == 1 else None
    return first if isinstance(first, int) else None


def _is_open(item: InputDescription, axis: int) -> bool:
    return bool(item.dims) and not isinstance((item.dims or ())[axis], int)


def _default(name: str) -> int | None:
    if _CACHE.search(name):
        return None
    return next((size for pattern, size in _DEFAULTS if name.isidentifier() and pattern.search(name)), None)


def _refuse_unknown_names(given: Mapping[str, GivenShape], inputs: tuple[InputDescription, ...]) -> None:
    names = [item.name for item in inputs]
    for name in given:
        if name not in names:
            near = get_close_matches(name, names, n=1, cutoff=0.4)
            hint = f"did you mean {near[0]!r}?" if near else "its inputs are " + ", ".join(map(repr, names))
            raise ModelError(f"--shape names {name!r}, which is no input of the model; {hint}")


def _refuse_unrunnable(item: InputDescription) -> None:
    if not _RUNNABLE.fullmatch(item.dtype):
        raise ModelError(
            f"input {item.name!r} has elements of type {item.dtype}; enginebench makes numbers only, so remove the "
            "part that reads it from the model"
        )


def _joined(dims: Iterable[int | str | None]) -> str:
    return "x".join("?" if size is None else str(size) for size in dims)


def _listed(inputs: Iterable[InputDescription]) -> str:
    return ", ".join(f"{item.name} {_joined(item.dims or ()) or 'scalar'}" for item in inputs) or "none"
