"""How a version is made from another: load it whole, change it, keep the result as a child of its parent."""

import onnx
from google.protobuf.message import DecodeError, EncodeError

from enginebench_controller.errors import ModelError
from enginebench_controller.model.library import ModelLibrary
from enginebench_controller.model.skeleton import refuse_endless
from enginebench_controller.model.zoo import PREFIX
from enginebench_controller.records import ModelVersion
from enginebench_proto.agreed.words import ModelFormat

MAX_BYTES = 2**31 - 2**20
"""protobuf's limit of 2 GiB for one message, with some room for what a change adds."""


def load_whole(library: ModelLibrary, version: ModelVersion, verb: str) -> onnx.ModelProto:
    """The model with all its weights inside. `verb` completes "… cannot be".

    Raises `ModelError` for other formats than ONNX, for models over 2 GiB and for files that do not load.
    """
    if version.format != ModelFormat.ONNX:
        raise ModelError(f"{version.name} is {version.format} and cannot be {verb}; only ONNX models can")
    if version.size_bytes > MAX_BYTES:
        raise ModelError(f"{version.name} is over 2 GiB and cannot be {verb}: one ONNX file cannot hold the result")
    path = library.main_path(version)
    try:
        model = onnx.load(path)
    except (OSError, DecodeError, onnx.checker.ValidationError) as error:
        raise ModelError(f"{version.name} cannot be {verb}: it does not load ({error}); add it again") from error
    refuse_endless(model, path)
    return model


def add_child(
    library: ModelLibrary, parent: ModelVersion, model: onnx.ModelProto, suffix: str, derivation: str
) -> ModelVersion:
    """Keep `model` as a version made from `parent`, named after it with `suffix`. Raises `ModelError`, `StoreError`."""
    with library.scratch() as folder:
        path = folder / "model.onnx"
        try:
            path.write_bytes(model.SerializeToString(deterministic=True))
        except (EncodeError, ValueError) as error:
            raise ModelError(f"the {derivation} version of {parent.name} is over 2 GiB; use a smaller model") from error
        name = f"{parent.name.removeprefix(PREFIX)}-{suffix}"
        return library.add(path, name=name, parent=parent.digest, derivation=derivation)
