"""Which measurements belong to one line or one row of bars, and how that is named.

A series is an engine, told apart further by only those axes that vary within the benchmark: two targets, two core
counts, two precisions. Batch and model are never part of it, since charts show them along an axis.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from enginebench_controller.records import Measurement
from enginebench_ui.views.palette import SERIES
from enginebench_ui.views.text import arrivals_text, engine_label

_AXES: Mapping[str, Callable[[Measurement], str]] = {
    "target": lambda m: m.target,
    "device": lambda m: m.configuration.device,
    "cores": lambda m: f"{m.configuration.cores} core" + ("" if m.configuration.cores == 1 else "s"),
    "streams": lambda m: f"{m.configuration.streams} stream" + ("" if m.configuration.streams == 1 else "s"),
    "precision": lambda m: m.configuration.precision,
    "hint": lambda m: f"hint {m.configuration.hint}",
    "load": lambda m: str(m.configuration.load),
    "requests": lambda m: f"{m.configuration.requests} in flight",
    "arrivals": lambda m: arrivals_text(m.configuration.arrivals),
}


def timed(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return the measurements that have numbers."""
    return tuple(one for one in measurements if one.latency is not None)


def varying_axes(measurements: Sequence[Measurement]) -> dict[str, Callable[[Measurement], str]]:
    """Return the axes on which the measurements differ, each with how to read it."""
    return {axis: read for axis, read in _AXES.items() if len({read(one) for one in measurements}) > 1}


def series_names(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the name of the series that each measurement, by id, belongs to."""
    varying = varying_axes(measurements).values()
    return {
        one.id: " · ".join(filter(None, (engine_label(one), *(read(one) for read in varying)))) for one in measurements
    }


def series_colours(names: Iterable[str]) -> dict[str, str]:
    """Return a colour for each series, in the order in which they first come; after eight, colours repeat."""
    return {name: SERIES[index % len(SERIES)] for index, name in enumerate(dict.fromkeys(names))}
