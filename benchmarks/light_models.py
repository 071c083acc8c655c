"""The nine architectures inside the onnx wheel, with seeded weights in place of their constant ones.

Their files make every weight of one value by a ConstantOfShape, so that activations soon overflow, and PyTorch's
importer reads weights from the file only. Graph, operators and opset (9) stay as they are.
"""

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
IR_VERSION = 8
"""The newest that every importer reads, and one whose initializers need not be inputs as well."""


def light_models() -> dict[str, Path]:
    """The files as they come, by the names of the architectures."""
    return {path.stem.removeprefix("light_"): path for path in sorted(LIGHT.glob("light_*.onnx"))}


def seeded(model: onnx.ModelProto, seed: int = 0) -> onnx.ModelProto:
    """Replace what each ConstantOfShape makes by an initializer, in place; returns the model."""
    graph = model.graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    made = {node.output[0]: tuple(stored[node.input[0]]) for node in _fills(graph)}
    near_one = set(_near_one(graph))
    random = np.random.default_rng(seed)
    weights = [
        numpy_helper.from_array(_values(random, shape, near_one=name in near_one), name) for name, shape in made.items()
    ]
    shapes = {node.input[0] for node in _fills(graph)}
    nodes = [node for node in graph.node if node.output[0] not in made]
    kept = [tensor for tensor in graph.initializer if tensor.name not in shapes]
    inputs = [value for value in graph.input if value.name not in stored]
    for field, values in ((graph.node, nodes), (graph.initializer, [*kept, *weights]), (graph.input, inputs)):
        del field[:]
        field.extend(values)
    model.ir_version = IR_VERSION
    return model


def _fills(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    return (node for node in graph.node if node.op_type == "ConstantOfShape")


def _near_one(graph: onnx.GraphProto) -> Iterator[str]:
    """Scales and variances: of BatchNormalization, and of what is unsqueezed for a Mul."""
    factors = {name for node in graph.node if node.op_type == "Mul" for name in node.input}
    for node in graph.node:
        if node.op_type == "BatchNormalization":
            yield from (node.input[1], node.input[4])
        elif node.op_type == "Unsqueeze" and node.output[0] in factors:
            yield node.input[0]


def _values(random: np.random.Generator, shape: tuple[int, ...], *, near_one: bool) -> NDArray[np.float32]:
    """Weights that keep the variance (He et al. 2015) and small shifts, as trained networks have them."""
    if len(shape) > 1:
        return random.standard_normal(shape, dtype=np.float32) * np.float32(math.sqrt(2 / math.prod(shape[1:])))
    return random.uniform(-0.1, 0.1, shape).astype(np.float32) + np.float32(near_one)
