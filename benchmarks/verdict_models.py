"""Models with a planted slow-down: a copy with more 1 × 1 convolutions, which change no output but for rounding."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

MOST_ADDED = 4


@dataclass(frozen=True)
class _Place:
    """A tensor of shape (1, channels, height, width) after which a convolution may go."""

    tensor: str
    channels: int
    pixels: int

    @property
    def macs(self) -> int:
        """The multiplications that one 1 × 1 convolution adds there."""
        return self.channels**2 * self.pixels


def write_with_fixed_batch(model: onnx.ModelProto, path: Path, *, note: str = "") -> Path:
    """Write a model with all open dimensions 1; a `note` makes an equal model another file."""
    for value in (*model.graph.input, *model.graph.output):
        for dimension in value.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.dim_value = 1
    model.doc_string = note
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(path))
    return path


def slowed(model: onnx.ModelProto, share: float) -> onnx.ModelProto:
    """A copy of a model of fixed shapes whose convolutions multiply by this share more, as nearly as one to four added
    ones of one size can.

    How much longer that takes is an engine's affair, and measured.
    """
    inferred = shape_inference.infer_shapes(model)
    wanted = share * sum(_macs(inferred))
    chosen, count = min(
        ((place, count) for place in _places(inferred) for count in range(1, MOST_ADDED + 1)),
        key=lambda one: (abs(one[0].macs * one[1] - wanted), one[1]),
    )
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    _insert(copied.graph, chosen, count)
    return copied


def _shapes(model: onnx.ModelProto) -> dict[str, tuple[int, ...]]:
    known = (*model.graph.value_info, *model.graph.input, *model.graph.output)
    return {one.name: tuple(size.dim_value for size in one.type.tensor_type.shape.dim) for one in known}


def _macs(model: onnx.ModelProto) -> Iterator[int]:
    """The multiplications of each convolution."""
    shapes = _shapes(model)
    weights = {one.name: tuple(one.dims) for one in model.graph.initializer}
    for node in model.graph.node:
        if node.op_type == "Conv" and node.input[1] in weights:
            yield prod(shapes[node.output[0]]) * prod(weights[node.input[1]][1:])


def _places(model: onnx.ModelProto) -> Iterator[_Place]:
    """After activations, where fused operators end."""
    shapes, ends = _shapes(model), {one.name for one in model.graph.output}
    for node in model.graph.node:
        shape = shapes.get(node.output[0], ())
        if node.op_type in ("Relu", "Clip") and len(shape) == 4 and all(shape) and node.output[0] not in ends:
            yield _Place(node.output[0], shape[1], shape[2] * shape[3])


def _insert(graph: onnx.GraphProto, place: _Place, count: int) -> None:
    names = [place.tensor, *(f"{place.tensor}_slowed_{number}" for number in range(count))]
    identity = np.eye(place.channels, dtype=np.float32)[:, :, None, None]
    graph.initializer.append(numpy_helper.from_array(identity, f"{place.tensor}_identity"))
    for node in graph.node:
        for number, name in enumerate(node.input):
            if name == place.tensor:
                node.input[number] = names[-1]
    at = 1 + next(number for number, node in enumerate(graph.node) if place.tensor in node.output)
    for number in range(count):
        added = helper.make_node(
            "Conv", [names[number], f"{place.tensor}_identity"], [names[number + 1]], f"slowed_{number}"
        )
        graph.node.insert(at + number, added)
