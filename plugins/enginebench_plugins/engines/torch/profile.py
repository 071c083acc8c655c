"""The layers of a network: the modules it calls, one a node, timed through hooks.

Hooks come closer to the truth than running the graph node by node, which adds work of its own to each of them. The
graph of an exported program calls operators and no modules, so that it is run node by node all the same.

A device other than the processor is behind its caller, and is told to note the time when it comes by. Waiting for it
around each layer instead would give every layer the way there and back, which is longer than most layers take.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.torch.graph import Origin
from enginebench_plugins.engines.torch.precision import WORDS
from enginebench_plugins.toolkit.engine import Inferences

Forward = Callable[..., Any]
"""Runs a network on its inputs."""


class Clock:
    """The processor's time, which has done what it was called for when the call returns."""

    def mark(self) -> Any:
        """A moment between two layers."""
        return time.perf_counter_ns()

    def between_ns(self, begin: Any, end: Any) -> int:
        """The time from one mark to the other, after the inference they are of."""
        return int(end - begin)


class DeviceClock(Clock):
    """A device's own time at places of the queue of work that it was given."""

    def __init__(self, torch: Any, device: Any) -> None:
        self._event = partial(getattr(torch, device.type).Event, enable_timing=True)

    def mark(self) -> Any:
        """Ask the device to note the time once it has come as far as this."""
        event = self._event()
        event.record()
        return event

    def between_ns(self, begin: Any, end: Any) -> int:
        """The time between; the device counts in half microseconds or finer."""
        end.synchronize()
        return int(begin.elapsed_time(end) * 1e6)


@dataclass
class _Layer:
    """What is gathered of one module or operator."""

    name: str
    type: str
    origin: Origin
    description: str = ""
    order: int = -1
    marks: list[tuple[Any, Any]] = field(default_factory=list)
    calls: int = 0
    precision: str = ""
    shapes: tuple[tuple[int, ...], ...] = ()
    time_ns: list[int] = field(default_factory=list)


def profile_modules(
    module: Any,
    sources: Mapping[str, Origin],
    away: Sequence[Origin],
    clock: Clock,
    request: spec.InferRequest,
    inferences: Inferences,
) -> spec.ModelProfile:
    """Time the modules that `sources` maps to their nodes over all inferences; those `away` are listed after them."""
    layers = _Layers(clock)
    handles = layers.attach(module, sources)
    try:
        profile = layers.profile(request, inferences)
    finally:
        for handle in handles:
            handle.remove()
    taken = {layer.name for layer in profile.layers}
    first = len(profile.layers)
    return replace(
        profile, layers=(*profile.layers, *(_away(origin, first + place, taken) for place, origin in enumerate(away)))
    )


def _away(origin: Origin, order: int, taken: set[str]) -> spec.LayerProfile:
    """A node that was computed ahead, or that nothing needs."""
    name = origin.label
    while name in taken:
        name = f"{name}#{order}"
    taken.add(name)
    return spec.LayerProfile(
        name=name,
        type=origin.type,
        order=order,
        state=spec.LayerState.OPTIMIZED_AWAY,
        source_nodes=(origin.label,),
        inputs=origin.inputs,
        outputs=origin.outputs,
    )


def profile_operators(
    torch: Any,
    graph: Any,
    clock: Clock,
    create_request: Callable[[Forward], spec.InferRequest],
    inferences: Inferences,
) -> spec.ModelProfile:
    """Time the operators that an `fx.GraphModule` calls; `create_request` makes a request that runs what it is given.

    An operator is named, and its origin is, after its node in the graph.
    """
    layers = _Layers(clock)
    timed = {node: layers.add(_operator(node)) for node in graph.graph.nodes if _is_operator(node)}

    class TimingInterpreter(torch.fx.Interpreter):  # type: ignore[misc]  # torch is imported late
        def run_node(self, n: Any) -> Any:
            layer = timed.get(n)
            if layer is None:
                return super().run_node(n)
            layers.begin(layer)
            result = super().run_node(n)
            layers.end(layer, result)
            return result

    def run(*by_place: Any, **by_keyword: Any) -> Any:
        return interpreter.run(by_place, by_keyword)  # it takes whatever has the inputs within it, one after the other

    interpreter = TimingInterpreter(graph)
    return layers.profile(create_request(run), inferences)


class _Layers:
    """The modules of a network while they are being timed."""

    def __init__(self, clock: Clock) -> None:
        self.all: list[_Layer] = []
        self._clock = clock
        self._begun: dict[str, Any] = {}
        self._executed = 0

    def add(self, layer: _Layer) -> _Layer:
        """Take a layer in."""
        self.all.append(layer)
        return layer

    def profile(self, request: spec.InferRequest, inferences: Inferences) -> spec.ModelProfile:
        """Run the inferences and put down what was gathered."""
        latency_ns = inferences.run(request, self.end_iteration)
        profiles = (_to_profile(layer, inferences.count, position) for position, layer in enumerate(self.in_order()))
        return spec.ModelProfile(tuple(profiles), latency_ns)

    def attach(self, module: Any, sources: Mapping[str, Origin]) -> list[Any]:
        """Hook every module of `sources`; returns the handles that unhook."""
        handles = []
        for name, origin in sources.items():
            called = module.get_submodule(name)
            layer = self.add(_Layer(name, called._get_name(), origin, called.extra_repr()))
            handles.append(called.register_forward_pre_hook(self._before(layer)))
            handles.append(called.register_forward_hook(self._after(layer)))
        return handles

    def end_iteration(self, _iteration: int) -> None:
        """Close the books of one inference."""
        for layer in self.all:
            if layer.order >= 0:
                layer.time_ns.append(sum(self._clock.between_ns(begin, end) for begin, end in layer.marks))
                layer.marks.clear()

    def in_order(self) -> list[_Layer]:
        """Executed layers in the order they first ran, then those that never did."""
        return sorted(self.all, key=lambda layer: (layer.order < 0, layer.order))

    def begin(self, layer: _Layer) -> None:
        """A layer's call begins."""
        if layer.order < 0:
            layer.order = self._executed
            self._executed += 1
        self._begun[layer.name] = self._clock.mark()

    def end(self, layer: _Layer, result: Any) -> None:
        """A layer's call has brought its result."""
        ended = self._clock.mark()
        layer.marks.append((self._begun.pop(layer.name), ended))
        layer.calls += 1
        if not layer.shapes:
            _describe(layer, result)

    def _before(self, layer: _Layer) -> Callable[..., None]:
        return lambda _module, _inputs: self.begin(layer)

    def _after(self, layer: _Layer) -> Callable[..., None]:
        return lambda _module, _inputs, result: self.end(layer, result)


def _is_operator(node: Any) -> bool:
    """Whether a node computes: taking one result out of several does not."""
    return node.op == "call_function" and not node.name.startswith("getitem")


def _operator(node: Any) -> _Layer:
    inputs = tuple(each.name for each in node.all_input_nodes)
    return _Layer(node.name, str(node.target), Origin(node.name, str(node.target), inputs, (node.name,)))


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
        source_nodes=(layer.origin.label,),
        inputs=layer.origin.inputs,
        outputs=layer.origin.outputs,
        parameters={"module": layer.description} if layer.description else {},
    )
