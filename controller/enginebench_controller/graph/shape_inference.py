"""The shapes of all tensors of an ONNX graph, for inputs whose shapes are known.

ONNX infers most of them. It does not know operators of ONNX Runtime, for which a standard operator of the same output
shape stands in, and it does not carry all of the integer arithmetic that exporters write around a Reshape, which is
worked out here where shapes are still missing. So are the shapes that come out of control flow: those of the branch
that is certain to be taken, or of both; and those of a Loop's states that no iteration changes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, inliner, numpy_helper, shape_inference

from enginebench_controller.graph.bodies import always_continues, captured, declared, subgraph_model
from enginebench_controller.graph.shape_arithmetic import Values, known_values, stated_values
from enginebench_controller.graph.source_graph import Tensor, dtype_name
from enginebench_controller.graph.stand_ins import has_stand_in, stand_ins
from enginebench_controller.models.formats.description import dimension_name

_MAX_ROUNDS = 16
"""How often inference and arithmetic take turns; each round gets past one more Reshape with computed sizes."""

_MAX_DEPTH = 8
"""How deep in bodies the shapes that come out of control flow are worked out: each level reads the next one again."""

InputShapes = Mapping[str, tuple[int, ...]]
Sizes = Mapping[str, int]
"""By the names of dimensions, which mean the same in a graph and in the bodies of its control flow."""


def bound_copy(model: onnx.ModelProto, shapes: InputShapes, sizes: Sizes) -> onnx.ModelProto:
    """A copy of the model with these input shapes; what the file says of inner shapes is forgotten, as it may be old.

    Only what custom operators promise of their outputs stays, and what bodies say of their inputs, with the names of
    dimensions resolved by `sizes`. Functions of the model's own are resolved, too.
    """
    bound = onnx.ModelProto()
    bound.CopyFrom(inliner.inline_local_functions(model) if model.functions else model)
    _sort(bound.graph)
    standard = {name for node in bound.graph.node if _is_standard(node) for name in node.output}
    promised = [value for value in bound.graph.value_info if value.name not in standard]
    bound.graph.ClearField("value_info")
    for value in promised:
        _resolve(value, sizes)
        bound.graph.value_info.append(value)
    for value in bound.graph.input:
        if value.name in shapes:
            _set_shape(value, shapes[value.name])
        else:
            _resolve(value, sizes)
    for value in bound.graph.output:
        _resolve(value, sizes)
        if value.name in standard and value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return bound


def infer_tensors(
    model: onnx.ModelProto, sizes: Sizes, given: Values | None = None, depth: int = 0
) -> tuple[dict[str, Tensor], Values]:
    """Types and shapes of the tensors of `model` (see `bound_copy`), which is changed on the way, and known values.

    `given` are values that are known of tensors from around it, for a body. Raises `ValueError` for a graph that ONNX
    cannot make anything of.
    """
    _rewrite(model.graph)
    _state(model.graph, given or {})
    tensors = _inferred(model)
    values = stated_values(model.graph)
    asked: set[object] = {None}
    for _ in range(_MAX_ROUNDS):
        if _is_complete(model.graph, tensors):
            values |= known_values(model, tensors) if depth else {}  # the graph around a body asks for them
            break
        values |= known_values(model, tensors)
        fixed = _fix(model.graph, values)
        known = len(values)
        settled = _settled(model, tensors, values, sizes, depth, asked)
        if not fixed and not settled and len(values) == known:
            break
        tensors |= settled
        model.graph.value_info.extend(declared(name, tensor) for name, tensor in settled.items())
        tensors |= {name: tensor for name, tensor in _inferred(model).items() if tensor.shape is not None}
    return tensors, values


def _sort(graph: onnx.GraphProto) -> None:
    """Put each node after those that make what it reads: ONNX asks for it, and some converters add nodes at the end."""
    makers = {name: place for place, node in enumerate(graph.node) for name in node.output if name}
    before = [{makers[name] for name in (*node.input, *captured(node)) if name in makers} for node in graph.node]
    if all(max(needed, default=-1) < place for place, needed in enumerate(before)):
        return
    try:
        order = list(TopologicalSorter(dict(enumerate(before))).static_order())
    except CycleError:  # what is wrong with the model is said elsewhere
        return
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    graph.ClearField("node")
    graph.node.extend(nodes[place] for place in order)


def named_sizes(graph: onnx.GraphProto, shapes: InputShapes) -> dict[str, int]:
    """Sizes by the names that the graph's inputs give to dimensions; none for a name that would need two."""
    found: dict[str, set[int]] = {}
    for value in graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            if (name := dimension_name(dim)) is not None:
                found.setdefault(name, set()).add(size)
    return {name: sizes.pop() for name, sizes in found.items() if len(sizes) == 1}


