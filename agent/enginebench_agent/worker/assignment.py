"""What a child was started for: the engine loaded, the model and the configuration checked, the process confined.

Engines look at this too, each as far as it goes: ONNX Runtime and OpenVINO follow hard links, both know a location that
stands for an address in memory, and the onnx package, which other engines load with, allows any size. So it is decided
here, in the child, before any of them opens the file.
"""

import codecs
import math
import os
import stat
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from enginebench_agent import wire
from enginebench_agent.worker import plugins
from enginebench_agent.worker.confine import confine_to_cores
from enginebench_plugins.spec import (
    Device,
    Engine,
    EngineInfo,
    Load,
    ModelFormat,
    ModelSource,
    Settings,
    UnsupportedSettingsError,
)
from enginebench_plugins.toolkit.engine import refuse_unsupported
from enginebench_proto.agreed.onnx_wire import DeclaredTensor, MalformedModelError, declared_tensors
from enginebench_proto.v1.configuration_pb2 import Configuration
from enginebench_proto.v1.run_pb2 import RUN_KIND_MEASURE, RUN_KIND_PEAKS, RUN_KIND_PROFILE, RunSpec

_IN_MEMORY = "_ORT_MEM_ADDR_"
"""Part of the location by which ONNX Runtime and OpenVINO mean an address in memory instead of a file."""

_ELEMENTS_A_BYTE = 8
"""No element type is smaller than a bit."""

_MAX_DIMENSIONS = 64
"""As many as NumPy takes."""

_ENDINGS = {ModelFormat.ONNX: ".onnx", ModelFormat.OPENVINO_IR: ".xml"}
"""How main files are called. Under other names engines read other formats, and not what was looked at here: ONNX
Runtime its own under .ort, OpenVINO PaddlePaddle's under .pdmodel, and the onnx package text under .json."""


def refuse_unconfined(path: Path, model_format: str) -> None:
    """Look at the model whose main file is `path`, in its private folder; formats that can run code are let pass.

    Raises `UnsupportedSettingsError` for a name that is not of the format, and for a tensor whose content lies outside
    that folder, in a link, beyond the end of its file, or is less than its dimensions need; and `MalformedModelError`
    for what is no file of the format.
    """
    ending = _ENDINGS.get(ModelFormat(model_format))
    if ending is None:
        return
    if path.suffix.lower() != ending:
        raise UnsupportedSettingsError(
            f"a model in the format {model_format} has a name that ends in {ending}; rename it."
        )
    try:
        if model_format == ModelFormat.ONNX:
            _check_tensors(path)
        else:
            _check_beginning(path)
    except OSError as error:
        raise MalformedModelError(f"it cannot be read: {error.strerror}") from error


def _check_tensors(path: Path) -> None:
    for tensor in declared_tensors(path):
        if tensor.is_external or tensor.external_data:
            _check_external(tensor, path.parent)
        else:
            _check_size(tensor, tensor.content_bytes)


def _check_beginning(path: Path) -> None:
    """OpenVINO takes ONNX and TensorFlow models for what they are, whatever they are called: none begins as XML does.

    In protobuf, `<` alone would end a group that never began. White space before it is refused, though XML would have
    it: " <" is a field like any other there, and a whole model can follow.
    """
    with path.open("rb") as file:
        begin = file.read(len(codecs.BOM_UTF8) + 1)
    if not begin.removeprefix(codecs.BOM_UTF8).startswith(b"<"):
        raise MalformedModelError("it is no OpenVINO IR, which begins with <")


def _check_external(tensor: DeclaredTensor, folder: Path) -> None:
    locations = [value for key, value in tensor.external_data if key == "location"]
    if len(locations) != 1:
        raise _refusal(tensor, f"names {len(locations)} files for its content instead of one")
    size_bytes = _size_of_own_file(tensor, folder, locations[0])
    offset, length = (_number(tensor, key) for key in ("offset", "length"))
    if (offset or 0) + (length or 0) > size_bytes:
        raise _refusal(tensor, f"lies beyond the end of {locations[0]!r}, which has {size_bytes} bytes")
    _check_size(tensor, size_bytes - (offset or 0) if length is None else length)


