"""Which files a model consists of, and their digests."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from enginebench_controller.errors import ModelError
from enginebench_controller.model.bounded import bounded
from enginebench_controller.model.confinement import external_files, own_file
from enginebench_controller.model.contradictions import told_as_invalid
from enginebench_controller.model.description import ModelFormat, describe
from enginebench_controller.model.skeleton import load_skeleton
from enginebench_controller.records import ModelFile


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
