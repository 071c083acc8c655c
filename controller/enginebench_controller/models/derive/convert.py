"""The OpenVINO IR of a model, its weights stored in FP16: made by OpenVINO in a process of its own, once."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from enginebench_controller.errors import ModelError
from enginebench_controller.models.inputs.shapes import GivenShape
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.models.zoo import PREFIX
from enginebench_controller.records import Derivation, DerivationKind, ModelVersion
from enginebench_proto.agreed.words import ModelFormat

SAVED_PROGRAMS = frozenset({ModelFormat.TORCHSCRIPT, ModelFormat.TORCH_EXPORT})
"""Formats whose files can run any code when they are loaded."""

TIME_LIMIT_SECONDS = 600.0


def convert_to_ir(
    library: ModelLibrary,
    version: ModelVersion,
    shapes: Mapping[str, GivenShape] | None = None,
    *,
    trusted: bool = False,
    time_limit_s: float = TIME_LIMIT_SECONDS,
) -> ModelVersion:
    """The child of `version` in OpenVINO IR with FP16 weights; made once and then found again.

    Open dimensions of an ONNX model stay open. A saved program (TorchScript, .pt2) does not tell its inputs: `shapes`
    names them in order, and their batch becomes an open dimension where the program allows it. It is loaded only
    where it is `trusted`, because it can run any code. Raises `ModelError` with the reason, `StoreError` when the
    library cannot be written.
    """
    shapes = shapes or {}
    derivation = Derivation(DerivationKind.CONVERTED, said=_said(version, shapes))
    if known := library.derived(version, derivation):
        return known
    _refuse_impossible(version, shapes, trusted=trusted)
    with library.scratch() as folder:
        path = folder / "model.xml"
        _export(version, _order(library.main_path(version), path, version, shapes), time_limit_s)
        name = f"{version.name.removeprefix(PREFIX)}-ir-fp16"
        return library.add(path, name=name, parent=version.digest, derivation=derivation)


def refuse_untrusted(version: ModelVersion, *, trusted: bool) -> None:
    """Raise `ModelError` for a saved program that nobody vouched for."""
    if version.format in SAVED_PROGRAMS and not trusted:
        raise ModelError(
            f"{version.name} is a saved program ({version.format}), which can run any code when it is loaded; "
            "give --trust if you know where it comes from"
        )


def _said(version: ModelVersion, shapes: Mapping[str, GivenShape]) -> str:
    """The inputs of a saved program, which does not tell them itself.

    Copies without the last words have its outputs under other names, and may have its inputs at other places.
    """
    if version.format not in SAVED_PROGRAMS:
        return ""
    inputs = ", ".join(
        f"{name}={shape.dtype or 'float32'}:{'x'.join('?' if size < 0 else str(size) for size in _open_dims(shape))}"
        for name, shape in shapes.items()
    )
    return f"{inputs}, outputs named as in the program"


def _refuse_impossible(version: ModelVersion, shapes: Mapping[str, GivenShape], *, trusted: bool) -> None:
    if version.format == ModelFormat.OPENVINO_IR:
        raise ModelError(f"{version.name} is an OpenVINO IR already")
    if importlib.util.find_spec("openvino") is None:
        raise ModelError(
            f"{version.name} cannot be converted: OpenVINO is not installed beside this command; "
            'pip install "enginebench[openvino]", or convert the model with ovc elsewhere and give the .xml'
        )
    if version.format not in SAVED_PROGRAMS:
        return
    refuse_untrusted(version, trusted=trusted)
    if importlib.util.find_spec("torch") is None:
        raise ModelError(
            f"{version.name} cannot be converted: reading {version.format} takes PyTorch, which is not installed beside"
            ' this command; pip install "enginebench[torch]", or export the model to ONNX and give that'
        )
    if not shapes:
        raise ModelError(
            f"{version.name} does not tell its inputs: give them in the model's order, such as "
            "--shape input=1x3x224x224"
        )


def _order(source: Path, output: Path, version: ModelVersion, shapes: Mapping[str, GivenShape]) -> dict[str, Any]:
    """What `ir_export` is told; the batch of every input stays open."""
    inputs = [[name, shape.dtype or "float32", _open_dims(shape)] for name, shape in shapes.items()]
    return {"format": version.format, "path": str(source), "output": str(output), "inputs": inputs}


def _open_dims(shape: GivenShape) -> list[int]:
    axis = 0 if shape.batch_axis is None else shape.batch_axis
    return [-1 if place == axis else size for place, size in enumerate(shape.dims or ())]


def _export(version: ModelVersion, order: Mapping[str, Any], time_limit_s: float) -> None:
    """Have the IR written by a child, whose crash or endless loop then is its own. Raises `ModelError`."""
    command = [sys.executable, "-P", "-m", "enginebench_controller.models.derive.ir_export"]
    try:
        done = subprocess.run(
            command, input=json.dumps(order), capture_output=True, text=True, timeout=time_limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        raise ModelError(f"{version.name} was not converted within {time_limit_s:.0f} s; it may never be") from None
    if done.returncode or not Path(order["output"]).is_file():
        raise ModelError(f"{version.name} cannot be converted to OpenVINO IR: {_reason(done, order['output'])}")


def _reason(done: "subprocess.CompletedProcess[str]", output: str) -> str:
    try:
        lines = Path(output + ".error").read_text().splitlines()
    except OSError:
        return f"the converter ended with code {done.returncode}"
    return " ".join(line.strip() for line in lines[-3:])[:600]
