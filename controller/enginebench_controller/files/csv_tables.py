"""Layers and measurements as flat tables, and as CSV (RFC 4180): lists as JSON, empty where unknown."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from enginebench_controller.files.csv_cells import cell
from enginebench_controller.graph.roofline import Roofline, rooflines
from enginebench_controller.records import (
    Interval,
    LatencySummary,
    Layer,
    Measurement,
    ModelVersion,
    Peak,
    Profile,
    Readback,
)
from enginebench_controller.records.figures import derived_values, figures, values
from enginebench_controller.stats import layers as layer_figures
from enginebench_controller.verdicts.disturbances import summarize_evidence
from enginebench_controller.verdicts.doubts import flags, marks
from enginebench_controller.verdicts.output_check import check_outputs

Row = dict[str, Any]

COLUMN_TYPES: Final = {
    "profile_id": "VARCHAR",
    "profile": "VARCHAR",
    "target": "VARCHAR",
    "engine": "VARCHAR",
    "engine_version": "VARCHAR",
    "environment": "VARCHAR",
    "model": "VARCHAR",
    "model_digest": "VARCHAR",
    "device": "VARCHAR",
    "batch": "INTEGER",
    "cores": "INTEGER",
    "cluster": "VARCHAR",
    "asked_precision": "VARCHAR",
    "imposed_sparsity": "DOUBLE",
    "unprofiled_latency_ns": "BIGINT",
    "execution_order": "BIGINT",
    "layer": "VARCHAR",
    "type": "VARCHAR",
    "state": "VARCHAR",
    "mean_ns": "DOUBLE",
    "low_ns": "DOUBLE",
    "high_ns": "DOUBLE",
    "share": "DOUBLE",
    "calls": "BIGINT",
    "kernel": "VARCHAR",
    "precision": "VARCHAR",
    "flops": "BIGINT",
    "data_bytes": "BIGINT",
    "flops_per_s": "DOUBLE",
    "bytes_per_s": "DOUBLE",
    "share_of_attainable": "DOUBLE",
    "bound": "VARCHAR",
    "dense_equivalent": "BOOLEAN",
    "category": "VARCHAR",
    "matching_group": "INTEGER",
    "matched_nodes": "VARCHAR[]",
    "source_nodes": "VARCHAR[]",
    "inputs": "VARCHAR[]",
    "outputs": "VARCHAR[]",
    "output_shapes": "BIGINT[][]",
    "parameters": "JSON",
    "time_ns": "BIGINT[]",
}
"""The columns with their types in SQL. `source_nodes` are the engine's words, `matched_nodes` what came of them."""


def layer_rows(profiles: Iterable[Profile], peaks: Sequence[Peak] = ()) -> Iterator[Row]:
    """The layers of all profiles in the order of execution; None where something is unknown.

    `peaks` are those of the profiles' targets.
    """
    for profile in profiles:
        yield from _rows(profile, peaks)


def _rows(profile: Profile, peaks: Sequence[Peak]) -> Iterator[Row]:
    subject, total = _layer_table_subject(profile), layer_figures.total_ns(profile.layers)
    nodes: dict[int | None, list[str]] = {}
    for node in profile.nodes:
        nodes.setdefault(node.group, []).append(node.name)
    for layer, place in zip(profile.layers, rooflines(profile, peaks), strict=True):
        matched = [] if layer.group is None else nodes.get(layer.group, [])
        yield {**subject, **_times(layer, total), **_layer(layer), **_place(place), "matched_nodes": matched}


def _layer_table_subject(profile: Profile) -> Row:
    asked = profile.configuration
    return {
        "profile_id": profile.id,
        "profile": profile.name,
        "target": profile.target,
        "engine": profile.engine.name,
        "engine_version": profile.engine.version,
        "environment": profile.engine.environment,
        "model": profile.model_name,
        "model_digest": profile.model_digest,
        "device": asked.device,
        "batch": asked.batch,
        "cores": asked.cores,
        "cluster": asked.cluster,
        "asked_precision": asked.precision,
        "imposed_sparsity": profile.imposed_sparsity,
        "unprofiled_latency_ns": profile.unprofiled_latency_ns,
    }


def _times(layer: Layer, total: float | None) -> Row:
    interval = layer_figures.interval(layer)
    return {
        "mean_ns": layer_figures.mean_ns(layer),
        "low_ns": interval.low if interval else None,
        "high_ns": interval.high if interval else None,
        "share": layer_figures.share(layer, total),
        "time_ns": list(layer.time_ns) or None,
    }


