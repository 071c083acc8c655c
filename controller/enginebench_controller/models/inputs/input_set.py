"""Inputs from a folder of the user: .npy, .npz and image files become the input set of a run.

How files are named:

- A model with one input: every file is a sample, `<sample>.npy`, `<sample>.npz` (holding one array, or one named as
  the input is) or `<sample>.png`, `.jpg`, `.jpeg`.
- A model with several: one file for each input, `<sample>.<input>.npy` (or `.png` …), or one `<sample>.npz` that holds
  an array for each. Where an input's name has a character that file names cannot have, `_` stands for it.

Files are taken in the order of their names. An array has the shape of the run's input with any size of the batch, or
is without the batch: it is as many samples as the batch in it has. Samples are stacked to the run's batch, starting
over with the first one to fill the last batch. Inputs that share no batch cannot be stacked and must come as they are.
"""

import hashlib
import itertools
import math
import os
import re
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import SEEK_END
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.errors import InputError, StoreError
from enginebench_controller.models.inputs.arrays import (
    IMAGE_SUFFIXES,
    NPY,
    NPZ,
    ArrayFile,
    ImageOptions,
    npz_names,
    open_array,
    prepare_images,
    read_image,
)
from enginebench_controller.records import InputFile, InputSet, InputTensor
from enginebench_proto.agreed.durable import make_private_folder

__all__ = ["ImageOptions", "outline", "prepare"]

MAX_INPUTS = 64
MAX_SET_BYTES = 1 << 30
"""All inputs of a set together: the process that measures keeps them in memory."""

_NOT_IN_FILE_NAMES = re.compile(r"[/\\:*?\"<>|\0]")

Tensors = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Selection:
    """How many inputs are made of a folder at most, and which of its samples go into them where that is not all.

    The first ones, or, where `is_spread`, ones at equal distances: files are often called after what they show.
    `only_finite` refuses arrays that hold infinities or NaN.
    """

    most: int = MAX_INPUTS
    is_spread: bool = False
    only_finite: bool = False


ROTATION = Selection()
"""What a run goes through again and again."""


@dataclass(frozen=True)
class Outline:
    """What a folder amounts to by the names and headers of its files: nothing of it is decoded.

    `count` inputs are made of its `samples`; `is_full` where `MAX_SET_BYTES` allow no more. `images` are sentences that
    say how images are prepared, and `preparation` has them and all else.
    """

    name: str
    images: tuple[str, ...]
    samples: int
    count: int
    is_full: bool
    preparation: str


def outline(
    folder: Path, inputs: Sequence[InputTensor], options: ImageOptions, selection: Selection = ROTATION
) -> Outline:
    """What `prepare` would make. Raises `InputError` for what does not fit by its name or header."""
    return _laid_out(folder, inputs, options, selection)[0]


def files_of(folder: Path) -> list[Path]:
    """The files of a folder that can be inputs, by name. Raises `InputError` where there are none."""
    return _usable(folder)[0]


