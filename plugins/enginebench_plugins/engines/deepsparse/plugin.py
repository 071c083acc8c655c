"""The hook, and what DeepSparse offers as an engine."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enginebench_plugins import spec
from enginebench_plugins.engines.deepsparse.devices import import_deepsparse, instruction_set
from enginebench_plugins.toolkit.engine import processor_name, refuse_unsupported

if TYPE_CHECKING:
    from enginebench_plugins.engines.deepsparse.network import DeepSparseNetwork

OPTIONS = (
    spec.OptionSpec(
        "scheduler",
        str,
        "how concurrent requests share the cores; multi_stream with several streams, else single_stream, unless given",
        ("single_stream", "multi_stream", "elastic"),
    ),
    spec.OptionSpec(
        "optimization_level",
        int,
        "how far the graph is rewritten before it is profiled, 0 or 1; 1 unless given",
        (0, 1),
        profile_only=True,
    ),
    spec.OptionSpec(
        "imposed_sparsity",
        float,
        "share of zeros, 0.0 to 1.0, that weights get for the profile, as if the model were pruned",
        profile_only=True,
    ),
)


class DeepSparse(spec.Engine):
    """Runs ONNX files in f32 on the processor; what it does not support itself, the ONNX Runtime within it runs."""

    def info(self) -> spec.EngineInfo:
        """Version and abilities. Raises `EngineUnavailableError` where the package is missing or does not load."""
        return spec.EngineInfo(
            version=str(import_deepsparse().__version__),
            formats=frozenset({spec.ModelFormat.ONNX}),
            multiple_streams=True,
            profiling=True,
            options=OPTIONS,
        )

    def devices(self) -> Sequence[spec.Device]:
        """The processor."""
        properties = {"instruction_set": instruction_set(import_deepsparse())}
        return [spec.Device(name="CPU", full_name=processor_name(), properties=properties)]

    def read(self, source: spec.ModelSource) -> Any:
        """The `onnx.ModelProto` with its weights. Raises what ONNX raises for a file that is no model."""
        from enginebench_plugins.toolkit.onnx_model import read_onnx

        return read_onnx(source.path)

    def convert(self, model: Any, source: spec.ModelSource) -> "DeepSparseNetwork":
        """A private file of the model with the shapes of this run. Raises `UnsupportedSettingsError` for wrong ones."""
        from enginebench_plugins.engines.deepsparse.network import write_network

        return write_network(model, source)

    def compile(
        self, model: "DeepSparseNetwork", source: spec.ModelSource, settings: spec.Settings
    ) -> spec.CompiledModel:
        """Compile for the processor. Raises `UnsupportedSettingsError`, or DeepSparse's `RuntimeError`."""
        from enginebench_plugins.engines.deepsparse.compiled import compile_network

        refuse_unsupported("deepsparse", self.info(), self.devices(), settings)
        return compile_network(import_deepsparse(), model, settings)


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    """The engine."""
    return DeepSparse()
