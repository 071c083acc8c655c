"""From an ONNX graph to a PyTorch module that calls one submodule a node.

What depends on no input is computed here, once: weights that nodes make, shapes of tensors whose size is fixed, and
what follows from them. Bodies of If, Loop and Scan and functions become modules of their own.
"""

import keyword
import warnings
from collections import ChainMap, Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import onnx
import torch

from enginebench_plugins import spec
from enginebench_plugins.engines.torch.dtypes import DTYPES
from enginebench_plugins.engines.torch.graph_reading import (
    attribute_value,
    attributes_of,
    constant_value,
    has_unsigned,
    in_order,
    inferred,
    read_around,
    weights_of,
)
from enginebench_plugins.engines.torch.operators import entry
from enginebench_plugins.engines.torch.operators.making import RANDOM
from enginebench_plugins.engines.torch.operators.registry import Body, Call, MadeModule, Node, on_host, widened
from enginebench_plugins.toolkit.onnx_model import output_names
from enginebench_proto.agreed.labels import node_labels

_MOST_GROWTH_BYTES = 64 << 20
"""What computing a node ahead may add to memory."""


@dataclass(frozen=True)
class Origin:
    """The node a submodule was made from, with the tensors it reads and writes."""

    label: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Converted:
    """A module that returns the outputs in the graph's order.

    `sources` maps its submodules to their nodes, `away` holds the nodes that none was needed for, `prepared` tells what
    was done besides.
    """

    module: Any
    sources: Mapping[str, Origin]
    away: tuple[Origin, ...]
    prepared: tuple[str, ...]


def convert_graph(model: Any, inputs: Sequence[spec.TensorSpec]) -> Converted:
    """Raises `NotImplementedError` for an operator that nothing is known of."""
    shapes, types = inferred(model, inputs)
    world = _World(
        opsets={_domain(opset.domain): opset.version for opset in model.opset_import},
        functions={(_domain(each.domain), each.name): each for each in model.functions},
        shapes=shapes,
        types=types,
        unsigned=has_unsigned(model),
        folds=bool(inputs),
    )
    nodes = list(model.graph.node)  # protobuf makes a new object of a node whenever it is asked for
    labels = dict(zip(map(id, nodes), node_labels(model.graph.node), strict=True))
    builder = _Builder(world, [each.name for each in inputs], weights_of(model.graph), labels)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of text, which PyTorch has no tensors for
        module = builder.finish(in_order(nodes), output_names(model))
    return Converted(module, builder.sources, builder.away(), _told(world))


@dataclass(frozen=True)
class _World:
    """What holds for all graphs of a model; `remarks` counts what was prepared."""

    opsets: Mapping[str, int]
    functions: Mapping[tuple[str, str], Any]
    shapes: Mapping[str, tuple[int, ...]]
    types: Mapping[str, int]
    unsigned: bool
    folds: bool
    remarks: Counter[str] = field(default_factory=Counter)


FOLDED = "{} that depend on no input computed ahead"
RESTORED = "quantized weights restored to floats ahead"
INLINED = "functions taken for what they are made of"
WEIGHTS = "weights made by Constant nodes kept as weights"
SHAPES = "sizes of tensors computed ahead for the shapes of this run"


def _told(world: _World) -> tuple[str, ...]:
    return tuple(f"{count} {remark}" for remark, count in world.remarks.items())


