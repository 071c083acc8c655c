"""The hook, and what LiteRT offers as an engine."""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import imported, processor_name, refuse_unsupported

DISTRIBUTION = "ai-edge-litert"

TFLITE = spec.FileFormat("tflite", suffixes=(".tflite", ".lite"), begins=((4, b"TFL3"),))
"""A flatbuffer, whose identifier stands behind the place of its root: TensorFlow's schema.fbs, `file_identifier`."""


class LiteRt(spec.Engine):
    """Runs .tflite files on the processor, in the precision of their weights and tensors."""

    spec_version = spec.SPEC_VERSION

    def info(self) -> spec.EngineInfo:
        """Version and abilities. Raises `EngineUnavailableError` where the package is missing or does not load."""
        import_interpreter()
        return spec.EngineInfo(version=version(DISTRIBUTION), own_formats=(TFLITE,))

    def devices(self) -> Sequence[spec.Device]:
        """The processor."""
        return [spec.Device(name="CPU", full_name=processor_name())]

    def read(self, source: spec.ModelSource) -> bytes:
        """The file, whole: an interpreter is made for each request. Raises `OSError`."""
        return source.path.read_bytes()

    def compile(self, model: bytes, source: spec.ModelSource, settings: spec.Settings) -> spec.CompiledModel:
        """Make an interpreter in the shapes of this run. Raises `UnsupportedSettingsError`, or what LiteRT raises."""
        from enginebench_plugins.engines.litert.compiled import CompiledLiteRt

        refuse_unsupported("litert", self.info(), self.devices(), settings)
        return CompiledLiteRt(import_interpreter(), model, source, settings)


def import_interpreter() -> Any:
    """The class `Interpreter`. Raises `EngineUnavailableError` with the remedy."""
    remedy = "enginebench-agent environment add litert --engine litert"
    return imported("ai_edge_litert.interpreter", "LiteRT", remedy).Interpreter


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    """The engine."""
    return LiteRt()
