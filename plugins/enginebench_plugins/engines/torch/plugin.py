"""The hook, and what PyTorch offers as an engine."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from enginebench_plugins import spec
from enginebench_plugins.engines.torch.devices import import_torch
from enginebench_plugins.toolkit.engine import refuse_unsupported

if TYPE_CHECKING:
    from enginebench_plugins.engines.torch.network import TorchNetwork

OPTIONS = (
    spec.OptionSpec("channels_last", bool, "weights and activations of images are kept with the channels last"),
    spec.OptionSpec("mkldnn", bool, "operators use oneDNN on the processor; true unless given"),
    spec.OptionSpec("tf32", bool, "CUDA may round the factors of f32 products to ten bits; false unless given"),
)


class Torch(spec.Engine):
    """Runs ONNX, TorchScript and exported programs eagerly."""

    def info(self) -> spec.EngineInfo:
        """Version and abilities. Raises `EngineUnavailableError` where the package is missing or does not load."""
        return spec.EngineInfo(
            version=str(import_torch().__version__),
            formats=frozenset({spec.ModelFormat.ONNX, spec.ModelFormat.TORCHSCRIPT, spec.ModelFormat.TORCH_EXPORT}),
            profiling=True,
            options=OPTIONS,
        )

    def devices(self) -> Sequence[spec.Device]:
        """The processor and the accelerators PyTorch finds."""
        from enginebench_plugins.engines.torch.devices import find_devices

        return find_devices(import_torch())

    def read(self, source: spec.ModelSource) -> Any:
        """Load the file."""
        from enginebench_plugins.engines.torch.network import read_network

        return read_network(import_torch(), source)

    def convert(self, model: Any, source: spec.ModelSource) -> "TorchNetwork":
        """Turn an ONNX graph into modules; other formats only get their inputs named."""
        from enginebench_plugins.engines.torch.network import convert_network

        return convert_network(model, source)

    def compile(self, model: "TorchNetwork", source: spec.ModelSource, settings: spec.Settings) -> spec.CompiledModel:
        """Place the network on its device. Raises `UnsupportedSettingsError`, or PyTorch's own exceptions."""
        from enginebench_plugins.engines.torch.compiled import compile_network

        refuse_unsupported("torch", self.info(), self.devices(), settings)
        return compile_network(import_torch(), model, settings)


@spec.hookimpl
def enginebench_engine() -> spec.Engine:
    """The engine."""
    return Torch()
