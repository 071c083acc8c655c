"""Which files a model consists of, whether they are its own, and their digests.

Loaders look at this too, each as far as it goes: ONNX Runtime and OpenVINO follow hard links, both know a location that
stands for an address in memory, and the onnx package allows any size.
"""

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import onnx

from enginebench_controller.errors import ModelError
from enginebench_controller.models.bounded import bounded
from enginebench_controller.models.formats.description import describe, told_as_invalid
from enginebench_controller.models.formats.skeleton import load_skeleton
from enginebench_controller.records import ModelFile
from enginebench_proto.agreed.words import ModelFormat

_ELEMENTS_A_BYTE = 8
"""No element type is smaller than a bit."""

_MOST_DIGITS, _MOST_DIMENSIONS = 20, 64
_IN_MEMORY = "_ORT_MEM_ADDR_"
"""Part of the location by which ONNX Runtime and OpenVINO mean an address in memory instead of a file."""


def external_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of the model whose content lies in another file."""
    return (tensor for tensor in _tensors(model) if tensor.data_location == onnx.TensorProto.EXTERNAL)


def external_files(model: onnx.ModelProto, path: Path) -> dict[str, int]:
    """The files that hold weights of the model at `path`, by name, with the bytes that each needs at least.

    `model` is its skeleton, with what was left out `located`. Raises `ModelError` for a weight that lies outside the
    model's folder, at no place in its file, or claims more elements than there can be.
    """
    needed: dict[str, int] = {}
    for tensor in _tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            _refuse_oversize(tensor, _held_bytes(tensor), path)
            continue
        name, begin = _confined(tensor, path), _number(tensor, "offset", path) or 0
        length = _number(tensor, "length", path)
        if length is None:
            length = -(-_elements(tensor) // _ELEMENTS_A_BYTE)
        _refuse_oversize(tensor, length, path)
        needed[name] = max(needed.get(name, 0), begin + length)
    return needed


def own_file(model: Path, name: str, size_bytes: int) -> Path:
    """The file `name` beside `model`, of `size_bytes` at least.

    Raises `ModelError` where it is missing, cut off, or may be a file from elsewhere by another name.
    """
    path = model.parent / name
    if not path.is_file():
        raise ModelError(f"{model} keeps weights in {name}, which is not beside it; copy that file too")
    # What a second name of a file stands for cannot be told; the onnx package refuses these as well.
    if not path.resolve().is_relative_to(model.parent.resolve()) or path.stat().st_nlink > 1:
        raise ModelError(
            f"{model} keeps weights in {name}, a link that leaves its folder; refused, because a model could then "
            "read any file. Copy the model with `cp -rL` and use the copy"
        )
    if path.stat().st_size < size_bytes:
        raise ModelError(f"{path} is cut off: {model.name} needs {size_bytes} bytes of it; copy it again")
    return path


def _confined(tensor: onnx.TensorProto, path: Path) -> str:
    """The location in its plain form. One that is told twice is refused: loaders differ in which they follow."""
    told = _told(tensor, "location")
    location = told[0] if len(told) == 1 else ""
    pure = PurePosixPath(location)
    is_escape = not pure.parts or pure.is_absolute() or ".." in pure.parts or _IN_MEMORY in location
    if is_escape or any(c in location for c in "\\:\0\n\r"):
        raise ModelError(
            f"{path} refers to weights at {location[:200]!r}, outside its folder; refused, because a model could then "
            "read any file. Save it with its weights beside it"
        )
    return str(pure)


def _number(tensor: onnx.TensorProto, key: str, path: Path) -> int | None:
    told = _told(tensor, key)
    if len(told) > 1 or not all(one.isascii() and one.isdigit() and len(one) < _MOST_DIGITS for one in told):
        raise ModelError(f"{path}: weight {tensor.name!r} lies at no place in its file; export the model again")
    return int(told[0]) if told else None


def _told(tensor: onnx.TensorProto, key: str) -> list[str]:
    return [entry.value for entry in tensor.external_data if entry.key == key]


def _held_bytes(tensor: onnx.TensorProto) -> int:
    """The size of a tensor within the model; the skeleton notes that of one whose content it left out."""
    noted = _told(tensor, "length")
    return int(noted[0]) if noted and noted[0].isdecimal() else int(tensor.ByteSize())


def _refuse_oversize(tensor: onnx.TensorProto, content_bytes: int, path: Path) -> None:
    if len(tensor.dims) > _MOST_DIMENSIONS or _elements(tensor) > _ELEMENTS_A_BYTE * content_bytes:
        raise ModelError(
            f"{path}: weight {tensor.name!r} is to have more elements than the {content_bytes} bytes it brings can "
            "hold; download or export the model again"
        )


def _elements(tensor: onnx.TensorProto) -> int:
    """How many elements the dimensions claim; a negative one is taken for a very large one."""
    return math.prod(dim if dim >= 0 else 1 << 63 for dim in tensor.dims[:_MOST_DIMENSIONS])


def _tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of the model: those of subgraphs, functions and training too."""
    yield from _in_graph(model.graph)
    for function in model.functions:
        yield from _in_nodes(function.node)
        yield from _in_attributes(function.attribute_proto)
    for training in model.training_info:
        yield from _in_graph(training.initialization)
        yield from _in_graph(training.algorithm)


