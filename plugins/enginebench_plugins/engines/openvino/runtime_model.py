"""What OpenVINO made of the model: its layers, their precisions and kernels, and the nodes that each was made from.

The reader of ONNX files names an operation as its node, or as its last output where the node has no name, and gives
the operation's outputs the names of the node's. Of the several operations that one node may become only the last has
these; others are called like "n0/WithoutBiases", or "LSTMSequence_15", and come before it. A name that is taken gets a
number: "conv_1", and of an operation that is taken apart the part that makes its output 0 gets "LSTMSequence_15.0".
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginebench_plugins import spec

DATA_DEPENDENT = -1
"""Stands for a size that is not known before the data is."""

DATA_TYPES = frozenset({"input", "parameter", "const", "constant", "output", "result", "reorder"})
"""Layer types that only hold or move data."""

HEAVY_TYPES = frozenset(
    {"convolution", "groupconvolution", "deconvolution", "fullyconnected", "matmul", "gemm"}
    | {"rnncell", "rnnseq", "lstmcell", "lstmseq", "scaleddotproductattention"}
)
"""Layer types that the time goes into: where there are any, they decide what precision a model ran in. Around them,
every bf16 model has some f32 left, such as the last softmax."""

GIVEN_TYPES = frozenset({"input", "parameter", "const", "constant"})
"""Layer types that stand for a tensor of the model."""

TOLD_APART = frozenset(
    {"execOrder", "execTimeMcs", "layerType", "originalLayersNames", "primitiveType", "runtimePrecision"}
)
"""What the runtime model tells of every layer and a profile has a field for."""

FLOATING = {"f32": "f32", "fp32": "f32", "bf16": "bf16", "f16": "f16", "fp16": "f16"}

INT8 = "int8"
INTEGERS = frozenset({"i8", "u8", "s8", "i4", "u4"})

INSTRUCTION_SETS = ("amx", "avx512", "avx2_vnni", "avx2", "avx", "sse", "sve", "asimd", "neon")
"""Parts of the names of kernels, such as `brgconv_avx2_f32`: the highest instruction set of each family first."""

NUMBERED = re.compile(r"(.+)_\d+")
OUTPUT = re.compile(r"(.+)\.\d+")
SEQUENCES = frozenset({"rnnseq", "tensoriterator"})
"""Layer types whose two directions are parts that no longer bear a name of the model."""

PART = "/"
RESULT = "sink_port_"
"""What OpenVINO calls an output of the model: "logits/sink_port_0" holds what logits makes, and makes nothing."""


@dataclass(frozen=True)
class RuntimeLayer:
    """One layer of the runtime model, in OpenVINO's words.

    `original_names` are the operations it was made of, as OpenVINO calls them, and cut at the commas within a name.
    Tensors of the runtime model have no names: `inputs` and `outputs` name the layer that makes them, and which of its
    outputs they are ("conv1[0]").
    """

    name: str
    type: str
    kernel: str
    precision: str
    output_shapes: tuple[tuple[int, ...], ...]
    original_names: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)


def runtime_layers(network: Any) -> list[RuntimeLayer]:
    """The layers of a compiled network in execution order, constants included."""
    return [_layer(operation) for operation in network.get_runtime_model().get_ordered_ops()]


def executed_precision(layers: Sequence[RuntimeLayer]) -> str | None:
    """The precision of the layers that compute, "mixed" for several floating ones, None where none is floating.

    Where products are computed in integers: "int8", with how many of them unless it is all.
    """
    heavy = list(filter(None, (_computing_word(layer) for layer in layers if _kind(layer) in HEAVY_TYPES)))
    integers = heavy.count(INT8)
    if integers:
        return INT8 if integers == len(heavy) else f"{INT8} ({integers} of {len(heavy)} products)"
    others = (_computing_word(layer) for layer in layers if _kind(layer) not in DATA_TYPES)
    found = {word for word in heavy or others if word and word != INT8}
    if not found:
        return None
    return found.pop() if len(found) == 1 else "mixed"


def _computing_word(layer: RuntimeLayer) -> str | None:
    """In what a layer computes, None for integers that are no product's.

    The kernel's name ends with it. The precision of a fully connected layer whose weights are stored in FP16, or in
    INT8 for the storage alone, is that of the weights, though its kernel `brgemm_avx2_f32` widens them (2026.4).
    """
    stated = layer.precision.lower()
    word = INT8 if stated in INTEGERS else FLOATING.get(stated)
    return word and FLOATING.get(layer.kernel.lower().rpartition("_")[2], word)


def executed_isa(layers: Sequence[RuntimeLayer]) -> str | None:
    """The highest instruction set that a kernel's name tells of."""
    kernels = " ".join(layer.kernel for layer in layers)
    return next((name for name in INSTRUCTION_SETS if name in kernels), None)


