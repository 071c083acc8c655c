"""The small models every engine is held against, each with an independent reference for its outputs.

Weights are seeded and scaled, so that different inputs give clearly different outputs: with naive weights all outputs
look alike, and no comparison can fail. Opset 13 and IR 8 are what the oldest engine's ONNX understands.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from enginebench_plugins import spec

OPSET = 13
IR_VERSION = 8
CHANNELS = 32
IMAGE = (3, 24, 24)
CLASSES = 10
VOCABULARY = 50
TOKENS = 6
HIDDEN = 8
ROWS, WIDTH, _LAYERS = 64, 512, 12

Arrays = dict[str, Any]


@dataclass(frozen=True)
class ContractModel:
    """A model file with open or fixed batch. Overrides of `reference` and `inputs_for` may mean any format."""

    path: Path
    format: spec.ModelFormat | str
    inputs: tuple[spec.TensorSpec, ...]
    outputs: tuple[str, ...]

    def at(self, batch: int) -> tuple[spec.TensorSpec, ...]:
        """The inputs with the open batch dimension set."""
        return tuple(
            replace(tensor, shape=tuple(batch if size is None else size for size in tensor.shape))
            for tensor in self.inputs
        )

    def source(self, batch: int) -> spec.ModelSource:
        """What a worker hands to the engine for this batch."""
        return spec.ModelSource(self.path, self.format, self.at(batch))

    def inputs_for(self, batch: int, seed: int) -> Arrays:
        """Seeded inputs: normal floats, and integers that are valid token numbers."""
        random = np.random.default_rng(seed)
        return {tensor.name: _content(tensor, random) for tensor in self.at(batch)}

    def reference(self, inputs: Mapping[str, Any]) -> Arrays:
        """The outputs by name, from the ONNX project's own evaluator in plain NumPy."""
        outputs = ReferenceEvaluator(str(self.path)).run(list(self.outputs), dict(inputs))
        return dict(zip(self.outputs, outputs, strict=True))


def names(model: ContractModel) -> set[str]:
    """All that a layer may give for its origin: nodes, and tensors with the weights and inputs among them."""
    graph = onnx.load(str(model.path)).graph
    tensors = {name for node in graph.node for name in (*node.input, *node.output)}
    return tensors | {node.name for node in graph.node}