def _size_of_own_file(tensor: DeclaredTensor, folder: Path, location: str) -> int:
    """The size of a file of the model. Raises `UnsupportedSettingsError` for any other file, and for a link."""
    parts = PurePosixPath(location).parts
    if not parts or parts[0] == "/" or ".." in parts or _IN_MEMORY in location or "\\" in location or "\0" in location:
        raise _refusal(tensor, f"lies at {location!r}, which is no place within the model")
    for depth in range(1, len(parts)):
        if not stat.S_ISDIR(_status(tensor, folder.joinpath(*parts[:depth]), location).st_mode):
            raise _refusal(tensor, f"lies in {location!r} behind a link")
    found = _status(tensor, folder.joinpath(*parts), location)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise _refusal(tensor, f"lies in {location!r}, which is no plain file or has other names")
    return found.st_size


def _status(tensor: DeclaredTensor, path: Path, location: str) -> os.stat_result:
    try:
        return path.lstat()
    except (OSError, ValueError) as error:
        raise _refusal(tensor, f"lies in {location!r}, which is not among the model's files") from error


def _number(tensor: DeclaredTensor, wanted: str) -> int | None:
    """The largest value of the entry, None where there is none."""
    texts = [value for key, value in tensor.external_data if key == wanted]
    if not all(text.isascii() and text.isdigit() and len(text) < 20 for text in texts):
        raise _refusal(tensor, f"has {texts[0]!r} as its {wanted}")
    return max(map(int, texts), default=None)


def _check_size(tensor: DeclaredTensor, content_bytes: int) -> None:
    if len(tensor.dims) > _MAX_DIMENSIONS:
        raise _refusal(tensor, f"has {len(tensor.dims):,} dimensions")
    if math.prod(tensor.dims) > _ELEMENTS_A_BYTE * content_bytes:
        raise _refusal(tensor, f"is to have more elements than the {content_bytes:,} bytes it brings can hold")


def _refusal(tensor: DeclaredTensor, what: str) -> UnsupportedSettingsError:
    return UnsupportedSettingsError(f"the weight {tensor.name[:80]!r} {what[:400]}; export the model again, whole.")


@dataclass(frozen=True)
class Assignment:
    """One engine, one model and one configuration that fit together."""

    engine: Engine
    info: EngineInfo
    device: Device
    source: ModelSource
    settings: Settings
    configuration: Configuration


def load_engine(spec: RunSpec) -> tuple[Engine, EngineInfo, tuple[Device, ...]]:
    """Confine the process, then load the engine of a run: thread pools take their size at import.

    Raises `UnsupportedSettingsError` for too many cores and `UnavailableError` for an engine that cannot be used.
    """
    confine_to_cores(spec.configuration.cores)
    engine = plugins.load(spec.engine)
    return engine, *plugins.abilities(engine, spec.engine)


def check_job(spec: RunSpec, path: Path, engine: Engine, info: EngineInfo, devices: tuple[Device, ...]) -> Assignment:
    """Bring engine, model and configuration together.

    Raises `UnsupportedSettingsError` for anything this engine, device or kind of run does not offer.
    """
    profiling = spec.kind == RUN_KIND_PROFILE
    source = wire.from_model(spec, path)
    settings = wire.from_configuration(spec.configuration, info.options, profiling=profiling)
    _check_kind(spec, info)
    _check_load(settings)
    if source.format not in info.formats:
        known = ", ".join(sorted(info.formats))
        raise UnsupportedSettingsError(f"{spec.engine} does not read the format {source.format}; it reads {known}.")
    device = refuse_unsupported(spec.engine, info, devices, settings)
    return Assignment(engine, info, device, source, settings, spec.configuration)


def _check_kind(spec: RunSpec, info: EngineInfo) -> None:
    if spec.kind not in (RUN_KIND_MEASURE, RUN_KIND_PROFILE, RUN_KIND_PEAKS):
        raise UnsupportedSettingsError(
            "The run names no kind this version knows; it is a measurement, a profile or a calibration."
        )
    if spec.kind == RUN_KIND_PROFILE and not info.profiling:
        raise UnsupportedSettingsError(f"{spec.engine} has no layer profile.")


def _check_load(settings: Settings) -> None:
    if settings.load is Load.SYNC and settings.requests != 1:
        raise UnsupportedSettingsError(
            f"A synchronous load has 1 request in flight, not {settings.requests}; use the load async."
        )
