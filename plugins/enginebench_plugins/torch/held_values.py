"""What a file holds, as Python values: attributes and weights."""

from collections.abc import Mapping
from typing import Any

import onnx
import torch

from enginebench_plugins.torch.operators.dtypes import from_proto
from enginebench_plugins.torch.operators.registry import Node


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
