"""The model as DeepSparse takes it: a file with every input's shape fixed. And the processor as DeepSparse sees it."""

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx

from enginebench_plugins import spec
from enginebench_plugins.toolkit.onnx_model import float_precision, output_names, run_inputs
from enginebench_proto.agreed.labels import node_labels

LARGEST_FILE_BYTES = 1 << 30
"""Beyond this, weights are written beside the model: protobuf refuses files of 2 GiB."""

IR_VERSION = 9
OPERATOR_SETS = {"": (18, 19), "ai.onnx.ml": (3,)}
"""The newest that DeepSparse 1.8 reads, tried with files of one operator; it takes any number for other domains.

Of ONNX's set 19 it has no kernel for what its own compiler leaves to the fallback, such as Cast; of 18 it has.
"""

NEWEST_ELEMENT_TYPE = onnx.TensorProto.FLOAT8E5M2FNUZ
"""Of IR version 9. What a later version says with a new type, no earlier one can say."""

CHANGED_MEANING = frozenset({"DFT", "GridSample", "GroupNormalization"})
"""Operators that a set after 18 computes otherwise without any new attribute or input."""

INTEGERS = frozenset({onnx.TensorProto.INT8, onnx.TensorProto.UINT8})


@dataclass(frozen=True)
class DeepSparseNetwork:
    """A model file in a private folder, which goes when `folder` is cleaned up or dropped."""

    folder: "tempfile.TemporaryDirectory[str]"
    path: Path
    inputs: tuple[spec.TensorSpec, ...]
    output_names: tuple[str, ...]
    precision: str | None
    """The model's own floating precision; None when it has no floats."""
    readers: Mapping[str, str]
    """The node that reads a tensor, by its label, for tensors that only one reads."""
    prepared: tuple[str, ...] = ()
    """What was changed besides shapes, in short sentences."""

    @property
    def batch(self) -> int | None:
        """The first dimension when all inputs share it."""
        sizes = {tensor.shape[0] if tensor.shape else None for tensor in self.inputs}
        return sizes.pop() if len(sizes) == 1 else None


def write_network(model: Any, source: spec.ModelSource) -> DeepSparseNetwork:
    """Fix the shapes of this run in the model, restamp what DeepSparse knows under an older version, and write it.

    DeepSparse's own `input_shapes` is not used, for it writes the shapes into the caller's file. Raises
    `UnsupportedSettingsError` for shapes the model cannot have.
    """
    inputs = run_inputs(model, source)
    _fix(model, inputs)
    prepared = restamp(model)
    folder = tempfile.TemporaryDirectory(prefix="enginebench-deepsparse-")
    path = Path(folder.name) / "model.onnx"
    weights_bytes = sum(len(weight.raw_data) for weight in model.graph.initializer)
    onnx.save(model, str(path), save_as_external_data=weights_bytes > LARGEST_FILE_BYTES, location="weights.bin")
    return DeepSparseNetwork(
        folder, path, inputs, output_names(model), _precision(model), _only_readers(model), prepared
    )


def restamp(model: Any) -> tuple[str, ...]:
    """Lower, in place, versions newer than DeepSparse reads where everything in the model is in the older ones too.

    Returns a sentence for each. What is truly newer stays as it is, so that DeepSparse refuses it in its own words.
    """
    if any(each.data_type > NEWEST_ELEMENT_TYPE for each in model.graph.initializer):
        return ()
    sentences = [*_restamp_operator_sets(model)]
    if model.ir_version > IR_VERSION:
        sentences.append(f"IR version {model.ir_version} restamped as {IR_VERSION}")
        model.ir_version = IR_VERSION
    return tuple(sentences)


def _restamp_operator_sets(model: Any) -> Iterator[str]:
    nodes = list(_nodes([*model.graph.node, *(node for each in model.functions for node in each.node)]))
    for given in list(model.opset_import):
        domain = "" if given.domain == "ai.onnx" else given.domain
        older = [version for version in OPERATOR_SETS.get(domain, ()) if version < given.version]
        if not older:
            continue
        name = domain or "ONNX"
        used = [node for node in nodes if (node.domain or "") in {domain, given.domain}]
        if not used:
            model.opset_import.remove(given)
            yield f"operator set {name} {given.version} left out, for no node uses it"
        elif fitting := [one for one in older if all(_is_known(node, domain, one) for node in used)]:
            yield f"operator set {name} {given.version} restamped as {fitting[0]}, which computes these nodes alike"
            given.version = fitting[0]


def _nodes(nodes: Iterable[Any]) -> Iterator[Any]:
    """Nodes with those of their bodies."""
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for body in (attribute.g, *attribute.graphs):
                yield from _nodes(body.node)


def _is_known(node: Any, domain: str, version: int) -> bool:
    """Whether an older operator set says the same with this node: its schema has all that the node uses."""
    try:
        schema = onnx.defs.get_schema(node.op_type, version, domain)
    except onnx.defs.SchemaError:
        return False
    names = {attribute.name for attribute in node.attribute}
    fits = names <= schema.attributes.keys() and len(node.input) <= schema.max_input
    return fits and node.op_type not in CHANGED_MEANING


def _fix(model: Any, inputs: Iterable[spec.TensorSpec]) -> None:
    values = {value.name: value for value in model.graph.input}
    for tensor in inputs:
        for dimension, size in zip(values[tensor.name].type.tensor_type.shape.dim, tensor.shape, strict=True):
            dimension.dim_value = size


def _only_readers(model: Any) -> dict[str, str]:
    labelled = zip(node_labels(model.graph.node), model.graph.node, strict=True)
    reads = [(name, label) for label, node in labelled for name in node.input]
    readers = Counter(name for name, _ in reads)
    return {name: label for name, label in reads if readers[name] == 1}


def _precision(model: Any) -> str | None:
    """The model's own types, in which DeepSparse computes; "int8" where activations and weights are quantized."""
    if any(node.op_type == "QuantizeLinear" for node in model.graph.node) and any(
        weight.data_type in INTEGERS and len(weight.dims) > 1 for weight in model.graph.initializer
    ):
        return "int8"
    return float_precision(model)
