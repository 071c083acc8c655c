"""What OpenVINO made of the model: the layers of the runtime model, their precisions and kernels."""

from collections.abc import Sequence
from dataclasses import dataclass
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

FLOATING = {"f32": "f32", "fp32": "f32", "bf16": "bf16", "f16": "f16", "fp16": "f16"}

INSTRUCTION_SETS = ("amx", "avx512", "avx2_vnni", "avx2", "avx", "sse", "sve", "asimd", "neon")
"""Parts of the names of kernels, such as `brgconv_avx2_f32`: the highest instruction set of each family first."""


@dataclass(frozen=True)
class RuntimeLayer:
    """One layer of the runtime model, in OpenVINO's words."""

    name: str
    type: str
    kernel: str
    precision: str
    output_shapes: tuple[tuple[int, ...], ...]
    source_nodes: tuple[str, ...]


def runtime_layers(network: Any) -> list[RuntimeLayer]:
    """The layers of a compiled network in execution order, constants included."""
    return [_layer(operation) for operation in network.get_runtime_model().get_ordered_ops()]


def executed_precision(layers: Sequence[RuntimeLayer]) -> str | None:
    """The floating precision of the layers that compute, "mixed" for several, None where none is floating."""
    heavy = [layer for layer in layers if _kind(layer) in HEAVY_TYPES]
    computing = heavy or [layer for layer in layers if _kind(layer) not in DATA_TYPES]
    found = {FLOATING[word] for layer in computing if (word := layer.precision.lower()) in FLOATING}
    if not found:
        return None
    return found.pop() if len(found) == 1 else "mixed"


def executed_isa(layers: Sequence[RuntimeLayer]) -> str | None:
    """The highest instruction set that a kernel's name tells of."""
    kernels = " ".join(layer.kernel for layer in layers)
    return next((name for name in INSTRUCTION_SETS if name in kernels), None)


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
        source_nodes=tuple(filter(None, _text(info, "originalLayersNames").split(","))),
    )


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


def _kind(layer: RuntimeLayer) -> str:
    return layer.type.lower().replace("_", "")
