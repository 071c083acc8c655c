"""ONNX Runtime's execution providers in packages of their own: the real packages, on a graphics card of software."""

import os
import re
from ctypes.util import find_library
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from enginebench_plugins import spec
from enginebench_plugins.engines.onnxruntime.plugin import OnnxRuntime
from enginebench_plugins.testing.contract import InferenceContract

# Read as the provider is registered. SwiftShader, a Vulkan on the processor, comes with Debian's Chromium.
os.environ["ORT_WEBGPU_EP_ALLOW_SOFTWARE_ADAPTER"] = "1"
SOFTWARE = next(iter(sorted(Path("/usr/lib").glob("chromium*/vk_swiftshader_icd.json"))), None)
if SOFTWARE is not None:
    os.environ["VK_DRIVER_FILES"] = str(SOFTWARE)

WEBGPU, OPENVINO = "WEBGPU.CPU", "OPENVINO.CPU"
IS_INTEL = "GenuineIntel" in Path("/proc/cpuinfo").read_text()
needs_intel = pytest.mark.skipif(
    not IS_INTEL, reason="OpenVINO's finds nothing that it runs on but hardware of Intel's"
)
needs_software = pytest.mark.skipif(
    SOFTWARE is None or find_library("vulkan") is None,
    reason="there is no Vulkan on the processor here: Debian's chromium and libvulkan1 bring it",
)


@needs_software
class TestWebGpu(InferenceContract):
    plugin = "enginebench_plugins.engines.onnxruntime.plugin"
    device = WEBGPU

    def test_it_tells_that_it_computes_all_of_the_model(self, engine: spec.Engine, tmp_path: Path) -> None:
        source = self.classifier(tmp_path).source(1)
        with self.compiled(engine, source, self.settings()) as compiled:
            provider = compiled.effective().provider
        assert provider == spec.Readback("WebGpuExecutionProvider", spec.Source.ENGINE_API)

    def test_a_model_that_it_takes_nothing_of_is_refused_instead_of_run_on_the_processor(
        self, engine: spec.Engine, tmp_path: Path
    ) -> None:
        x, y = (helper.make_tensor_value_info(name, TensorProto.DOUBLE, [1, 8]) for name in "xy")
        graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "odd", [x], [y])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        onnx.save(model, tmp_path / "odd.onnx")
        source = spec.ModelSource(tmp_path / "odd.onnx", spec.ModelFormat.ONNX)
        with (
            pytest.raises(RuntimeError, match="WebGpuExecutionProvider takes no node of this model"),
            self.compiled(engine, source, self.settings()),
        ):
            pass

    def test_layers_that_it_does_not_time_are_refused(self, engine: spec.Engine, tmp_path: Path) -> None:
        source = self.classifier(tmp_path).source(1)
        with (
            pytest.raises(spec.UnsupportedSettingsError, match=f"{re.escape(WEBGPU)} cannot be profiled"),
            self.compiled(engine, source, self.settings(profiling=True)),
        ):
            pass


@needs_intel
class TestOpenVino(InferenceContract):
    plugin = "enginebench_plugins.engines.onnxruntime.plugin"
    device = OPENVINO


def test_the_devices_of_packages_stand_behind_those_of_the_build() -> None:
    found = {one.name: one for one in OnnxRuntime().devices()}
    assert list(found) == ["CPU", *[OPENVINO] * IS_INTEL, WEBGPU]
    webgpu = found[WEBGPU]
    assert webgpu.full_name.endswith(", in software") and webgpu.resources == ("cpu",)
    assert webgpu.properties["execution_provider"] == "WebGpuExecutionProvider"
    assert webgpu.properties["package"].startswith("onnxruntime_ep_webgpu 0.")