def _is_complete(graph: onnx.GraphProto, tensors: Mapping[str, Tensor]) -> bool:
    """Every shape is known, and there is no trip count or condition left to work out."""
    names = {name for node in graph.node for name in node.input if name} | {value.name for value in graph.output}
    return all(name in tensors and tensors[name].shape is not None for name in names) and not any(
        node.op_type in {"If", "Loop"} for node in graph.node
    )


def _is_standard(node: onnx.NodeProto) -> bool:
    return node.domain in {"", "ai.onnx", "ai.onnx.ml"}


def _resolve(value: onnx.ValueInfoProto, sizes: Sizes) -> None:
    for dim in value.type.tensor_type.shape.dim:
        if (name := dimension_name(dim)) in sizes:
            dim.dim_value = sizes[name or ""]


def _set_shape(value: onnx.ValueInfoProto, sizes: Iterable[int]) -> None:
    shape = value.type.tensor_type.shape
    shape.ClearField("dim")
    for size in sizes:
        shape.dim.add(dim_value=size)


def _state(graph: onnx.GraphProto, given: Values) -> None:
    """Make inputs of known values weights, from which inference reads sizes."""
    known = [value for value in graph.input if value.name in given]
    for value in known:
        graph.input.remove(value)
    graph.initializer.extend(numpy_helper.from_array(np.asarray(given[value.name]), value.name) for value in known)


def _rewrite(graph: onnx.GraphProto) -> None:
    """Put stand-ins where ONNX could not infer, and dense weights where it sees no sparse ones."""
    for sparse in graph.sparse_initializer:
        graph.initializer.append(
            onnx.TensorProto(name=sparse.values.name, data_type=sparse.values.data_type, dims=sparse.dims)
        )
    graph.ClearField("sparse_initializer")
    if not any(map(has_stand_in, graph.node)):
        return
    weights = {tensor.name: tensor for tensor in graph.initializer}
    nodes = [one for node in graph.node for one in stand_ins(node, weights, graph)]
    graph.ClearField("node")
    graph.node.extend(nodes)


def _inferred(model: onnx.ModelProto) -> dict[str, Tensor]:
    try:
        inferred = shape_inference.infer_shapes(model, data_prop=True)
    except (shape_inference.InferenceError, ValueError) as error:
        raise ValueError(str(error).splitlines()[0][:300]) from error
    graph = inferred.graph
    found = {value.name: _tensor(value) for value in (*graph.value_info, *graph.input, *graph.output)}
    found |= {one.name: Tensor(dtype_name(one.data_type), tuple(one.dims)) for one in graph.initializer}
    return found


def _tensor(value: onnx.ValueInfoProto) -> Tensor:
    tensor = value.type.tensor_type
    sizes = [int(dim.dim_value) if dim.HasField("dim_value") else -1 for dim in tensor.shape.dim]
    is_known = tensor.HasField("shape") and min(sizes, default=0) >= 0
    return Tensor(dtype_name(tensor.elem_type), tuple(sizes) if is_known else None)


def _fix(graph: onnx.GraphProto, values: Values) -> bool:
    """Replace nodes whose output is known by that output, so that inference sees it; false where there are none."""
    fixed = [node for node in graph.node if node.output and all(name in values for name in node.output)]
    if not fixed:
        return False
    gone = {id(node) for node in fixed}
    kept = [node for node in graph.node if id(node) not in gone]
    graph.initializer.extend(_constants(fixed, values))
    graph.ClearField("node")
    graph.node.extend(kept)
    return True


def _constants(nodes: Iterable[onnx.NodeProto], values: Mapping[str, NDArray[np.generic]]) -> Iterator[TensorProto]:
    for node in nodes:
        for name in node.output:
            yield numpy_helper.from_array(np.asarray(values[name]), name)


def _settled(
    model: onnx.ModelProto,
    tensors: Mapping[str, Tensor],
    values: Values,
    sizes: Sizes,
    depth: int,
    asked: set[object],
) -> dict[str, Tensor]:
    """The outputs of control flow whose shape was unknown, and is told by its bodies. Adds what values are known.

    A branch that is certain to be taken is asked for these even where its shapes are known: sizes come out of it, too.
    It is `asked` again where more is known of what it reads.
    """
    found: dict[str, Tensor] = {}
    for node in model.graph.node if depth < _MAX_DEPTH else ():
        rule = _OUTCOMES.get(node.op_type) if node.domain in {"", "ai.onnx"} else None
        unknown = {name for name in node.output if name and (name not in tensors or tensors[name].shape is None)}
        question = (node.output[0], len(known_around(node, values))) if _may_tell(node, values) else None
        if rule is None or not (unknown or question not in asked):
            continue
        asked.add(question)
        outcome = rule(_Control(model, node, tensors, values, sizes, depth))
        found |= {
            name: tensor
            for name, tensor in zip(node.output, outcome, strict=False)
            if name in unknown and tensor is not None and tensor.shape is not None
        }
    return found


