"""What an ONNX graph tells before it becomes modules: the order of its nodes, the values it holds, shapes and types."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import onnx
import torch

from enginebench_plugins import spec
from enginebench_plugins.engines.torch.dtypes import from_proto
from enginebench_plugins.engines.torch.operators.registry import Node


def subgraphs(node: Any) -> Iterator[Any]:
    """The bodies that a node has among its attributes."""
    for each in node.attribute:
        if each.type == onnx.AttributeProto.GRAPH:
            yield each.g
        elif each.type == onnx.AttributeProto.GRAPHS:
            yield from each.graphs


def read_around(nodes: Iterable[Any], own: set[str], outputs: Iterable[str] = ()) -> Iterator[str]:
    """What the nodes of a body read that the body does not make, `own` being its inputs and weights."""
    made = set(own)
    nodes = list(nodes)
    for node in nodes:
        made.update(node.output)
    for node in nodes:
        yield from (name for name in _reads(node) if name not in made)
    yield from (name for name in outputs if name not in made)


def _reads(node: Any) -> Iterator[str]:
    """What a node reads, the bodies within it included."""
    yield from filter(None, node.input)
    for graph in subgraphs(node):
        own = {value.name for value in graph.input} | {weight.name for weight in graph.initializer}
        yield from read_around(graph.node, own, [value.name for value in graph.output])


def in_order(nodes: Sequence[Any]) -> list[Any]:
    """Each node after those that make what it reads, and otherwise as the file has them."""
    makers = {name: place for place, node in enumerate(nodes) for name in node.output if name}
    waiting = [{makers[name] for name in _reads(node) if name in makers} for node in nodes]
    if all(max(needed, default=-1) < place for place, needed in enumerate(waiting)):
        return list(nodes)
    readers: dict[int, list[int]] = {}
    for place, needed in enumerate(waiting):
        for maker in needed:
            readers.setdefault(maker, []).append(place)
    ready = [place for place, needed in enumerate(waiting) if not needed]
    order = []
    for place in ready:  # grows while it is gone through
        order.append(nodes[place])
        for reader in readers.get(place, ()):
            waiting[reader].discard(place)
            if not waiting[reader]:
                ready.append(reader)
    if len(order) < len(nodes):
        raise ValueError("the model's nodes read from each other in a circle")
    return order


def attributes_of(proto: Any, given: Mapping[str, Any]) -> dict[str, Any]:
    """A node's attributes by name; those that refer to a function's own are looked up, or left out."""
    found = {}
    for each in proto.attribute:
        if each.ref_attr_name:
            if each.ref_attr_name in given:
                found[each.name] = given[each.ref_attr_name]
        else:
            found[each.name] = attribute_value(each, given)
    return found


def attribute_value(each: Any, _given: Mapping[str, Any]) -> Any:
    """An attribute as a Python value: a tensor as a `torch.Tensor`, a graph as it is."""
    value = onnx.helper.get_attribute_value(each)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return from_proto(value)
    if isinstance(value, onnx.GraphProto):
        return value
    if each.type in {onnx.AttributeProto.STRINGS, onnx.AttributeProto.INTS, onnx.AttributeProto.FLOATS}:
        return [one.decode("utf-8", "replace") if isinstance(one, bytes) else one for one in value]
    return value


def constant_value(node: Node) -> Any:
    """What a Constant node holds, by the attribute that it holds it in."""
    ((name, value),) = node.attributes.items()
    if name == "sparse_value":
        return _dense(value)
    if name.startswith("value_string"):
        import numpy as np

        return np.array(value, dtype=object)
    if name == "value":
        return value
    return torch.tensor(value, dtype=torch.int64 if name.startswith("value_int") else torch.float32)


def _dense(sparse: Any) -> Any:
    values, places = from_proto(sparse.values), from_proto(sparse.indices)
    whole = torch.zeros(tuple(sparse.dims), dtype=values.dtype)
    if places.ndim == 2:
        whole[tuple(places.unbind(1))] = values
    else:
        whole.view(-1)[places] = values
    return whole


def weights_of(graph: Any) -> dict[str, Any]:
    """What the graph itself holds, by name."""
    dense = {weight.name: from_proto(weight) for weight in graph.initializer}
    return dense | {sparse.values.name: _dense(sparse) for sparse in graph.sparse_initializer}


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
