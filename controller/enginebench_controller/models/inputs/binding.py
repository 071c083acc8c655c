"""Closes every open dimension of a model's inputs for one batch size.

The rules, in order:

1. Which dimension of an input is the batch, `shapes.batch_axes` says. Where that is a fixed one and another batch is
   asked for, the binding says so in `fixed_batch`, and the caller may rewrite the model.
2. `--shape` gives one input whole. Its sizes must equal the model's fixed ones; they close the dimensions of the same
   name everywhere, and one without a name for itself alone. At the place of the batch it may repeat the batch or say 1
   and leave it to `--batch`; any other number contradicts `--batch` and is refused.
3. What is still open takes a default if its name is a common one (sequence, height, width), stated as an assumption. A
   name that adds up others ("past_length + sequence_length") is their sum.
4. Else the model cannot be bound, and the error says which `--shape` to give.

Where nobody can look inside (TorchScript), the shapes given are the inputs, in that order, and rule 2 holds with an
open batch. In a format that a plugin brings they may be left out: its engine finds the inputs in the file.
"""

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from enginebench_controller.errors import ModelError
from enginebench_controller.models.formats.signature import InputDescription, ModelDescription
from enginebench_controller.models.inputs.shapes import (
    NO_BATCH,
    SEQUENCE,
    GivenShape,
    batch_axes,
    joined,
    nearest,
    parse_shape,
    parse_shapes,
    split_shapes,
    told_axis,
)
from enginebench_controller.models.inputs.values import given_values
from enginebench_controller.records import InputTensor, InputValues

__all__ = ["Binding", "GivenShape", "bind", "given_shapes", "parse_shape", "parse_shapes", "split_shapes"]

GivenShapes = Mapping[str, GivenShape | tuple[int, ...]]

_SPATIAL = re.compile(r"(^|_)(height|width|h|w)(_|$|\d)", re.I)
_DEFAULTS = ((SEQUENCE, 128), (_SPATIAL, 224))
_CACHE = re.compile(r"past|total|cache", re.I)
"""Lengths of a decoder's memory follow from one another; no default fits them."""
_SUM = re.compile(r"\w+(\s*\+\s*\w+)+", re.ASCII)

_LENGTH = re.compile(r"(^|[^a-z])(len|lens|length|lengths)([^a-z]|$)", re.I)
_COUNTS = frozenset({"int32", "int64", "uint32", "uint64"})
_SOUND = re.compile(r"wav|audio|sample|speech|signal", re.I)

MAX_INPUT_BYTES = 8 * 2**30
"""What all inputs of one inference may take together: 14,000 pictures of 224 × 224 in 32 bits."""

_RUNNABLE = re.compile(r"(float|bfloat|u?int)\d+|bool")


@dataclass(frozen=True)
class Binding:
    """Inputs without open dimensions. `fixed_batch` is the model's own batch where it is not the one asked for.

    With `fixed_batch` set, `inputs` still have the model's own batch. `assumptions` are sentences for the report.
    `output_batch_axes` tells, by output, which dimension is the batch, as far as the model's own names do. `lengths`
    are the inputs that tell how long another one is, with its size: drawn from 0 and 1, they would cut it to nothing.
    """

    inputs: tuple[InputTensor, ...]
    fixed_batch: int | None = None
    assumptions: tuple[str, ...] = ()
    output_batch_axes: Mapping[str, int] = field(default_factory=dict)
    lengths: Mapping[str, int] = field(default_factory=dict)

    def values(self, said: Mapping[str, str]) -> tuple[InputValues, ...]:
        """What inputs are filled with: as said, and `lengths` of which nobody says anything. Raises `InputError`."""
        return given_values(self.inputs, {**{name: str(size) for name, size in self.lengths.items()}, **said})

    def varied_values(self, said: Mapping[str, str]) -> tuple[InputValues, ...]:
        """Of the `values` those that leave the items of a batch different. Raises `InputError`.

        What is derived once serves every later run, and equal items would prove nothing of it, nor calibrate it. So
        where no input tells items apart, constants count only for `lengths` and for inputs that all items share.
        """
        values = self.values(said)
        constant = {one.input for one in values if one.is_constant}
        shared = {one.name for one in self.inputs if one.items is None} | set(self.lengths)
        if any(one.name not in constant | shared for one in self.inputs):
            return values
        return tuple(one for one in values if one.input in shared or not one.is_constant)


