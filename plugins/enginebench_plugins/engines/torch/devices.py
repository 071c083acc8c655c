"""PyTorch, imported or refused with a remedy, and the devices that it finds through its own interface."""

import warnings
from collections.abc import Iterator
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import imported, processor_name


def import_torch() -> Any:
    """The `torch` module. Raises `EngineUnavailableError` with the remedy."""
    torch = imported(
        "torch",
        "PyTorch",
        'pip install "enginebench[torch]", or enginebench-agent environment add NAME --engine torch',
        "reinstall it in this environment",
    )
    # Inputs are handed over without a copy and are never written to, which is what this warns of.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
    return torch


F32, BF16, F16 = spec.Precision.F32, spec.Precision.BF16, spec.Precision.F16


def find_devices(torch: Any) -> tuple[spec.Device, ...]:
    """The processor, and every accelerator that is there."""
    return (_processor(torch), *_cuda(torch), *_xpu(torch), *_mps(torch))


def torch_device(torch: Any, name: str) -> Any:
    """The `torch.device` behind one of our device names ("CPU", "CUDA:0")."""
    return torch.device(name.lower())


def _processor(torch: Any) -> spec.Device:
    return spec.Device(
        name="CPU",
        full_name=processor_name(),
        precisions=(F32, BF16) if has_fast_bf16(torch) else (F32,),
        properties={"cpu_capability": str(torch.backends.cpu.get_cpu_capability())},
    )


def has_fast_bf16(torch: Any) -> bool:
    """Whether oneDNN computes bf16 on this processor; without it PyTorch emulates, far slower than f32."""
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    except (AttributeError, RuntimeError):
        return False


def has_fast_f16(torch: Any) -> bool:
    """Whether oneDNN computes f16 on this processor."""
    try:
        return bool(torch.ops.mkldnn._is_mkldnn_fp16_supported())
    except (AttributeError, RuntimeError):
        return False


def _cuda(torch: Any) -> Iterator[spec.Device]:
    for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
        properties = torch.cuda.get_device_properties(index)
        fast_bf16 = torch.cuda.is_bf16_supported(including_emulation=False)
        yield spec.Device(
            name=f"CUDA:{index}",
            full_name=str(properties.name),
            precisions=(F32, BF16, F16) if fast_bf16 else (F32, F16),
            resources=(f"cuda:{index}",),
            properties={
                "compute_capability": f"{properties.major}.{properties.minor}",
                "total_memory_bytes": str(properties.total_memory),
                "multi_processor_count": str(properties.multi_processor_count),
                "cuda_version": str(torch.version.cuda or torch.version.hip),
            },
        )


def _xpu(torch: Any) -> Iterator[spec.Device]:
    for index in range(torch.xpu.device_count() if torch.xpu.is_available() else 0):
        properties = torch.xpu.get_device_properties(index)
        yield spec.Device(
            name=f"XPU:{index}",
            full_name=str(properties.name),
            precisions=(F32, BF16, F16),
            resources=(f"xpu:{index}",),
            properties={"total_memory_bytes": str(properties.total_memory)},
        )


def _mps(torch: Any) -> Iterator[spec.Device]:
    if torch.backends.mps.is_available():
        yield spec.Device(name="MPS", full_name=processor_name(), precisions=(F32, F16), resources=("mps",))
