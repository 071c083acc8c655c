"""An ONNX model for one run's sizes: what follows from these is computed ahead, in the file that OpenVINO reads.

Exporters leave to the run what its sizes decide: which branch an If takes, how long a signal is once it is padded. The
reader of ONNX files takes such a graph as it is, and fails where it then does not know a rank; with the answers in
their place it reads most of them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import inliner, numpy_helper
from onnx.reference import ReferenceEvaluator

from enginebench_plugins import spec
from enginebench_plugins.toolkit.onnx_model import read_onnx

SIZES = "read with the sizes of this run"
_MOST_ELEMENTS = 4096
"""What tells sizes is small; larger tensors are the model's own work."""
_MOST_ROUNDS = 8
"""A branch that took the place of its If may tell what the next one takes."""
_STAY = frozenset(
    {"If", "Loop", "Scan", "SequenceMap", "Bernoulli", "Multinomial"}
    | {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""What is not computed ahead: bodies, and what is drawn anew each time."""
_BRANCHES = ("then_branch", "else_branch")

Values = dict[str, Any]
Shapes = dict[str, tuple[int, ...]]


def prepared_models(source: spec.ModelSource) -> Iterator[tuple[bytes, str]]:
    """The model in forms that are easier to read each, with what was done to it; none where the sizes change nothing.

    Whatever goes wrong on the way ends them: what is wrong with the file, OpenVINO's reader has said.
    """
    try:
        model = read_onnx(source.path)
        closed = _write_sizes(model, {tensor.name: tensor.shape for tensor in source.inputs})
        if closed:
            yield model.SerializeToString(), SIZES
        model, folded = fold(model)
        told = f"{SIZES}, {folded} nodes that follow from them computed ahead" if folded else SIZES
        if spectra := write_out_spectra(model):
            told = f"{told}, {spectra} STFT with its axis and frame length written out"
        if folded or spectra:
            yield model.SerializeToString(), told
        model, dead = without_dead_branches(model)
        if dead:
            yield model.SerializeToString(), f"{told}, not-a-number for {dead} branches that cannot run in them"
    except Exception:
        return


def _write_sizes(model: Any, shapes: Mapping[str, Sequence[int | None]]) -> bool:
    """Close the open sizes of a model's inputs, in place. Returns whether there were any."""
    changed = False
    for value in model.graph.input:
        for dim, size in zip(value.type.tensor_type.shape.dim, shapes.get(value.name, ()), strict=False):
            if size is not None and not dim.HasField("dim_value"):
                dim.dim_value, changed = size, True
    return changed


def fold(model: Any) -> tuple[Any, int]:
    """The model with what the sizes of its inputs decide computed ahead, and how many nodes that were.

    Functions are taken for what they are made of. Bodies of loops stay as they are: a tensor may have another size
    there each time. Raises what ONNX's shape inference does.
    """
    model = inliner.inline_local_functions(model)
    _say_one_sided(model.graph)
    total = 0
    for _ in range(_MOST_ROUNDS):
        _forget_shapes(model.graph)
        model = onnx.shape_inference.infer_shapes(model, data_prop=True)
        count = _Folding(model).fold(model.graph, {}, {})
        total += count
        if not count:
            break
    _forget_shapes(model.graph)
    return model, total


def write_out_spectra(model: Any) -> int:
    """Give each STFT the last axis of its signal, and its frames' length, in place: ONNX Runtime does without both.

    Returns how many lacked one. Raises what ONNX's shape inference does.
    """
    shapes = dict(_known_shapes(onnx.shape_inference.infer_shapes(model, data_prop=True).graph))
    nodes, count = [], 0
    for each in model.graph.node:
        node = onnx.NodeProto.FromString(each.SerializeToString())
        if node.op_type == "STFT":
            made, given = node.output[0], [*node.input, "", "", ""][:4]
            if len(shapes.get(node.input[0], ())) == 2:  # a batch of samples
                given[0] = f"{made}@signal"
                model.graph.initializer.append(numpy_helper.from_array(np.array([2]), f"{made}@axis"))
                nodes.append(onnx.helper.make_node("Unsqueeze", [node.input[0], f"{made}@axis"], [given[0]]))
            if not given[3] and (window := shapes.get(given[2], ())):
                given[3] = f"{made}@length"
                model.graph.initializer.append(numpy_helper.from_array(np.array(window[0]), given[3]))
            count += given != [*node.input, "", "", ""][:4]
            node.input[:] = given
        nodes.append(node)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return count


def without_dead_branches(model: Any) -> tuple[Any, int]:
    """The model with not-a-number in the place of branches that no sizes like these can go through, and how many.

    Such is a voice model's branch for another sample rate, whose frames have another length: whoever takes it gets an
    error elsewhere. An If that loses one keeps its condition. Raises what ONNX's shape inference does.
    """
    count = 0
    for place, node in enumerate(model.graph.node):
        if node.op_type != "If":
            continue
        runs = [_branch_taken(model, place, condition=condition) for condition in (True, False)]
        if (runs[0] is None) == (runs[1] is None):
            continue
        alive, dead = (runs[0], "else_branch") if runs[1] is None else (runs[1], "then_branch")
        shapes = dict(_known_shapes(alive.graph))
        kinds = {
            value.name: value.type.tensor_type.elem_type for value in (*alive.graph.value_info, *alive.graph.output)
        }
        if all(name in shapes and kinds.get(name) == onnx.TensorProto.FLOAT for name in node.output):
            branch = next(each for each in node.attribute if each.name == dead)
            branch.g.CopyFrom(_not_a_number({name: shapes[name] for name in node.output}))
            count += 1
    return model, count


def _branch_taken(model: Any, place: int, *, condition: bool) -> Any:
    """The model, its shapes inferred, that always takes this branch of its If; None where it cannot run so."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    nodes = list(copy.graph.node)
    nodes[place : place + 1] = _Folding(copy).taken(copy.graph, nodes[place], condition=condition)
    nodes = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    try:
        return onnx.shape_inference.infer_shapes(copy, strict_mode=True, data_prop=True)
    except onnx.shape_inference.InferenceError:
        return None


def _not_a_number(shapes: Shapes) -> Any:
    nodes, outputs = [], []
    value = numpy_helper.from_array(np.array([np.nan], np.float32))
    for name, shape in shapes.items():
        own = f"{name}@nan"
        sizes = numpy_helper.from_array(np.array(shape, np.int64))
        nodes.append(onnx.helper.make_node("Constant", [], [f"{own}_sizes"], value=sizes))
        nodes.append(onnx.helper.make_node("ConstantOfShape", [f"{own}_sizes"], [own], value=value))
        outputs.append(onnx.helper.make_tensor_value_info(own, onnx.TensorProto.FLOAT, shape))
    return onnx.helper.make_graph(nodes, "no_branch_in_these_sizes", [], outputs)


class _Folding:
    """One pass over a model's graphs."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._makers = Counter(_made(model.graph))

    def fold(self, graph: Any, around: Values, shapes_around: Shapes) -> int:
        """Compute ahead what can be, in place. Returns how many nodes that were."""
        known = around | {each.name: _small(each) for each in graph.initializer}
        shapes = shapes_around | dict(_known_shapes(graph))
        kept, count = [], 0
        waiting = list(reversed(graph.node))
        while waiting:
            node = waiting.pop()
            if node.op_type == "If" and known.get(node.input[0]) is not None:
                condition = bool(known[node.input[0]].item())
                waiting.extend(reversed(self.taken(graph, node, condition=condition)))
                known.update((each.name, _small(each)) for each in graph.initializer)
            elif node.op_type != "Constant" and (made := self._results(node, known, shapes)) is not None:
                known.update(made)
                graph.initializer.extend(numpy_helper.from_array(value, name) for name, value in made.items())
            else:
                kept.append(node)
                if node.op_type == "Constant":
                    known.update(self._run(node, {}) or {})
                elif node.op_type == "If":
                    count += sum(self.fold(each.g, known, shapes) for each in node.attribute)
                continue
            count += 1
        del graph.node[:]
        graph.node.extend(kept)
        return count

    def taken(self, graph: Any, node: Any, *, condition: bool) -> list[Any]:
        """The nodes of the branch that an If takes, to stand in its place; its weights go to the graph."""
        wanted = _BRANCHES[0] if condition else _BRANCHES[1]
        branch = next(each.g for each in node.attribute if each.name == wanted)
        renamed = {name: f"{name}@{node.output[0]}" for name in _made(branch) if self._makers[name] > 1}
        _rename(branch, renamed)
        graph.initializer.extend(branch.initializer)
        results = zip((value.name for value in branch.output), node.output, strict=True)
        copies = [onnx.helper.make_node("Identity", [renamed.get(name, name)], [output]) for name, output in results]
        return [*branch.node, *copies]

    def _results(self, node: Any, known: Values, shapes: Shapes) -> Values | None:
        """What a node makes where that is known ahead and small."""
        if node.op_type in _STAY or node.domain not in {"", "ai.onnx"} or not node.input:
            return None
        if node.op_type in {"Shape", "Size"} and (shape := shapes.get(node.input[0])) is not None:
            ends = {each.name: each.i for each in node.attribute}
            sizes = shape[ends.get("start", 0) : ends.get("end")]
            return {node.output[0]: np.array(sizes if node.op_type == "Shape" else np.prod(shape), np.int64)}
        given = {name: known.get(name) for name in node.input if name}
        return None if any(value is None for value in given.values()) else self._run(node, given)

    def _run(self, node: Any, given: Values) -> Values | None:
        """What ONNX's own evaluator says; None for what it cannot do, and for what is large."""
        inputs, outputs = ([onnx.ValueInfoProto(name=name) for name in names] for names in (given, node.output))
        graph = onnx.helper.make_graph([node], "one", inputs, outputs)
        one = onnx.helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version)
        try:
            values = [np.asarray(value) for value in ReferenceEvaluator(one).run(None, given)]
        except Exception:  # then it stays where it is
            return None
        if any(value.size > _MOST_ELEMENTS or value.dtype == object for value in values):
            return None
        return dict(zip(node.output, values, strict=True))


def _small(weight: Any) -> Any:
    """The value of a weight that may tell sizes, else None."""
    in_file = weight.data_location != onnx.TensorProto.EXTERNAL
    return numpy_helper.to_array(weight) if in_file and np.prod(weight.dims) <= _MOST_ELEMENTS else None


def _known_shapes(graph: Any) -> Iterator[tuple[str, tuple[int, ...]]]:
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        if tensor.HasField("shape") and all(dim.HasField("dim_value") for dim in tensor.shape.dim):
            yield value.name, tuple(dim.dim_value for dim in tensor.shape.dim)
    yield from ((weight.name, tuple(weight.dims)) for weight in graph.initializer)


def _forget_shapes(graph: Any) -> None:
    """Leave out what is said of tensors within: it may be of other sizes than this run's."""
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    for body in _bodies(graph):
        _forget_shapes(body)


def _say_one_sided(graph: Any) -> None:
    """ONNX's inference (1.23) forgets that half of the spectrum is STFT's default."""
    for node in graph.node:
        if node.op_type == "STFT" and not any(each.name == "onesided" for each in node.attribute):
            node.attribute.append(onnx.helper.make_attribute("onesided", 1))
    for body in _bodies(graph):
        _say_one_sided(body)


def _made(graph: Any) -> Iterator[str]:
    """Every tensor that a graph or a body within it makes, as often as one of them does."""
    yield from (weight.name for weight in graph.initializer)
    yield from (name for node in graph.node for name in node.output if name)
    for body in _bodies(graph):
        yield from (value.name for value in body.input)
        yield from _made(body)


def _bodies(graph: Any) -> Iterator[Any]:
    return (each.g for node in graph.node for each in node.attribute if each.HasField("g"))


def _rename(graph: Any, renamed: Mapping[str, str]) -> None:
    """Call tensors otherwise, in a graph and the bodies within it."""
    for value in (*graph.initializer, *graph.input, *graph.output):
        value.name = renamed.get(value.name, value.name)
    for node in graph.node:
        node.input[:] = [renamed.get(name, name) for name in node.input]
        node.output[:] = [renamed.get(name, name) for name in node.output]
    for body in _bodies(graph):
        _rename(body, renamed)