def bind(description: ModelDescription, batch: int, shapes: GivenShapes | None = None) -> Binding:
    """Give every input of the model a full shape. Raises `ModelError` where the rules above leave one open."""
    given = {name: _given(shape) for name, shape in (shapes or {}).items()}
    if not description.inputs_known:
        return _within_memory(_bind_given(given, batch, description))
    _refuse_unknown_names(given, description.inputs)
    for item in description.inputs:
        _refuse_unrunnable(item)
    binding = _Binder(description.inputs, batch, given).binding()
    names = {
        item.dims[tensor.batch_axis]
        for item, tensor in zip(description.inputs, binding.inputs, strict=True)
        if item.dims and tensor.batch_axis is not None
    }
    lengths = dict(_lengths(description.inputs, binding.inputs))
    axes = dict(_named_axes(description, names))
    return _within_memory(replace(binding, output_batch_axes=axes, lengths=lengths))


def given_shapes(inputs: Iterable[InputTensor]) -> dict[str, GivenShape]:
    """What binds a model to these very inputs again."""
    return {one.name: GivenShape(one.shape, None, NO_BATCH if one.items is None else one.batch_axis) for one in inputs}


class _Binder:
    def __init__(self, inputs: tuple[InputDescription, ...], batch: int, given: dict[str, GivenShape]) -> None:
        self._inputs = tuple(_with_rank(item, given) for item in inputs)
        self._batch = batch
        self._given = given
        self._axes = batch_axes(self._inputs, given)
        self._own_batch = self._fixed_batch()
        self._sizes = {name: batch for item in self._inputs if isinstance(name := self._batch_dim(item), str)}
        self._shown: dict[str, int] = {}
        self._assumptions: list[str] = []

    def binding(self) -> Binding:
        for item in self._inputs:
            if sizes := self._sizes_given(item):
                self._take(item, sizes)
        if open_dims := list(self._told_open()):
            raise ModelError("; ".join(open_dims))
        fixed = self._fixed()
        tensors = tuple(
            InputTensor(item.name, item.dtype, self._shape(item), item.integer_bound, self._axes[item.name])
            for item in self._inputs
        )
        return Binding(tensors, fixed, tuple(self._assumptions))

    def _sizes_given(self, item: InputDescription) -> tuple[int, ...]:
        return (self._given[item.name].dims or ()) if item.name in self._given else ()

    def _batch_dim(self, item: InputDescription) -> int | str | None:
        axis = self._axes[item.name]
        return 1 if axis is None or not item.dims else item.dims[axis]

    def _has_open_batch(self, item: InputDescription) -> bool:
        return self._axes[item.name] is not None and not isinstance(self._batch_dim(item), int)

    def _fixed_batch(self) -> int | None:
        """The size that all fixed dimensions said or taken to be the batch have, or None without any."""
        batched = [item for item in self._inputs if self._axes[item.name] is not None]
        sizes = {size for item in batched if isinstance(size := self._batch_dim(item), int)}
        if len(sizes) > 1 or (sizes and any(map(self._has_open_batch, batched)) and sizes != {self._batch}):
            raise ModelError(
                f"the inputs ({_listed(self._inputs)}) have no batch in common; say which dimension is the batch of "
                f"each, such as {_axis_example(self._inputs)}"
            )
        return sizes.pop() if sizes else None

    def _fixed(self) -> int | None:
        if any(map(self._has_open_batch, self._inputs)):
            return None
        if self._own_batch is None and self._batch != 1:
            raise ModelError(
                f"this model cannot run at batch {self._batch}: its inputs ({_listed(self._inputs)}) share no first "
                f"dimension that could be the batch; say where it is, such as {_axis_example(self._inputs)}, or run it "
                "with --batch 1"
            )
        return self._own_batch if self._own_batch not in {None, self._batch} else None

    def _take(self, item: InputDescription, sizes: tuple[int, ...]) -> None:
        """Check a given shape against the model's and learn the sizes of named dimensions from it."""
        for axis, (own, size) in enumerate(zip(item.dims or (), sizes, strict=True)):
            is_batch = axis == self._axes[item.name]
            if is_batch and size in {1, self._batch, self._own_batch}:
                continue
            known = self._sizes.setdefault(own, size) if isinstance(own, str) else own
            expected = self._batch if is_batch and own is None else known
            if expected not in {None, size}:
                self._refuse_size(item, axis, size, expected)

    def _refuse_size(self, item: InputDescription, axis: int, size: int, expected: int | None) -> None:
        raise ModelError(
            f"--shape {item.name}={joined(self._sizes_given(item))} does not fit: dimension {axis} is {size}, "
            + (
                f"but --batch asks for {expected}; write 1 there and leave the rest to --batch, or say that it is not "
                f"the batch: --batch-axis {item.name}={NO_BATCH}"
                if axis == self._axes[item.name] and self._has_open_batch(item)
                else f"but the model has {expected} ({item.name} is {joined(item.dims or ())})"
            )
        )

    def _told_open(self) -> Iterator[str]:
        """A sentence for each dimension that remains open, of the first input that has it; a sum needs none."""
        still_open = {item.name: self._still_open(item) for item in self._inputs}
        asked = {name for names in still_open.values() for name in names if name is not None and not _terms(name)}
        told: set[str | None] = set()
        for item in self._inputs:
            names = [name for name in still_open[item.name] if name not in told and not self._follows(name, asked)]
            if names:
                named = set(filter(None, names))
                told |= named
                sharing = sum(not named.isdisjoint(others) for others in still_open.values()) - bool(named)
                yield self._ask(item, names, sharing)

    def _ask(self, item: InputDescription, names: Sequence[str | None], sharing: int) -> str:
        nameless = names.count(None)
        listed = ", ".join([*map(repr, filter(None, names)), *([f"{nameless} without a name"] if nameless else [])])
        shared = f", shared by {sharing} more input{'s' * (sharing > 1)}" if sharing else ""
        example = joined(self._example(item))
        return (
            f"Input {item.name!r} has open dimensions ({listed}{shared}): give its sizes, --shape {item.name}={example}"
        )

    def _still_open(self, item: InputDescription) -> list[str | None]:
        """Close what a default closes; the dimensions that remain open."""
        if self._sizes_given(item):
            return []
        own_axis = self._axes[item.name]
        open_dims = [name for axis, name in enumerate(item.dims or ()) if axis != own_axis and not self._closed(name)]
        return [name for name in open_dims if not isinstance(name, int)]

    def _closed(self, size: int | str | None) -> bool:
        if not isinstance(size, str):
            return size is not None
        if size in self._sizes:
            return True
        if terms := _terms(size):
            closed = [self._closed(term) for term in terms]
            if all(closed):
                self._sizes[size] = sum(self._sizes[term] if isinstance(term, str) else term for term in terms)
        elif (default := _default(size)) is not None:
            self._sizes[size] = default
            self._assumptions.append(f"dimension {size!r} is open and was set to {default}; --shape changes it")
        return size in self._sizes

    def _follows(self, name: str | None, asked: Container[str]) -> bool:
        """Whether a sum follows from what is known or asked for elsewhere."""
        terms = _terms(name or "")
        return bool(terms) and all(self._closed(term) or term in asked for term in terms)

    def _example(self, item: InputDescription) -> Iterator[int]:
        """Sizes that may well fit: what is known, and for the rest what models usually have there."""
        dims = item.dims or ()
        for axis, size in enumerate(dims):
            if isinstance(size, int):
                yield size
            elif axis == self._axes[item.name]:
                yield self._batch
            else:
                yield self._usual(item, axis, size)

    def _usual(self, item: InputDescription, axis: int, size: int | str | None) -> int:
        """What may well fit, the same wherever a name is shown."""
        if isinstance(size, int):
            return size
        if size is None:
            return _usual_size(item, axis, size, self._batch)
        if size in self._sizes:
            return self._sizes[size]
        if terms := _terms(size):
            return sum(self._usual(item, axis, term) for term in terms)
        return self._shown.setdefault(size, _usual_size(item, axis, size, self._batch))

    def _shape(self, item: InputDescription) -> tuple[int, ...]:
        given = self._sizes_given(item)
        return tuple(self._size(item, size, axis, given) for axis, size in enumerate(item.dims or ()))

    def _size(self, item: InputDescription, size: int | str | None, axis: int, given: tuple[int, ...]) -> int:
        if isinstance(size, int):
            return size
        if axis == self._axes[item.name]:
            return self._batch
        return self._sizes[size] if isinstance(size, str) else given[axis]


