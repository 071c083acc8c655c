"""What a model file asks for: format, inputs and outputs, read without loading its weights.

A model file from elsewhere can contradict itself in any way: nodes without outputs, names that are no text, tensors
cut short. Whoever reads one says so in a sentence.
"""

import re
import struct
import zipfile
from collections.abc import Hashable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from onnx import checker, helper, shape_inference

from enginebench_controller.errors import ModelError, UnknownFormatError, UnknownModelError
from enginebench_controller.models.bounded import bounded
from enginebench_controller.models.formats.openvino_ir import describe_ir
from enginebench_controller.models.formats.signature import (
    Dims,
    InputDescription,
    ModelDescription,
    Operation,
    OutputDescription,
    integer_bounds,
)
from enginebench_controller.models.formats.skeleton import load_skeleton
from enginebench_controller.records.target import FileFormat
from enginebench_controller.typed_paths import leads_nowhere
from enginebench_proto.agreed.words import SUFFIXES, ModelFormat

_NAMELESS = re.compile(r"[\W_]*|-?\d+|none|null|nan|any|unk|unknown|dyn|dynamic", re.IGNORECASE)
"""What exporters write as the name of a dimension that has none. Equal ones are no equal dimensions."""

_OF_PYTHON = (ArithmeticError, LookupError, RuntimeError, StopIteration, TypeError, ValueError)
_OF_ONNX = (checker.ValidationError, shape_inference.InferenceError)


@contextmanager
def told_as_invalid(path: Path) -> Iterator[None]:
    """Turn what Python and the onnx package raise over the graph of the ONNX file `path` into a `ModelError`."""
    try:
        yield
    except (*_OF_PYTHON, *_OF_ONNX) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"{path} is no valid ONNX graph ({reason}); check it with onnx.checker") from error


__all__ = [
    "InputDescription",
    "ModelDescription",
    "ModelFormat",
    "OutputDescription",
    "describe",
    "describe_as",
    "format_of",
]


_MAX_ENTRIES = 100_000
_MAX_UNPACKING = 100
"""PyTorch stores without compression, so that the content of an archive is about as large as its file."""

_NO_ARCHIVE = (zipfile.BadZipFile, OSError, ArithmeticError, EOFError, RuntimeError, ValueError, struct.error)
"""What the standard library raises over bytes that are no zip archive it knows."""


def format_of(path: Path, own_formats: Iterable[FileFormat] = ()) -> ModelFormat | FileFormat:
    """The format by the file's suffix, which may be one of `own_formats`, those that plugins bring.

    Raises `UnknownFormatError` for a suffix that no engine is known to read, and `ModelError` where two formats have
    it.
    """
    suffix = path.suffix.lower()
    if suffix in SUFFIXES:
        return SUFFIXES[suffix]
    found = [one for one in own_formats if suffix in one.suffixes]
    if not found:
        raise _unknown(path, own_formats)
    if names := sorted({one.name for one in found} - {found[0].name}):
        raise ModelError(
            f"{path} may be {found[0].name} or {', '.join(names)}, as two engines say; uninstall one of them"
        )
    return found[0]


def _unknown(path: Path, own_formats: Iterable[FileFormat]) -> UnknownFormatError:
    known = ", ".join(dict.fromkeys([*SUFFIXES, *(suffix for one in own_formats for suffix in one.suffixes)]))
    told = f"{path} is no model that enginebench knows: its name must end in {known}"
    return UnknownFormatError(
        f"{told}; what plugins read besides is known once `enginebench devices` has listed them",
        asked=f"{told}; no engine that was asked reads it",
    )


def missing_file(path: Path) -> ModelError:
    """What is to be raised where a model file should be and is not: nothing, or a folder."""
    if path.is_dir():
        return UnknownModelError(f"{path} is a folder; name a model file in it, such as {path / 'model.onnx'}")
    if lost := leads_nowhere(path):
        return UnknownModelError(f"there is no model file {path}: {lost}")
    return UnknownModelError(f"there is no model file {path}; check the path")


@bounded
def describe(path: Path) -> ModelDescription:
    """Read what the model at `path` asks for, in a format that is read here.

    Raises `ModelError` for a missing, damaged or unknown file.
    """
    if not path.is_file():
        raise missing_file(path)
    match SUFFIXES.get(path.suffix.lower()):
        case ModelFormat.ONNX:
            return _describe_graph(path)
        case ModelFormat.OPENVINO_IR:
            return describe_ir(path)
        case ModelFormat.TORCHSCRIPT:
            return _describe_archive(path, ModelFormat.TORCHSCRIPT, "/constants.pkl", "torch.jit.save")
        case ModelFormat.TORCH_EXPORT:
            return _describe_archive(path, ModelFormat.TORCH_EXPORT, ".json", "torch.export.save")
        case None:
            raise _unknown(path, ())