class _Builder:
    """One graph on its way to a module."""

    def __init__(
        self, world: _World, inputs: Sequence[str], constants: MutableMapping[str, Any],
        labels: Mapping[int, str] | None = None, attributes: Mapping[str, Any] | None = None,
        absent: Iterable[str] = (),
    ) -> None:  # fmt: skip
        """`labels` are those of the model's own nodes; a body has none. `attributes` are those a function is given."""
        self._world, self._labels, self._given = world, labels or {}, attributes or {}
        self.constants = constants
        self._absent = frozenset(absent)
        self._root, self._graph = torch.nn.Module(), torch.fx.Graph()
        self._values = {name: self._graph.placeholder(f"input_{place}") for place, name in enumerate(inputs)}
        self._buffers: dict[str, Any] = {}
        self._origins: list[Origin] = []
        self.sources: dict[str, Origin] = {}

    def finish(self, nodes: Iterable[Any], outputs: Sequence[str]) -> Any:
        """The module."""
        for node in nodes:
            self._add(node)
        self._graph.output(tuple(self._value(name) for name in outputs))
        for each in reversed(self._graph.nodes):
            if each.op not in {"placeholder", "output"} and not each.users:
                self._graph.erase_node(each)
        called = {each.target for each in self._graph.nodes if each.op == "call_module"}
        self.sources = {name: origin for name, origin in self.sources.items() if name in called}
        return torch.fx.GraphModule(self._root, self._graph)

    def away(self) -> tuple[Origin, ...]:
        """The nodes that no submodule stands for."""
        there = {origin.label for origin in self.sources.values()}
        return tuple(origin for origin in self._origins if origin.label not in there)

    def _add(self, proto: Any) -> None:
        domain = _domain(proto.domain)
        node = Node(
            type=proto.op_type,
            opset=self._world.opsets.get(domain, 1),
            attributes=attributes_of(proto, self._given),
            inputs=tuple("" if name in self._absent else name for name in proto.input),
            outputs=tuple(proto.output),
            constants=self.constants,
            types=self._world.types,
        )
        label = self._labels.get(id(proto))
        origin = None
        if label is not None:
            origin = Origin(label, node.type, tuple(filter(None, node.inputs)), tuple(filter(None, node.outputs)))
            self._origins.append(origin)
        if self._is_known_ahead(node):
            return
        node = replace(node, subgraph=lambda name: self._body(node.attributes[name], branch=node.type == "If"))
        made, arguments = self._made(node, proto, domain)
        module = (
            made.call if isinstance(made.call, torch.nn.Module) else Call(node.type, self._typed(node.type, made.call))
        )
        arguments += map(_Name, made.captured)
        if not self._computed(node, module, arguments):
            if made.remark:
                self._world.remarks[made.remark] += 1
            self._call(node, module, arguments, origin)

    def _is_known_ahead(self, node: Node) -> bool:
        """Put down what a node makes where that is told by the file."""
        if node.type == "Constant":
            self.constants[node.outputs[0]] = constant_value(node)
            if self._labels:
                self._world.remarks[WEIGHTS] += 1
            return True
        shape = self._world.shapes.get(node.inputs[0]) if node.inputs else None
        if node.type not in {"Shape", "Size"} or shape is None:
            return False
        if node.type == "Shape":
            self.constants[node.outputs[0]] = torch.tensor(shape[node.get("start", 0) : node.get("end")])
            self.constants[node.outputs[0]] = self.constants[node.outputs[0]].to(torch.int64)
        else:
            self.constants[node.outputs[0]] = torch.tensor(torch.Size(shape).numel())
        self._world.remarks[SHAPES] += 1
        return True

    def _made(self, node: Node, proto: Any, domain: str) -> tuple[MadeModule, list[Any]]:
        """What a node becomes and its arguments: a name each, or a value that stands in the call itself."""
        known = entry(domain, node.type)
        if known is None or (domain, node.type) in self._world.functions:
            made = self._function(node, proto, domain)
            return made, [_Name(node.inputs[index]) for index in made.reads]
        made = known.make(node)
        if isinstance(made, MadeModule):
            return made, [self._argument(node, index, known.host) for index in made.reads]
        count = max(len(node.inputs), *(index + 1 for index in known.host)) if known.host else len(node.inputs)
        arguments = [self._argument(node, index, known.host) for index in range(count)]
        while arguments and arguments[-1] is None:
            arguments.pop()
        return MadeModule(made, ()), arguments

    def _argument(self, node: Node, index: int, host: Mapping[int, str]) -> Any:
        if not node.has(index):
            return node.attributes.get(host[index]) if host.get(index) else None
        name = node.inputs[index]
        if index not in host:
            return _Name(name)
        return on_host(self.constants[name]) if name in self.constants else _Name(name, on_host=True)

    def _typed(self, operator: str, function: Any) -> Any:
        return widened(function, operator) if self._world.unsigned else function

    def _computed(self, node: Node, module: Any, arguments: list[Any]) -> bool:
        """Whether a node could be computed here, and was."""
        needed = [each for each in arguments if isinstance(each, _Name)]
        if not self._world.folds or node.type in RANDOM or not all(name in self.constants for name in needed if name):
            return False
        values = [self.constants[each] if isinstance(each, _Name) else each for each in arguments]
        results = module(*values)
        results = results if isinstance(results, tuple | list) and len(node.outputs) > 1 else [results]
        if not all(hasattr(result, "shape") for result in results):
            return False
        before = sum(_bytes(value) for value in values if hasattr(value, "shape"))
        if sum(map(_bytes, results)) > before + _MOST_GROWTH_BYTES:
            return False
        self.constants.update({name: result for name, result in zip(node.outputs, results, strict=False) if name})
        if self._labels:
            restored = node.type == "DequantizeLinear"
            self._world.remarks[RESTORED if restored else FOLDED.format("nodes")] += 1
        return True

    def _call(self, node: Node, module: Any, arguments: list[Any], origin: Origin | None) -> None:
        target = self._free_name(origin.label if origin else next(filter(None, node.outputs), node.type))
        self._root.add_module(target, module)
        made = self._graph.call_module(target, tuple(self._passed(each) for each in arguments))
        if len(node.outputs) == 1:
            self._values[node.outputs[0]] = made
        else:
            for place, name in enumerate(node.outputs):
                if name:
                    self._values[name] = self._graph.call_function(_result, (made, place))
        if origin is not None:
            self.sources[target] = origin

    def _free_name(self, wanted: str) -> str:
        """A name for a submodule: that of its node as far as Python can have it for an attribute."""
        base = "".join(letter if letter.isalnum() else "_" for letter in wanted)
        base = name = f"_{base}" if base[:1].isdigit() or keyword.iskeyword(base) or not base else base
        count = 0
        while hasattr(self._root, name):
            count += 1
            name = f"{base}_{count}"
        return name

    def _passed(self, argument: Any) -> Any:
        if not isinstance(argument, _Name):
            return argument
        value = self._value(argument)
        return self._graph.call_function(on_host, (value,)) if argument.on_host else value

    def _value(self, name: str) -> Any:
        """Where a tensor is in the network: what a node makes, an input, or a weight that is put into the module."""
        if not name:
            return None
        if name in self._values:
            return self._values[name]
        if name not in self._buffers:
            if name not in self.constants:
                raise ValueError(f"the model reads {name}, which nothing in it makes")
            place = f"weight_{len(self._buffers)}"
            value = self.constants[name]
            if isinstance(value, torch.Tensor):
                self._root.register_buffer(place, value)
            else:
                setattr(self._root, place, value)
            self._buffers[name] = place
        return self._graph.get_attr(self._buffers[name])

    def _body(self, graph: Any, *, branch: bool) -> Body:
        """A subgraph: it knows the constants around it, and captures the rest of what it reads there."""
        own = [value.name for value in graph.input]
        weights = weights_of(graph)
        names = dict.fromkeys(read_around(graph.node, {*own, *weights}, [value.name for value in graph.output]))
        captured = [name for name in names if name not in self.constants]
        outer = {name: value for name, value in self.constants.items() if name not in own}
        # A loop may come to a tensor with another shape each time.
        shapes = self._world.shapes if branch else {}
        world = replace(self._world, folds=True, shapes=shapes)
        inner = _Builder(world, [*own, *captured], ChainMap(dict(weights), outer), attributes=self._given)
        module = inner.finish(in_order(graph.node), [value.name for value in graph.output])
        return Body(module, tuple(captured), len(own))

    def _function(self, node: Node, proto: Any, domain: str) -> MadeModule:
        """A function of the file, or an operator that ONNX itself defines by others."""
        function = self._world.functions.get((domain, node.type)) or self._defined(node, proto, domain)
        if function is None:
            name = f"{domain}.{node.type}" if domain else node.type
            raise NotImplementedError(f"the operator {name} (opset {node.opset}) is not known for PyTorch")
        formals = dict(zip(function.input, (*node.inputs, *[""] * len(function.input)), strict=False))
        known = {formal: self.constants[name] for formal, name in formals.items() if name in self.constants}
        read = [place for place, formal in enumerate(function.input) if formals[formal] and formal not in known]
        attributes = {each.name: attribute_value(each, {}) for each in function.attribute_proto} | dict(node.attributes)
        world = replace(
            self._world,
            opsets={**self._world.opsets, **{_domain(each.domain): each.version for each in function.opset_import}},
            folds=True,
            shapes={},
        )
        absent = [formal for formal, name in formals.items() if not name]
        inner = _Builder(
            world, [function.input[place] for place in read], dict(known), attributes=attributes, absent=absent
        )
        outputs = [name if index < len(node.outputs) and node.outputs[index] else "" for index, name in
                   enumerate(function.output)][: len(node.outputs)]  # fmt: skip
        module = inner.finish(in_order(function.node), outputs)
        if self._labels:
            self._world.remarks[INLINED] += 1
        return MadeModule(_Function(node.type, module, len(node.outputs)), tuple(read))

    def _defined(self, node: Node, proto: Any, domain: str) -> Any:
        """ONNX's own definition of an operator through simpler ones, if it has one."""
        try:
            schema = onnx.defs.get_schema(node.type, node.opset, domain)
        except onnx.defs.SchemaError:
            return None
        if schema.has_function:
            return schema.function_body
        if not schema.has_context_dependent_function:
            return None
        types = [self._type_of(name).SerializeToString() for name in node.inputs]
        body = schema.get_context_dependent_function(proto.SerializeToString(), types)
        return onnx.FunctionProto.FromString(body) if body else None

    def _type_of(self, name: str) -> Any:
        value = self.constants.get(name)
        dtype = self._world.types.get(name, onnx.TensorProto.FLOAT)
        if isinstance(value, torch.Tensor):
            dtype = next((k for k, v in DTYPES.items() if v == value.dtype), dtype)
        shape = self._world.shapes.get(name) if value is None else value.shape
        return onnx.helper.make_tensor_type_proto(dtype, None if shape is None else list(shape))


class _Name(str):
    """A tensor's name among the arguments of a call, which may be values too."""

    __slots__ = ("on_host",)

    def __new__(cls, name: str, *, on_host: bool = False) -> "_Name":
        made = super().__new__(cls, name)
        made.on_host = on_host
        return made

    on_host: bool


class _Function(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A function of the model, or an operator made of others."""

    def __init__(self, kind: str, body: Any, results: int) -> None:
        super().__init__()
        self._kind, self.body, self._results = kind, body, results

    def _get_name(self) -> str:
        return self._kind

    def forward(self, *values: Any) -> Any:
        results = self.body(*values)
        return results if self._results > 1 else results[0]


def _result(results: Any, place: int) -> Any:
    """One of a node's outputs; an operator asked for its first alone may return that bare."""
    return results[place] if isinstance(results, tuple | list) else results


def _domain(domain: str) -> str:
    return "" if domain == "ai.onnx" else domain


def _bytes(value: Any) -> int:
    return int(getattr(value, "nbytes", 0))
