"""The measurements of a benchmark as CSV: a row a measurement, units in the names of columns, empty where unknown."""

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from enginebench_controller.exports.csv_table import cell
from enginebench_controller.records import Interval, Measurement, ModelVersion, Readback
from enginebench_controller.trust.evidence_summary import summarize_evidence
from enginebench_controller.trust.output_check import check_outputs
from enginebench_controller.trust.parity import flags, marks

Row = dict[str, Any]

_LATENCIES = ("samples", "mean_ns", "sd_ns", "min_ns", "median_ns", "max_ns", "mad_ns", "outliers", "excluded")
_PERCENTS = (90, 95, 99, 99.9)


def measurements_csv(measurements: Sequence[Measurement], models: Iterable[ModelVersion] = ()) -> str:
    """Return the table, in the order given; without any measurement, nothing.

    `models`, all those of the store, tell which versions are to compute the same, for the check of outputs.
    """
    checks = check_outputs(measurements, models)
    rows = [_row(one, checks[one.id].problem if one.id in checks else "") for one in measurements]
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerows([list(rows[0])] if rows else [])
    writer.writerows([cell(value) for value in row.values()] for row in rows)
    return text.getvalue()


def _row(measurement: Measurement, output_problem: str) -> Row:
    failure = measurement.failure
    return {
        **_subject(measurement),
        **_asked(measurement),
        **_effective(measurement),
        "status": measurement.status.value,
        "failure_kind": failure.kind.value if failure else None,
        "failure": failure.message if failure else None,
        "started_at_unix_ns": measurement.started_at_unix_ns,
        **_latency(measurement),
        "throughput_items_per_s": measurement.throughput_items_per_s,
        **_ends("throughput_{}_items_per_s", measurement.throughput_interval),
        "process_spread": measurement.process_spread,
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
        **{name: getattr(latency, name) if latency else None for name in _LATENCIES},
        **_ends("median_{}_ns", latency.median_interval if latency else None),
        **{f"p{percent:g}_ns": latency.percentile_ns(percent) if latency else None for percent in _PERCENTS},
    }


def _ends(column: str, interval: Interval | None) -> Row:
    return {
        column.format("low"): interval.low if interval else None,
        column.format("high"): interval.high if interval else None,
    }
