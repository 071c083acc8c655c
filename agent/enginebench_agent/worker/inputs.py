"""The content of the inputs: drawn from a seed or read from .npy files, the same for every engine, and digested."""

import hashlib
import math
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from enginebench_plugins.spec import TensorSpec, UnsupportedSettingsError
from enginebench_proto.agreed.tensors import LARGEST_BFLOAT16
from enginebench_proto.v1.configuration_pb2 import InputFile, InputItem, InputSet, InputTensor, InputValues

_SHA256 = re.compile(r"[0-9a-f]{64}")


def read_input_file(folder: Path, file: InputFile, tensor: TensorSpec) -> NDArray[Any]:
    """The array of a file, C-contiguous and in this machine's byte order.

    Raises `UnsupportedSettingsError` where the file is missing, not the one the digest names, no .npy file of plain
    numbers, or of another shape or type than `tensor`.
    """
    path = _checked_path(folder, file)
    mapped = _mapped(path, file)
    if mapped.dtype.name != tensor.dtype or mapped.shape != tensor.shape:
        raise UnsupportedSettingsError(
            f"{_described(file)} is {mapped.dtype.name} {mapped.shape}; the model takes {tensor.dtype} {tensor.shape}."
        )
    return np.array(mapped, dtype=tensor.dtype, order="C")


def _checked_path(folder: Path, file: InputFile) -> Path:
    if not _SHA256.fullmatch(file.sha256):  # it becomes a path
        raise UnsupportedSettingsError(f"The file for the input '{file.input}' is named by no sha256: '{file.sha256}'.")
    path = folder / file.sha256
    try:
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise UnsupportedSettingsError(f"{_described(file)} cannot be read: {error.strerror}.") from error
    if digest != file.sha256:
        raise UnsupportedSettingsError(f"{_described(file)} is damaged: its content has another digest.")
    return path


def _mapped(path: Path, file: InputFile) -> NDArray[Any]:
    try:
        # Mapped first: the header is a stranger's, and must not make NumPy allocate what it claims.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # what is no such file may be a damaged archive, or anything to its header's parser
        raise UnsupportedSettingsError(f"{_described(file)} is not a .npy file of plain numbers: {error}.") from error
    if not isinstance(array, np.ndarray):  # NumPy opens a .npz archive by its content, whatever its name
        raise UnsupportedSettingsError(f"{_described(file)} is an archive; it takes one .npy file for each input.")
    return array


def _described(file: InputFile) -> str:
    return f"The file {file.sha256[:12]} for the input '{file.input}'"


Tensors = dict[str, NDArray[Any]]

_BFLOAT16 = "bfloat16"

DEFAULT_INTEGER_BOUND = 2
"""Safe for every embedding with two rows or more, and for masks."""


def make_inputs(
    tensors: Sequence[TensorSpec], requested: Sequence[InputTensor], input_set: InputSet, folder: Path | None = None
) -> list[Tensors]:
    """The input set: `input_set.count` different inputs, each mapping a name to a C-contiguous array.

    `tensors` are the inputs as compiled. One whose values were said is filled with them. Where the set has items, the
    files of the others are read from `folder`, in which each is named by its sha256. Otherwise each array is drawn from
    its own generator, seeded by (seed, position in the set, name), so that an engine's order of inputs changes nothing:
    floats are standard normal; integers uniform from 0 up to the bound, excluded, that `requested` brings by name;
    bools fair.
    Raises `UnsupportedSettingsError` for an open dimension, a shape other than the requested one or an empty input
    set; when drawing, for an element type that cannot be drawn or a bound that does not fit; when reading, for a file
    that is missing, damaged or of another shape or type, and for an item that does not fill every input.
    """
    if input_set.count < 1:
        raise UnsupportedSettingsError("The input set holds 0 inputs; it takes at least 1.")
    by_name = {tensor.name: tensor for tensor in requested}
    for tensor in tensors:
        _check_shape(tensor, by_name.get(tensor.name))
    filled = _filled(tensors, input_set)
    rest = [tensor for tensor in tensors if tensor.name not in filled[0]]
    if input_set.items:
        read = _read_items(rest, input_set, folder)
        return [_in_order(tensors, {**one, **other}) for one, other in zip(read, filled, strict=True)]
    bounds = {name: tensor.integer_bound for name, tensor in by_name.items() if tensor.HasField("integer_bound")}
    drawn = (
        {tensor.name: _draw(tensor, bounds.get(tensor.name), input_set.seed, index) for tensor in rest}
        for index in range(input_set.count)
    )
    return [_in_order(tensors, {**one, **other}) for one, other in zip(drawn, filled, strict=True)]


