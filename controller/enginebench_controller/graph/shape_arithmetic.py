"""The small tensors of a graph that can be worked out without running it: sizes, counts, axes, and what is made of
them."""

import math
from collections.abc import Iterator

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from enginebench_controller.graph.source_graph import Tensor
from enginebench_controller.models.formats.skeleton import has_payload

Values = dict[str, NDArray[np.generic]]

MAX_ELEMENTS = 1024
_MAX_FLOATS = 16
"""Sizes are integers, apart from the scales of a Resize; bigger floating tensors are weights."""

_INTEGERS = frozenset({onnx.TensorProto.INT64, onnx.TensorProto.INT32, onnx.TensorProto.BOOL})

_WORKED_OUT = frozenset({
    "Abs", "Add", "And", "Cast", "CastLike", "Ceil", "Clip", "Concat", "ConstantOfShape", "CumSum", "Div", "Equal",
    "Expand", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Greater", "GreaterOrEqual", "Identity",
    "Less", "LessOrEqual", "Max", "Min", "Mod", "Mul", "Neg", "NonZero", "Not", "Or", "Pad", "Pow", "Range",
    "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "Reshape", "Round", "ScatterElements",
    "ScatterND", "Sign", "Slice", "Split", "Sqrt", "Squeeze", "Sub", "Sum", "Tile", "Transpose", "Trilu", "Unsqueeze",
    "Where", "Xor",
})  # fmt: skip


def stated_values(graph: onnx.GraphProto) -> Values:
    """The small integer weights and Constants of a graph, by name."""
    stated = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "Constant":
            stated.update((node.output[0], one.t) for one in node.attribute if one.name == "value")
    return {
        name: numpy_helper.to_array(tensor)
        for name, tensor in stated.items()
        if tensor.data_type in _INTEGERS and math.prod(tensor.dims) <= MAX_ELEMENTS and has_payload(tensor)
    }


def known_values(model: onnx.ModelProto, tensors: dict[str, Tensor]) -> Values:
    """What is known without an input: small weights, shapes of tensors of known shape, and arithmetic on those."""
    values = dict(_small_weights(model.graph))
    for node in model.graph.node:
        if node.domain in {"", "ai.onnx"} and not all(name in values for name in node.output):
            values |= _outputs(node, values, tensors, model)
    return values


def _small_weights(graph: onnx.GraphProto) -> Iterator[tuple[str, NDArray[np.generic]]]:
    for tensor in graph.initializer:
        if math.prod(tensor.dims) <= MAX_ELEMENTS and has_payload(tensor) and tensor.data_type != tensor.STRING:
            values = numpy_helper.to_array(tensor)
            if _is_worth_keeping(values):
                yield tensor.name, values


def _outputs(node: onnx.NodeProto, values: Values, tensors: dict[str, Tensor], model: onnx.ModelProto) -> Values:
    if node.op_type in {"Shape", "Size"}:
        return _sizes(node, tensors)
    if node.op_type != "Constant" and (
        node.op_type not in _WORKED_OUT or not all(name in values for name in node.input if name)
    ):
        return {}
    if not all(_is_small(tensors.get(name)) for name in node.output):
        return {}
    return _run(node, values, model)


def _is_small(tensor: Tensor | None) -> bool:
    """Also true where the shape is not known yet: then its inputs are small, and `_run` looks at the output."""
    if tensor is None or tensor.elements is None:
        return True
    return tensor.elements <= (_MAX_FLOATS if "float" in (tensor.dtype or "") else MAX_ELEMENTS)


def _sizes(node: onnx.NodeProto, tensors: dict[str, Tensor]) -> Values:
    tensor = tensors.get(node.input[0]) if node.input else None
    if tensor is None or tensor.shape is None:
        return {}
    if node.op_type == "Size":
        return {node.output[0]: np.array(math.prod(tensor.shape), np.int64)}
    ends = {attribute.name: attribute.i for attribute in node.attribute}
    return {node.output[0]: np.array(tensor.shape[ends.get("start") : ends.get("end")], np.int64)}


def _run(node: onnx.NodeProto, values: Values, model: onnx.ModelProto) -> Values:
    """The node's outputs by ONNX's reference implementation; nothing where it cannot do it or they are big."""
    from onnx.reference import ReferenceEvaluator  # noqa: PLC0415  # 10 MB and 0.1 s that most commands do not need

    feeds = {name: values[name] for name in node.input if name}
    if not _stays_small(node, feeds):
        return {}
    inputs = [helper.make_empty_tensor_value_info(name) for name in feeds]
    outputs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "one", inputs, outputs)
    single = helper.make_model(graph, opset_imports=model.opset_import, ir_version=8)
    try:
        found = ReferenceEvaluator(single).run(None, feeds)
    except Exception:  # whatever it raises, the value is then not known
        return {}
    arrays = {name: np.asarray(array) for name, array in zip(filter(None, node.output), found, strict=True)}
    return arrays if all(map(_is_worth_keeping, arrays.values())) else {}


def _is_worth_keeping(array: NDArray[np.generic]) -> bool:
    return array.size <= (MAX_ELEMENTS if array.dtype.kind in "iub" else _MAX_FLOATS)


def _stays_small(node: onnx.NodeProto, feeds: Values) -> bool:
    """False for the few operators whose output can be huge although their inputs are small."""
    inputs = [feeds[name] for name in node.input if name]
    match node.op_type:
        case "ConstantOfShape":
            return math.prod(map(int, inputs[0])) <= MAX_ELEMENTS
        case "Expand":
            return math.prod(map(int, inputs[1])) <= MAX_ELEMENTS
        case "Tile":
            return inputs[0].size * math.prod(map(int, inputs[1])) <= MAX_ELEMENTS
        case "Range":
            start, limit, step = (float(one.item()) for one in inputs)
            return step != 0 and (limit - start) / step <= MAX_ELEMENTS
        case "Pad":
            return bool(np.all(np.abs(inputs[1].astype(np.int64)) <= MAX_ELEMENTS)) and inputs[0].ndim <= 2
    return True
