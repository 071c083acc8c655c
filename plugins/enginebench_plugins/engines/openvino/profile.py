"""Layers from OpenVINO's performance counters, joined with the runtime model.

OpenVINO's CPU divides the time a layer took since the network was compiled by the number of inferences, and cuts the
quotient to whole microseconds. After inference n the total lies within [n·average, n·(average + 1)): a tube around the
true path of totals. Differences of its lower edge jump by up to n µs, which buries small layers. Of all paths through
the tube the shortest one, the taut string (Davies and Kovac, Annals of Statistics 29, 2001), changes its slope only
where the readings force it to: a steady layer gets a steady time, and an outlier stays one. Its mean is known to
a microsecond at worst, whatever n is: scatter below that leaves no trace in the readings, and so none in intervals.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any

from enginebench_plugins import spec
from enginebench_plugins.engines.openvino.request import OpenVinoRequest
from enginebench_plugins.engines.openvino.runtime_model import OriginalNames, RuntimeLayer, origins, runtime_layers
from enginebench_plugins.toolkit.engine import Inferences

NS_PER_US = 1000


def single_times_ns(averages_us: Sequence[int]) -> list[int] | None:
    """The time of each inference, in nanoseconds, from the average after each, beginning with the network's first.

    None when the totals would shrink: then the readings are no running averages.
    """
    low = [number * average for number, average in enumerate(averages_us, start=1)]
    high = [number * (average + 1) for number, average in enumerate(averages_us, start=1)]
    # Totals never shrink, so every reading bounds those after it from below and those before it from above.
    low = list(accumulate(low, max))
    high = list(accumulate(reversed(high), min))[::-1]
    if any(lowest > highest for lowest, highest in zip(low, high, strict=True)):
        return None
    totals_us = _taut_string([0, *low], [0, *high])
    return [round((after - before) * NS_PER_US) for before, after in pairwise(totals_us)]


def _taut_string(low: Sequence[float], high: Sequence[float]) -> list[float]:
    """The shortest path from the start of the tube to the middle of its end, one height a step."""
    middle = (low[-1] + high[-1]) / 2
    low, high = [*low[:-1], middle], [*high[:-1], middle]
    path = [low[0]]
    while len(path) < len(low):
        start = len(path) - 1
        bend, height = _next_bend(low, high, start, path[-1])
        slope = (height - path[-1]) / (bend - start)
        path += [path[start] + slope * step for step in range(1, bend - start + 1)]
    return path


def _next_bend(low: Sequence[float], high: Sequence[float], start: int, height: float) -> tuple[int, float]:
    """Where a string drawn straight from (start, height) first touches an edge it has to go around, or the end."""
    steepest, steepest_at, flattest, flattest_at = float("inf"), start, float("-inf"), start
    for step in range(start + 1, len(low)):
        rise_low, rise_high = ((edge[step] - height) / (step - start) for edge in (low, high))
        if rise_low > steepest:
            return steepest_at, high[steepest_at]
        if rise_high < flattest:
            return flattest_at, low[flattest_at]
        if rise_high <= steepest:
            steepest, steepest_at = rise_high, step
        if rise_low >= flattest:
            flattest, flattest_at = rise_low, step
    return len(low) - 1, low[-1]


WARM_UP = 3
"""Inferences that are left out: the first pays for memory and lazily made kernels."""

STATES = {"NOT_RUN": spec.LayerState.NOT_EXECUTED, "OPTIMIZED_OUT": spec.LayerState.OPTIMIZED_AWAY}


@dataclass
class _Counter:
    """The counters of one name: the reading after each inference, and how the last one was come by."""

    type: str
    kernel: str
    readings_us: list[int] = field(default_factory=list)
    statuses: set[str] = field(default_factory=set)
    calls: int = 0


def profile_layers(
    network: Any, request: OpenVinoRequest, names: OriginalNames, inferences: Inferences
) -> spec.ModelProfile:
    """Run a network that never ran before; every layer the counters name, in their order, which is execution order.

    A layer below one microsecond cannot be told from one that did not run: OpenVINO calls both NOT_RUN.
    """
    counters: dict[str, _Counter] = {}

    def read(inference: int) -> None:
        _read(counters, request.profiling_info(), inference)

    Inferences(inferences.inputs, WARM_UP).run(request, read)
    latency_ns = inferences.run(request, lambda inference: read(WARM_UP + inference))
    executed = runtime_layers(network)
    layers, sources = {layer.name: layer for layer in executed}, origins(executed, names)
    averaged = network.get_property("EXECUTION_DEVICES") == ["CPU"]
    profiles = (
        _described(_profile(order, name, counter, layers.get(name), averaged=averaged), layers.get(name), sources)
        for order, (name, counter) in enumerate(counters.items())
    )
    return spec.ModelProfile(tuple(profiles), latency_ns)


def _read(counters: dict[str, _Counter], infos: Sequence[Any], inference: int) -> None:
    """Add the readings after this inference; several counters of one name are calls of one layer."""
    for counter in counters.values():
        counter.readings_us.append(0)
        counter.calls = 0
    for info in infos:
        counter = counters.get(info.node_name) or _Counter(info.node_type, info.exec_type, [0] * (inference + 1))
        counters[info.node_name] = counter
        counter.readings_us[inference] += round(info.real_time.total_seconds() * 1_000_000)
        counter.statuses.add(info.status.name)
        counter.calls += 1


def _profile(
    order: int, name: str, counter: _Counter, layer: RuntimeLayer | None, *, averaged: bool
) -> spec.LayerProfile:
    state = _state(counter, layer)
    executed = state is spec.LayerState.EXECUTED
    return spec.LayerProfile(
        name=name,
        type=counter.type,
        order=order,
        state=state,
        time_ns=_times_ns(counter, averaged=averaged) if executed else (),
        calls=max(counter.calls, 1),
        kernel=counter.kernel,
    )


def _described(
    profile: spec.LayerProfile, layer: RuntimeLayer | None, sources: Mapping[str, tuple[str, ...]]
) -> spec.LayerProfile:
    """The profile with what the runtime model tells of the layer; of a node that went into another one, nothing."""
    if layer is None:
        return profile
    return replace(
        profile,
        type=layer.type or profile.type,
        precision=layer.precision,
        output_shapes=layer.output_shapes,
        source_nodes=sources[layer.name],
        inputs=layer.inputs,
        outputs=layer.outputs,
        parameters=layer.parameters,
    )


def _state(counter: _Counter, layer: RuntimeLayer | None) -> spec.LayerState:
    """A counter without a layer is of a node that went into another layer, which names it among its sources."""
    if "EXECUTED" in counter.statuses:
        return spec.LayerState.EXECUTED
    if layer is None:
        return spec.LayerState.OPTIMIZED_AWAY
    return STATES[min(counter.statuses)]


def _times_ns(counter: _Counter, *, averaged: bool) -> tuple[int, ...]:
    times_ns = single_times_ns(counter.readings_us) if averaged else None
    if times_ns is None:
        times_ns = [reading * NS_PER_US for reading in counter.readings_us]
    return tuple(times_ns[WARM_UP:])
