"""Whether a model's files are what they are called and its own: looked at in the child before any engine opens them."""

import codecs
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from enginebench_plugins.spec import FileFormat, ModelFormat, UnsupportedSettingsError
from enginebench_proto.agreed.external_data import MisplacedError, external_place, refuse_oversize
from enginebench_proto.agreed.onnx_wire import DeclaredTensor, MalformedModelError, declared_tensors

_ENDINGS: Mapping[str, tuple[str, ...]] = {ModelFormat.ONNX: (".onnx",), ModelFormat.OPENVINO_IR: (".xml",)}
"""How main files are called. Under other names engines read other formats, and not what was looked at here: ONNX
Runtime its own under .ort, OpenVINO PaddlePaddle's under .pdmodel, and the onnx package text under .json."""


def refuse_unconfined(path: Path, model_format: str, own_formats: Sequence[FileFormat] = ()) -> None:
    """Look at the model whose main file is `path`, in its private folder; saved programs are let pass.

    Raises `UnsupportedSettingsError` for a name that is not of the format, for a file beside it that is missing or a
    link, and for a tensor whose content lies outside that folder, in a link, beyond the end of its file, or is less
    than its dimensions need; and `MalformedModelError` for what is no file of the format.
    """
    own = next((one for one in own_formats if one.name == model_format), None)
    endings = own.suffixes if own else _ENDINGS.get(model_format, ())
    if not endings:
        return
    if path.suffix.lower() not in endings:
        raise UnsupportedSettingsError(
            f"a model in the format {model_format} has a name that ends in {' or '.join(endings)}; rename it."
        )
    try:
        if own:
            _check_own(path, own)
        elif model_format == ModelFormat.ONNX:
            _check_tensors(path)
        else:
            _check_beginning(path)
    except OSError as error:
        raise MalformedModelError(f"it cannot be read: {error.strerror}") from error


def _check_own(path: Path, own: FileFormat) -> None:
    if not own.begins_in(path):
        raise MalformedModelError(f"it does not begin as a file of the format {own.name}")
    for ending in own.companions:
        try:
            _size_of_own_file(path.parent, PurePosixPath(path.with_suffix(ending).name))
        except MisplacedError as error:
            raise UnsupportedSettingsError(f"a part of the model {error}; add the model again, whole.") from error


def _check_tensors(path: Path) -> None:
    for tensor in declared_tensors(path):
        try:
            refuse_oversize(tensor.dims, _content_bytes(tensor, path.parent))
        except MisplacedError as error:
            raise UnsupportedSettingsError(
                f"the weight {tensor.name[:80]!r} {str(error)[:400]}; export the model again, whole."
            ) from error


def _check_beginning(path: Path) -> None:
    """OpenVINO takes ONNX and TensorFlow models for what they are, whatever they are called: none begins as XML does.

    In protobuf, `<` alone would end a group that never began. White space before it is refused, though XML would have
    it: " <" is a field like any other there, and a whole model can follow.
    """
    with path.open("rb") as file:
        begin = file.read(len(codecs.BOM_UTF8) + 1)
    if not begin.removeprefix(codecs.BOM_UTF8).startswith(b"<"):
        raise MalformedModelError("it is no OpenVINO IR, which begins with <")


def _content_bytes(tensor: DeclaredTensor, folder: Path) -> int:
    """The bytes that a tensor's elements have, here or in a file of the model. Raises `MisplacedError`."""
    if not (tensor.is_external or tensor.external_data):
        return tensor.content_bytes
    place = external_place(tensor.external_data)
    size_bytes = _size_of_own_file(folder, place.location)
    if place.offset + (place.length or 0) > size_bytes:
        raise MisplacedError(f"lies beyond the end of {str(place.location)!r}, which has {size_bytes} bytes")
    return size_bytes - place.offset if place.length is None else place.length


def _size_of_own_file(folder: Path, location: PurePosixPath) -> int:
    """The size of a file of the model. Raises `MisplacedError` for any other file, and for a link."""
    for parent in list(location.parents)[-2::-1]:
        if not stat.S_ISDIR(_status(folder, parent).st_mode):
            raise MisplacedError(f"lies in {str(location)!r} behind a link")
    found = _status(folder, location)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        raise MisplacedError(f"lies in {str(location)!r}, which is no plain file or has other names")
    return found.st_size


def _status(folder: Path, location: PurePosixPath) -> os.stat_result:
    try:
        return (folder / location).lstat()
    except (OSError, ValueError) as error:
        raise MisplacedError(f"lies in {str(location)!r}, which is not among the model's files") from error
