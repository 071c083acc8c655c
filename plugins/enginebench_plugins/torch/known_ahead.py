"""Shapes and element types of a graph's tensors, as far as they follow from the file and the shapes of this run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import onnx
import torch

from enginebench_plugins import spec
from enginebench_plugins.torch.reading_order import subgraphs

_SMALL = 1024
"""Elements of a weight that may tell a shape."""


def has_unsigned(model: Any) -> bool:
    """Whether integers occur for which PyTorch lacks kernels."""
    few = {onnx.TensorProto.UINT16, onnx.TensorProto.UINT32, onnx.TensorProto.UINT64}
    values = (value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output))
    casts = (each.i for node in model.graph.node for each in node.attribute if each.name in {"to", "dtype"})
    tensors = (each.t.data_type for node in model.graph.node for each in node.attribute)
    weights = (weight.data_type for weight in model.graph.initializer)
    return any(kind in few for kinds in (values, casts, tensors, weights) for kind in kinds)


def inferred(model: Any, inputs: Sequence[spec.TensorSpec]) -> tuple[dict[str, tuple[int, ...]], dict[str, int]]:
    """The shapes that follow from those of the inputs, and element types, by ONNX's own inference.

    Weights are told by their shapes alone. What the file itself says of shapes within is left out: it may be of another
    batch.
    """
    skeleton = onnx.ModelProto(ir_version=model.ir_version)
    skeleton.opset_import.extend(model.opset_import)
    skeleton.functions.extend(model.functions)
    graph = skeleton.graph
    graph.name = model.graph.name
    graph.node.extend(model.graph.node)
    given = {tensor.name: tensor.shape for tensor in inputs}
    for value in model.graph.input:
        if value.name in given:
            kind = value.type.tensor_type.elem_type
            graph.input.append(onnx.helper.make_tensor_value_info(value.name, kind, list(given[value.name])))
    for weight in model.graph.initializer:
        graph.input.append(onnx.helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims)))
        if torch.Size(weight.dims).numel() <= _SMALL:
            graph.initializer.append(weight)
    for value in model.graph.output:
        graph.output.append(onnx.ValueInfoProto(name=value.name))
    shapes = {name: tuple(size or 0 for size in shape) for name, shape in given.items()}
    types = {value.name: value.type.tensor_type.elem_type for value in graph.input}
    try:
        inferred = onnx.shape_inference.infer_shapes(skeleton, data_prop=True).graph
    except (onnx.shape_inference.InferenceError, ValueError, RuntimeError):
        return shapes, types
    values = list(_values(inferred))
    seen = Counter(value.name for value in values)
    for value in values:
        if seen[value.name] > 1:  # both branches of an If may call a tensor of theirs so
            continue
        tensor = value.type.tensor_type
        types[value.name] = tensor.elem_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            shapes[value.name] = tuple(dim.dim_value for dim in tensor.shape.dim)
    return shapes, types


def _values(graph: Any) -> Iterator[Any]:
    """What is told of the tensors of a graph and of those in the branches within it."""
    yield from graph.value_info
    yield from graph.output
    for node in graph.node:
        if node.op_type == "If":
            for branch in subgraphs(node):
                yield from _values(branch)
