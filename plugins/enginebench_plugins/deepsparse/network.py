"""The model as DeepSparse takes it: a file with every input's shape fixed. And the processor as DeepSparse sees it."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from enginebench_plugins import spec
from enginebench_plugins.onnx_model import node_labels, output_names, run_inputs

LARGEST_FILE_BYTES = 1 << 30
"""Beyond this, weights are written beside the model: protobuf refuses files of 2 GiB."""

FLOATING = {
    onnx.TensorProto.FLOAT: "f32",
    onnx.TensorProto.FLOAT16: "f16",
    onnx.TensorProto.BFLOAT16: "bf16",
}


@dataclass(frozen=True)
class Network:
    """A model file in a private folder, which goes when `folder` is cleaned up or dropped."""

    folder: "tempfile.TemporaryDirectory[str]"
    path: Path
    inputs: tuple[spec.TensorSpec, ...]
    output_names: tuple[str, ...]
    precision: str | None
    """The model's own floating precision; None when it has no floats."""
    readers: Mapping[str, str]
    """The node that reads a tensor, by its label, for tensors that only one reads."""

    @property
    def batch(self) -> int | None:
        """The first dimension when all inputs share it."""
        sizes = {tensor.shape[0] if tensor.shape else None for tensor in self.inputs}
        return sizes.pop() if len(sizes) == 1 else None


def write_network(model: Any, source: spec.ModelSource) -> Network:
    """Fix the shapes of this run in the model, and write it.

    DeepSparse's own `input_shapes` is not used, for it writes the shapes into the caller's file. Raises
    `UnsupportedSettingsError` for shapes the model cannot have.
    """
    inputs = run_inputs(model, source)
    _fix(model, inputs)
    folder = tempfile.TemporaryDirectory(prefix="enginebench-deepsparse-")
    path = Path(folder.name) / "model.onnx"
    weights_bytes = sum(len(weight.raw_data) for weight in model.graph.initializer)
    onnx.save(model, str(path), save_as_external_data=weights_bytes > LARGEST_FILE_BYTES, location="weights.bin")
    return Network(folder, path, inputs, output_names(model), _precision(model), _only_readers(model))


def instruction_set(deepsparse: Any) -> str:
    """The vector instructions DeepSparse found, such as "avx2" or "avx512 vnni"."""
    architecture = deepsparse.cpu.cpu_architecture()
    return f"{architecture.isa} vnni" if architecture.vnni else str(architecture.isa)


def _fix(model: Any, inputs: Iterable[spec.TensorSpec]) -> None:
    values = {value.name: value for value in model.graph.input}
    for tensor in inputs:
        for dimension, size in zip(values[tensor.name].type.tensor_type.shape.dim, tensor.shape, strict=True):
            dimension.dim_value = size


def _only_readers(model: Any) -> dict[str, str]:
    labelled = zip(node_labels(model), model.graph.node, strict=True)
    reads = [(name, label) for label, node in labelled for name in node.input]
    readers = Counter(name for name, _ in reads)
    return {name: label for name, label in reads if readers[name] == 1}


def _precision(model: Any) -> str | None:
    values = [*model.graph.input, *model.graph.output]
    elements = {value.type.tensor_type.elem_type for value in values}
    elements |= {weight.data_type for weight in model.graph.initializer}
    found = {FLOATING[element] for element in elements if element in FLOATING}
    if not found:
        return None
    return found.pop() if len(found) == 1 else "mixed"
