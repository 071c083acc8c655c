"""The hook, and what ONNX Runtime offers as an engine."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from enginebench_plugins import spec
from enginebench_plugins.engines.onnxruntime.devices import find_devices, import_onnxruntime
from enginebench_plugins.toolkit.engine import refuse_unsupported

if TYPE_CHECKING:
    from enginebench_plugins.engines.onnxruntime.compiled import ReadModel

OPTIONS = (
    spec.OptionSpec(
        "graph_optimization_level",
        str,
        "how far the graph is rewritten before it runs; all unless given",
        ("disabled", "basic", "extended", "all"),
    ),
    spec.OptionSpec("intra_op_spinning", bool, "idle threads spin for work instead of sleeping"),
    spec.OptionSpec("denormals_as_zero", bool, "very small floats count as zero"),
    spec.OptionSpec("cpu_mem_arena", bool, "memory is kept in an arena between inferences"),
    spec.OptionSpec("mem_pattern", bool, "memory of one inference is planned ahead in one block"),
)


class OnnxRuntime(spec.Engine):
    """Runs ONNX files, each device through exactly one execution provider."""

    def info(self) -> spec.EngineInfo:
        """Version and abilities. Raises `EngineUnavailableError` where the package is missing or does not load."""
        return spec.EngineInfo(
            version=str(import_onnxruntime().__version__),
            formats=frozenset({spec.ModelFormat.ONNX}),
            profiling=True,
            options=OPTIONS,
        )

    def devices(self) -> Sequence[spec.Device]:
        """The execution providers of the installed build that find their device."""
        return find_devices(import_onnxruntime())

    def read(self, source: spec.ModelSource) -> "ReadModel":
        """Read the model to learn its symbolic dimensions; a session later takes the weights from the file again."""
        from enginebench_plugins.engines.onnxruntime.compiled import read_model

        return read_model(import_onnxruntime(), source)

    def compile(self, model: "ReadModel", source: spec.ModelSource, settings: spec.Settings) -> spec.CompiledModel:
        """Create the session. Raises `UnsupportedSettingsError`, or the runtime's own exceptions."""
        from enginebench_plugins.engines.onnxruntime.compiled import compile_session

        device = refuse_unsupported("onnxruntime", self.info(), self.devices(), settings)
        return compile_session(import_onnxruntime(), model, source, settings, device)


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    """The engine."""
    return OnnxRuntime()