def describe_as(path: Path, model_format: str) -> ModelDescription:
    """As `describe`, where the format is known: a file in one that a plugin brings is looked into by its engine only.

    Raises `ModelError` for a damaged file.
    """
    return describe(path) if model_format in frozenset(ModelFormat) else ModelDescription(model_format)


def _describe_graph(path: Path) -> ModelDescription:
    model = load_skeleton(path)
    with told_as_invalid(path):
        return describe_onnx(model, path)


def describe_onnx(model: onnx.ModelProto, path: Path) -> ModelDescription:
    """Describe an ONNX model (with or without weights); `path` is for the error sentences."""
    bounds = onnx_integer_bounds(model.graph)
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = tuple(
        InputDescription(value.name, dtype, dims, bounds.get(value.name))
        for value in model.graph.input
        if value.name not in weights
        for dtype, dims in [_tensor_type(value, path)]
    )
    outputs = tuple(OutputDescription(value.name, *_tensor_type(value, path)) for value in model.graph.output)
    opset = next((entry.version for entry in model.opset_import if entry.domain in {"", "ai.onnx"}), None)
    producer = f"{model.producer_name} {model.producer_version}".strip() or None
    return ModelDescription(ModelFormat.ONNX, inputs, outputs, opset, producer)


def _tensor_type(value: onnx.ValueInfoProto, path: Path) -> tuple[str, Dims | None]:
    """NumPy name of the element type, and the dims."""
    if not value.type.HasField("tensor_type"):
        raise ModelError(
            f"{path}: {value.name!r} is a sequence, map or optional value; enginebench runs models whose inputs and "
            "outputs are tensors"
        )
    tensor = value.type.tensor_type
    dims = tuple(_dimension(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return _dtype_name(tensor.elem_type), dims


def _dtype_name(element_type: int) -> str:
    if element_type == onnx.TensorProto.STRING:
        return "str"
    try:
        return str(helper.tensor_dtype_to_np_dtype(element_type).name)
    except KeyError:
        return "unknown"


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str | None:
    """Exporters write open dimensions as a name, as nothing, or as -1. 0 is a size: ONNX's empty tensor."""
    if dim.HasField("dim_value"):
        return int(dim.dim_value) if dim.dim_value >= 0 else None
    return dimension_name(dim)


def _describe_archive(path: Path, kind: ModelFormat, member: str, writer: str) -> ModelDescription:
    """Check PyTorch's zip archives by their table of contents; nothing inside is unpacked or unpickled."""
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except _NO_ARCHIVE as error:
        raise ModelError(f"{path} is not a whole {kind} file: {error}; write it with {writer}") from error
    unpacked_bytes = sum(entry.file_size for entry in entries)
    if len(entries) > _MAX_ENTRIES or unpacked_bytes > _MAX_UNPACKING * path.stat().st_size:
        raise ModelError(
            f"{path} unpacks to {len(entries)} files of {unpacked_bytes} bytes, as no saved program does; refused, "
            f"because it would fill memory or disk; write it with {writer}"
        )
    if not any(entry.filename.endswith(member) for entry in entries):
        raise ModelError(f"{path} holds no {kind} program, perhaps weights only; write the model with {writer}")
    return ModelDescription(kind)


def dimension_name(dim: onnx.TensorShapeProto.Dimension) -> str | None:
    """The symbol that an open dimension shares with others of its name; None for "?", "None" and their like."""
    name = str(dim.dim_param).strip()
    return None if _NAMELESS.fullmatch(name) else name


def onnx_integer_bounds(graph: onnx.GraphProto) -> dict[str, int]:
    """`integer_bounds` of an ONNX graph, for its integer inputs."""
    integers = [value.name for value in graph.input if _is_integer(value)]
    rows: dict[Hashable, int] = {tensor.name: tensor.dims[0] for tensor in graph.initializer if tensor.dims}
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.HasField("t") and attribute.t.dims:
                rows[node.output[0]] = attribute.t.dims[0]
    operations = [
        Operation(node.op_type, node.input, node.output, node.op_type == "Gather" and _axis(node) == 0)
        for node in graph.node
    ]
    return integer_bounds([name for name in integers if name not in rows], operations, rows)


def _is_integer(value: onnx.ValueInfoProto) -> bool:
    kind = value.type.tensor_type.elem_type
    return kind not in {0, onnx.TensorProto.STRING, onnx.TensorProto.BOOL} and (
        helper.tensor_dtype_to_np_dtype(kind).kind in "iu"
    )


def _axis(node: onnx.NodeProto) -> int:
    return next((int(attribute.i) for attribute in node.attribute if attribute.name == "axis"), 0)