def _may_tell(node: onnx.NodeProto, values: Values) -> bool:
    return node.op_type == "If" and node.input[0] in values and not values.keys() >= set(filter(None, node.output))


@dataclass(frozen=True)
class _Body:
    """What is known of a body: its outputs in their order, and whether a Loop with it never ends before its count."""

    outputs: tuple[Tensor, ...]
    values: tuple[NDArray[np.generic] | None, ...]
    continues: bool


@dataclass(frozen=True)
class _Control:
    """A node of control flow in its graph."""

    model: onnx.ModelProto
    node: onnx.NodeProto
    tensors: Mapping[str, Tensor]
    values: Values
    sizes: Sizes
    depth: int

    def value(self, place: int) -> NDArray[np.generic] | None:
        """What is known of an input."""
        return self.values.get(self.node.input[place]) if place < len(self.node.input) else None

    def begin(self, first: int, last: int) -> list[Tensor]:
        """The inputs at these places."""
        return [self.tensors.get(name, _UNKNOWN) for name in self.node.input[first:last]]

    def body(self, attribute: str, states: Iterable[Tensor] = ()) -> _Body:
        """The body, where the first outputs of the node, which are its states, have these shapes in the end."""
        graph = next(one.g for one in self.node.attribute if one.name == attribute)
        assumed = {**self.tensors, **dict(zip(self.node.output, states, strict=False))}
        body = subgraph_model(self.model, self.node, graph, assumed)
        copy = bound_copy(body, {}, self.sizes)
        tensors, values = infer_tensors(copy, self.sizes, known_around(self.node, self.values), self.depth + 1)
        names = [value.name for value in graph.output]
        truths = {name: bool(value.all()) for name, value in values.items() if value.size == 1}
        continues = len(graph.input) > 1 and always_continues(
            ((node.op_type, node.input, node.output) for node in graph.node), names[0], graph.input[1].name, truths
        )
        return _Body(tuple(tensors.get(name, _UNKNOWN) for name in names), tuple(map(values.get, names)), continues)


def known_around(node: onnx.NodeProto, values: Values) -> Values:
    """Those of the known values that the bodies of a node read."""
    return {name: values[name] for name in captured(node) if name in values}


def _branches(control: _Control) -> list[Tensor | None]:
    """The shapes of the branch that is taken; where that depends on the data, those that both have."""
    condition = control.value(0)
    if condition is None:
        sides = [control.body(side).outputs for side in ("then_branch", "else_branch")]
        return [one if one.shape == other.shape else None for one, other in zip(*sides, strict=False)]
    taken = control.body("then_branch" if condition.all() else "else_branch")
    for name, value in zip(control.node.output, taken.values, strict=False):
        if value is not None:
            control.values[name] = value
    return list(taken.outputs)


def _iterations(control: _Control) -> list[Tensor | None]:
    """States that each iteration leaves in the shape in which it found them, and one more axis on what it collects.

    A shape that holds at the beginning and that an iteration keeps holds always.
    """
    states = control.begin(2, len(control.node.input))
    body = control.body("body", states)
    while states != (kept := [_kept(state, end) for state, end in zip(states, body.outputs[1:], strict=False)]):
        states = kept
        body = control.body("body", states)
    trips, starts = control.value(0), control.value(1)
    is_counted = trips is not None and body.continues and (starts is None or bool(starts.all()))
    goes = is_counted and (len(control.node.input) < 2 or not control.node.input[1] or starts is not None)
    count = int(trips.reshape(-1)[0]) if goes and trips is not None and trips.size else None
    return [*states, *(_collected(one, count) for one in body.outputs[1 + len(states) :])]


def _kept(state: Tensor, end: Tensor) -> Tensor:
    return state if state.shape == end.shape else Tensor(state.dtype, None)


def _collected(one: Tensor, count: int | None) -> Tensor | None:
    return None if one.shape is None or count is None else Tensor(one.dtype, (max(count, 0), *one.shape))


_OUTCOMES = {"If": _branches, "Loop": _iterations}
_UNKNOWN = Tensor(None, None)
