"""How far rounding alone may move the outputs of a model: the floor below which engines cannot be told apart.

Engines round at other places, fuse what others store, and approximate exponentials in their own ways. Each is as right
as any other, and how far the outputs move is a property of the model: where 1 is taken from a sigmoid near 1, all that
is left is rounding. So every result within the graph is moved at random by as much as it is uncertain, and the outputs
are watched: Monte Carlo arithmetic (Parker, "Monte Carlo Arithmetic", UCLA CSD-970002, 1997), a tensor at a time.

- A float32 result is moved by up to one rounding of itself; where it is a sum (a product of matrices, a mean), of the
  tensor's largest value, since sums round at the size of their terms; what a sigmoid or a softmax makes, of 1, the size
  they compute at.
- What is quantized is moved by up to half a step: which way a value between two steps goes depends on the engine. So is
  what is multiplied by weights of eight bits or fewer, since an engine may quantize it to use its integer units.

Beside the moved graphs runs the one as given, optimized and not, so that the spread of ONNX Runtime's own levels counts
as well.
"""

import contextlib
import json
import resource
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, inliner

from enginebench_controller.errors import ModelError
from enginebench_controller.graph.shape_inference import bound_copy, named_sizes
from enginebench_controller.memory_limit import limit_memory
from enginebench_controller.models.inputs.values import seeded_inputs
from enginebench_controller.records import InputTensor, InputValues, OutputNoise

ROUNDING = 2.0**-23
"""The distance of two neighbouring float32 values, relative to the larger."""

DRAWS = 3
"""Inputs, for each of which the graph is moved anew."""

TIME_LIMIT_S = 60
MOST_MODEL_BYTES = 1 << 30
MOST_MEMORY_BYTES = 8 << 30

Arrays = Mapping[str, NDArray[Any]]

_EXACT = frozenset({
    "Abs", "Cast", "CastLike", "Ceil", "Clip", "Compress", "Concat", "Constant", "ConstantOfShape",
    "DepthToSpace", "DequantizeLinear", "Dropout", "Expand", "EyeLike", "Flatten", "Floor", "Gather",
    "GatherElements", "GatherND", "GlobalMaxPool", "Identity", "If", "Loop", "Max", "MaxPool", "Min", "Neg",
    "OneHot", "Pad", "QuantizeLinear", "RandomNormal", "RandomUniform", "Range", "ReduceMax", "ReduceMin",
    "Relu", "Reshape", "Round", "Scan", "ScatterElements", "ScatterND", "Shape", "Sign", "Size", "Slice",
    "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose", "Unsqueeze", "Where",
})  # fmt: skip
"""Operators that only move, choose or round to whole numbers: every engine's results are the same."""

_OF_SIZE_ONE = frozenset({
    "Cos", "Erf", "GRU", "Gelu", "HardSigmoid", "LSTM", "Mish", "RNN", "Sigmoid", "Sin", "Softmax", "Softsign",
    "Swish", "Tanh",
})  # fmt: skip
"""Operators that compute with numbers of the size of 1, however small what comes out is."""

_SUMS = frozenset({
    "AveragePool", "BatchNormalization", "Conv", "ConvTranspose", "CumSum", "DFT", "Einsum", "Gemm",
    "GlobalAveragePool", "GroupNormalization", "InstanceNormalization", "LRN", "LayerNormalization",
    "LogSoftmax", "LpNormalization", "MatMul", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp",
    "ReduceMean", "ReduceSum", "ReduceSumSquare", "Resize", "STFT", "Sum",
})  # fmt: skip
"""Operators that add up many terms, which may cancel each other."""

_PRODUCTS = frozenset({"Conv", "Gemm", "MatMul"})
_DYNAMIC = "DynamicQuantize"
_EIGHT_BITS = frozenset({TensorProto.INT8, TensorProto.UINT8, TensorProto.INT4, TensorProto.UINT4})
_FLOAT = TensorProto.FLOAT
_SHAPES = frozenset({"Shape", "Size"})
_QUANTIZED_RESULT = "QLinear"


