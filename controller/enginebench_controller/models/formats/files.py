"""Which files a model consists of, whether they are its own, and their digests."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from enginebench_controller.errors import ModelError
from enginebench_controller.models.bounded import bounded
from enginebench_controller.models.formats.description import describe, format_of, missing_file, told_as_invalid
from enginebench_controller.records import FileFormat, ModelFile
from enginebench_proto.agreed.external_data import (
    ExternalPlace,
    MisplacedError,
    external_place,
    fewest_bytes,
    refuse_oversize,
)
from enginebench_proto.agreed.names import begins_as
from enginebench_proto.agreed.onnx_wire import DeclaredTensor, declared_tensors
from enginebench_proto.agreed.words import ModelFormat


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


@dataclass(frozen=True)
class SourceFile:
    """A file of a model on the user's disk, and the name it has within the model version."""

    name: str
    path: Path


@bounded
def collect_files(path: Path, own_formats: Sequence[FileFormat] = ()) -> tuple[str, tuple[SourceFile, ...]]:
    """The format and the files of the model at `path`, the main one first, under the name "model" + suffix.

    `own_formats` are those that plugins bring. Raises `ModelError` for a model that cannot be read, lacks a file or
    refers to one outside its folder.
    """
    if not path.is_file():
        raise missing_file(path)
    kind = format_of(path, own_formats)
    if isinstance(kind, FileFormat):
        return kind.name, tuple(_own_files(path, kind))
    describe(path)
    main = SourceFile(f"model{path.suffix.lower()}", path)
    match kind:
        case ModelFormat.ONNX:
            beside = external_files(path)
            if any(one.name == main.name for one in beside):
                raise ModelError(f"{path} keeps weights in a file called {main.name}, a name of ours; rename that file")
            return kind, (main, *beside)
        case ModelFormat.OPENVINO_IR:
            return kind, (main, SourceFile("model.bin", own_file(path, path.with_suffix(".bin").name, 0)))
        case _:
            return kind, (main,)


def _own_files(path: Path, own: FileFormat) -> Iterator[SourceFile]:
    """The files of a model that only its engine reads, called "model" one and all: they name each other nowhere."""
    beginnings = [(offset, bytes.fromhex(content)) for offset, content in own.begins]
    try:
        known = begins_as(path, beginnings)
    except OSError as error:
        raise ModelError(f"cannot read the model {path}: {error.strerror}; check the path") from error
    if not known:
        raise ModelError(f"{path} is no model in the format {own.name}: it does not begin as one; check what it is")
    yield SourceFile(f"model{path.suffix.lower()}", path)
    for ending in own.companions:
        yield SourceFile(f"model{ending}", own_file(path, path.with_suffix(ending).name, 0))


def hash_file(source: SourceFile) -> ModelFile:
    """Name, digest and size, read in pieces. Raises `ModelError` for a file that cannot be read."""
    try:
        with source.path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            return ModelFile(source.name, digest, file.tell())
    except OSError as error:
        raise ModelError(f"cannot read {source.path}: {error.strerror}; check the file") from error


def external_files(path: Path) -> list[SourceFile]:
    """The files beside the ONNX model at `path` that hold its weights, in the order of their names.

    Raises `ModelError` for one that is missing, cut off or outside its folder, and for a weight that claims more than
    there can be.
    """
    try:
        with told_as_invalid(path):
            tensors = tuple(declared_tensors(path))
    except OSError as error:
        raise ModelError(f"cannot read the model {path}: {error.strerror}; check the path") from error
    needed: dict[str, int] = {}
    for tensor in tensors:
        try:
            place = _external_place(tensor)
        except MisplacedError as error:
            where = f"{path}: the weight {tensor.name[:80]!r}"
            raise ModelError(f"{where} {error}; save the model again, with its weights beside it") from error
        if place is not None:
            name = str(place.location)
            needed[name] = max(needed.get(name, 0), place.offset + (place.length or 0))
    return [SourceFile(name, own_file(path, name, size)) for name, size in sorted(needed.items())]


def _external_place(tensor: DeclaredTensor) -> ExternalPlace | None:
    """Where a tensor lies beside the model, at least; None for one within it. Raises `MisplacedError`."""
    if not (tensor.is_external or tensor.external_data):
        refuse_oversize(tensor.dims, tensor.content_bytes)
        return None
    place = external_place(tensor.external_data)
    if place.length is None:
        return replace(place, length=fewest_bytes(tensor.dims))
    refuse_oversize(tensor.dims, place.length)
    return place
