"""A module made ready for one device, precision and number of threads, and its requests."""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.torch.devices import has_fast_bf16, has_fast_f16, torch_device
from enginebench_plugins.engines.torch.dtypes import from_array, to_array
from enginebench_plugins.engines.torch.network import TorchNetwork
from enginebench_plugins.engines.torch.precision import PrecisionWitness, cast_weights, compute_in_floats
from enginebench_plugins.engines.torch.profile import Clock, DeviceClock, Forward, profile_modules, profile_operators
from enginebench_plugins.toolkit.engine import Inferences


class CompiledTorch(spec.CompiledModel):
    """A network on its device."""

    def __init__(self, torch: Any, network: TorchNetwork, settings: spec.Settings) -> None:
        self._torch = torch
        self._network = network
        self._device = torch_device(torch, settings.device)
        self._settings = settings
        self._module = _placed(torch, network.module, self._device, settings)
        self._prepared = (*network.prepared, *_without_slow_kernels(torch, self._module, self._device))
        if (dtype := _mixed_dtype(torch, settings)) is not None:
            cast_weights(torch, self._module, dtype)
        self._witness = PrecisionWitness(
            self._module, watch=bool(network.sources), assume=_mixed_dtype(torch, settings) is None
        )

    @property
    def inputs(self) -> Sequence[spec.TensorSpec]:
        """The network's inputs with the shapes of this run."""
        return self._network.inputs

    def effective(self) -> spec.Effective:
        """Precision as seen in the layers' results, backend and instruction set as PyTorch states them.

        It only echoes its number of threads.
        """
        on_cpu = self._device.type == "cpu"
        isa = str(self._torch.backends.cpu.get_cpu_capability()).lower() if on_cpu else None
        return spec.Effective(
            streams=spec.Readback(1, spec.Source.ASSUMED),
            precision=self._witness.precision(),
            provider=spec.Readback(_backend(self._torch, self._device), spec.Source.ENGINE_API),
            isa=spec.Readback(isa, spec.Source.ENGINE_API) if isa else None,
            prepared=self._prepared,
        )

    def create_request(self) -> spec.InferRequest:
        """A request that runs in its caller's thread, or started on a thread of its own."""
        return TorchRequest(self)

    def _request_running(self, forward: Forward) -> spec.InferRequest:
        return TorchRequest(self, forward)

    def profile(
        self, inputs: Sequence[spec.Tensors], iterations: int, between: spec.Between = spec.nothing
    ) -> spec.ModelProfile:
        """One layer a node, or an operator of an exported program.

        Raises `UnsupportedSettingsError` for TorchScript.
        """
        inferences = Inferences(inputs, iterations, between)
        clock = Clock() if self._device.type == "cpu" else DeviceClock(self._torch, self._device)
        if self._network.is_graph:
            return profile_operators(self._torch, self._module, clock, self._request_running, inferences)
        if not self._network.sources:
            raise spec.UnsupportedSettingsError(
                "a TorchScript program runs as a whole, without layers: profile the model's ONNX or .pt2 file"
            )
        network, request = self._network, self.create_request()
        return profile_modules(self._module, network.sources, network.away, clock, request, inferences)

    def close(self) -> None:
        """Let go of the module and of the device memory it held."""
        del self._module, self._witness
        if self._device.type == "cuda":
            self._torch.cuda.empty_cache()

    def run(self, inputs: spec.Tensors, forward: Forward | None = None) -> spec.Outputs:
        """One inference, outputs in host memory; by `forward` where the module itself is not to do it."""
        by_place, by_keyword = self._network.arrange([self._given(inputs[tensor.name]) for tensor in self.inputs])
        with self._torch.inference_mode(), self._mixed_precision():
            named = self._network.name_outputs((forward or self._module)(*by_place, **by_keyword))
        return {name: to_array(tensor) for name, tensor in named.items()}

    def _given(self, array: Any) -> Any:
        tensor = from_array(array)
        return tensor.to(self._device) if isinstance(tensor, self._torch.Tensor) else tensor

    @contextlib.contextmanager
    def _mixed_precision(self) -> Iterator[None]:
        """Autocast rather than converted weights: converted graphs hold casts to float32 that would clash with them."""
        dtype = _mixed_dtype(self._torch, self._settings)
        if dtype is None:
            yield
        else:
            with self._torch.autocast(self._device.type, dtype=dtype):
                yield


class TorchRequest(spec.InferRequest):
    """One slot for an inference of a network."""

    def __init__(self, compiled: CompiledTorch, forward: Forward | None = None) -> None:
        self._compiled = compiled
        self._forward = forward

    def infer(self, inputs: spec.Tensors) -> spec.Outputs:
        """Run the network; every inference makes new arrays."""
        return self._compiled.run(inputs, self._forward)

    def close(self) -> None:
        """End the request's thread and let go of the network."""
        super().close()
        del self._compiled, self._forward


def compile_network(torch: Any, network: TorchNetwork, settings: spec.Settings) -> CompiledTorch:
    """Set PyTorch's threads and backends for this configuration and place the network."""
    # Every calling thread brings a pool of its own: several requests in flight share the cores between them.
    torch.set_num_threads(max(1, settings.cores // settings.requests))
    if torch.get_num_interop_threads() != 1:
        with contextlib.suppress(RuntimeError):  # too late once parallel work has begun, and then harmless
            torch.set_num_interop_threads(1)
    torch.backends.mkldnn.set_flags(bool(settings.options.get("mkldnn", True)))
    # TF32 rounds factors to ten bits; who asks for f32 gets f32 unless the option says otherwise.
    tf32 = bool(settings.options.get("tf32", False))
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    return CompiledTorch(torch, network, settings)


def _placed(torch: Any, module: Any, device: Any, settings: spec.Settings) -> Any:
    module = module.to(device)
    with contextlib.suppress(NotImplementedError):  # exported programs are in inference form already
        module.eval()
    if settings.options.get("channels_last", False):
        module = module.to(memory_format=torch.channels_last)
    return module


def _without_slow_kernels(torch: Any, module: Any, device: Any) -> Iterator[str]:
    """Keep a processor from types that it has no instructions for; says so where there were any."""
    if device.type != "cpu":
        return
    slow = {
        dtype
        for dtype, is_fast in ((torch.bfloat16, has_fast_bf16(torch)), (torch.float16, has_fast_f16(torch)))
        if not is_fast
    }
    if count := compute_in_floats(torch, module, slow):
        yield f"{count} layers of 16 bits multiplied in f32, as this processor has no instructions for them"


def _mixed_dtype(torch: Any, settings: spec.Settings) -> Any:
    """The lower precision that products are computed in; None where everything stays as the model has it."""
    return {spec.Precision.BF16: torch.bfloat16, spec.Precision.F16: torch.float16}.get(settings.precision)


def _backend(torch: Any, device: Any) -> str:
    if device.type != "cpu":
        return str(device)
    # The switch that `mkldnn.set_flags` sets has no public reader.
    onednn = torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled()
    return "cpu (oneDNN)" if onednn else "cpu"