@dataclass(frozen=True)
class NoiseOrder:
    """What to find the noise of: a model file, its inputs in this run, and the seed that they are drawn from."""

    path: str
    inputs: tuple[InputTensor, ...]
    seed: int = 0
    values: tuple[InputValues, ...] = ()
    files: tuple[Mapping[str, str], ...] = ()
    """Where given inputs lie, an item each."""


def rounding_noise(order: NoiseOrder, time_limit_s: float = TIME_LIMIT_S) -> tuple[OutputNoise, ...]:
    """The noise of every output, found in a process of its own, which may neither last nor grow beyond its limits.

    Raises `ModelError` with the reason where there is none.
    """
    size = Path(order.path).stat().st_size
    if size > MOST_MODEL_BYTES:
        raise ModelError(f"the model has {size >> 20} MiB, and noise is looked for in models up to 1024 MiB")
    command = [sys.executable, "-P", "-m", "enginebench_controller.graph.rounding_noise"]
    try:
        ended = subprocess.run(
            command, input=json.dumps(asdict(order)), capture_output=True, text=True, timeout=time_limit_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"it was not found within {time_limit_s:.0f} s") from error
    try:
        answer = json.loads(ended.stdout)
    except ValueError as error:
        raise ModelError("the process that looked for it ended without an answer") from error
    if "error" in answer:
        raise ModelError(answer["error"])
    return tuple(OutputNoise(**one) for one in answer["noise"])


def main() -> None:
    """Answer the one order on stdin."""
    limit_memory(resource.RLIMIT_AS, MOST_MEMORY_BYTES)
    order = json.loads(sys.stdin.read())
    inputs = tuple(InputTensor(**one | {"shape": tuple(one["shape"])}) for one in order["inputs"])
    values = tuple(InputValues(**one) for one in order["values"])
    try:
        found = find_noise(NoiseOrder(order["path"], inputs, order["seed"], values, tuple(order["files"])))
        print(json.dumps({"noise": [asdict(one) for one in found]}))
    except Exception as error:  # whatever a stranger's model brings about is a reason
        print(json.dumps({"error": next(iter(str(error).splitlines()), type(error).__name__)}))


def find_noise(order: NoiseOrder) -> tuple[OutputNoise, ...]:
    """The noise of every output of the model, in this process. Raises what ONNX and its runtime raise."""
    from onnxruntime import GraphOptimizationLevel as Levels  # noqa: PLC0415  # takes its time

    path = Path(order.path)
    plain, optimized = _session(str(path), Levels.ORT_DISABLE_ALL), _session(str(path), Levels.ORT_ENABLE_ALL)
    model = moved_model(onnx.load(path), {one.name: one.shape for one in order.inputs})
    moved = _session(_with_outside_data(model, path), Levels.ORT_DISABLE_ALL)
    largest: dict[str, OutputNoise] = {}
    for draw in range(DRAWS):
        given = {**seeded_inputs(order.inputs, order.seed + draw, order.values), **_given(order, draw)}
        expected = _run(plain, given)
        for found in (_run(optimized, given), _run(moved, given)):
            for name, values in expected.items():
                apart = _distance(name, values, found[name])
                largest[name] = _larger(largest.get(name, apart), apart)
    return tuple(largest.values())


def _given(order: NoiseOrder, draw: int) -> Arrays:
    """The inputs that lie in files."""
    item = order.files[draw % len(order.files)] if order.files else {}
    return {name: np.load(file, allow_pickle=False) for name, file in item.items()}


