"""ONNX Runtime under the engine contract, and what is particular to it."""

from contract import EngineContract


class TestOnnxRuntime(EngineContract):
    plugin = "enginebench_plugins.onnxruntime.plugin"
