"""One node in PyTorch and in ONNX Runtime, on the same inputs."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch

from enginebench_plugins import spec
from enginebench_plugins.engines.torch.dtypes import from_array, to_array
from enginebench_plugins.engines.torch.graph import convert_graph

OPSETS = {"": 17, "ai.onnx.ml": 3, "com.microsoft": 1}
NUMBERS = {"U": 8, "O": 8}
"""ONNX's number for text, by NumPy's kind."""


def _number(array: Any) -> int:
    return NUMBERS.get(array.dtype.kind) or onnx.helper.np_dtype_to_tensor_dtype(array.dtype)


def model_of(
    nodes: Sequence[onnx.NodeProto], inputs: Mapping[str, Any], weights: Mapping[str, Any], opsets: Mapping[str, int]
) -> onnx.ModelProto:
    """A model whose outputs are those of the last node."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [value(name, _number(array), array.shape) for name, array in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in nodes[-1].output if name],
        [onnx.numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    used = {**OPSETS, **opsets}
    ids = [onnx.helper.make_opsetid(domain, version) for domain, version in used.items()]
    return onnx.helper.make_model(graph, opset_imports=ids, ir_version=9)


def run_torch(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """Through the plugin's own reader."""
    specs = [spec.TensorSpec(name, str(array.dtype), array.shape) for name, array in inputs.items()]
    with torch.inference_mode():
        return [to_array(each) for each in convert_graph(model, specs).module(*map(from_array, inputs.values()))]


def run_onnxruntime(model: onnx.ModelProto, inputs: Mapping[str, Any]) -> list[Any]:
    """Outputs in the graph's order."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(inputs)))


def assert_same(
    operator: str,
    inputs: Mapping[str, Any],
    outputs: int = 1,
    constants: Mapping[str, Any] | None = None,
    version: int | None = None,
    tolerance: float = 1e-5,
    **attributes: Any,
) -> list[Any]:
    """What ONNX Runtime gives, PyTorch gives. `operator` has its domain before a slash; an input may be None."""
    domain, _, kind = operator.rpartition("/")
    arrays = {name: np.asarray(array) for name, array in inputs.items() if array is not None}
    names = [name if array is not None else "" for name, array in inputs.items()] + list(constants or {})
    node = onnx.helper.make_node(kind, names, [f"y{place}" for place in range(outputs)], domain=domain, **attributes)
    model = model_of([node], arrays, constants or {}, {} if version is None else {domain: version})
    return assert_equal(run_torch(model, arrays), run_onnxruntime(model, arrays), tolerance)


def assert_equal(got: Sequence[Any], expected: Sequence[Any], tolerance: float = 1e-5) -> list[Any]:
    """Types, shapes and values."""
    assert len(got) == len(expected)
    for have, want in zip(got, expected, strict=True):
        if isinstance(want, list):
            assert have == want
            continue
        assert have.shape == want.shape
        assert have.dtype == want.dtype
        if want.dtype.kind == "O":
            assert have.tolist() == want.tolist()
        else:
            np.testing.assert_allclose(have, want, rtol=tolerance, atol=tolerance)
    return list(expected)
