"""Run as a process of its own: writes a model as OpenVINO IR with FP16 weights. See `convert`.

It alone imports OpenVINO and PyTorch here. One JSON object on standard input says what to do: `format`, `path`,
`output` (the .xml to write) and `inputs`, a list of [name, NumPy dtype, dims] with -1 for an open dimension, needed for
formats that do not tell their inputs. Where it cannot, it writes why to `output` + ".error" and ends with code 1.
"""

import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from enginebench_proto.agreed.exported_programs import ProgramInputs, places, returned_by
from enginebench_proto.agreed.words import ModelFormat

Input = tuple[str, str, list[int]]


def main() -> int:
    """Carry out the order on standard input."""
    order = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    try:
        _export(ModelFormat(order["format"]), order["path"], order["inputs"], order["output"])
    except Exception as error:  # whatever a converter raises is told in its own words
        Path(order["output"] + ".error").write_text(str(error).strip() or type(error).__name__)
        return 1
    return 0


def _export(kind: ModelFormat, path: str, inputs: Sequence[Input], output: str) -> None:
    # The converter reports what it converts to its makers unless this package is absent; users' models are theirs.
    sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]  # None makes its import fail
    import openvino  # noqa: PLC0415  # an engine, imported only in this process

    model = openvino.Core().read_model(path) if kind is ModelFormat.ONNX else _from_torch(openvino, kind, path, inputs)
    openvino.save_model(model, output, compress_to_fp16=True)


def _from_torch(openvino: Any, kind: ModelFormat, path: str, inputs: Sequence[Input]) -> Any:
    """The network of a saved program, with inputs of the given names and outputs named as our PyTorch plugin does."""
    import torch  # noqa: PLC0415  # an engine, imported only in this process

    if kind is ModelFormat.TORCHSCRIPT:
        program = torch.jit.load(path, map_location="cpu").eval()
        typed = [(openvino.PartialShape(dims), openvino.Type(dtype)) for _, dtype, dims in inputs]
        model = openvino.convert_model(program, input=typed)
        returned = _tuples(torch, program.forward.schema.returns[0].type)
        if len(list(places(returned))) != len(model.outputs):  # lists do not tell how long they are
            returned = [torch.empty(0)] * len(model.outputs)
    else:
        exported = torch.export.load(path)
        module = exported.module()
        inputs = ProgramInputs(module).in_order({one[0]: one for one in inputs})
        model = openvino.convert_model(exported)
        returned = returned_by(module)
    if len(model.inputs) != len(inputs):
        raise ValueError(f"the program has {len(model.inputs)} inputs, and the shapes given name {len(inputs)}")
    for port, (name, _, dims) in zip(model.inputs, inputs, strict=True):
        shape = openvino.PartialShape(dims)
        port.get_tensor().set_names({name})
        if not port.get_partial_shape().compatible(shape):
            raise ValueError(f"input {name!r} takes {port.get_partial_shape()}, and {shape} was given")
    outputs = [name for name, _ in places(returned)]
    if len(outputs) != len(model.outputs):
        raise ValueError(f"the program returns {len(outputs)} tensors, and OpenVINO makes {len(model.outputs)} of them")
    for port, name in zip(model.outputs, outputs, strict=True):
        port.get_tensor().set_names({name})
    return model


def _tuples(torch: Any, kind: Any) -> Any:
    """What stands in for a value of a TorchScript type: tensors, and tuples of them."""
    return tuple(_tuples(torch, each) for each in kind.elements()) if kind.kind() == "TupleType" else torch.empty(0)


if __name__ == "__main__":
    sys.exit(main())