def _named_axes(description: ModelDescription, names: set[int | str | None]) -> Iterator[tuple[str, int]]:
    for output in description.outputs:
        found = [axis for axis, dim in enumerate(output.dims or ()) if isinstance(dim, str) and dim in names]
        if len(found) == 1:
            yield output.name, found[0]


def _lengths(inputs: Sequence[InputDescription], bound: Sequence[InputTensor]) -> Iterator[tuple[str, int]]:
    """The integer inputs that are called lengths, each with the first open size of the input that it may tell of.

    That is the input whose name it begins with, or else the first that has one.
    """
    sizes = {
        tensor.name: size
        for item, tensor in zip(inputs, bound, strict=True)
        for size in _open_sizes(item, tensor)
        if len(tensor.shape) > 1
    }
    for tensor in bound:
        counts = tensor.dtype in _COUNTS and tensor.integer_bound is None and len(tensor.shape) < 2
        if counts and _LENGTH.search(tensor.name):
            own = [size for name, size in sizes.items() if tensor.name.startswith(name)]
            if found := own or list(sizes.values()):
                yield tensor.name, found[0]


def _open_sizes(item: InputDescription, tensor: InputTensor) -> list[int]:
    axes = enumerate(item.dims or (None,) * len(tensor.shape))
    return [tensor.shape[axis] for axis, dim in axes if axis != tensor.batch_axis and not isinstance(dim, int)][:1]


