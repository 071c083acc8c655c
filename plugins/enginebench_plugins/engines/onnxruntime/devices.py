"""Devices of ONNX Runtime: the execution providers of the installed build, named as a person names the hardware."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.onnxruntime.plugin_providers import PROVIDER, plugin_devices
from enginebench_plugins.toolkit.engine import imported, processor_name

REMOTE = frozenset({"AzureExecutionProvider"})
"""Providers that send the inputs to somebody else's computer: nothing to measure here, and listed in every build."""


@dataclass(frozen=True)
class _Naming:
    device: str
    full_name: str
    resources: tuple[str, ...]


NAMINGS = {
    "CUDAExecutionProvider": _Naming("CUDA:0", "first CUDA device", ("cuda:0",)),
    "TensorrtExecutionProvider": _Naming("TENSORRT:0", "TensorRT on the first CUDA device", ("cuda:0",)),
    "NvTensorRTRTXExecutionProvider": _Naming("TENSORRT_RTX:0", "TensorRT RTX on the first CUDA device", ("cuda:0",)),
    "MIGraphXExecutionProvider": _Naming("MIGRAPHX:0", "MIGraphX on the first ROCm device", ("rocm:0",)),
    "DmlExecutionProvider": _Naming("DIRECTML:0", "first DirectX 12 adapter", ("gpu:0",)),
    "CoreMLExecutionProvider": _Naming("COREML", "Core ML on whatever unit it chooses", ("cpu", "gpu:0", "npu")),
    "QNNExecutionProvider": _Naming("QNN", "Qualcomm AI Engine Direct", ("npu",)),
}


def find_devices(onnxruntime: Any) -> Sequence[spec.Device]:
    """One device for every execution provider that is available and runs on this machine, in the runtime's order.

    Behind those of the build stand those of packages: once they are registered, the runtime names them among its own,
    and with them what chooses among their devices, as "OpenVINOExecutionProvider.AUTO" does, which is none.
    """
    of_packages = plugin_devices(onnxruntime)
    others = REMOTE | {one.properties[PROVIDER] for one in of_packages}
    of_the_build = [one for one in onnxruntime.get_available_providers() if one.partition(".")[0] not in others]
    return [*map(_device, of_the_build), *of_packages]


def _device(provider: str) -> spec.Device:
    naming = NAMINGS.get(provider) or _name(provider)
    return spec.Device(
        name=naming.device,
        full_name=naming.full_name,
        resources=naming.resources,
        properties={PROVIDER: provider},
    )


def _name(provider: str) -> _Naming:
    """A provider without an entry above runs on the processor, as oneDNN, XNNPACK, ACL and OpenVINO's default do."""
    short = provider.removesuffix("ExecutionProvider")
    if short == "CPU":
        return _Naming("CPU", processor_name(), ("cpu",))
    return _Naming(short.upper(), f"{short} on {processor_name()}", ("cpu",))


def import_onnxruntime() -> Any:
    """The `onnxruntime` module. Raises `EngineUnavailableError` with the remedy."""
    return imported(
        "onnxruntime",
        "ONNX Runtime",
        'pip install "enginebench[onnxruntime]", or enginebench-agent environment add NAME --engine onnxruntime',
        "reinstall it in this environment",
    )
