"""Pruned versions: the smallest weights of every layer become zero. Han et al., 2015, without the retraining."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from enginebench_controller.errors import ModelError
from enginebench_controller.models.bounded import deriving
from enginebench_controller.models.library import ModelLibrary, add_child, load_whole
from enginebench_controller.records import Derivation, DerivationKind, ModelVersion
from enginebench_controller.records.model import PrunableWeight

_WEIGHT_INPUTS = {"Conv": (1,), "Gemm": (0, 1), "MatMul": (0, 1)}
_PASSED_THROUGH = {"DequantizeLinear", "Identity", "Transpose", "Cast"}
_PERCENT = np.arange(100) / 100


@dataclass(frozen=True)
class _Weight:
    name: str
    tensor: onnx.TensorProto
    node: onnx.NodeProto


def prune_weights(model: onnx.ModelProto, sparsity: float | Mapping[str, float]) -> int:
    """Zero the share `sparsity` of each weight of Conv, Gemm and MatMul, in place; how many tensors that were.

    With a mapping only the weights it names are touched, each with a share of its own.
    """
    weights = _distinct(model.graph)
    chosen = {name: sparsity.get(name, 0.0) if isinstance(sparsity, Mapping) else sparsity for name in weights}
    pruned = {name: share for name, share in chosen.items() if share > 0}
    for name, share in pruned.items():
        tensor = weights[name].tensor
        values = numpy_helper.to_array(tensor).copy()
        # A stable sort, so that equal magnitudes fall the same way on every machine.
        order = np.argsort(_absolute(values), kind="stable")
        values.reshape(-1)[order[: round(share * values.size)]] = 0
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return len(pruned)


def weight_magnitudes(model: onnx.ModelProto) -> tuple[PrunableWeight, ...]:
    """The weights that pruning reaches, in the order of the graph."""
    return tuple(_magnitudes(weight) for weight in _distinct(model.graph).values())


def _magnitudes(weight: _Weight) -> PrunableWeight:
    values = _absolute(numpy_helper.to_array(weight.tensor))
    levels = np.quantile(values, _PERCENT, method="lower") if values.size else np.zeros_like(_PERCENT)
    groups = next((one.i for one in weight.node.attribute if one.name == "group"), 1)
    return PrunableWeight(weight.name, int(values.size), tuple(map(float, levels)), groups > 1)


def _absolute(values: NDArray[np.generic]) -> NDArray[np.float32]:
    return np.abs(values.astype(np.float32)).ravel()


def _distinct(graph: onnx.GraphProto) -> dict[str, _Weight]:
    found: dict[str, _Weight] = {}
    for weight in _weights(graph):
        found.setdefault(weight.name, weight)
    return found


def _weights(graph: onnx.GraphProto) -> Iterator[_Weight]:
    """The weight tensors of the layers, also where they come as integers through a DequantizeLinear."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    makers = {output: node for node in graph.node for output in node.output}
    for node in graph.node:
        for place in _WEIGHT_INPUTS.get(node.op_type, ()):
            origin = _origin(node.input[place], constants, makers)
            if origin is not None and len(origin[1].dims) >= 2:
                yield _Weight(*origin, node)


def _origin(
    name: str, constants: dict[str, onnx.TensorProto], makers: dict[str, onnx.NodeProto]
) -> tuple[str, onnx.TensorProto] | None:
    """The constant behind a value, by its name; None for an activation, and for integers whose zero is not 0."""
    node = makers.get(name)
    while node is not None and node.op_type in _PASSED_THROUGH:
        zero_point = constants.get(node.input[2]) if len(node.input) > 2 else None
        if zero_point is not None and numpy_helper.to_array(zero_point).any():
            return None
        name = node.input[0]
        node = makers.get(name)
    if node is not None and node.op_type == "Constant":
        tensor = next((attribute.t for attribute in node.attribute if attribute.name == "value"), None)
    else:
        tensor = constants.get(name)
    return None if tensor is None else (name, tensor)


def _nonzero(model: onnx.ModelProto) -> int:
    """How many elements of the weights that pruning reaches are not zero."""
    weights = _distinct(model.graph).values()
    return sum(int(np.count_nonzero(numpy_helper.to_array(one.tensor))) for one in weights)


def _refuse_unchanged(version: ModelVersion, model: onnx.ModelProto, nonzero: int) -> None:
    """Raise `ModelError` where no further weight became zero: the child would be its parent under another name."""
    if _nonzero(model) == nonzero:
        raise ModelError(
            f"{version.name} is not pruned, as nothing changed: so many of its weights are zero already, or the share "
            "is less than one weight of any layer; give a larger one"
        )


@deriving
def prune(library: ModelLibrary, version: ModelVersion, sparsity: float) -> ModelVersion:
    """The child of `version` whose smallest weights are zero, the share `sparsity` of every layer.

    Raises `ModelError` for a share outside (0, 1), one that changes nothing or a model without weights to prune,
    `StoreError` when the library cannot be written.
    """
    if not 0 < sparsity < 1:
        raise ModelError(f"a sparsity of {sparsity} is not between 0 and 1; 0.9 zeroes nine weights of ten")
    derivation = Derivation(DerivationKind.PRUNED, sparsity=sparsity)
    if known := library.derived(version, derivation):
        return known
    model = load_whole(library, version, "pruned")
    nonzero = _nonzero(model)
    if prune_weights(model, sparsity) == 0:
        raise ModelError(f"{version.name} cannot be pruned: no Conv, Gemm or MatMul of it has constant weights")
    _refuse_unchanged(version, model, nonzero)
    return add_child(library, version, model, f"sparse{sparsity * 100:g}", derivation)


@deriving
def prune_by_weight(library: ModelLibrary, version: ModelVersion, sparsities: Mapping[str, float]) -> ModelVersion:
    """The child of `version` that has the share of zeros in each weight that `sparsities` names; others stay dense.

    Raises `ModelError` where no weight is named, `StoreError` when the library cannot be written.
    """
    chosen = {name: share for name, share in sorted(sparsities.items()) if share > 0}
    identity = hashlib.sha256(json.dumps(chosen).encode()).hexdigest()[:12]
    derivation = Derivation(DerivationKind.PRUNED_BY_WEIGHT, said=f"{len(chosen)} weights, {identity}")
    if known := library.derived(version, derivation):
        return known
    model = load_whole(library, version, "pruned")
    nonzero = _nonzero(model)
    if prune_weights(model, chosen) == 0:
        raise ModelError(f"{version.name} cannot be pruned so: none of its weights is to get zeros")
    _refuse_unchanged(version, model, nonzero)
    return add_child(library, version, model, "sparse-by-weight", derivation)


@deriving
def prunable_weights(library: ModelLibrary, version: ModelVersion) -> tuple[PrunableWeight, ...]:
    """The weights that pruning reaches, with the magnitudes of their elements. Raises `ModelError`."""
    return weight_magnitudes(load_whole(library, version, "pruned"))
