"""The shapes of all tensors of an ONNX graph, for inputs whose shapes are known.

ONNX infers most of them. It does not know operators of ONNX Runtime, for which a standard operator of the same output
shape stands in, and it does not carry all of the integer arithmetic that exporters write around a Reshape, which is
worked out here where shapes are still missing.
"""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, numpy_helper, shape_inference

from enginebench_controller.model.shape_arithmetic import Values, known_values, stated_values
from enginebench_controller.model.stand_ins import stand_ins
from enginebench_controller.model.tensors import Tensor, dtype_name

_MAX_ROUNDS = 16
"""How often inference and arithmetic take turns; each round gets past one more Reshape with computed sizes."""


def bound_copy(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """A copy of the model with these input shapes; what the file says of inner shapes is forgotten, as it may be old.

    Only what custom operators promise of their outputs stays, with the names of dimensions resolved.
    """
    bound = onnx.ModelProto()
    bound.CopyFrom(model)
    sizes = _named_sizes(bound.graph, shapes)
    standard = {name for node in bound.graph.node if _is_standard(node) for name in node.output}
    promised = [value for value in bound.graph.value_info if value.name not in standard]
    bound.graph.ClearField("value_info")
    for value in promised:
        _resolve(value, sizes)
        bound.graph.value_info.append(value)
    for value in bound.graph.input:
        if value.name in shapes:
            _set_shape(value, shapes[value.name])
    for value in bound.graph.output:
        _resolve(value, sizes)
        if value.name in standard and value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return bound


def infer_tensors(model: onnx.ModelProto) -> tuple[dict[str, Tensor], Values]:
    """Types and shapes of the tensors of `model` (see `bound_copy`), which is changed on the way, and known values.

    Raises `ValueError` for a graph that ONNX cannot make anything of.
    """
    _rewrite(model.graph)
    tensors = _inferred(model)
    values = stated_values(model.graph)
    for _ in range(_MAX_ROUNDS):
        if _is_complete(model.graph, tensors):
            break
        values |= known_values(model, tensors)
        if not _fix(model.graph, values):
            break
        tensors |= {name: tensor for name, tensor in _inferred(model).items() if tensor.shape is not None}
    return tensors, values


def _is_complete(graph: onnx.GraphProto, tensors: Mapping[str, Tensor]) -> bool:
    """Every shape is known, and there is no trip count or condition left to work out."""
    names = {name for node in graph.node for name in node.input if name} | {value.name for value in graph.output}
    return all(name in tensors and tensors[name].shape is not None for name in names) and not any(
        node.op_type in {"If", "Loop"} for node in graph.node
    )


def _is_standard(node: onnx.NodeProto) -> bool:
    return node.domain in {"", "ai.onnx", "ai.onnx.ml"}


def _named_sizes(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """Sizes by the names that the graph's inputs give to dimensions."""
    sizes: dict[str, int] = {}
    for value in graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            if dim.dim_param:
                sizes[dim.dim_param] = size
    return sizes


def _resolve(value: onnx.ValueInfoProto, sizes: Mapping[str, int]) -> None:
    for dim in value.type.tensor_type.shape.dim:
        if dim.dim_param in sizes:
            dim.dim_value = sizes[dim.dim_param]


def _set_shape(value: onnx.ValueInfoProto, sizes: Iterable[int]) -> None:
    shape = value.type.tensor_type.shape
    shape.ClearField("dim")
    for size in sizes:
        shape.dim.add(dim_value=size)


def _rewrite(graph: onnx.GraphProto) -> None:
    """Put stand-ins where ONNX could not infer, and dense weights where it sees no sparse ones."""
    for sparse in graph.sparse_initializer:
        graph.initializer.append(
            onnx.TensorProto(name=sparse.values.name, data_type=sparse.values.data_type, dims=sparse.dims)
        )
    graph.ClearField("sparse_initializer")
    if all(_is_standard(node) for node in graph.node):
        return
    weights = {tensor.name: tensor for tensor in graph.initializer}
    nodes = [one for node in graph.node for one in stand_ins(node, weights, graph)]
    graph.ClearField("node")
    graph.node.extend(nodes)


def _inferred(model: onnx.ModelProto) -> dict[str, Tensor]:
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True)
    except (shape_inference.InferenceError, ValueError) as error:
        raise ValueError(str(error).splitlines()[0][:300]) from error
    graph = inferred.graph
    found = {value.name: _tensor(value) for value in (*graph.value_info, *graph.input, *graph.output)}
    found |= {one.name: Tensor(dtype_name(one.data_type), tuple(one.dims)) for one in graph.initializer}
    return found


def _tensor(value: onnx.ValueInfoProto) -> Tensor:
    tensor = value.type.tensor_type
    sizes = [int(dim.dim_value) if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
    is_known = tensor.HasField("shape") and min(sizes, default=0) >= 0
    return Tensor(dtype_name(tensor.elem_type), tuple(sizes) if is_known else None)


def _fix(graph: onnx.GraphProto, values: Values) -> bool:
    """Replace nodes whose output is known by that output, so that inference sees it; false where there are none."""
    fixed = [node for node in graph.node if node.output and all(name in values for name in node.output)]
    if not fixed:
        return False
    gone = {id(node) for node in fixed}
    kept = [node for node in graph.node if id(node) not in gone]
    graph.initializer.extend(_constants(fixed, values))
    graph.ClearField("node")
    graph.node.extend(kept)
    return True


def _constants(nodes: Iterable[onnx.NodeProto], values: Mapping[str, NDArray[np.generic]]) -> Iterator[TensorProto]:
    for node in nodes:
        for name in node.output:
            yield numpy_helper.from_array(np.asarray(values[name]), name)
