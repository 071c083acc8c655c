"""The graph of a model as given: its nodes, its tensors by type and size, and where the content of each weight lies."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, numpy_helper
from onnx.external_data_helper import load_external_data_for_tensor

from enginebench_controller.errors import ModelError
from enginebench_controller.models.formats.skeleton import has_payload

_BITS = {
    "FLOAT": 32, "DOUBLE": 64, "FLOAT16": 16, "BFLOAT16": 16, "COMPLEX64": 64, "COMPLEX128": 128, "BOOL": 8,
    "INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64, "UINT8": 8, "UINT16": 16, "UINT32": 32, "UINT64": 64,
    "INT4": 4, "UINT4": 4, "INT2": 2, "UINT2": 2, "FLOAT4E2M1": 4, "FLOAT8E4M3FN": 8, "FLOAT8E4M3FNUZ": 8,
    "FLOAT8E5M2": 8, "FLOAT8E5M2FNUZ": 8, "FLOAT8E8M0": 8,
}  # fmt: skip
_PLAIN_NAMES = {"FLOAT": "float32", "DOUBLE": "float64"}


@cache
def dtype_name(element_type: int) -> str | None:
    """NumPy's name of an ONNX element type ("float32", "int4"); None for none."""
    if element_type == TensorProto.UNDEFINED:
        return None
    try:
        name = str(onnx.TensorProto.DataType.Name(element_type))
    except ValueError:  # a type from an onnx newer than this one
        return None
    return _PLAIN_NAMES.get(name, name.lower())


def element_type(dtype: str | None) -> int:
    """The reverse of `dtype_name`; UNDEFINED for None."""
    return _ELEMENT_TYPES.get(dtype or "", 0)


_ELEMENT_TYPES: dict[str, int] = {
    name: kind for kind in TensorProto.DataType.values() if (name := dtype_name(kind)) is not None
}
_BITS_BY_DTYPE = {_PLAIN_NAMES.get(name, name.lower()): bits for name, bits in _BITS.items()}


@dataclass(frozen=True)
class Tensor:
    """`dtype` and `shape` are None where unknown. Types below a byte are packed, as ONNX stores them."""

    dtype: str | None
    shape: tuple[int, ...] | None

    @property
    def elements(self) -> int | None:
        """How many numbers it holds."""
        return None if self.shape is None else math.prod(self.shape)

    @property
    def size_bytes(self) -> int | None:
        """Its size in memory; None for strings and for unknown shapes."""
        bits = _BITS_BY_DTYPE.get(self.dtype or "")
        return None if bits is None or self.elements is None else -(-self.elements * bits // 8)


_PIECE_BYTES = 4 * 1024 * 1024
"""A multiple of every element's size."""


@dataclass(frozen=True)
class Content:
    """The content of a dense tensor of the model file `path`: `proto` has it, or says where it lies."""

    path: Path
    proto: onnx.TensorProto

    def nonzero(self) -> int | None:
        """How many elements are not zero; None for strings. Raises `ModelError` where the content is damaged.

        Elements that are stored raw are read piece by piece: a weight may be larger than the memory.
        """
        try:
            if (raw := self._raw()) is not None:
                return raw.nonzero()
            values = numpy_helper.to_array(self._whole())
        except (OSError, TypeError, ValueError, DecodeError, onnx.checker.ValidationError) as error:
            raise ModelError(
                f"{self.path}: weight {self.proto.name!r} cannot be read ({error}); download or export the model again"
            ) from error
        return None if values.dtype.kind in "OSUT" else int(np.count_nonzero(values))

    def _raw(self) -> "_RawElements | None":
        """Where the elements lie one after the other; None where they are in `proto`, packed, or told otherwise."""
        if has_payload(self.proto) or not self.proto.data_type:
            return None
        said = {entry.key: entry.value for entry in self.proto.external_data}
        is_external = self.proto.data_location == onnx.TensorProto.EXTERNAL
        path = self.path.parent / said.get("location", "") if is_external else self.path
        offset = said.get("offset", "0") if is_external else said.get("raw_offset")
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(self.proto.data_type))
        size_bytes = math.prod(self.proto.dims) * dtype.itemsize
        length = said.get("length" if is_external else "raw_length")
        if offset is None or length is None or dtype.kind == "O" or int(length) != size_bytes:
            return None
        return _RawElements(path, int(offset), size_bytes, dtype)

    def _whole(self) -> onnx.TensorProto:
        if has_payload(self.proto):
            return self.proto
        if self.proto.data_location == onnx.TensorProto.EXTERNAL:
            loaded = onnx.TensorProto()
            loaded.CopyFrom(self.proto)
            load_external_data_for_tensor(loaded, str(self.path.parent))
            return loaded
        place = {entry.key: int(entry.value) for entry in self.proto.external_data}
        with self.path.open("rb") as file:
            file.seek(place.get("offset", 0))
            return onnx.TensorProto.FromString(file.read(place.get("length", 0)))


@dataclass(frozen=True)
class _RawElements:
    """Elements one after the other in a file, in little-endian order."""

    path: Path
    offset: int
    size_bytes: int
    dtype: np.dtype[Any]

    def nonzero(self) -> int:
        """How many are not zero. Raises `ValueError` for a file that ends before."""
        found, left = 0, self.size_bytes
        with self.path.open("rb") as file:
            file.seek(self.offset)
            while left > 0:
                piece = file.read(min(left, _PIECE_BYTES))
                if not piece:
                    raise ValueError(f"{left} bytes are missing at the end")
                found += int(np.count_nonzero(np.frombuffer(piece, self.dtype)))
                left -= len(piece)
        return found