def _bind_given(given: Mapping[str, GivenShape], batch: int, description: ModelDescription) -> Binding:
    """The inputs of a format that cannot be read from here, as far as they are given."""
    if not given and not description.engine_tells_inputs:
        raise ModelError(
            "this format does not tell its inputs: give them in the model's order, such as "
            "--shape input=1x3x224x224 --shape ids=int64:1x128"
        )
    without_batch = description.engine_tells_inputs
    return Binding(tuple(_given_input(name, shape, batch, without_batch) for name, shape in given.items()))


def _given_input(name: str, shape: GivenShape, batch: int, may_lack_batch: bool) -> InputTensor:
    """An input as given. An engine with files of its own may know no batch: then the first size is any."""
    if shape.dims is None:
        raise ModelError(f"--batch-axis names {name!r}, and this format does not tell its inputs: give --shape as well")
    axis = 0 if shape.batch_axis is None else told_axis(name, shape, shape.dims)
    dims = list(shape.dims)
    if may_lack_batch and shape.batch_axis is None and batch == 1 and dims[:1] != [1]:
        axis = None
    if axis is not None:
        if dims[axis] not in {1, batch}:
            which = "its first size" if axis == 0 else f"size {axis} of it, counted from 0,"
            raise ModelError(
                f"--shape {name}={joined(dims)} contradicts --batch {batch}: write 1 as {which} and leave the rest to "
                f"--batch, or say where its batch is, such as --batch-axis {name}=1 or {name}={NO_BATCH}"
            )
        dims[axis] = batch
    return InputTensor(name, shape.dtype or "float32", tuple(dims), None, axis)


def _within_memory(binding: Binding) -> Binding:
    """The binding. Raises `ModelError` where its inputs are too large to be made, before anybody tries to."""
    size_bytes = sum(math.prod(item.shape) * _element_bytes(item.dtype) for item in binding.inputs)
    if size_bytes > MAX_INPUT_BYTES:
        raise ModelError(
            f"the inputs of one inference ({_listed(binding.inputs)}) would take {_shown_size(size_bytes)}, and more "
            f"than {_shown_size(MAX_INPUT_BYTES)} are not made; give smaller sizes with --shape or --batch, or export "
            "the model with smaller ones"
        )
    return binding