def fingerprint(folder: Path, inputs: Sequence[InputTensor]) -> str:
    """What tells a folder from others, whatever it is called: the files' names and sizes, and how some begin and end.

    Raises `InputError`.
    """
    paths = list(dict.fromkeys(path for files in _list(folder, inputs).files for path in files.values()))
    digest = hashlib.sha256()
    try:
        for path in paths:
            digest.update(f"{path.name}\0{path.stat().st_size}\0".encode(errors="surrogateescape"))
        for path in paths[:: max(1, len(paths) // _READ)]:
            with path.open("rb") as file:
                digest.update(file.read(_READ_BYTES))
                file.seek(-min(path.stat().st_size, _READ_BYTES), SEEK_END)
                digest.update(file.read(_READ_BYTES))
    except OSError as error:
        raise InputError(f"cannot read the folder of inputs {folder}: {error}") from None
    return digest.hexdigest()[:16]


_READ = 32
_READ_BYTES = 1 << 16


def prepare(
    folder: Path,
    inputs: Sequence[InputTensor],
    options: ImageOptions,
    store_in: Path,
    selection: Selection = ROTATION,
) -> tuple[InputSet, Mapping[str, Path]]:
    """Make the input set that the files in `folder` amount to, for the `inputs` of a run with their full shapes.

    The tensors are written to `store_in` as .npy files named by their sha256, which the mapping leads to. Raises
    `InputError` for a folder or file that does not fit, with what was expected, and `StoreError` when `store_in` cannot
    be written.
    """
    whole, samples, stack = _laid_out(folder, inputs, options, selection)
    paths: dict[str, Path] = {}
    items = []
    for batch in stack.batches(stack.chosen(samples)):
        files = [_write(name, values, store_in) for name, values in batch.items()]
        paths |= {file.sha256: path for file, path in files}
        items.append(tuple(file for file, _ in files))
    made = InputSet(seed=0, count=len(items), name=whole.name, items=tuple(items), preparation=whole.preparation)
    return made, paths


def _laid_out(
    folder: Path, inputs: Sequence[InputTensor], options: ImageOptions, selection: Selection
) -> "tuple[Outline, list[_Sample], _Stack]":
    if not inputs:
        raise InputError(f"the model has no inputs, so nothing can be taken from {folder}")
    for tensor in inputs:
        _dtype(tensor)
    found = _list(folder, inputs)
    samples, images = _samples(found, inputs, _Reader(inputs, options, selection))
    number = sum(len(sample.rows) for sample in samples)
    stack = _Stack(inputs, number, selection)
    preparation = "; ".join([*images, *stack.sentences, *found.remarks])
    return Outline(folder_name(folder), tuple(images), number, stack.count, stack.is_full, preparation), samples, stack


def folder_name(folder: Path) -> str:
    """What inputs of a folder are called by, however it was typed."""
    return folder.resolve().name or "inputs"


@dataclass(frozen=True)
class _Found:
    """The files of each sample by input, in order; `remarks` say what was passed over."""

    files: tuple[Mapping[str, Path], ...]
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class _Sample:
    """One file, or one file for each input, whose `rows` are samples of the model."""

    rows: Sequence[int]
    read: Mapping[str, Callable[[], NDArray[Any]]]

    def __iter__(self) -> Iterator[Tensors]:
        """Its samples one by one, without the batch."""
        arrays = {name: read() for name, read in self.read.items()}
        for row in self.rows:
            yield {name: values[row] for name, values in arrays.items()}


def _usable(folder: Path) -> tuple[list[Path], int]:
    """The files that can be inputs, by name, and how many others there are. Raises `InputError`."""
    try:
        paths = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    except (OSError, ValueError) as error:  # the latter of what no path can be
        way = "; put the file into a folder of its own and name that" if folder.is_file() else ""
        why = getattr(error, "strerror", error)
        raise InputError(f"cannot read the folder of inputs {folder}: {why}{way}") from None
    usable = [path for path in paths if path.suffix.lower() in {NPY, NPZ, *IMAGE_SUFFIXES}]
    if not usable:
        raise InputError(f"{folder} holds no inputs: put .npy, .npz, .png or .jpg files there")
    return usable, len(paths) - len(usable)


def _list(folder: Path, inputs: Sequence[InputTensor]) -> _Found:
    """Join the files of a folder to samples. Raises `InputError`."""
    usable, left_out = _usable(folder)
    samples: dict[str, dict[str, Path]] = {}
    for path in usable:
        name, names = _names(path, inputs)
        files = samples.setdefault(name, {})
        if doubled := [one for one in names if one in files]:
            raise InputError(f"{path} and {files[doubled[0]]} are both input {doubled[0]!r} of {name!r}; keep one")
        files |= dict.fromkeys(names, path)
    for name, files in samples.items():
        _refuse_incomplete(name, files, inputs, folder)
    return _Found(tuple(samples.values()), (f"{left_out} other files passed over",) if left_out else ())


def _names(path: Path, inputs: Sequence[InputTensor]) -> tuple[str, list[str]]:
    """The sample a file belongs to, and the inputs it feeds. Raises `InputError`."""
    if path.suffix.lower() == NPZ:
        return path.stem, [tensor.name for tensor in inputs]
    # The longest first: an input may be called as the end of another's name.
    for tensor in sorted(inputs, key=lambda tensor: -len(tensor.name)):
        ending = "." + _NOT_IN_FILE_NAMES.sub("_", tensor.name)
        if path.stem.endswith(ending) and path.stem != ending:
            return path.stem.removesuffix(ending), [tensor.name]
    if len(inputs) == 1:
        return path.stem, [inputs[0].name]
    forms = " and ".join(f"NAME.{_NOT_IN_FILE_NAMES.sub('_', tensor.name)}{path.suffix}" for tensor in inputs)
    raise InputError(f"{path} does not say which input it is: the model has {len(inputs)}, so call the files {forms}")


def _refuse_incomplete(name: str, files: Mapping[str, Path], inputs: Sequence[InputTensor], folder: Path) -> None:
    if missing := [tensor.name for tensor in inputs if tensor.name not in files]:
        expected = f"{name}.{_NOT_IN_FILE_NAMES.sub('_', missing[0])}{NPY}"
        raise InputError(f"{name!r} in {folder} has no file for input {missing[0]!r}: add {expected}")


def _samples(found: _Found, inputs: Sequence[InputTensor], reader: "_Reader") -> tuple[list[_Sample], list[str]]:
    """What each sample reads, checked by headers only, and a sentence for each input that images feed."""
    samples = []
    for files in found.files:
        rows_and_reads = {tensor.name: reader.open(tensor, files[tensor.name]) for tensor in inputs}
        rows = {name: rows for name, (rows, _) in rows_and_reads.items()}
        if len(set(rows.values())) > 1:
            listed = ", ".join(f"{count} of {name!r}" for name, count in rows.items())
            raise InputError(f"{files[inputs[0].name]} and what belongs to it differ in samples: {listed}")
        samples.append(_Sample(range(rows[inputs[0].name]), {name: read for name, (_, read) in rows_and_reads.items()}))
    return samples, reader.sentences


class _Reader:
    """Opens files for inputs: checks what they claim, and says how to read them later."""

    def __init__(self, inputs: Sequence[InputTensor], options: ImageOptions, selection: Selection) -> None:
        self._options = options
        self._only_finite = selection.only_finite
        self._single = len(inputs) == 1
        self._stacks = _batch(inputs) is not None
        self._sentences: dict[str, str] = {}

    @property
    def sentences(self) -> list[str]:
        """How images were prepared, for each input that they feed."""
        if self._single:
            return list(self._sentences.values())
        return [f"{name}: {sentence}" for name, sentence in self._sentences.items()]

    def open(self, tensor: InputTensor, path: Path) -> tuple[int, Callable[[], NDArray[Any]]]:
        """How many samples the file has of this input, and what reads them: shape (samples, *shape without batch)."""
        if path.suffix.lower() in IMAGE_SUFFIXES:
            return 1, self._image(tensor, path)
        member = self._member(tensor, path) if path.suffix.lower() == NPZ else None
        array = open_array(path, member)
        rows = self._rows(tensor, array)

        def read() -> NDArray[Any]:
            values = _checked(array.read(), tensor, array.label)
            if self._only_finite:
                _refuse_infinite(values, tensor, array.label)
            if self._stacks and array.shape != self._rest(tensor):
                values = np.moveaxis(values, tensor.batch_axis or 0, 0)
            return values.reshape(rows, *self._rest(tensor))

        return rows, read

    def _image(self, tensor: InputTensor, path: Path) -> Callable[[], NDArray[Any]]:
        preparation = prepare_images(tensor, _dtype(tensor), self._options)
        self._sentences[tensor.name] = preparation.sentence
        return lambda: read_image(path, preparation)[np.newaxis]

    def _member(self, tensor: InputTensor, path: Path) -> str:
        names = npz_names(path)
        if tensor.name in names:
            return tensor.name
        if self._single and len(names) == 1:
            return names[0]
        listed = ", ".join(map(repr, names[:8])) or "nothing"
        raise InputError(f"{path} holds no array {tensor.name!r}, the name of the model's input; it holds {listed}")

    def _rows(self, tensor: InputTensor, array: ArrayFile) -> int:
        dtype, rest = _dtype(tensor), self._rest(tensor)
        if array.dtype != dtype:
            raise InputError(
                f"{array.label} has elements of type {array.dtype.name}, and input {tensor.name!r} takes {dtype.name}; "
                f"convert it with .astype({dtype.name!r})"
            )
        if array.shape == rest:
            return 1
        is_batch = len(array.shape) == len(tensor.shape) and _without_batch(tensor, array.shape) == rest
        if self._stacks and is_batch and array.shape[tensor.batch_axis or 0] > 0:
            return array.shape[tensor.batch_axis or 0]
        several = [str(size) for size in rest]
        several.insert(tensor.batch_axis or 0, "N")
        expected = f"{rest} for one sample, or ({', '.join(several)}) for N" if self._stacks else str(rest)
        raise InputError(f"{array.label} has the shape {array.shape}; input {tensor.name!r} takes {expected}")

    def _rest(self, tensor: InputTensor) -> tuple[int, ...]:
        return _without_batch(tensor, tensor.shape) if self._stacks else tensor.shape


class _Stack:
    """Stacks samples to the inputs of a run."""

    def __init__(self, inputs: Sequence[InputTensor], samples: int, selection: Selection) -> None:
        self._selection = selection
        self._batch = _batch(inputs)
        self._axes = {tensor.name: tensor.batch_axis or 0 for tensor in inputs}
        self._samples = samples
        size_bytes = sum(math.prod(tensor.shape) * _dtype(tensor).itemsize for tensor in inputs)
        fitting = max(1, MAX_SET_BYTES // max(1, size_bytes))
        self.count = min(math.ceil(samples / (self._batch or 1)), selection.most, fitting)
        self.is_full = self.count == fitting

    @property
    def sentences(self) -> list[str]:
        """How many samples became how many inputs."""
        size = self._batch or 1
        used = self.count * size
        if used < self._samples:
            taken = f"the first {used} of {self._samples} samples"
            if self._selection.is_spread:
                taken = f"{used} of {self._samples} samples at equal distances"
        else:
            taken = f"{self._samples} samples" if self._samples > 1 else "1 sample"
        stacked = f"{self.count} inputs of batch {size}" if self._batch else f"{self.count} inputs"
        again = ", starting over to fill the last" if used > self._samples else ""
        return [f"{taken} as {stacked}{again}"]

    def chosen(self, samples: Sequence[_Sample]) -> list[_Sample]:
        """Those that are stacked, each with those of its rows that are; files of which none is are not read."""
        used = min(self.count * (self._batch or 1), self._samples)
        if not self._selection.is_spread or used == self._samples:
            return list(samples)
        wanted = [number * self._samples // used for number in range(used)]
        starts = itertools.accumulate((len(one.rows) for one in samples), initial=0)
        rows = (
            [row - start for row in wanted[bisect_left(wanted, start) : bisect_left(wanted, start + len(one.rows))]]
            for start, one in zip(starts, samples, strict=False)
        )
        return [replace(one, rows=kept) for one, kept in zip(samples, rows, strict=True) if kept]

    def batches(self, samples: Sequence[_Sample]) -> Iterator[Tensors]:
        """The inputs one by one, so that only one is in memory; each has a row for every sample of the batch."""
        rows = itertools.chain.from_iterable(itertools.chain.from_iterable(samples) for _ in itertools.count())
        for _ in range(self.count):
            if self._batch is None:
                yield next(rows)
            else:
                chosen = list(itertools.islice(rows, self._batch))
                yield {name: np.stack([sample[name] for sample in chosen], self._axes[name]) for name in chosen[0]}


def _batch(inputs: Iterable[InputTensor]) -> int | None:
    """The batch that all inputs share, or None."""
    sizes = {tensor.items for tensor in inputs}
    return sizes.pop() if len(sizes) == 1 else None


def _without_batch(tensor: InputTensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    axis = tensor.batch_axis or 0
    return shape[:axis] + shape[axis + 1 :]


def _dtype(tensor: InputTensor) -> "np.dtype[Any]":
    """Raises `InputError` for element types that NumPy's files cannot hold."""
    try:
        return np.dtype(tensor.dtype)
    except TypeError:
        raise InputError(
            f"input {tensor.name!r} takes {tensor.dtype}, which .npy files cannot hold; measure with random inputs"
        ) from None


def _checked(values: NDArray[Any], tensor: InputTensor, label: str) -> NDArray[Any]:
    """Refuse indices beyond a table of the model, whose last row is also -1: some engines read outside of it."""
    bound = tensor.integer_bound
    if bound is None or values.dtype.kind not in "iu" or not values.size:
        return values
    smallest, largest = int(values.min()), int(values.max())
    if smallest < -bound or largest >= bound:
        wrong = largest if largest >= bound else smallest
        raise InputError(
            f"{label} holds {wrong}, and the table that input {tensor.name!r} selects from has {bound} rows"
        )
    return values


def _refuse_infinite(values: NDArray[Any], tensor: InputTensor, label: str) -> None:
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        wrong = values[~np.isfinite(values)]
        raise InputError(
            f"{label} holds {wrong.size} numbers that are not finite, such as {wrong.flat[0]}, for input "
            f"{tensor.name!r}: leave the file out, or write it anew without them"
        )


def _write(name: str, values: NDArray[Any], store_in: Path) -> tuple[InputFile, Path]:
    """Write a tensor as .npy under its digest, whole or not at all. Raises `StoreError`."""
    try:
        make_private_folder(store_in)
        number, draft = tempfile.mkstemp(prefix=".incoming-", dir=store_in)
        try:
            with os.fdopen(number, "w+b") as file:
                np.lib.format.write_array(file, values, version=(1, 0), allow_pickle=False)
                size_bytes = file.tell()
                file.seek(0)
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            path = Path(draft).replace(store_in / sha256)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise StoreError(f"cannot write inputs to {store_in}: {error.strerror}; free some space or check it") from error
    return InputFile(name, sha256, size_bytes), path
