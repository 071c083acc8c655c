"""Which files a model consists of, and their digests. Names inside a model are hostile until proven confined."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import onnx

from enginebench_controller.errors import ModelError
from enginebench_controller.model.description import ModelFormat, describe
from enginebench_controller.model.skeleton import load_skeleton
from enginebench_controller.records import ModelFile


@dataclass(frozen=True)
class SourceFile:
    """A file of a model on the user's disk, and the name it has within the model version."""

    name: str
    path: Path


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
            return kind, (main, SourceFile("model.bin", path.with_suffix(".bin")))
        case _:
            return kind, (main,)


def version_digest(files: Sequence[ModelFile]) -> str:
    """The sha256 that names a version: the file's own, or that of the sorted lines of all (see model.proto)."""
    if len(files) == 1:
        return files[0].sha256
    lines = sorted(f"{file.sha256}  {file.name}\n" for file in files)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def hash_file(source: SourceFile) -> ModelFile:
    """Name, digest and size, read in pieces. Raises `ModelError` for a file that cannot be read."""
    try:
        with source.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return ModelFile(source.name, digest, file.tell())
    except OSError as error:
        raise ModelError(f"cannot read {source.path}: {error.strerror}; check the file") from error


def external_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """Every tensor of the model, subgraphs and functions included, whose content lies in another file."""
    attributes = [_in_graph(model.graph), *(_in_nodes(function.node) for function in model.functions)]
    for tensors in attributes:
        yield from (tensor for tensor in tensors if tensor.data_location == onnx.TensorProto.EXTERNAL)


def _in_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _in_nodes(graph.node)


def _in_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for attribute in (attribute for node in nodes for attribute in node.attribute):
        yield from (attribute.t, *attribute.tensors)
        for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from _in_graph(graph)


def _external_files(path: Path, main_name: str) -> list[SourceFile]:
    """The files that hold external data, in the order of their names."""
    needed: dict[str, int] = {}
    for tensor in external_tensors(load_skeleton(path)):
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = _confined(entries.get("location", ""), path)
        needed[location] = max(needed.get(location, 0), _last_byte(entries, tensor.name, path))
    if main_name in needed:
        raise ModelError(f"{path} keeps weights in a file called {main_name}, a name of ours; rename that file")
    return [SourceFile(name, _existing(path, name, size)) for name, size in sorted(needed.items())]


def _last_byte(entries: dict[str, str], tensor: str, path: Path) -> int:
    try:
        offset, length = int(entries.get("offset", "0")), int(entries.get("length", "0"))
    except ValueError:
        offset = -1
    if offset < 0 or length < 0:
        raise ModelError(f"{path}: weight {tensor!r} lies at no place in its file; export the model again")
    return offset + length


def _confined(location: str, path: Path) -> str:
    """`location` in its plain form. Raises `ModelError` unless it stays within the model's folder."""
    pure = PurePosixPath(location)
    parts = pure.parts
    if not parts or pure.is_absolute() or ".." in parts or any(c in location for c in "\\:\0\n\r"):
        raise ModelError(
            f"{path} refers to weights at {location!r}, outside its folder; refused, because a model could then "
            "read any file. Save it with its weights beside it"
        )
    return str(pure)


def _existing(model: Path, name: str, size_bytes: int) -> Path:
    path = model.parent / name
    if not path.is_file():
        raise ModelError(f"{model} keeps weights in {name}, which is not beside it; copy that file too")
    if not path.resolve().is_relative_to(model.parent.resolve()):
        raise ModelError(
            f"{model} keeps weights in {name}, a link that leaves its folder; refused, because a model could then "
            "read any file. Copy the model with `cp -rL` and use the copy"
        )
    if path.stat().st_size < size_bytes:
        raise ModelError(f"{path} is cut off: {model.name} needs {size_bytes} bytes of it; copy it again")
    return path