def _element_bytes(dtype: str) -> int:
    bits = re.search(r"\d+", dtype)  # bool has none
    return max(1, int(bits[0]) // 8) if bits else 1


def _shown_size(size_bytes: int) -> str:
    for place, unit in enumerate(("GiB", "TiB", "PiB", "EiB"), 3):
        if size_bytes < 1024 ** (place + 1):
            return f"{size_bytes / 1024**place:.3g} {unit}"
    return f"more than 10^{len(str(size_bytes)) - 1} bytes"


def _given(shape: GivenShape | tuple[int, ...]) -> GivenShape:
    return shape if isinstance(shape, GivenShape) else GivenShape(tuple(shape))


def _with_rank(item: InputDescription, given: Mapping[str, GivenShape]) -> InputDescription:
    """The input with as many dims as `--shape` gives it, where the model does not tell its rank."""
    shape = given.get(item.name)
    if shape is None or shape.dims is None:
        if item.dims is None:
            raise ModelError(f"input {item.name!r} does not tell its shape: give it whole, --shape {item.name}=1x3")
        return item
    if shape.dtype not in {None, item.dtype}:
        raise ModelError(f"--shape gives {item.name!r} as {shape.dtype}, but the model takes {item.dtype}")
    if item.dims is None:
        return InputDescription(item.name, item.dtype, (None,) * len(shape.dims), item.integer_bound)
    if len(item.dims) != len(shape.dims):
        raise ModelError(
            f"--shape {item.name}={joined(shape.dims)} has {len(shape.dims)} dimensions, but the model has "
            f"{len(item.dims)} ({item.name} is {joined(item.dims)})"
        )
    return item


def _terms(name: str) -> tuple[int | str, ...]:
    """The names and numbers that a name adds up; none for one that is no sum."""
    if not _SUM.fullmatch(name):
        return ()
    return tuple(int(term) if term.isdigit() else term for term in re.split(r"\s*\+\s*", name))


def _default(name: str) -> int | None:
    if _CACHE.search(name):
        return None
    return next((size for pattern, size in _DEFAULTS if name.isidentifier() and pattern.search(name)), None)


def _usual_size(item: InputDescription, axis: int, name: str | None, batch: int) -> int:
    """What models usually have at an open place: images' sides, a state's batch, a second of sound, a length."""
    dims = item.dims or ()
    if name is not None and _CACHE.search(name):
        return 256 if re.search(r"total", name, re.I) else 128  # a memory of 128 and a sequence of 128
    if len(dims) == 4 and axis > 1 and dims[1] in {1, 3, 4}:
        return 224
    if len(dims) == 4 and axis in {1, 2} and dims[3] in {1, 3, 4}:
        return 224
    if name is None and len(dims) == 3 and axis == 1 and isinstance(dims[0], int) and isinstance(dims[2], int):
        return batch
    if len(dims) < 3 and (_SOUND.search(item.name) or _SOUND.search(str(name))):
        return 16_000
    return 3 if len(dims) == 4 and axis == 1 else 128


def _refuse_unknown_names(given: Mapping[str, GivenShape], inputs: tuple[InputDescription, ...]) -> None:
    names = [item.name for item in inputs]
    for name, shape in given.items():
        if name not in names:
            option = "--batch-axis" if shape.dims is None else "--shape"
            raise ModelError(f"{option} names {name!r}, which is no input of the model; {nearest(name, names)}")


def _refuse_unrunnable(item: InputDescription) -> None:
    if not _RUNNABLE.fullmatch(item.dtype):
        raise ModelError(
            f"input {item.name!r} has elements of type {item.dtype}; enginebench makes numbers only, so remove the "
            "part that reads it from the model"
        )


def _listed(inputs: Iterable[InputDescription | InputTensor]) -> str:
    return ", ".join(f"{item.name} {joined(_dims(item)) or 'scalar'}" for item in inputs) or "none"


def _dims(item: InputDescription | InputTensor) -> Iterable[int | str | None]:
    return item.shape if isinstance(item, InputTensor) else item.dims or ()


def _axis_example(inputs: Iterable[InputDescription]) -> str:
    ranked = sorted((item for item in inputs if item.dims), key=lambda item: len(item.dims or ()) < 2)
    return next((f"--batch-axis {item.name}={min(1, len(item.dims or ()) - 1)}" for item in ranked), "--batch-axis x=1")
