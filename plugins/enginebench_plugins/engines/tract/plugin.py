"""The hook, and what tract offers as an engine."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import imported, processor_name, refuse_unsupported

if TYPE_CHECKING:
    from enginebench_plugins.engines.tract.compiled import TractModel


class Tract(spec.Engine):
    """Runs ONNX files in the model's own precision, each inference on one thread of the processor."""

    spec_version = spec.SPEC_VERSION

    def info(self) -> spec.EngineInfo:
        """Version and abilities. Raises `EngineUnavailableError` where the package is missing or does not load."""
        return spec.EngineInfo(
            version=str(import_tract().version()),
            formats=frozenset({spec.ModelFormat.ONNX}),
            profiling=True,
            mean_profiles=True,
            single_threaded=True,
        )

    def devices(self) -> Sequence[spec.Device]:
        """The processor."""
        return [spec.Device(name="CPU", full_name=processor_name())]

    def read(self, source: spec.ModelSource) -> "TractModel":
        """Let tract read the file. Raises what tract raises for one that is no model."""
        from enginebench_plugins.engines.tract.compiled import read_model

        return read_model(import_tract(), source)

    def convert(self, model: "TractModel", source: spec.ModelSource) -> "TractModel":
        """Work out all shapes of this run. Raises tract's `TractError` for an operator that it does not know."""
        from enginebench_plugins.engines.tract.compiled import fix_shapes

        return fix_shapes(import_tract(), model)

    def compile(self, model: "TractModel", source: spec.ModelSource, settings: spec.Settings) -> spec.CompiledModel:
        """Optimize for the processor. Raises `UnsupportedSettingsError`, or tract's `TractError`."""
        from enginebench_plugins.engines.tract.compiled import CompiledTract

        refuse_unsupported("tract", self.info(), self.devices(), settings)
        return CompiledTract(model)


def import_tract() -> Any:
    """The `tract` module. Raises `EngineUnavailableError` with the remedy."""
    return imported("tract", "tract", "enginebench-agent environment add tract --engine tract")


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    """The engine."""
    return Tract()
