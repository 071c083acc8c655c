"""The words that both ends and the plugins use for one thing. On the wire their values are never changed."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

DEFAULT_DEVICE = "CPU"
"""The device of who names none."""

DEFAULT_ENVIRONMENT = "default"
"""The environment that an agent itself runs in."""

UNSEEN_USERS = "who else uses the device"
"""Of what an agent cannot see: of any device but the processor."""

ERROR_CODE_KEY = "enginebench-error"
"""The name of an agent's own code of an error in the trailing metadata: a status of gRPC's stands for several."""

DISK_FULL = "disk_full"
"""The code of the refusal of a target whose disk has no room."""

BUSY = "busy"
"""The code of the refusal of a target that has as much to do as its owner allows."""

RESERVED = "reserved"
"""The code of the refusal of a target that is there for somebody else alone, for a while."""

ON_BATTERY = "battery"
"""What a machine that is not plugged in runs on."""

POWER_AT = "power at"
"""Stands after the name of a meter that counts no energy: its readings are too few to decide between two by."""

PROCESSOR = "cpu"
"""The resource that runs on the processor hold."""

OPTIMIZATION_LEVEL = "optimization_level"
"""The engine option that says how much an engine may rewrite the graph it analyses; two levels do not compare."""

IMPOSED_SPARSITY = "imposed_sparsity"
"""The engine option that has every layer with weights run as if this share of them were zero."""

INTEGER_PRODUCTS = frozenset({
    "ConvInteger", "DynamicQuantizeLSTM", "DynamicQuantizeMatMul", "MatMulInteger", "MatMulIntegerToFloat",
    "QAttention", "QGemm", "QLinearConv", "QLinearMatMul",
})  # fmt: skip
"""Operators of ONNX and ONNX Runtime that multiply integers of 8 bits, whatever the type of what they put out."""


def package_of(engine: str) -> str:
    """What the package of an engine is called: mostly as the engine is."""
    return {"litert": "ai-edge-litert"}.get(engine, engine)


class ModelFormat(StrEnum):
    """File formats of models."""

    ONNX = "onnx"
    OPENVINO_IR = "openvino_ir"
    TORCHSCRIPT = "torchscript"
    TORCH_EXPORT = "torch_export"


SUFFIXES: Mapping[str, ModelFormat] = MappingProxyType(
    {
        ".onnx": ModelFormat.ONNX,
        ".xml": ModelFormat.OPENVINO_IR,
        ".pt": ModelFormat.TORCHSCRIPT,
        ".ts": ModelFormat.TORCHSCRIPT,
        ".torchscript": ModelFormat.TORCHSCRIPT,
        ".pt2": ModelFormat.TORCH_EXPORT,
    }
)
"""What the ending of a model's main file says of its format."""


class Precision(StrEnum):
    """Floating precisions an engine can be asked for; DEFAULT leaves the choice to the engine."""

    DEFAULT = "default"
    F32 = "f32"
    BF16 = "bf16"
    F16 = "f16"


class Hint(StrEnum):
    """What the engine is told to optimize for."""

    NONE = "none"
    LATENCY = "latency"
    THROUGHPUT = "throughput"
    CUMULATIVE_THROUGHPUT = "cumulative"


class Load(StrEnum):
    """How requests reach the engine: one after the other, a fixed number in flight, or on a schedule of arrivals.

    A plugin only ever sees the first two: an open loop is asynchronous to it.
    """

    SYNC = "sync"
    ASYNC = "async"
    OPEN_LOOP = "open-loop"


class ReadbackSource(StrEnum):
    """How a value was obtained: the engine states it, the harness saw it, or it follows from how the engine works.

    Repeating the request is none of these: an engine that only echoes what it was asked for has no ENGINE_API value.
    """

    ENGINE_API = "engine_api"
    OBSERVED = "observed"
    ASSUMED = "assumed"


class LayerState(StrEnum):
    """What is known of a layer's run. These five are never confused, least of all with a time of 0.

    A plugin says one of the first three. `ABSENT` is only said in comparisons: the other side has such a layer, this
    one has none.
    """

    EXECUTED = "executed"
    NOT_EXECUTED = "not_executed"
    OPTIMIZED_AWAY = "optimized_away"
    ABSENT = "absent"
    NO_DATA = "no_data"