def digest_inputs(inputs: Sequence[Mapping[str, NDArray[Any]]]) -> str:
    """Lower-case hexadecimal sha256 over position, name, element type, shape and little-endian bytes, names sorted."""
    digest = hashlib.sha256()
    for index, tensors in enumerate(inputs):
        for name, values in sorted(tensors.items()):
            digest.update(f"{index}\0{name}\0{values.dtype.name}\0{values.shape}\0".encode())
            digest.update(values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def _check_shape(tensor: TensorSpec, requested: InputTensor | None) -> None:
    if None in tensor.shape:
        raise UnsupportedSettingsError(
            f"Input '{tensor.name}' still has an open dimension after compiling, {tensor.shape}; give its shape."
        )
    if requested is not None and tuple(requested.shape) != tensor.shape:
        raise UnsupportedSettingsError(
            f"Input '{tensor.name}' was compiled as {tensor.shape}, though {tuple(requested.shape)} was asked for."
        )


def _read_items(tensors: Sequence[TensorSpec], input_set: InputSet, folder: Path | None) -> list[Tensors]:
    if folder is None:
        raise UnsupportedSettingsError(
            "The input set names files, but this run was started without a folder of inputs."
        )
    if input_set.count != len(input_set.items):
        raise UnsupportedSettingsError(
            f"The input set is to hold {input_set.count} inputs, but files are named for {len(input_set.items)}."
        )
    return [_read_item(tensors, item, folder, index) for index, item in enumerate(input_set.items)]


def _read_item(tensors: Sequence[TensorSpec], item: InputItem, folder: Path, index: int) -> Tensors:
    files = {file.input: file for file in item.files}
    names = {tensor.name for tensor in tensors}
    if absent := sorted(names - files.keys()):
        raise UnsupportedSettingsError(f"Input {index} of the set has no file for the model's '{absent[0]}'.")
    if unknown := sorted(files.keys() - names):
        known = ", ".join(sorted(names))
        raise UnsupportedSettingsError(
            f"Input {index} of the set has a file for '{unknown[0]}', which the model does not have; it has {known}."
        )
    return {tensor.name: read_input_file(folder, files[tensor.name], tensor) for tensor in tensors}


def _in_order(tensors: Sequence[TensorSpec], found: Tensors) -> Tensors:
    return {tensor.name: found[tensor.name] for tensor in tensors}


def _filled(tensors: Sequence[TensorSpec], input_set: InputSet) -> list[Tensors]:
    """For each input of the set, the arrays whose values were said."""
    values = {one.input: one for one in input_set.values}
    known = {tensor.name: tensor for tensor in tensors}
    if unknown := sorted(values.keys() - known.keys()):
        raise UnsupportedSettingsError(
            f"Values are said for '{unknown[0]}', which the model does not have; it has {', '.join(sorted(known))}."
        )
    return [
        {name: _fill(known[name], one, input_set.seed, index) for name, one in values.items()}
        for index in range(input_set.count)
    ]


def _fill(tensor: TensorSpec, values: InputValues, seed: int, index: int) -> NDArray[Any]:
    """An array of the one number, or of numbers drawn evenly from the range, both ends included."""
    dtype = _dtype(tensor)
    shape = tuple(size for size in tensor.shape if size is not None)
    found = values.integers if values.HasField("integers") else values.numbers
    _check_range(tensor, dtype, values)
    if found.lowest == found.highest:
        return np.full(shape, found.lowest, dtype)
    generator = _generator(seed, index, tensor.name)
    if _is_floating(dtype):
        return generator.uniform(found.lowest, found.highest, shape).astype(dtype)
    kind = np.dtype(np.int64) if dtype.kind == "b" else dtype
    drawn = generator.integers(int(found.lowest), int(found.highest), shape, dtype=kind, endpoint=True)
    return np.asarray(drawn, dtype=dtype, order="C")


def _check_range(tensor: TensorSpec, dtype: "np.dtype[Any]", values: InputValues) -> None:
    is_floating = _is_floating(dtype)
    if values.WhichOneof("range") != ("numbers" if is_floating else "integers"):
        kind = "floating-point numbers" if is_floating else "integers"
        raise UnsupportedSettingsError(f"Input '{tensor.name}' of type {tensor.dtype} takes {kind}.")
    found = values.numbers if is_floating else values.integers
    limits = (0, 1) if dtype.kind == "b" else _limits(dtype)
    if not limits[0] <= found.lowest <= found.highest <= limits[1]:
        raise UnsupportedSettingsError(
            f"Input '{tensor.name}' of type {tensor.dtype} cannot hold numbers from {found.lowest} to {found.highest}."
        )


def _limits(dtype: "np.dtype[Any]") -> tuple[float, float]:
    if dtype.name == _BFLOAT16:
        return -LARGEST_BFLOAT16, LARGEST_BFLOAT16
    found: Any = np.finfo(dtype) if dtype.kind == "f" else np.iinfo(dtype)
    return found.min, found.max


def _draw(tensor: TensorSpec, bound: int | None, seed: int, index: int) -> NDArray[Any]:
    dtype = _dtype(tensor)
    shape = tuple(size for size in tensor.shape if size is not None)
    if math.prod(shape) * dtype.itemsize > sys.maxsize:  # NumPy calls it an array that is too big, a ValueError
        raise MemoryError(f"no memory holds input '{tensor.name}' of shape {shape}")
    generator = _generator(seed, index, tensor.name)
    if _is_floating(dtype):
        drawn = np.float64 if dtype == np.float64 else np.float32
        values: Any = generator.standard_normal(shape, dtype=drawn)
    elif dtype.kind == "b":
        values = generator.integers(0, 2, shape, dtype=np.bool_)
    else:
        values = generator.integers(0, _bound(tensor, dtype, bound), shape, dtype=dtype)
    return np.asarray(values, dtype=dtype, order="C")


def _dtype(tensor: TensorSpec) -> "np.dtype[Any]":
    if tensor.dtype == _BFLOAT16:
        return _bfloat16(tensor)
    try:
        dtype = np.dtype(tensor.dtype)
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "fiub" or dtype.itemsize > 8:
        raise UnsupportedSettingsError(
            f"Input '{tensor.name}' has the element type {tensor.dtype}, for which no content can be drawn."
        )
    return dtype


def _bfloat16(tensor: TensorSpec) -> "np.dtype[Any]":
    try:
        import ml_dtypes  # noqa: PLC0415  # few models ask for it, and not every environment has it
    except ImportError as error:
        raise UnsupportedSettingsError(
            f"Input '{tensor.name}' has the element type {_BFLOAT16}, which NumPy has from the package ml_dtypes only; "
            "install it beside the engine."
        ) from error
    found: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return found


def _is_floating(dtype: "np.dtype[Any]") -> bool:
    return dtype.kind == "f" or dtype.name == _BFLOAT16


def _bound(tensor: TensorSpec, dtype: "np.dtype[Any]", bound: int | None) -> int:
    bound = DEFAULT_INTEGER_BOUND if bound is None else bound
    if not 1 <= bound <= np.iinfo(dtype).max + 1:
        raise UnsupportedSettingsError(
            f"Input '{tensor.name}' of type {tensor.dtype} cannot be drawn from 0 up to {bound}."
        )
    return bound


def _generator(seed: int, index: int, name: str) -> np.random.Generator:
    entropy = hashlib.sha256(f"{seed}/{index}/{name}".encode()).digest()
    return np.random.Generator(np.random.PCG64(int.from_bytes(entropy, "little")))
