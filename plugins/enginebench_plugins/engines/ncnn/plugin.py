"""The hook, and what ncnn offers as an engine."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.toolkit.engine import imported, processor_name, refuse_unsupported

PARAM = spec.FileFormat("ncnn", suffixes=(".param",), companions=(".bin",), begins=((0, b"7767517"),))
"""A text of layers, which begins with this number, and their weights beside it: ncnn's "param and model file"."""


class Ncnn(spec.Engine):
    """Runs pairs of .param and .bin on the processor, one item at a time: ncnn's tensors have no batch."""

    spec_version = spec.SPEC_VERSION

    def info(self) -> spec.EngineInfo:
        """Version and abilities. Raises `EngineUnavailableError` where the package is missing or does not load."""
        return spec.EngineInfo(
            version=str(import_ncnn().__version__),
            own_formats=(PARAM,),
            profiling=True,
            batches=(1,),
            integer_inputs=False,
        )

    def devices(self) -> Sequence[spec.Device]:
        """The processor; in half precision where its instructions compute in that (ARM's asimdhp)."""
        half = (spec.Precision.F16,) if import_ncnn().cpu_support_arm_asimdhp() else ()
        return [spec.Device(name="CPU", full_name=processor_name(), precisions=(spec.Precision.F32, *half))]

    def read(self, source: spec.ModelSource) -> Path:
        """The path of the .param: ncnn reads the weights when it knows the options, in `compile`."""
        return source.path

    def compile(self, model: Path, source: spec.ModelSource, settings: spec.Settings) -> spec.CompiledModel:
        """Load layers and weights. Raises `UnsupportedSettingsError`, and `ValueError` for what ncnn does not load."""
        from enginebench_plugins.engines.ncnn.compiled import CompiledNcnn

        refuse_unsupported("ncnn", self.info(), self.devices(), settings)
        return CompiledNcnn(import_ncnn(), model, source, settings)


def import_ncnn() -> Any:
    """The `ncnn` module. Raises `EngineUnavailableError` with the remedy."""
    return imported("ncnn", "ncnn", "enginebench-agent environment add ncnn --engine ncnn")


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    """The engine."""
    return Ncnn()