def classifier(folder: Path, batch: int | None = None) -> ContractModel:
    """Two convolutions, pooling and a linear layer over float32 images; the batch is open unless it is given."""
    random = np.random.default_rng(1)
    weights = [
        _weight(random, "stem", (CHANNELS, IMAGE[0], 3, 3)),
        _weight(random, "body", (CHANNELS, CHANNELS, 3, 3)),
        _weight(random, "head", (CLASSES, CHANNELS), gain=3.0),
        numpy_helper.from_array(random.normal(size=CLASSES).astype(np.float32), "bias"),
    ]
    nodes = [
        helper.make_node("Conv", ["image", "stem"], ["c1"], "conv1", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"], "relu1"),
        helper.make_node("Conv", ["r1", "body"], ["c2"], "conv2", kernel_shape=[3, 3], pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"], "relu2"),
        helper.make_node("GlobalAveragePool", ["r2"], ["pooled"], "pool"),
        helper.make_node("Flatten", ["pooled"], ["features"], "flatten", axis=1),
        helper.make_node("Gemm", ["features", "head", "bias"], ["logits"], "gemm", transB=1),
    ]
    inputs = (spec.TensorSpec("image", "float32", (batch, *IMAGE)),)
    return _save(folder / "classifier.onnx", nodes, weights, inputs, {"logits": (batch, CLASSES)})


def embedding(folder: Path) -> ContractModel:
    """Token numbers (int64) and their float32 weights become a mean embedding and its scores; open batch."""
    random = np.random.default_rng(2)
    weights = [
        _weight(random, "table", (VOCABULARY, HIDDEN)),
        _weight(random, "projection", (HIDDEN, 4)),
    ]
    nodes = [
        helper.make_node("Gather", ["table", "tokens"], ["looked_up"], "gather", axis=0),
        helper.make_node("Mul", ["looked_up", "token_weights"], ["weighted"], "mul"),
        helper.make_node("ReduceMean", ["weighted"], ["embedding"], "mean", axes=[1], keepdims=0),
        helper.make_node("MatMul", ["embedding", "projection"], ["scores"], "matmul"),
    ]
    inputs = (
        spec.TensorSpec("tokens", "int64", (None, TOKENS)),
        spec.TensorSpec("token_weights", "float32", (None, TOKENS, 1)),
    )
    outputs = {"embedding": (None, HIDDEN), "scores": (None, 4)}
    return _save(folder / "embedding.onnx", nodes, weights, inputs, outputs)


def fused(folder: Path) -> ContractModel:
    """Linear layers over float32 rows, each with one of those behind it that engines fuse into it; open batch."""
    random = np.random.default_rng(3)
    weights = [
        numpy_helper.from_array(random.normal(size=HIDDEN).astype(np.float32), "shift"),
        numpy_helper.from_array(np.array([0, HIDDEN // 2, 2], np.int64), "halves"),
    ]
    nodes, outputs = [], {}
    for after, (beside, attributes, shape) in _FUSED.items():
        name = f"after_{after.lower()}"
        output = _AS_EXPORTED.get(after, name)
        weights.append(_weight(random, f"{name}_weight", (HIDDEN, HIDDEN)))
        nodes += [
            helper.make_node("MatMul", ["row", f"{name}_weight"], [f"{name}_sum"], f"{name}_matmul"),
            helper.make_node(after, [f"{name}_sum", *beside], [output], f"{name}_node", **attributes),
        ]
        outputs[output] = (None, *shape)
    return _save(folder / "fused.onnx", nodes, weights, (spec.TensorSpec("row", "float32", (None, HIDDEN)),), outputs)


_FUSED: Mapping[str, tuple[tuple[str, ...], Mapping[str, Any], tuple[int, ...]]] = {
    "Relu": ((), {}, (HIDDEN,)),
    "Sigmoid": ((), {}, (HIDDEN,)),
    "Tanh": ((), {}, (HIDDEN,)),
    "Softmax": ((), {"axis": 1}, (HIDDEN,)),
    "Add": (("shift",), {}, (HIDDEN,)),
    "Mul": (("shift",), {}, (HIDDEN,)),
    "Identity": ((), {}, (HIDDEN,)),
    "Reshape": (("halves",), {}, (HIDDEN // 2, 2)),
}
"""By operator: its further inputs, its attributes, and the sizes of an item of its output."""

_AS_EXPORTED: Mapping[str, str] = {
    "Sigmoid": "495",
    "Tanh": "/head/Tanh_output_0",
    "Add": "Add:0",
    "Mul": "onnx::Mul_12",
}
"""Names of outputs by operator, as exporters of PyTorch and TensorFlow give them: no identifier among them."""


def heavy(folder: Path) -> ContractModel:
    """Linear layers over float32 rows, 400 million operations an item, so that its time is that of computing them."""
    random = np.random.default_rng(4)
    weights, nodes, last = [], [], "rows"
    for layer in range(_LAYERS):
        weights.append(_weight(random, f"weight_{layer}", (WIDTH, WIDTH)))
        nodes += [
            helper.make_node("MatMul", [last, f"weight_{layer}"], [f"sum_{layer}"], f"matmul_{layer}"),
            helper.make_node("Relu", [f"sum_{layer}"], [last := f"out_{layer}"], f"relu_{layer}"),
        ]
    inputs = (spec.TensorSpec("rows", "float32", (None, ROWS, WIDTH)),)
    return _save(folder / "heavy.onnx", nodes, weights, inputs, {last: (None, ROWS, WIDTH)})


def with_external_data(model: ContractModel, folder: Path) -> ContractModel:
    """The same model with its weights in a file beside it."""
    folder.mkdir()
    path = folder / "external.onnx"
    proto = onnx.load(str(model.path))
    onnx.save(proto, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    return replace(model, path=path)


def _save(
    path: Path,
    nodes: list[onnx.NodeProto],
    weights: list[onnx.TensorProto],
    inputs: tuple[spec.TensorSpec, ...],
    outputs: Mapping[str, tuple[int | None, ...]],
) -> ContractModel:
    graph = helper.make_graph(
        nodes,
        path.stem,
        [_value_info(tensor.name, tensor.dtype, tensor.shape) for tensor in inputs],
        [_value_info(name, "float32", shape) for name, shape in outputs.items()],
        weights,
    )
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, str(path))
    return ContractModel(path, spec.ModelFormat.ONNX, inputs, tuple(outputs))


def _value_info(name: str, dtype: str, shape: tuple[int | None, ...]) -> onnx.ValueInfoProto:
    element = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}[dtype]
    return helper.make_tensor_value_info(name, element, ["batch" if size is None else size for size in shape])


def _weight(random: np.random.Generator, name: str, shape: tuple[int, ...], gain: float = 1.0) -> onnx.TensorProto:
    fan_in = int(np.prod(shape[1:]))
    values = random.normal(scale=gain * np.sqrt(2 / fan_in), size=shape)
    return numpy_helper.from_array(values.astype(np.float32), name)


def _content(tensor: spec.TensorSpec, random: np.random.Generator) -> Any:
    shape: Any = tensor.shape  # without open dimensions
    if np.issubdtype(np.dtype(tensor.dtype), np.integer):
        return random.integers(0, VOCABULARY, size=shape, dtype=tensor.dtype)
    # Pooling averages white noise away, so every item and channel gets a mean of its own.
    means: Any = random.normal(size=shape[:2] + (1,) * (len(shape) - 2))
    return (means + random.normal(size=shape)).astype(tensor.dtype)
