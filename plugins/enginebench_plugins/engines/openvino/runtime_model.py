"""What OpenVINO made of the model: the layers of the runtime model, their precisions and kernels."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

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
