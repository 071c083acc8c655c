"""All measurements of a benchmark: as rows, process by process, as bars by batch, and what went wrong in words.

A series is an engine, told apart further by only those axes that vary within the benchmark: two targets, two core
counts, two precisions. Batch and model are never part of it, since charts show them along an axis.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from enginebench_controller.files.palette import EngineLooks
from enginebench_controller.records import (
    Block,
    Failure,
    Measurement,
    ModelVersion,
    OutputCheck,
    Process,
    Status,
    WarmUp,
)
from enginebench_controller.verdicts.disturbances import summarize_evidence
from enginebench_controller.verdicts.doubts import flags, status_words
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.words import ranges
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT
from enginebench_ui.pages.benchmark.shapes.naming import Reader, differing, inputs_in_full, options_in_full
from enginebench_ui.shared.charts import margins
from enginebench_ui.shared.text import (
    Row,
    arrivals_text,
    cells,
    drawn_text,
    engine_label,
    in_milliseconds,
    in_percent,
    readback,
)

_AXES: Mapping[str, Reader] = {
    "target": lambda m: m.target,
    "device": lambda m: m.configuration.device,
    "cores": lambda m: m.configuration.cores_in_words,
    "streams": lambda m: f"{m.configuration.streams} stream" + ("" if m.configuration.streams == 1 else "s"),
    "precision": lambda m: m.configuration.precision,
    "hint": lambda m: f"hint {m.configuration.hint}",
    "load": lambda m: str(m.configuration.load),
    "requests": lambda m: f"{m.configuration.requests} in flight",
    "arrivals": lambda m: arrivals_text(m.configuration.arrivals),
    "inputs": inputs_in_full,
    "options": lambda m: options_in_full(m.configuration.options),
}


def timed(measurements: Iterable[Measurement]) -> tuple[Measurement, ...]:
    """Return the measurements that have numbers."""
    return tuple(one for one in measurements if one.latency is not None)


def series_names(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the name of the series that each measurement, by id, belongs to."""
    varying = differing(_AXES, measurements).values()
    return {
        one.id: " · ".join(filter(None, (engine_label(one), *(read(one) for read in varying)))) for one in measurements
    }


_RARE_AXES = ("target", "streams", "hint", "load", "requests", "arrivals", "inputs", "options")
_SOMETIMES: Mapping[str, set[str | float | None]] = {
    "Environment": {DEFAULT_ENVIRONMENT},
    "Kind of cores": {""},
    "Spread (%)": {None},
    "p99 (ms)": {None},
    "Outputs": {None},
}
"""Columns that are left out where they hold nothing but these."""


@dataclass(frozen=True)
class FailureView:
    """Measurements that failed in the same way: what to tell a person, and the engine's own words."""

    heading: str
    message: str
    detail: str
    configurations: tuple[str, ...]
    is_cancelled: bool = False


def measurement_rows(
    measurements: Sequence[Measurement],
    models: Iterable[ModelVersion] = (),
    checks: Mapping[str, OutputCheck] | None = None,
) -> tuple[Row, ...]:
    """Return a table row a measurement; None stands where there is no number.

    Columns that would say nothing, and axes in which the measurements do not differ, are left out but for the most
    common. `models`, all those of the store, tell which versions are to compute the same; `checks` of the outputs are
    made where none are given.
    """
    varying = differing(_AXES, measurements)
    extra = {axis.capitalize(): varying[axis] for axis in _RARE_AXES if axis in varying}
    checks = check_outputs(measurements, models) if checks is None else checks
    rows = [_row(one, extra, _outputs(one.id, checks)) for one in measurements]
    silent = {heading for heading in _SOMETIMES if {row[heading] for row in rows} <= _SOMETIMES[heading]}
    return tuple(cells({heading: row[heading] for heading in row if heading not in silent}) for row in rows)


def failure_views(measurements: Iterable[Measurement]) -> tuple[FailureView, ...]:
    """Return the failures, those of one engine with the same words together.

    What was cancelled is together whatever the engine: a person did that once.
    """
    alike: dict[tuple[str, Failure], list[Measurement]] = defaultdict(list)
    for measurement in measurements:
        if measurement.failure:
            whose = "" if measurement.status is Status.CANCELLED else engine_label(measurement)
            alike[whose, measurement.failure].append(measurement)
    return tuple(_failure(failure, group) for (_, failure), group in alike.items())


