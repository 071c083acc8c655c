"""The layers of a network: the modules it calls, one a node, timed through hooks.

Hooks come closer to the truth than running the graph node by node, which adds work of its own to each of them.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.profiled import timed_inferences
from enginebench_plugins.torch.precision import WORDS


@dataclass
class _Layer:
    """What hooks gather of one module. `source` is the node it was made from."""

    name: str
    type: str
    source: str
    order: int = -1
    started_ns: int = 0
    elapsed_ns: int = 0
    calls: int = 0
    precision: str = ""
    shapes: tuple[tuple[int, ...], ...] = ()
    time_ns: list[int] = field(default_factory=list)


def profile_layers(
    module: Any,
    sources: Mapping[str, str],
    synchronize: Callable[[], None],
    request: spec.InferRequest,
    inputs: Sequence[spec.Tensors],
    iterations: int,
) -> spec.ModelProfile:
    """Time the modules that `sources` maps to their nodes over `iterations` inferences."""
    layers = _Layers(synchronize)
    handles = layers.attach(module, sources)
    try:
        latency_ns = timed_inferences(request, inputs, iterations, layers.end_iteration)
    finally:
        for handle in handles:
            handle.remove()
    profiles = (_to_profile(layer, iterations, position) for position, layer in enumerate(layers.in_order()))
    return spec.ModelProfile(tuple(profiles), latency_ns)


class _Layers:
    """The modules of a network while they are being timed."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self.all: list[_Layer] = []
        self._synchronize = synchronize
        self._executed = 0

    def attach(self, module: Any, sources: Mapping[str, str]) -> list[Any]:
        """Hook every module of `sources`; returns the handles that unhook."""
        handles = []
        for name, source in sources.items():
            called = module.get_submodule(name)
            layer = _Layer(name, type(called).__name__, source)
            self.all.append(layer)
            handles.append(called.register_forward_pre_hook(self._before(layer)))
            handles.append(called.register_forward_hook(self._after(layer)))
        return handles

    def end_iteration(self, _iteration: int) -> None:
        """Close the books of one inference."""
        for layer in self.all:
            if layer.order >= 0:
                layer.time_ns.append(layer.elapsed_ns)
                layer.elapsed_ns = 0

    def in_order(self) -> list[_Layer]:
        """Executed layers in the order they first ran, then those that never did."""
        return sorted(self.all, key=lambda layer: (layer.order < 0, layer.order))

    def _before(self, layer: _Layer) -> Callable[..., None]:
        def before(_module: Any, _inputs: Any) -> None:
            if layer.order < 0:
                layer.order = self._executed
                self._executed += 1
            self._synchronize()
            layer.started_ns = time.perf_counter_ns()

        return before

    def _after(self, layer: _Layer) -> Callable[..., None]:
        def after(_module: Any, _inputs: Any, result: Any) -> None:
            self._synchronize()
            layer.elapsed_ns += time.perf_counter_ns() - layer.started_ns
            layer.calls += 1
            if not layer.shapes:
                _describe(layer, result)

        return after


def _describe(layer: _Layer, result: Any) -> None:
    tensors = [t for t in (result if isinstance(result, tuple | list) else [result]) if hasattr(t, "shape")]
    layer.shapes = tuple(tuple(tensor.shape) for tensor in tensors)
    layer.precision = next((WORDS.get(str(t.dtype), str(t.dtype).removeprefix("torch.")) for t in tensors), "")


def _to_profile(layer: _Layer, iterations: int, position: int) -> spec.LayerProfile:
    executed = len(layer.time_ns) == iterations
    return spec.LayerProfile(
        name=layer.name,
        type=layer.type,
        order=position,
        state=spec.LayerState.EXECUTED if executed else spec.LayerState.NOT_EXECUTED,
        time_ns=tuple(layer.time_ns) if executed else (),
        calls=max(1, layer.calls // iterations),
        precision=layer.precision,
        output_shapes=layer.shapes,
        source_nodes=(layer.source,),
    )
