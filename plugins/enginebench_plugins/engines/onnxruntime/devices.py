"""Devices of ONNX Runtime: the execution providers of the installed build, and those in packages of their own.

The build's are named as a person names the hardware. Of the packages, `onnxruntime-ep-*`, `get_available_providers`
knows nothing: each has a library, which the runtime loads, and says by `get_ep_names` what is in it; the runtime then
lists the hardware that each provider can use.
"""

import importlib
import json
import pkgutil
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import imported, processor_name

PROVIDER = "execution_provider"
"""The property of a device that names its provider."""
PACKAGE = "package"
"""The property of a device that names the package that its provider comes from."""

GRAPHICS = frozenset({"WebGpuExecutionProvider"})
"""Providers that speak to graphics cards only, and hand their work over to them: the runtime's trace has how long the
handing over took, which is less than a hundredth of the work. On a processor the card is software.
"""

PREFIX = "onnxruntime_ep_"
_OPENVINO = "OpenVINOExecutionProvider"
_BY_VENDOR = {0x10DE: "cuda:0", 0x1002: "rocm:0"}
"""What other providers call the first GPU of that PCI vendor: both occupy it."""

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


def import_onnxruntime() -> Any:
    """The `onnxruntime` module. Raises `EngineUnavailableError` with the remedy."""
    return imported(
        "onnxruntime",
        "ONNX Runtime",
        'pip install "enginebench[onnxruntime]", or enginebench-agent environment add NAME --engine onnxruntime',
        "reinstall it in this environment",
    )


def find_devices(onnxruntime: Any) -> Sequence[spec.Device]:
    """One device for every execution provider that is available and runs on this machine, in the runtime's order.

    Behind those of the build stand those of packages: once they are registered, the runtime names them among its own,
    and with them what chooses among their devices, as "OpenVINOExecutionProvider.AUTO" does, which is none.
    """
    of_packages = plugin_devices(onnxruntime)
    others = REMOTE | {one.properties[PROVIDER] for one in of_packages}
    of_the_build = [one for one in onnxruntime.get_available_providers() if one.partition(".")[0] not in others]
    return [*map(_device_of_the_build, of_the_build), *of_packages]


def _device_of_the_build(provider: str) -> spec.Device:
    naming = NAMINGS.get(provider) or _name(provider)
    return spec.Device(
        name=naming.device,
        full_name=naming.full_name,
        resources=naming.resources,
        properties={PROVIDER: provider},
    )


def _name(provider: str) -> _Naming:
    """A provider without an entry above runs on the processor, as oneDNN, XNNPACK, ACL and OpenVINO's default do."""
    short = _short(provider)
    if short == "CPU":
        return _Naming(short, processor_name(), ("cpu",))
    return _Naming(short, f"{_short(provider, cased=True)} on {processor_name()}", ("cpu",))


def _short(provider: str, *, cased: bool = False) -> str:
    short = provider.removesuffix("ExecutionProvider")
    return short if cased else short.upper()


def plugin_devices(onnxruntime: Any) -> Sequence[spec.Device]:
    """The devices of all packages that are installed here, named PROVIDER.TYPE: WEBGPU.GPU, or WEBGPU.GPU.1.

    A package that does not load is left out with a warning that names it.
    """
    if not hasattr(onnxruntime, "get_ep_devices"):  # before 1.23
        return ()
    packages = _registered(onnxruntime)
    seen: Counter[str] = Counter()
    devices = []
    for found in onnxruntime.get_ep_devices():
        if found.ep_name in packages:
            name = f"{_short(found.ep_name)}.{_type(found)}"
            devices.append(_device_of_a_package(found, name, seen[name], packages[found.ep_name]))
            seen[name] += 1
    return tuple(devices)


@cache
def _registered(onnxruntime: Any) -> dict[str, str]:
    """The packages by provider, each registered: the runtime takes a library once in a process."""
    providers: dict[str, str] = {}
    for module in _modules():
        try:
            package = importlib.import_module(module)
            names = list(package.get_ep_names()) if hasattr(package, "get_ep_names") else [package.get_ep_name()]
            onnxruntime.register_execution_provider_library(module, package.get_library_path())
        except Exception as error:  # whatever is wrong with it, the engine has other devices
            line = (str(error).strip().splitlines() or [type(error).__name__])[0]
            warnings.warn(f"{module} does not load, so its devices are missing: {line}", RuntimeWarning, stacklevel=1)
            continue
        providers |= dict.fromkeys(names, module)
    return providers


def _modules() -> Iterable[str]:
    return sorted(one.name for one in pkgutil.iter_modules() if one.name.startswith(PREFIX))


def _device_of_a_package(found: Any, name: str, number: int, package: str) -> spec.Device:
    hardware, version = _hardware(found), found.ep_metadata.get("version", "")
    return spec.Device(
        name=f"{name}.{number}" if number else name,
        full_name=f"{_short(found.ep_name, cased=True)} on {hardware}",
        resources=tuple(_resources(found)),
        properties={PROVIDER: found.ep_name, PACKAGE: f"{package} {version}".strip()},
    )


def _type(found: Any) -> str:
    return str(found.device.type.name)


def _hardware(found: Any) -> str:
    """A processor by its name; it plays a graphics card where only software does."""
    if _type(found) == "CPU":
        return f"{processor_name()}, in software" if found.ep_name in GRAPHICS else processor_name()
    described = found.device.metadata.get("Description", "")
    return described or f"{found.device.vendor or 'an unknown'} {_type(found)}".strip()


def _resources(found: Any) -> Iterator[str]:
    kind = _type(found)
    if kind == "CPU":
        yield "cpu"
    elif kind == "NPU":
        yield "npu"
    else:
        yield "gpu:0"
        if found.device.vendor_id in _BY_VENDOR:
            yield _BY_VENDOR[found.device.vendor_id]


def ep_device(onnxruntime: Any, device: spec.Device) -> Any:
    """The runtime's own object of a device that `plugin_devices` has listed. Raises `RuntimeError` where it is gone."""
    listed = [one.name for one in plugin_devices(onnxruntime)]
    found = [one for one in onnxruntime.get_ep_devices() if one.ep_name in _registered(onnxruntime)]
    if device.name not in listed:
        raise RuntimeError(f"the device {device.name} is gone: {device.properties[PACKAGE]} lists it no more")
    return found[listed.index(device.name)]


def provider_options(device: spec.Device) -> dict[str, str]:
    """What the provider of such a device is told, so that it computes in f32, which is all that its devices list.

    By itself OpenVINO's takes bf16 on a processor with AMX, and f16 on a GPU, and nothing tells of it.
    """
    type_ = device.name.split(".")[1]
    if device.properties[PROVIDER] != _OPENVINO or type_ not in ("CPU", "GPU"):  # an NPU has no f32
        return {}
    return {"load_config": json.dumps({type_: {"INFERENCE_PRECISION_HINT": "f32"}})}