def configuration_text(measurement: Measurement) -> str:
    """Name what was measured within a benchmark: "resnet50, local, CPU, batch 1, 2 cores"."""
    asked = measurement.configuration
    return f"{measurement.model_name}, {measurement.target}, {asked.device}, {asked.size}"


def _row(measurement: Measurement, extra: Mapping[str, Reader], outputs: str | None) -> Row:
    asked, latency = measurement.configuration, measurement.latency
    return {
        "Model": measurement.model_name,
        "Engine": measurement.engine.name,
        "Version": measurement.engine.version,
        "Environment": measurement.engine.environment,
        "Device": asked.device,
        "Batch": asked.batch,
        "Cores": asked.cores,
        "Kind of cores": asked.cluster,
        **{heading: read(measurement) for heading, read in extra.items()},
        "Precision": readback(measurement.effective.precision),
        "Threads": readback(measurement.effective.threads),
        "Median (ms)": in_milliseconds(latency.median_ns if latency else None),
        "± (%)": in_percent(latency.median_relative_half_width if latency else None),
        "Spread (%)": in_percent(measurement.process_spread),
        "p95 (ms)": in_milliseconds(latency.percentile_ns(95) if latency else None),
        "p99 (ms)": in_milliseconds(latency.percentile_ns(99) if latency else None),
        "Items/s": measurement.throughput_items_per_s,
        "Peak memory (MB)": None if measurement.peak_rss_bytes is None else measurement.peak_rss_bytes / 1e6,
        "J an inference": measurement.energy_j_per_inference,
        "Energy meter": measurement.energy_source,
        "Status": status_words(measurement),
        "Outputs": outputs,
        "Disturbed (%)": in_percent(summarize_evidence(measurement.blocks).disturbed_share),
        "Remarks": "; ".join(_remarks(measurement)) or None,
    }


def _remarks(measurement: Measurement) -> tuple[str, ...]:
    failure = measurement.failure
    ended = (ending(failure),) if failure else ()
    return ended + flags(measurement)


def _outputs(identity: str, checks: Mapping[str, OutputCheck]) -> str | None:
    """Say how a measurement's outputs compare with another's; None where there was nothing to compare."""
    check = checks.get(identity)
    if check is not None and (check.problem or check.reference):
        return check.problem or check.remark or "agree"
    return "reference" if any(other.reference == identity for other in checks.values()) else None


def _failure(failure: Failure, group: Sequence[Measurement]) -> FailureView:
    detail = "\n\n".join(filter(None, (failure.detail, failure.stderr_tail)))
    engines = list(dict.fromkeys(map(engine_label, group)))
    several = len(engines) > 1
    return FailureView(
        heading=f"{', '.join(engines)}: {ending(failure)}",
        message=failure.message,
        detail=detail,
        configurations=tuple(
            f"{engine_label(one)}, {configuration_text(one)}" if several else configuration_text(one) for one in group
        ),
        is_cancelled=all(one.status is Status.CANCELLED for one in group),
    )


def ending(failure: Failure) -> str:
    """Say in a few words how a run ended: "crashed, SIGSEGV, in compile"."""
    where = f"in {failure.phase.replace('_', ' ')}" if failure.phase else ""
    return ", ".join(filter(None, (failure.kind.value.replace("_", " "), failure.signal, where)))


def process_rows(measurements: Sequence[Measurement]) -> tuple[Row, ...]:
    """Return a table row a process; None stands where the machine did not tell."""
    names = series_names(measurements)
    rows = [_process_row(one, process, names[one.id]) for one in measurements for process in one.processes]
    silent = {heading for heading in _OF_SOME_MACHINES if all(row[heading] is None for row in rows)}
    return tuple(cells({heading: row[heading] for heading in row if heading not in silent}) for row in rows)


_OF_SOME_MACHINES = ("Held back by", "Moves between kinds", "Energy meter")


