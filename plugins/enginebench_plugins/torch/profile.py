"""The layers of a network: its leaf modules, timed through hooks.

Hooks come closer to the truth than running the graph node by node, which adds work of its own to each of them.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.torch.precision import WORDS

CONTAINERS = ("InitializersContainer",)
"""Leaf modules that hold values and never run."""


@dataclass
class _Layer:
    """What hooks gather of one leaf module."""

    name: str
    type: str
    order: int = -1
    started_ns: int = 0
    elapsed_ns: int = 0
    calls: int = 0
    precision: str = ""
    shapes: tuple[tuple[int, ...], ...] = ()
    time_ns: list[int] = field(default_factory=list)


def profile_layers(
    module: Any,
    synchronize: Callable[[], None],
    infer: Callable[[int], None],
    iterations: int,
) -> Sequence[spec.LayerProfile]:
    """Time every leaf module over `iterations` calls of `infer`."""
    layers = _Layers(synchronize)
    handles = layers.attach(module)
    try:
        for iteration in range(iterations):
            infer(iteration)
            layers.end_iteration()
    finally:
        for handle in handles:
            handle.remove()
    return [_to_profile(layer, iterations, position) for position, layer in enumerate(layers.in_order())]


class _Layers:
    """The leaf modules of a network while they are being timed."""

    def __init__(self, synchronize: Callable[[], None]) -> None:
        self.all: list[_Layer] = []
        self._synchronize = synchronize
        self._executed = 0

    def attach(self, module: Any) -> list[Any]:
        """Hook every leaf module; returns the handles that unhook."""
        leaves = [(name, leaf) for name, leaf in module.named_modules() if name and _is_leaf(leaf)]
        handles = []
        for name, leaf in leaves:
            if type(leaf).__name__ in CONTAINERS:
                continue
            layer = _Layer(name, type(leaf).__name__)
            self.all.append(layer)
            handles.append(leaf.register_forward_pre_hook(self._before(layer)))
            handles.append(leaf.register_forward_hook(self._after(layer)))
        return handles

    def end_iteration(self) -> None:
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
        # onnx2torch names each module after the node it was made from.
        source_nodes=(layer.name,),
    )


def _is_leaf(module: Any) -> bool:
    return not any(True for _ in module.children())
