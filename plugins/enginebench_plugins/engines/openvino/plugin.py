"""The hook, and what OpenVINO offers as an engine."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.util import find_spec
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.openvino.devices import PREPARED, SHARED_MEMORY, import_openvino
from enginebench_plugins.toolkit.engine import refuse_unsupported

OPTIONS = (
    spec.OptionSpec(
        SHARED_MEMORY,
        bool,
        "inputs are read where they lie and outputs are handed out where they lie (the default); else both are copied",
    ),
    spec.OptionSpec(
        "execution_mode_hint",
        str,
        "whether precision may be traded for speed",
        ("PERFORMANCE", "ACCURACY"),
    ),
    spec.OptionSpec("enable_cpu_pinning", bool, "threads are bound to processors"),
    spec.OptionSpec("enable_hyper_threading", bool, "both hardware threads of a core are used"),
    spec.OptionSpec(
        "scheduling_core_type",
        str,
        "which kind of core works on a hybrid processor",
        ("ANY_CORE", "PCORE_ONLY", "ECORE_ONLY"),
    ),
    spec.OptionSpec("cpu_denormals_optimization", bool, "very small floats count as zero"),
    spec.OptionSpec(
        "cpu_sparse_weights_decompression_rate",
        float,
        "sparsity from which on weights are kept compressed in memory; 1.0 is never",
    ),
    spec.OptionSpec(
        "dynamic_quantization_group_size",
        int,
        "elements that share a scale when activations are quantized on the way; 0 is not at all",
    ),
)
"""After the first, properties of a device in lower case. Never one that names a file, a library or a cache folder."""


class OpenVino(spec.Engine):
    """Runs ONNX files and OpenVINO's own IR on the devices OpenVINO finds."""

    def info(self) -> spec.EngineInfo:
        """Version and abilities. Raises `EngineUnavailableError` where the package is missing or does not load."""
        # "2026.4.1-22982-e213a147257-releases/2026/4": release, build, commit and branch.
        version = str(import_openvino().__version__).split("-")[0]
        return spec.EngineInfo(
            version=version,
            formats=frozenset({spec.ModelFormat.ONNX, spec.ModelFormat.OPENVINO_IR}),
            hints=frozenset(spec.Hint),
            multiple_streams=True,
            profiling=True,
            options=OPTIONS,
        )

    def devices(self) -> Sequence[spec.Device]:
        """What the core finds, and AUTO, which chooses among them."""
        from enginebench_plugins.engines.openvino.devices import find_devices

        return find_devices(self._core)

    def read(self, source: spec.ModelSource) -> Any:
        """The `openvino.Model`. Raises the reader's `RuntimeError` for a file that is no model.

        The reader of ONNX files works out shapes as it goes, and fails on some loops and branches where sizes are open:
        then it is given the model with the sizes of this run, and with what follows from them.
        """
        try:
            return self._core.read_model(str(source.path))
        except RuntimeError:
            for content, told in _prepared(source):
                try:
                    model = self._core.read_model(content)
                except RuntimeError:
                    continue
                model.set_rt_info(told, PREPARED)
                return model
            raise  # what it says of the file as given

    def convert(self, model: Any, source: spec.ModelSource) -> Any:
        """The model with the shapes of this run. Raises `UnsupportedSettingsError` for shapes it cannot take."""
        from enginebench_plugins.engines.openvino.compiled import reshape

        return reshape(model, source)

    def compile(self, model: Any, source: spec.ModelSource, settings: spec.Settings) -> spec.CompiledModel:
        """Compile for one device. Raises `UnsupportedSettingsError`, or OpenVINO's `RuntimeError`."""
        from enginebench_plugins.engines.openvino.compiled import compile_network

        refuse_unsupported("openvino", self.info(), self.devices(), settings)
        return compile_network(self._core, model, source.format, settings)

    @cached_property
    def _core(self) -> Any:
        return import_openvino().Core()


def _prepared(source: spec.ModelSource) -> Iterable[tuple[bytes, str]]:
    """Forms of an ONNX file that are easier to read; none where the package onnx is not there."""
    if source.format is not spec.ModelFormat.ONNX or find_spec("onnx") is None:
        return ()
    from enginebench_plugins.engines.openvino.folding import prepared_models

    return prepared_models(source)


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    """The engine."""
    return OpenVino()