def _layer(layer: Layer) -> Row:
    return {
        "execution_order": layer.order,
        "layer": layer.name,
        "type": layer.type,
        "state": layer.state.value,
        "calls": layer.calls if layer.time_ns else None,
        "kernel": layer.kernel or None,
        "precision": layer.precision or None,
        "category": layer.category or None,
        "matching_group": layer.group,
        "source_nodes": list(layer.source_nodes),
        "inputs": list(layer.inputs),
        "outputs": list(layer.outputs),
        "flops": layer.flops,
        "data_bytes": layer.data_bytes,
        "output_shapes": [list(shape) for shape in layer.output_shapes],
        "parameters": dict(layer.parameters),
    }


def _place(place: Roofline | None) -> Row:
    columns = dict.fromkeys(("flops_per_s", "bytes_per_s", "share", "bound", "dense_equivalent"))
    found = columns if place is None else {column: getattr(place, column) for column in columns}
    return {"share_of_attainable": found.pop("share"), **found}


def to_csv(profiles: Sequence[Profile], peaks: Sequence[Peak] = ()) -> str:
    """The text of the table, without the raw times."""
    columns = [column for column in COLUMN_TYPES if column != "time_ns"]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows([cell(row[column]) for column in columns] for row in layer_rows(profiles, peaks))
    return text.getvalue()


_PERCENTS = (90, 95, 99, 99.9)


def measurements_csv(measurements: Sequence[Measurement], models: Iterable[ModelVersion] = ()) -> str:
    """Return the table, in the order given; without any measurement, nothing. `models` is as for `measurement_rows`."""
    rows = measurement_rows(measurements, models)
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows([list(rows[0])] if rows else [])
    writer.writerows([cell(value) for value in row.values()] for row in rows)
    return text.getvalue()


def measurement_rows(measurements: Sequence[Measurement], models: Iterable[ModelVersion] = ()) -> list[Row]:
    """The measurements as rows of the same columns, in the order given; None where something is unknown.

    `models`, all those of the store, tell which versions are to compute the same, for the check of outputs.
    """
    checks = check_outputs(measurements, models)
    return [_row(one, checks[one.id].problem if one.id in checks else "") for one in measurements]


def _row(measurement: Measurement, output_problem: str) -> Row:
    failure = measurement.failure
    return {
        **_subject(measurement),
        **_asked(measurement),
        **_effective(measurement),
        "status": measurement.status.value,
        "failure_kind": failure.kind.value if failure else None,
        "failure": failure.message if failure else None,
        **values(measurement),
        **derived_values(measurement),
        **_latency(measurement),
        **_ends("throughput_{}_items_per_s", measurement.throughput_interval),
        "disturbed_share": summarize_evidence(measurement.blocks).disturbed_share,
        "output_problem": output_problem or None,
        "flags": "; ".join(flags(measurement)) or None,
        "marks": "; ".join(marks(measurement)) or None,
    }


def _subject(measurement: Measurement) -> Row:
    return {
        "id": measurement.id,
        "benchmark_id": measurement.benchmark_id,
        "target": measurement.target,
        "model": measurement.model_name,
        "model_digest": measurement.model_digest,
        "engine": measurement.engine.name,
        "engine_version": measurement.engine.version,
        "environment": measurement.engine.environment,
    }


def _asked(measurement: Measurement) -> Row:
    asked = measurement.configuration
    return {
        "device": asked.device,
        "batch": asked.batch,
        "cores": asked.cores,
        "cluster": asked.cluster,
        "streams": asked.streams,
        "precision": asked.precision,
        "hint": asked.hint.value,
        "load": asked.load.value,
        "requests": asked.requests,
        "arrival_rate_per_s": asked.arrivals.rate_per_s if asked.arrivals else None,
        "input_set": asked.input_set.name,
        "options": dict(asked.options) or None,
    }


def _effective(measurement: Measurement) -> Row:
    got = measurement.effective
    columns: Row = {}
    for name in ("precision", "threads", "streams", "provider", "isa"):
        known: Readback | None = getattr(got, name)
        columns |= {f"effective_{name}": known.value if known else None}
        columns |= {f"effective_{name}_source": known.source.value if known else None}
    return columns | {"prepared": "; ".join(got.prepared) or None}


def _latency(measurement: Measurement) -> Row:
    latency = measurement.latency
    return {
        **(values(latency) if latency else dict.fromkeys(figures(LatencySummary))),
        **_ends("median_{}_ns", latency.median_interval if latency else None),
        **{f"p{percent:g}_ns": latency.percentile_ns(percent) if latency else None for percent in _PERCENTS},
    }


def _ends(column: str, interval: Interval | None) -> Row:
    return {
        column.format("low"): interval.low if interval else None,
        column.format("high"): interval.high if interval else None,
    }
