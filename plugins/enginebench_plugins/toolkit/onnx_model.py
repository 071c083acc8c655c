"""What engines need to know of an ONNX file: its inputs for this run, its outputs, and the names of its nodes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginebench_plugins import spec
from enginebench_proto.agreed.labels import node_labels

SEPARATORS = "_/"
"""What most engines put between a name of the model and what they add to it: "r1_nchwc", "n0/WithoutBiases"."""

FLOATS = {1: "f32", 10: "f16", 16: "bf16"}
"""The floating types that weights and tensors have, by their numbers in onnx.proto."""


@dataclass(frozen=True)
class SourceNames:
    """The nodes of a graph as given: their types by label, and the labels of those that make each tensor.

    `within` has the names of nodes and tensors in the bodies of control flow, with the label of the node around them.
    `separators` end what is the model's own in a name that an engine made. `before` has the nodes whose outputs a node
    reads, by their labels.
    """

    types: Mapping[str, str]
    makers: Mapping[str, str]
    within: Mapping[str, str] = field(default_factory=dict)
    separators: str = SEPARATORS
    before: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def node_in(self, made: str) -> str | None:
        """The label of the node that a name begins with or whose output it begins with; of several the longest.

        Where one name is that of a node and of another node's output, the node is meant.
        """
        return self._node(made, (self.types, self.makers))

    def maker_in(self, made: str) -> str | None:
        """As `node_in`, for a name made of a tensor's: where a name is both, the tensor is meant."""
        return self._node(made, (self.makers, self.types))

    def _node(self, made: str, first: tuple[Mapping[str, str], Mapping[str, str]]) -> str | None:
        for prefix in prefixes(made, self.separators):
            for names in first:
                if prefix in names:
                    return self.makers[prefix] if names is self.makers else prefix
        return None


def prefixes(made: str, separators: str = SEPARATORS) -> Iterator[str]:
    """A name and all its beginnings that end before a separator, the longest first."""
    yield made
    for end in range(len(made) - 1, 0, -1):
        if made[end] in separators:
            yield made[:end]


def read_onnx(path: Path, *, weights: bool = True) -> Any:
    """The `ModelProto` of a file, with the weights that lie beside it unless `weights` is false.

    Raises `ValueError` for an empty file, which protobuf takes for a model, and what `onnx.load` raises.
    """
    import onnx

    model = onnx.load(str(path), load_external_data=weights)
    if not model.graph.output:
        raise ValueError(f"{path.name} is not an ONNX model: it has no outputs")
    return model


def graph_inputs(model: Any) -> tuple[spec.TensorSpec, ...]:
    """The inputs as the file declares them, without weights that older files list as inputs."""
    weights = {weight.name for weight in model.graph.initializer}
    return tuple(_tensor_spec(value) for value in model.graph.input if value.name not in weights)


def output_names(model: Any) -> tuple[str, ...]:
    """The outputs in the graph's order."""
    return tuple(value.name for value in model.graph.output)


def dimension_names(model: Any) -> dict[str, dict[int, str]]:
    """By input the names of its open dimensions, by place; one without a name is left out."""
    return {
        value.name: {
            place: dimension.dim_param
            for place, dimension in enumerate(value.type.tensor_type.shape.dim)
            if dimension.dim_param
        }
        for value in model.graph.input
    }


def float_precision(model: Any) -> str | None:
    """The floating type of inputs, outputs and weights: "f32", "f16" or "bf16"; "mixed" for several, None for none."""
    elements = {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    elements |= {weight.data_type for weight in model.graph.initializer}
    found = {FLOATS[element] for element in elements if element in FLOATS}
    return next(iter(found), None) if len(found) < 2 else "mixed"


def name_nodes(model: Any) -> bool:
    """Give every node its label for a name, in place. Returns whether any had another one, or none."""
    changed = False
    for node, label in zip(model.graph.node, node_labels(model.graph.node), strict=True):
        changed |= node.name != label
        node.name = label
    return changed


def source_names(model: Any, separators: str = SEPARATORS) -> SourceNames:
    """The names of a graph's nodes and of the tensors they make."""
    labelled = list(zip(node_labels(model.graph.node), model.graph.node, strict=True))
    makers = {name: label for label, node in labelled for name in node.output if name}
    return SourceNames(
        types={label: node.op_type for label, node in labelled},
        makers=makers,
        within={name: label for label, node in labelled for name in _names_within(node)},
        separators=separators,
        before={label: tuple(makers[name] for name in node.input if name in makers) for label, node in labelled},
    )


def _names_within(node: Any) -> Iterator[str]:
    for attribute in node.attribute:
        for inner in attribute.g.node if attribute.HasField("g") else ():
            yield from filter(None, (inner.name, *inner.output))
            yield from _names_within(inner)


def run_inputs(model: Any, source: spec.ModelSource) -> tuple[spec.TensorSpec, ...]:
    """The inputs of this run in the graph's order: the shapes of `source` where given, else the model's own.

    Raises `UnsupportedSettingsError` for an input the model does not have, for a shape the model does not allow and
    for a dimension left open.
    """
    declared = graph_inputs(model)
    given = {tensor.name: tensor for tensor in source.inputs}
    if unknown := sorted(given.keys() - {tensor.name for tensor in declared}):
        raise spec.UnsupportedSettingsError(f"the model has no input named {', '.join(unknown)}")
    return tuple(_closed(tensor, given.get(tensor.name, tensor)) for tensor in declared)


def _closed(declared: spec.TensorSpec, given: spec.TensorSpec) -> spec.TensorSpec:
    fits = len(declared.shape) == len(given.shape) and all(
        size is None or size == wanted for size, wanted in zip(declared.shape, given.shape, strict=True)
    )
    if not fits:
        raise spec.UnsupportedSettingsError(
            f"input {declared.name} is {_text(declared.shape)} in the model and cannot be {_text(given.shape)}"
        )
    if None in given.shape:
        raise spec.UnsupportedSettingsError(
            f"input {declared.name} has open dimensions ({_text(declared.shape)}): give its shape with --shape"
        )
    return given


def _text(shape: Sequence[int | None]) -> str:
    return "×".join("?" if size is None else str(size) for size in shape) or "a single value"


def _tensor_spec(value: Any) -> spec.TensorSpec:
    import onnx

    tensor = value.type.tensor_type
    dtype = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)
    # Some exporters write -1 where a size is open.
    sizes = (dim.dim_value if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim)
    return spec.TensorSpec(value.name, str(dtype), tuple(size if size >= 0 else None for size in sizes))