def moved_model(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """The model with every uncertain result moved at random, in the bodies of its control flow too.

    Results that do not depend on the content of an input are left alone: sizes are computed from them.
    """
    if model.functions:
        model = inliner.inline_local_functions(model)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    weights = {one.name for one in copy.graph.initializer}
    known = _Known({value.name for value in copy.graph.input} - weights)
    with contextlib.suppress(Exception):  # types are then known of what is declared only
        _note_types(
            onnx.shape_inference.infer_shapes(bound_copy(model, shapes, named_sizes(model.graph, shapes))).graph, known
        )
    _note_types(copy.graph, known)
    _move(copy.graph, known)
    return copy


@dataclass
class _Known:
    """What the walk through a graph knows: tensors that depend on an input's content, and a number for new names."""

    moving: set[str]
    types: dict[str, int] = field(default_factory=dict)
    stored_small: set[str] = field(default_factory=set)
    """Constants that are, or are made from, integers of at most eight bits."""
    count: int = 0

    def name(self) -> str:
        self.count += 1
        return f"__noise_{self.count}"


def _note_types(graph: onnx.GraphProto, known: _Known) -> None:
    for value in (*graph.value_info, *graph.input, *graph.output):
        known.types[value.name] = value.type.tensor_type.elem_type or known.types.get(value.name, 0)
    for tensor in graph.initializer:
        known.types[tensor.name] = tensor.data_type
        if tensor.data_type in _EIGHT_BITS and len(tensor.dims) > 1:
            known.stored_small.add(tensor.name)
    for body in (one.g for node in graph.node for one in node.attribute if one.HasField("g")):
        _note_types(body, known)


def _move(graph: onnx.GraphProto, known: _Known) -> None:
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        bodies = [one.g for one in node.attribute if one.HasField("g")]
        depends = bool(bodies) or any(name in known.moving for name in node.input)
        if depends and node.op_type not in _SHAPES:
            known.moving.update(node.output)
        for body in bodies:
            known.moving.update(value.name for value in body.input)
            _move(body, known)
        if not depends and not known.stored_small.isdisjoint(node.input):
            known.stored_small.update(node.output)
        if not depends or node.op_type in _SHAPES:
            nodes.append(node)
            continue
        nodes += _moved_node(node, known)
    del graph.node[:]
    graph.node.extend(nodes)


def _moved_node(node: onnx.NodeProto, known: _Known) -> Iterator[onnx.NodeProto]:
    if node.op_type == "QuantizeLinear" and node.input[0] in known.moving:
        yield from _before_steps(node, known, [node.input[1]])
    elif node.op_type.startswith(_DYNAMIC) and known.types.get(node.input[0], _FLOAT) == _FLOAT:
        yield from _before_steps(node, known, None)
    elif node.op_type in _PRODUCTS and not known.stored_small.isdisjoint(node.input) and node.input[0] in known.moving:
        *added, last = _before_steps(node, known, None)
        yield from (*added, *_after_rounding(last, known))
    elif node.op_type.startswith(_QUANTIZED_RESULT):
        yield from _after_steps(node, known)
    elif node.op_type in _EXACT:
        yield node
    else:
        yield from _after_rounding(node, known)


def _after_rounding(node: onnx.NodeProto, known: _Known) -> Iterator[onnx.NodeProto]:
    """The node with its float32 results moved by a rounding of the largest, or of 1."""
    outputs = list(node.output)
    added: list[onnx.NodeProto] = []
    for place, output in enumerate(outputs):
        if not output or known.types.get(output) != TensorProto.FLOAT:
            continue
        raw, noise, moved = known.name(), known.name(), output
        node.output[place] = raw
        added.append(_random_like(raw, noise, ROUNDING))
        if node.op_type not in _OF_SIZE_ONE and node.op_type not in _SUMS:
            scaled = known.name()
            added.append(helper.make_node("Mul", [noise, raw], [scaled]))
            noise = scaled
        elif node.op_type in _SUMS:
            size, largest, scaled = known.name(), known.name(), known.name()
            added += [
                helper.make_node("Abs", [raw], [size]),
                helper.make_node("ReduceMax", [size], [largest], keepdims=0),
                helper.make_node("Mul", [noise, largest], [scaled]),
            ]
            noise = scaled
        added.append(helper.make_node("Add", [raw, noise], [moved]))
    yield node
    yield from added


def _before_steps(node: onnx.NodeProto, known: _Known, scale: list[str] | None) -> Iterator[onnx.NodeProto]:
    """The node with its input moved by half a step, which is `scale`, or a 255th of the range where none is given."""
    source = node.input[0]
    noise, moved, scaled = known.name(), known.name(), known.name()
    yield _random_like(source, noise, 0.5)
    if scale is None:
        high, low, spread, steps, step = (known.name() for _ in range(5))
        yield helper.make_node("ReduceMax", [source], [high], keepdims=0)
        yield helper.make_node("ReduceMin", [source], [low], keepdims=0)
        yield helper.make_node("Sub", [high, low], [spread])
        value = helper.make_tensor(steps, TensorProto.FLOAT, [], [1 / 255])
        yield helper.make_node("Constant", [], [steps], value=value)
        yield helper.make_node("Mul", [spread, steps], [step])
        scale = [step]
    yield helper.make_node("Mul", [noise, *scale], [scaled])
    yield helper.make_node("Add", [source, scaled], [moved])
    node.input[0] = moved
    yield node


def _after_steps(node: onnx.NodeProto, known: _Known) -> Iterator[onnx.NodeProto]:
    """The node with its eight-bit result moved by a step, for one value in three."""
    kind = known.types.get(node.output[0])
    if kind not in (TensorProto.UINT8, TensorProto.INT8):
        yield node
        return
    output = node.output[0]
    raw, real, noise, moved, whole, low, high, kept = (known.name() for _ in range(8))
    node.output[0] = raw
    bounds = (0.0, 255.0) if kind == TensorProto.UINT8 else (-128.0, 127.0)
    yield node
    yield helper.make_node("Cast", [raw], [real], to=TensorProto.FLOAT)
    yield _random_like(real, noise, 0.75)
    yield helper.make_node("Add", [real, noise], [moved])
    yield helper.make_node("Round", [moved], [whole])
    for name, bound in zip((low, high), bounds, strict=True):
        yield helper.make_node("Constant", [], [name], value=helper.make_tensor(name, TensorProto.FLOAT, [], [bound]))
    yield helper.make_node("Clip", [whole, low, high], [kept])
    yield helper.make_node("Cast", [kept], [output], to=kind)


def _random_like(source: str, made: str, most: float) -> onnx.NodeProto:
    return helper.make_node("RandomUniformLike", [source], [made], low=-most, high=most, dtype=TensorProto.FLOAT)


def _session(model: Any, level: Any) -> Any:
    import onnxruntime  # noqa: PLC0415  # takes its time

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = level
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def _with_outside_data(model: onnx.ModelProto, path: Path) -> bytes:
    onnx.load_external_data_for_model(model, str(path.parent))
    content: bytes = model.SerializeToString()
    return content


def _run(session: Any, given: Arrays) -> dict[str, NDArray[Any]]:
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(given)), strict=True))


def _larger(one: OutputNoise, other: OutputNoise) -> OutputNoise:
    changes = [(each.absolute, each.elements) for each in (one, other)]
    if (None, None) in changes:
        return OutputNoise(one.name, None)
    return OutputNoise(one.name, *map(max, zip(*changes, strict=True)))


def _distance(name: str, one: NDArray[Any], other: NDArray[Any]) -> OutputNoise:
    if one.shape != other.shape:
        return OutputNoise(name, None)
    if one.dtype.kind not in "biuf" or not one.size:
        return OutputNoise(name, 0.0, 0.0)
    apart = np.abs(one.astype(np.float64) - other.astype(np.float64))
    largest = float(np.max(apart, initial=0.0, where=np.isfinite(apart)))
    return OutputNoise(name, largest, float(np.mean(apart > 0)))


if __name__ == "__main__":
    main()