def _in_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from _in_sparse(sparse)
    yield from _in_nodes(graph.node)


def _in_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        yield from _in_attributes(node.attribute)


def _in_attributes(attributes: Iterable[onnx.AttributeProto]) -> Iterator[onnx.TensorProto]:
    for attribute in attributes:
        yield from (*_given(attribute, "t"), *attribute.tensors)
        for sparse in (*_given(attribute, "sparse_tensor"), *attribute.sparse_tensors):
            yield from _in_sparse(sparse)
        for graph in (*_given(attribute, "g"), *attribute.graphs):
            yield from _in_graph(graph)


def _in_sparse(sparse: onnx.SparseTensorProto) -> Iterator[onnx.TensorProto]:
    yield from (*_given(sparse, "values"), *_given(sparse, "indices"))


def _given(message: Any, field: str) -> tuple[Any, ...]:
    """The field's content, nothing where it is not set."""
    return (getattr(message, field),) if message.HasField(field) else ()


@dataclass(frozen=True)
class SourceFile:
    """A file of a model on the user's disk, and the name it has within the model version."""

    name: str
    path: Path


@bounded
def collect_files(path: Path) -> tuple[ModelFormat, tuple[SourceFile, ...]]:
    """The format and the files of the model at `path`, the main one first, under the name "model" + suffix.

    Raises `ModelError` for a model that cannot be read, lacks a file or refers to one outside its folder.
    """
    kind = describe(path).format
    main = SourceFile(f"model{path.suffix.lower()}", path)
    match kind:
        case ModelFormat.ONNX:
            return kind, (main, *_external_files(path, main.name))
        case ModelFormat.OPENVINO_IR:
            return kind, (main, SourceFile("model.bin", own_file(path, path.with_suffix(".bin").name, 0)))
        case _:
            return kind, (main,)


def hash_file(source: SourceFile) -> ModelFile:
    """Name, digest and size, read in pieces. Raises `ModelError` for a file that cannot be read."""
    try:
        with source.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return ModelFile(source.name, digest, file.tell())
    except OSError as error:
        raise ModelError(f"cannot read {source.path}: {error.strerror}; check the file") from error


def _external_files(path: Path, main_name: str) -> list[SourceFile]:
    """The files that hold external data, in the order of their names."""
    model = load_skeleton(path, located=True)
    with told_as_invalid(path):
        needed = external_files(model, path)
    if main_name in needed:
        raise ModelError(f"{path} keeps weights in a file called {main_name}, a name of ours; rename that file")
    return [SourceFile(name, own_file(path, name, size)) for name, size in sorted(needed.items())]
