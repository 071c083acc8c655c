"""The operators of a model that make other values each time, or remember what was before."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
from onnx import numpy_helper

from enginebench_controller.model.skeleton import load_skeleton
from enginebench_proto.agreed.words import ModelFormat

_DRAWING = frozenset({
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
})  # fmt: skip
_OF_OPENVINO = re.compile(r'type="(RandomUniform|Multinomial|ReadValue)"')


def random_operators(path: Path, model_format: str) -> tuple[str, ...] | None:
    """Their names, each once; None for a format that only its engine can read. Raises `ModelError` as reading does."""
    if model_format == ModelFormat.OPENVINO_IR:
        return tuple(sorted(set(_OF_OPENVINO.findall(path.read_text(encoding="utf-8", errors="replace")))))
    if model_format != ModelFormat.ONNX:
        return None
    model = load_skeleton(path)
    constants = {one.name: one for one in model.graph.initializer}
    bodies = (model.graph.node, *(one.node for one in model.functions))
    return tuple(sorted({name for nodes in bodies for name in _random(nodes, constants, path.parent)}))


def _random(nodes: Sequence[onnx.NodeProto], constants: dict[str, onnx.TensorProto], folder: Path) -> Iterator[str]:
    made = {
        node.output[0]: one.t
        for node in nodes
        for one in node.attribute
        if node.op_type == "Constant" and one.HasField("t")
    }
    for node in nodes:
        if node.op_type in _DRAWING or (node.op_type == "Dropout" and _trains(node, constants | made, folder)):
            yield node.op_type
        for one in node.attribute:
            if one.HasField("g"):
                inner = {tensor.name: tensor for tensor in one.g.initializer}
                yield from _random(one.g.node, constants | made | inner, folder)


def _trains(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto], folder: Path) -> bool:
    """Whether a Dropout drops anything: its third input says so, and is False where there is none."""
    if len(node.input) < 3 or not node.input[2]:
        return False
    told = constants.get(node.input[2])
    return told is None or bool(numpy_helper.to_array(told, base_dir=str(folder)).any())