def batched_requests(network: Any) -> int:
    """How many requests the engine joins to one inference by itself: its layers take that many times the batch.

    1 without automatic batching, and where the shapes do not tell.
    """
    given, executed = (_first_size(ports) for ports in (network.inputs, network.get_runtime_model().inputs))
    return executed // given if given and executed else 1


def has_known_shapes(layers: Sequence[RuntimeLayer]) -> bool:
    """Whether no layer's output waits for the data to get its shape."""
    return all(DATA_DEPENDENT not in shape for layer in layers for shape in layer.output_shapes)


def _layer(operation: Any) -> RuntimeLayer:
    info = operation.get_rt_info()
    return RuntimeLayer(
        name=operation.get_friendly_name(),
        type=_text(info, "layerType"),
        kernel=_text(info, "primitiveType"),
        precision=_text(info, "runtimePrecision"),
        output_shapes=tuple(_sizes(port.get_partial_shape()) for port in operation.outputs()),
        original_names=tuple(filter(None, _text(info, "originalLayersNames").split(","))),
        inputs=tuple(_tensor(port.get_source_output()) for port in operation.inputs()),
        outputs=tuple(_tensor(port) for port in operation.outputs()),
        parameters=dict(_parameters(info)),
    )


def _tensor(port: Any) -> str:
    """A tensor's name: weights and the model's inputs are layers of their own name, and so have their own."""
    layer = port.get_node()
    name = str(layer.get_friendly_name())
    given = _text(layer.get_rt_info(), "layerType").lower() in GIVEN_TYPES
    return name if given else f"{name}[{port.get_index()}]"


def _parameters(info: Any) -> Iterator[tuple[str, str]]:
    """What else the runtime model tells of a layer, such as the layouts of its outputs."""
    for key in info:
        if key not in TOLD_APART and (text := _text(info, key)):
            yield key, text


def _text(info: Any, key: str) -> str:
    if key not in info:
        return ""
    value = info[key]
    return str(getattr(value, "value", value))


def _sizes(shape: Any) -> tuple[int, ...]:
    """Sizes, -1 for one that depends on the data, and alone for a number of sizes that does."""
    if shape.rank.is_dynamic:
        return (DATA_DEPENDENT,)
    return tuple(DATA_DEPENDENT if size.is_dynamic else size.get_length() for size in shape)


def _first_size(ports: Sequence[Any]) -> int | None:
    shape = _sizes(ports[0].get_partial_shape()) if ports else ()
    return shape[0] if shape and shape[0] != DATA_DEPENDENT else None


def _kind(layer: RuntimeLayer) -> str:
    return layer.type.lower().replace("_", "")


