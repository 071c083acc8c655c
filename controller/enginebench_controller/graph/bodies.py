"""The bodies of control flow and of model-local functions, made into models of their own so that they can be read."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import onnx
from onnx import TensorProto, helper, inliner

from enginebench_controller.graph.source_graph import Tensor, element_type

Tensors = Mapping[str, Tensor]
Made = tuple[str, Sequence[str], Sequence[str]]
"""A node's operator, inputs and outputs."""


def subgraph_model(
    model: onnx.ModelProto, node: onnx.NodeProto, body: onnx.GraphProto, tensors: Tensors
) -> onnx.ModelProto:
    """A model of one subgraph of `node`; what it captures from around it become inputs of known shape."""
    copy = onnx.ModelProto(ir_version=max(model.ir_version, 8), opset_import=model.opset_import)
    copy.functions.extend(model.functions)
    copy.graph.CopyFrom(body)
    for value, tensor in zip(copy.graph.input, _formal(node, tensors), strict=False):
        if tensor.shape is not None:
            value.CopyFrom(declared(value.name, tensor))
    own = {value.name for value in copy.graph.input}
    for name in _read_from_outside(body):
        if name not in own:
            copy.graph.input.append(declared(name, tensors.get(name, Tensor(None, None))))
    return copy


def function_model(model: onnx.ModelProto, node: onnx.NodeProto, tensors: Tensors) -> onnx.ModelProto:
    """A model of what one call of a model-local function computes, its inner calls resolved."""
    call = helper.make_graph(
        [node],
        node.op_type,
        [declared(name, tensors.get(name, Tensor(None, None))) for name in dict.fromkeys(node.input) if name],
        [declared(name, tensors.get(name, Tensor(None, None))) for name in node.output if name],
    )
    single = helper.make_model(
        call, opset_imports=model.opset_import, functions=model.functions, ir_version=max(model.ir_version, 8)
    )
    return inliner.inline_local_functions(single)


def always_continues(body: Iterable[Made], condition: str, given: str, constants: Mapping[str, bool]) -> bool:
    """Whether the condition that a Loop's body ends with is true for ever: constant, or the given one handed on."""
    made = {name: (op_type, inputs) for op_type, inputs, outputs in body for name in outputs}
    while condition in made and made[condition][0] == "Identity":
        condition = made[condition][1][0]
    return condition == given or constants.get(condition, False)


def captured(node: onnx.NodeProto) -> Iterator[str]:
    """The tensors of the graph around it that the bodies of `node` read."""
    for attribute in node.attribute:
        for body in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            yield from _read_from_outside(body)


def _read_from_outside(body: onnx.GraphProto) -> Iterator[str]:
    own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
    own |= {sparse.values.name for sparse in body.sparse_initializer}
    own |= {name for node in body.node for name in node.output}
    names = (name for node in body.node for name in (*node.input, *captured(node)))
    results = (value.name for value in body.output)
    yield from dict.fromkeys(name for name in (*names, *results) if name and name not in own)


def _formal(node: onnx.NodeProto, tensors: Tensors) -> Iterable[Tensor]:
    """What the inputs of the body of a Loop or Scan are in every iteration, as far as it is certain."""
    given = [tensors.get(name, Tensor(None, None)) for name in node.input]
    made = [tensors.get(name, Tensor(None, None)) for name in node.output]
    match node.op_type:
        case "Loop":
            counters = [Tensor("int64", ()), Tensor("bool", ())]
            return [*counters, *_carried(given[2:], made)]
        case "Scan":
            return _scanned(node, given, made)
    return []


def _carried(first: list[Tensor], last: list[Tensor]) -> list[Tensor]:
    """States keep their shape where they end with the one they began with; otherwise it is unknown in between."""
    return [
        begin if begin.shape == end.shape else Tensor(begin.dtype, None)
        for begin, end in zip(first, last, strict=False)
    ]


def _scanned(node: onnx.NodeProto, given: list[Tensor], made: list[Tensor]) -> list[Tensor]:
    """States, then one slice of each sequence."""
    count = next((one.i for one in node.attribute if one.name == "num_scan_inputs"), 0)
    axes = next((list(one.ints) for one in node.attribute if one.name == "scan_input_axes"), [])
    states, sequences = given[: len(given) - count], given[len(given) - count :]
    slices = [_slice(one, axis) for one, axis in zip(sequences, axes or [0] * count, strict=False)]
    return [*_carried(states, made), *slices]


def _slice(tensor: Tensor, axis: int) -> Tensor:
    if not tensor.shape:
        return Tensor(tensor.dtype, None)
    place = axis % len(tensor.shape)
    return Tensor(tensor.dtype, tensor.shape[:place] + tensor.shape[place + 1 :])


def declared(name: str, tensor: Tensor) -> onnx.ValueInfoProto:
    """The declaration of a tensor, as far as it is known."""
    kind = element_type(tensor.dtype)
    if kind == TensorProto.UNDEFINED:
        return helper.make_empty_tensor_value_info(name)
    return helper.make_tensor_value_info(name, kind, tensor.shape)