def _process_row(measurement: Measurement, process: Process, series: str) -> Row:
    blocks = [block for block in measurement.blocks if block.process == process.index]
    evidence = [block.evidence for block in blocks]
    return {
        "Model": measurement.model_name,
        "Series": series,
        "Batch": measurement.configuration.batch,
        "Process": process.index + 1,
        "Median (ms)": in_milliseconds(process.median_ns),
        "Items/s": process.throughput_items_per_s,
        "Warm-up": _warm_up(process.warm_up),
        "Blocks": len(blocks),
        "Disturbed blocks": _disturbed(blocks),
        "Other processes (ms)": in_milliseconds(_total(one.other_cpu_time_ns for one in evidence)),
        "Steal (ms)": in_milliseconds(_total(one.steal_ns for one in evidence)),
        "Throttled (ms)": in_milliseconds(_total(one.throttled_ns for one in evidence)),
        "Involuntary switches": _total(one.involuntary_switches for one in evidence),
        "Lowest clock (GHz)": _least([one.min_frequency_hz for one in evidence]),
        "Hottest (°C)": _hottest([one.temperature_millicelsius for one in evidence]),
        "Held back by": ", ".join(sorted({one.held_back_by for one in evidence if one.held_back_by})) or None,
        "Processors": ranges(process.effective.affinity) or None,
        "Moves between kinds": _total(one.cluster_migrations for one in evidence),
        "Written (MB)": None if process.written_bytes is None else process.written_bytes / 1e6,
        "Energy meter": next((one.energy_source for one in evidence if one.energy_source), None),
    }


def _warm_up(warm_up: WarmUp | None) -> str | None:
    if warm_up is None:
        return None
    if warm_up.steady is None:
        return "too few inferences to tell"
    return "steady" if warm_up.steady else f"never steady: {warm_up.reason}".removesuffix(": ")


def _disturbed(blocks: Sequence[Block]) -> int:
    return sum(bool(block.disturbances) for block in blocks)


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _least(frequencies_hz: Sequence[int | None]) -> float | None:
    return min((value / 1e9 for value in frequencies_hz if value is not None), default=None)


def _hottest(temperatures_millicelsius: Sequence[int | None]) -> float | None:
    return max((value / 1000 for value in temperatures_millicelsius if value is not None), default=None)


HEIGHT_PX = 420
MOST_PANELS_IN_A_ROW = 3

_MARGINS = margins(40)
_LEGEND = {"orientation": "h", "yanchor": "top", "y": -0.22, "x": 0}


def throughput_figure(measurements: Sequence[Measurement], engines: EngineLooks) -> go.Figure | None:
    """Draw items/s as bars, grouped by batch, a colour a series and a panel a model; None when nothing has numbers."""
    shown = timed(measurements)
    if not shown:
        return None
    names, models = series_names(shown), list(dict.fromkeys(one.model_name for one in shown))
    figure, panels = _panels(models)
    for series, look in engines.of_series((names[one.id], one.engine.name) for one in shown).items():
        for model, (row, column) in panels.items():
            bars = [one for one in shown if names[one.id] == series and one.model_name == model]
            figure.add_trace(_bars(bars, series, look.colour, in_legend=model == models[0]), row=row, col=column)
    figure.update_xaxes(type="category", title="batch", categoryorder="array", categoryarray=_batches(shown))
    figure.update_yaxes(rangemode="tozero")
    figure.update_yaxes(title="items/s", col=1)
    return figure.update_layout(barmode="group", margin=_MARGINS, legend=_LEGEND)


def _panels(models: Sequence[str]) -> tuple[go.Figure, dict[str, tuple[int, int]]]:
    """Make a figure with a panel a model, and say in which row and column, counted from 1, each model is."""
    columns = min(len(models), MOST_PANELS_IN_A_ROW)
    rows = -(-len(models) // columns)
    figure = make_subplots(rows, columns, subplot_titles=[drawn_text(model) for model in models])
    figure.update_layout(height=HEIGHT_PX * rows)
    return figure, {model: (index // columns + 1, index % columns + 1) for index, model in enumerate(models)}


def _bars(measurements: Sequence[Measurement], series: str, colour: str, *, in_legend: bool) -> go.Bar:
    return go.Bar(
        x=[str(one.configuration.batch) for one in measurements],
        y=[one.throughput_items_per_s for one in measurements],
        # Plotly reads a few HTML tags in every text; names from elsewhere must not speak it.
        name=drawn_text(series),
        legendgroup=series,
        showlegend=in_legend,
        marker_color=colour,
        texttemplate="%{y:.3~s}",
        textposition="outside",
        cliponaxis=False,
        hovertemplate="batch %{x}: %{y:,.4~r} items/s<extra>%{fullData.name}</extra>",
    )


def _batches(measurements: Sequence[Measurement]) -> list[str]:
    return [str(batch) for batch in sorted({one.configuration.batch for one in measurements})]
