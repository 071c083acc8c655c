"""The graph of a model as given, with every shape resolved for one batch: what layers are matched to and work is
counted on.

Only names, types and shapes are read; weights stay on disk until somebody counts their zeros. The bodies
of control flow and of the model's own functions are graphs of their own within their nodes.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import onnx
from onnx import helper, numpy_helper

from enginebench_controller.errors import ModelError
from enginebench_controller.graph.bodies import captured, function_model, subgraph_model
from enginebench_controller.graph.shape_arithmetic import Values
from enginebench_controller.graph.shape_inference import bound_copy, infer_tensors, known_around, named_sizes
from enginebench_controller.graph.source_graph import (
    Attribute,
    SourceGraph,
    SourceNode,
    Tensor,
    Weight,
    constant_weight,
    dense_weight,
    filled_weight,
    sparse_weight,
)
from enginebench_controller.models.bounded import bounded
from enginebench_controller.models.formats.description import describe_onnx, format_of, told_as_invalid
from enginebench_controller.models.formats.files import external_files
from enginebench_controller.models.formats.skeleton import load_skeleton
from enginebench_controller.models.inputs.binding import Binding, GivenShapes, bind
from enginebench_proto.agreed.labels import node_labels
from enginebench_proto.agreed.words import ModelFormat

_DRAWING = frozenset({
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
})  # fmt: skip
_OF_OPENVINO = re.compile(r'type="(RandomUniform|Multinomial)"')


def random_operators(path: Path, model_format: str) -> tuple[str, ...] | None:
    """Their names, each once; None for a format that only its engine can read. Raises `ModelError` as reading does."""
    if model_format == ModelFormat.OPENVINO_IR:
        return tuple(sorted(set(_OF_OPENVINO.findall(path.read_text(encoding="utf-8", errors="replace")))))
    if model_format != ModelFormat.ONNX:
        return None
    model = load_skeleton(path)
    constants = {one.name: one for one in model.graph.initializer}
    bodies = (model.graph.node, *(one.node for one in model.functions))
    return tuple(sorted({name for nodes in bodies for name in _random(nodes, constants, path.parent)}))


def _random(nodes: Sequence[onnx.NodeProto], constants: dict[str, onnx.TensorProto], folder: Path) -> Iterator[str]:
    made = {
        node.output[0]: one.t
        for node in nodes
        for one in node.attribute
        if node.op_type == "Constant" and one.HasField("t")
    }
    for node in nodes:
        if node.op_type in _DRAWING or (node.op_type == "Dropout" and _trains(node, constants | made, folder)):
            yield node.op_type
        for one in node.attribute:
            if one.HasField("g"):
                inner = {tensor.name: tensor for tensor in one.g.initializer}
                yield from _random(one.g.node, constants | made | inner, folder)


def _trains(node: onnx.NodeProto, constants: dict[str, onnx.TensorProto], folder: Path) -> bool:
    """Whether a Dropout drops anything: its third input says so, and is False where there is none."""
    if len(node.input) < 3 or not node.input[2]:
        return False
    told = constants.get(node.input[2])
    return told is None or bool(numpy_helper.to_array(told, base_dir=str(folder)).any())


__all__ = ["SourceGraph", "SourceNode", "read_source_graph"]

_UNKNOWN = Tensor(None, None)

_NEVER_FOLDED = frozenset({
    "Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike",
})  # fmt: skip
"""They make something new every time, also from nothing."""

_CARRIES_A_WEIGHT = frozenset({
    "Cast", "CastLike", "DequantizeLinear", "Flatten", "Identity", "QuantizeLinear", "Reshape", "Squeeze", "Transpose",
    "Unsqueeze",
})  # fmt: skip
"""Operators whose output is their first input in another form: behind them stands the same weight."""


@bounded
def read_source_graph(path: Path, shapes: GivenShapes | None, batch: int | None) -> SourceGraph:
    """Read an ONNX file. `shapes` closes open input dimensions; None as `batch` is the model's own, or 1.

    With None as `shapes` they stay open: enough to see the weights, which depend on no input.

    The file is not touched. Raises `ModelError` for a file that is no ONNX model, lacks its external data or cannot
    have this batch.
    """
    if format_of(path) is not ModelFormat.ONNX:
        raise ModelError(
            f"{path} is no ONNX file, and only those show their graph; export or convert the model to ONNX"
        )
    external_files(path)  # refuses missing and hostile places
    model = load_skeleton(path, located=True)
    with told_as_invalid(path):
        return _read(model, path, shapes, batch)


def _read(model: onnx.ModelProto, path: Path, shapes: GivenShapes | None, batch: int | None) -> SourceGraph:
    if shapes is None:
        return _Reader(path, model, {}).graph(batch or 1)
    binding = _bind(model, path, shapes, batch)
    inputs = {item.name: item.shape for item in binding.inputs}
    items = {item.items for item in binding.inputs if item.items is not None}
    own_batch = items.pop() if len(items) == 1 else 1
    return _Reader(path, model, inputs).graph(own_batch if batch is None else batch, binding.assumptions)


def _bind(model: onnx.ModelProto, path: Path, shapes: GivenShapes, batch: int | None) -> Binding:
    description = describe_onnx(model, path)
    binding = bind(description, 1 if batch is None else batch, shapes)
    if binding.fixed_batch is None:
        return binding
    if batch is None:
        return bind(description, binding.fixed_batch, shapes)
    raise ModelError(
        f"{path} has a fixed batch of {binding.fixed_batch}, not {batch}: read it at its own batch, or read a copy "
        "that was rewritten for the other"
    )


@dataclass(frozen=True)
class _Outer:
    """What a body sees of the graphs around it: weights, what is made of them, known values, and sizes by name.

    `scope` is the body's own, by which its weights are told from others of the same name.
    """

    weights: Mapping[str, Weight] = field(default_factory=dict)
    stored_as: Mapping[str, str] = field(default_factory=dict)
    values: Values = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    scope: tuple[str, ...] = ()


class _Reader:
    """Reads one graph: that of a file, or a body of its control flow made into a model of its own."""

    def __init__(
        self, path: Path, model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]], outer: _Outer | None = None
    ) -> None:
        outer = outer or _Outer()
        self._path = path
        self._model = model
        self._sizes = {**outer.sizes, **named_sizes(model.graph, shapes)}
        self._tensors, self._values = infer_tensors(bound_copy(model, shapes, self._sizes), self._sizes, outer.values)
        self._functions = {(function.domain, function.name) for function in model.functions}
        self._scope = outer.scope
        self._weights = {**outer.weights, **self._own(_initializers(model.graph, path))}
        self._stored_as = dict(outer.stored_as)

    def graph(self, batch: int, assumptions: tuple[str, ...] = ()) -> SourceGraph:
        """The records of this graph."""
        labels = node_labels(self._model.graph.node)
        nodes = tuple(
            self._node(index, label, node, batch)
            for index, (label, node) in enumerate(zip(labels, self._model.graph.node, strict=True))
        )
        graph = self._model.graph
        return SourceGraph(
            nodes=nodes,
            inputs=tuple(value.name for value in graph.input if value.name not in self._weights),
            outputs=tuple(value.name for value in graph.output),
            tensors=self._tensors,
            weights=self._weights,
            stored_as=self._stored_as,
            constants=_small_integers(self._values),
            opsets={_domain(entry.domain): int(entry.version) for entry in self._model.opset_import},
            batch=batch,
            assumptions=assumptions,
        )

    def _node(self, index: int, label: str, node: onnx.NodeProto, batch: int) -> SourceNode:
        reads = [name for name in (*node.input, *captured(node)) if name]
        folded = node.op_type not in _NEVER_FOLDED and all(self._is_constant(name) for name in reads)
        if folded:
            self._fold(node)
        weights = dict.fromkeys(self._stored_as.get(name, name) for name in reads if self._is_constant(name))
        return SourceNode(
            index=index,
            name=label,
            op_type=node.op_type,
            domain=_domain(node.domain),
            inputs=tuple(node.input),
            outputs=tuple(node.output),
            weights=tuple(weights),
            output_shapes=tuple(self._tensors.get(name, _UNKNOWN).shape for name in node.output),
            attributes=dict(_attributes(node)),
            folded=folded,
            bodies={} if folded else dict(self._bodies(label, node, batch)),
        )

    def _is_constant(self, name: str) -> bool:
        return name in self._weights or name in self._stored_as

    def _fold(self, node: onnx.NodeProto) -> None:
        """Note what a node makes that depends on no input: the weights that others will read."""
        if node.op_type in _CARRIES_A_WEIGHT and node.input and self._is_constant(node.input[0]):
            source = node.input[0]
            self._stored_as[node.output[0]] = self._stored_as.get(source, source)
            return
        self._weights |= self._own({name: self._made(node, name) for name in filter(None, node.output)})

    def _own(self, weights: Mapping[str, Weight]) -> dict[str, Weight]:
        return {name: replace(weight, scope=self._scope) for name, weight in weights.items()}

    def _made(self, node: onnx.NodeProto, name: str) -> Weight:
        tensor = self._tensors.get(name, _UNKNOWN)
        if node.op_type == "Constant" and (held := constant_weight(node, self._path)) is not None:
            return held
        if node.op_type == "ConstantOfShape":
            return filled_weight(name, tensor, next((one.t for one in node.attribute if one.name == "value"), None))
        return Weight(name, tensor, tensor.size_bytes)

    def _bodies(self, label: str, node: onnx.NodeProto, batch: int) -> Iterator[tuple[str, SourceGraph]]:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                body = subgraph_model(self._model, node, attribute.g, self._tensors)
                scope = (*self._scope, label, attribute.name)
                yield attribute.name, self._read_body(body, known_around(node, self._values), scope, batch)
        if (node.domain, node.op_type) in self._functions:
            given = {name: self._values[name] for name in node.input if name in self._values}
            body = function_model(self._model, node, self._tensors)
            # However often it is called, a function has its weights once.
            yield "function", self._read_body(body, given, (node.domain, node.op_type), batch)

    def _read_body(self, body: onnx.ModelProto, given: Values, scope: tuple[str, ...], batch: int) -> SourceGraph:
        outer = _Outer(self._weights, self._stored_as, given, self._sizes, scope)
        return _Reader(self._path, body, {}, outer).graph(batch)


def _initializers(graph: onnx.GraphProto, path: Path) -> dict[str, Weight]:
    found = {tensor.name: dense_weight(tensor.name, tensor, path) for tensor in graph.initializer}
    return found | {sparse.values.name: sparse_weight(sparse, path) for sparse in graph.sparse_initializer}


def _attributes(node: onnx.NodeProto) -> Iterator[tuple[str, Attribute]]:
    for attribute in node.attribute:
        match attribute.type:
            case onnx.AttributeProto.INT | onnx.AttributeProto.FLOAT | onnx.AttributeProto.STRING:
                yield attribute.name, _plain(helper.get_attribute_value(attribute))
            case onnx.AttributeProto.INTS | onnx.AttributeProto.FLOATS | onnx.AttributeProto.STRINGS:
                yield attribute.name, tuple(_plain(one) for one in helper.get_attribute_value(attribute))


def _plain(value: int | float | bytes) -> int | float | str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _small_integers(values: Values) -> dict[str, tuple[int, ...]]:
    """The integers and truths among the known values, flat."""
    return {
        name: tuple(int(one) for one in array.reshape(-1))
        for name, array in values.items()
        if array.dtype.kind in "iub"
    }