@dataclass(frozen=True)
class Weight:
    """An initializer, the value of a Constant, or what nodes make that depend on no input.

    `stored_bytes` is its size in the file; sparse ones store values and their places. `content` is None where there is
    nothing to look at: then `nonzero_known` tells the number of elements that are not zero, None if nobody knows it.
    `scope` is the body or the function that holds it: others may have a weight of the same name.
    """

    name: str
    tensor: Tensor
    stored_bytes: int | None = None
    content: Content | None = None
    nonzero_known: int | None = None
    scope: tuple[str, ...] = ()

    @cached_property
    def nonzero(self) -> int | None:
        """How many elements are not zero; None where that is unknown. Raises `ModelError` for damaged content."""
        return self.nonzero_known if self.content is None else self.content.nonzero()


def dense_weight(name: str, proto: onnx.TensorProto, path: Path) -> Weight:
    """The weight of an initializer or of a Constant's `value`."""
    tensor = Tensor(dtype_name(proto.data_type), tuple(proto.dims))
    return Weight(name, tensor, tensor.size_bytes, Content(path, proto))


def sparse_weight(sparse: onnx.SparseTensorProto, path: Path) -> Weight:
    """The weight of a sparse initializer: its sizes are those of the dense tensor it stands for."""
    values, places = (dense_weight("", part, path) for part in (sparse.values, sparse.indices))
    sizes = [part.stored_bytes for part in (values, places)]
    stored = None if None in sizes else sum(size for size in sizes if size is not None)
    tensor = Tensor(values.tensor.dtype, tuple(sparse.dims))
    return Weight(sparse.values.name, tensor, stored, values.content)


def filled_weight(name: str, tensor: Tensor, fill: onnx.TensorProto | None) -> Weight:
    """What a ConstantOfShape makes: `tensor.shape` elements of the value of `fill` (0 where there is none)."""
    nonzero = 0
    if fill is not None and tensor.shape is not None and np.any(numpy_helper.to_array(fill)):
        nonzero = math.prod(tensor.shape)
    return Weight(name, tensor, tensor.size_bytes, None, nonzero if tensor.shape is not None else None)


def constant_weight(node: onnx.NodeProto, path: Path) -> Weight | None:
    """The weight that a Constant node holds; None for one of strings or of an unknown kind."""
    return next((weight for weight in _held(node, path) if weight is not None), None)


def _held(node: onnx.NodeProto, path: Path) -> Iterator[Weight | None]:
    name = node.output[0]
    for attribute in node.attribute:
        match attribute.name:
            case "value":
                yield dense_weight(name, attribute.t, path)
            case "sparse_value":
                yield replace(sparse_weight(attribute.sparse_tensor, path), name=name)
            case "value_float" | "value_int" | "value_floats" | "value_ints":
                is_float = "float" in attribute.name
                held = onnx.helper.get_attribute_value(attribute)
                values = np.array(held, np.float32 if is_float else np.int64)
                yield dense_weight(name, numpy_helper.from_array(values, name), path)


Attribute = int | float | str | tuple[int | float | str, ...]


@dataclass(frozen=True)
class SourceNode:
    """A node of the graph as given. Every node has a label (`name`) of its own, whatever the file says.

    `weights` are the initializers that it reads, also through nodes that depend on no input, such as the
    DequantizeLinear of an INT8 weight. `folded`: the node itself depends on no input, so that engines compute it once
    and ahead of time. `bodies` are the graphs of If, Loop and Scan by attribute, and "function" for a function's own.
    """

    index: int
    name: str
    op_type: str
    domain: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    weights: tuple[str, ...] = ()
    output_shapes: tuple[tuple[int, ...] | None, ...] = ()
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    folded: bool = False
    bodies: Mapping[str, "SourceGraph"] = field(default_factory=dict)


@dataclass(frozen=True)
class SourceGraph:
    """Nodes in the order of the file; the graph's inputs (without weights) and outputs by tensor name.

    `tensors` holds what is known of every tensor, weights included; `weights` where each weight's content lies;
    also of those that nodes make which depend on no input; `stored_as` names the weight behind a tensor that is one in
    another form, such as dequantized. `constants` are the values of small integer tensors, such as the sizes a Reshape
    is given. `opsets` are the versions by domain ("" for ai.onnx). `batch` is the number of items the shapes are for.
    """

    nodes: tuple[SourceNode, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    weights: Mapping[str, Weight] = field(default_factory=dict)
    stored_as: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    opsets: Mapping[str, int] = field(default_factory=dict)
    batch: int = 1
    assumptions: tuple[str, ...] = ()

    def shape(self, tensor: str) -> tuple[int, ...] | None:
        """The sizes of a tensor; None where they are unknown."""
        found = self.tensors.get(tensor)
        return None if found is None else found.shape

    def weight(self, tensor: str) -> Weight | None:
        """The weight that `tensor` is, or is another form of; None for a tensor that depends on an input."""
        return self.weights.get(self.stored_as.get(tensor, tensor))
