"""Execution providers in packages of their own: those that are broken, and hardware that is not here.

The real packages are tested by test_providers.py, in an environment of their own.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import onnxruntime
import pytest

from enginebench_plugins.engines.onnxruntime import devices as devices_module
from enginebench_plugins.engines.onnxruntime.devices import ep_device, find_devices, plugin_devices

GOOD = """
def get_ep_names(): return ["WebGpuExecutionProvider", "OpenVINOExecutionProvider"]
def get_library_path(): return "/nowhere/libprovider.so"
"""


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for packages that are installed here."""
    monkeypatch.syspath_prepend(tmp_path)
    devices_module._registered.cache_clear()
    yield tmp_path
    devices_module._registered.cache_clear()


@pytest.mark.parametrize(
    ("name", "source", "told"),
    [
        (
            "absent",
            "raise ImportError('libvulkan.so.1: cannot open shared object file')",
            "libvulkan.so.1: cannot open",
        ),
        ("lost", GOOD, "/nowhere/libprovider.so"),
        ("empty", "", "get_ep_name"),
    ],
)
def test_a_package_that_does_not_load_is_told_and_takes_no_device_from_the_others(
    packages: Path, name: str, source: str, told: str
) -> None:
    (packages / f"onnxruntime_ep_{name}.py").write_text(source)
    with pytest.warns(RuntimeWarning, match=f"onnxruntime_ep_{name} does not load, so its devices are missing") as said:
        found = find_devices(onnxruntime)
    assert told in str(said[0].message)
    assert [one.name for one in found] == ["CPU"]


def hardware(provider: str, kind: str, vendor_id: int = 0, **metadata: str) -> SimpleNamespace:
    """What the runtime tells of a device and a provider that can use it."""
    device = SimpleNamespace(
        type=SimpleNamespace(name=kind), vendor="Somebody", vendor_id=vendor_id, device_id=1, metadata=metadata
    )
    return SimpleNamespace(ep_name=provider, ep_metadata={"version": "1.2"}, device=device)


def test_devices_are_named_by_provider_and_kind_and_share_the_card_that_others_use(packages: Path) -> None:
    (packages / "onnxruntime_ep_both.py").write_text(GOOD)
    found = [
        hardware("CPUExecutionProvider", "CPU"),
        hardware("OpenVINOExecutionProvider", "GPU", Description="Arc"),
        hardware("OpenVINOExecutionProvider", "NPU"),
        hardware("WebGpuExecutionProvider", "GPU", 0x10DE, Description="H100"),
        hardware("WebGpuExecutionProvider", "GPU", 0x1002),
        hardware("WebGpuExecutionProvider", "CPU"),
    ]

    class Runtime:
        get_ep_devices = staticmethod(lambda: found)
        register_execution_provider_library = staticmethod(lambda name, path: None)
        get_available_providers = staticmethod(lambda: ["WebGpuExecutionProvider", "CPUExecutionProvider"])

    runtime = Runtime()
    devices = plugin_devices(runtime)
    assert [(one.name, one.full_name.partition(" on ")[2], one.resources) for one in devices[:4]] == [
        ("OPENVINO.GPU", "Arc", ("gpu:0",)),
        ("OPENVINO.NPU", "Somebody NPU", ("npu",)),
        ("WEBGPU.GPU", "H100", ("gpu:0", "cuda:0")),
        ("WEBGPU.GPU.1", "Somebody GPU", ("gpu:0", "rocm:0")),
    ]
    assert devices[4].name == "WEBGPU.CPU" and devices[4].full_name.endswith(", in software")
    assert devices[4].properties == {
        "execution_provider": "WebGpuExecutionProvider",
        "package": "onnxruntime_ep_both 1.2",
    }
    assert [one.name for one in find_devices(runtime)] == ["CPU", *(one.name for one in devices)]
    assert [ep_device(runtime, one) for one in devices] == found[1:]
    del found[-1]
    with pytest.raises(RuntimeError, match=r"WEBGPU\.CPU is gone"):
        ep_device(runtime, devices[4])