@dataclass(frozen=True)
class OriginalNames:
    """The operations of a model as read, by name.

    `named` are those that stand for a node of the file, each with the names of its outputs. `parts` are the others that
    were made for a node, each with the names of that node's outputs.
    """

    named: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def original_names(model: Any, form: str) -> OriginalNames:
    """The operations of the model, with the outputs of the file's node that each was made for.

    An operation whose outputs have no name was made for the node of those that read from it. In OpenVINO's own form
    each operation stands for itself.
    """
    results = {port.node.get_friendly_name() for port in model.outputs}  # stand for no node
    named: dict[str, tuple[str, ...]] = {}
    parts: dict[str, tuple[str, ...]] = {}
    for operation in reversed(model.get_ordered_ops()):
        name = operation.get_friendly_name()
        outputs = tuple(text for port in operation.outputs() for text in sorted(port.get_names()))
        if name in results:
            continue
        if outputs or form == spec.ModelFormat.OPENVINO_IR:
            named[name] = outputs
        elif operation.get_type_name() != "Constant":
            parts[name] = tuple(dict.fromkeys(_outputs_behind(operation, named, parts)))
    return OriginalNames(named, parts)


def _outputs_behind(operation: Any, *known: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    """The named outputs that are made of those of an operation."""
    for port in operation.outputs():
        for target in port.get_target_inputs():
            reader = target.get_node().get_friendly_name()
            yield from (name for names in known for name in names.get(reader, ()))


def origins(layers: Sequence[RuntimeLayer], known: OriginalNames) -> dict[str, tuple[str, ...]]:
    """The nodes, or their outputs, that each layer was made from; none for what OpenVINO made itself.

    A direction of a recurrent layer that was taken apart has those of the layers that read its output.
    """
    most = 1 + max((name.count(",") for name in (*known.named, *known.parts)), default=0)
    found = {
        layer.name: source_nodes(tuple(_whole(layer.original_names, known, most)) or (layer.name,), known)
        for layer in layers
    }
    readers: defaultdict[str, list[str]] = defaultdict(list)
    for layer in layers:
        for tensor in layer.inputs:
            readers[tensor].append(layer.name)
    written = {layer.name: layer.outputs for layer in layers}
    for layer in layers:
        if layer.type.lower() in SEQUENCES and not found[layer.name]:
            found[layer.name] = _first_behind(layer.name, found, readers, written)
    return found


def _whole(pieces: Sequence[str], known: OriginalNames, most: int) -> Iterator[str]:
    """The names that OpenVINO told in one line with commas between them: one with commas of its own is in pieces.

    `most` is how many a name can be in.
    """
    start = 0
    while start < len(pieces):
        tried = (",".join(pieces[start : start + count]) for count in range(most, 1, -1))
        name = next((name for name in tried if name in known.named or name in known.parts), pieces[start])
        yield name
        start += 1 + name.count(",")


def _first_behind(
    layer: str,
    found: Mapping[str, tuple[str, ...]],
    readers: Mapping[str, Sequence[str]],
    written: Mapping[str, Sequence[str]],
) -> tuple[str, ...]:
    """The origin of the first layers with one that the data comes to."""
    origin: dict[str, None] = {}
    seen, waiting = {layer}, [layer]
    while waiting:
        for tensor in written[waiting.pop()]:
            for reader in readers.get(tensor, ()):
                origin |= dict.fromkeys(found[reader])
                if reader not in seen and not found[reader]:
                    waiting.append(reader)
                seen.add(reader)
    return tuple(origin)


def source_nodes(stated: Iterable[str], known: OriginalNames) -> tuple[str, ...]:
    """The nodes, or their outputs, that operations were made from; none for what OpenVINO made itself."""
    found = dict.fromkeys(source for name in stated for source in _sources(name, known))
    return tuple(found)


def _sources(name: str, known: OriginalNames) -> tuple[str, ...]:
    part = OUTPUT.fullmatch(name)
    if name in known.parts or (part and part[1] in known.parts):
        return known.parts.get(name, ()) or known.parts.get(name.rpartition(".")[0], ())
    named = known.named
    if name not in named:
        name, _, end = name.rpartition(PART)
        if end.startswith(RESULT):
            return ()
    numbered = NUMBERED.fullmatch(name)
    if numbered and numbered[1] in named:
        return named.get(name) or (name,)  # the number may not be the node's own, the outputs are
    return (name,) if name in named else ()
