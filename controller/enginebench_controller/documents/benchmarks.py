"""The public JSON documents: what `--json` prints and what an export holds, described in docs/cli.md.

Every document is valid RFC 8259 (no NaN), names its units, writes unknown as null, and carries `schema_version`, which
grows only when something is removed or changes its meaning; new fields may appear at any time.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from enginebench_controller.records import (
    Benchmark,
    Block,
    EngineRef,
    LatencySummary,
    Measurement,
    ModelVersion,
    OutputCheck,
    Profile,
    TargetSnapshot,
)
from enginebench_controller.records.json_form import (
    BLOCK,
    CONFIGURATION,
    EFFECTIVE,
    FAILURE,
    GROUNDS,
    INTERVAL,
    LATENCY,
    MODEL_FILES,
    OUTPUT_CHECK,
    PHASES,
    PROCESSES,
    finite,
)
from enginebench_controller.store.queries import BenchmarkEntry
from enginebench_controller.trust.evidence_summary import summarize_evidence
from enginebench_controller.trust.output_check import check_outputs
from enginebench_controller.trust.parity import flags, marks, unequal_settings
from enginebench_controller.trust.soundness import of_benchmark

SCHEMA_VERSION = 2
"""2: percentiles are a list with intervals, inputs are an `input_set`, and an export holds samples by the block."""

Document = dict[str, Any]


def benchmark_document(
    benchmark: Benchmark,
    measurements: Sequence[Measurement],
    snapshots: Iterable[TargetSnapshot],
    models: Iterable[ModelVersion] = (),
    *,
    with_blocks: bool = False,
    answers: Sequence[Document] | None = None,
) -> Document:
    """Describe a benchmark with its targets as they were, its measurements, and remarks on their comparability.

    `models`, all those of the store, tell which versions are to compute the same, for the output check. With
    `with_blocks` each measurement also lists its blocks with their evidence. `answers` stand before all else.
    """
    known = tuple(models)
    checks = check_outputs(measurements, known)
    described = [measurement_document(one, checks.get(one.id), with_blocks=with_blocks) for one in measurements]
    return {
        "schema_version": SCHEMA_VERSION,
        **({} if answers is None else {"answers": list(answers)}),
        "benchmark": {**_heading(benchmark), "plan": finite(benchmark.plan)},
        "targets": [target_document(snapshot) for snapshot in snapshots],
        "measurements": described,
        "remarks": list(unequal_settings(measurements)),
        "outcome": of_benchmark(benchmark, measurements, known).document,
    }


def measurement_document(
    measurement: Measurement, output_check: OutputCheck | None = None, *, with_blocks: bool = False
) -> Document:
    """Describe one measurement without its raw samples. `flags` says what to know before trusting it."""
    blocks = {"blocks": [BLOCK.to_data(block) for block in measurement.blocks]} if with_blocks else {}
    return {
        **subject_document(measurement),
        "input_set_sha256": measurement.input_set_sha256,
        "interleaving_group": measurement.interleaving_group,
        "started_at_unix_ns": measurement.started_at_unix_ns,
        "phases": PHASES.to_data(measurement.phases),
        "iterations": measurement.iterations,
        "steady_state_ns": measurement.steady_state_ns,
        "cpu_time_ns": measurement.cpu_time_ns,
        "cpu_cores_used": measurement.cpu_cores_used,
        "latency": _latency(measurement.latency) if measurement.latency else None,
        "throughput_items_per_s": finite(measurement.throughput_items_per_s),
        "throughput_interval": INTERVAL.to_data(measurement.throughput_interval),
        "process_spread": finite(measurement.process_spread),
        "processes": PROCESSES.to_data(measurement.processes),
        "grounds": GROUNDS.to_data(measurement.grounds),
        "evidence": _evidence(measurement.blocks),
        "output_check": OUTPUT_CHECK.to_data(output_check),
        "flags": list(flags(measurement)),
        "marks": [mark.value for mark in marks(measurement)],
        **blocks,
    }


def benchmark_list_document(entries: Iterable[BenchmarkEntry]) -> Document:
    """Describe benchmarks as a list: what each covered and how many of its measurements ended how."""
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmarks": [
            {
                **_heading(entry.benchmark),
                "measurements": entry.measurements,
                "statuses": {status.value: count for status, count in entry.counts.items()},
                "models": list(entry.models),
                "engines": list(entry.engines),
                "targets": list(entry.targets),
            }
            for entry in entries
        ],
    }


def target_document(snapshot: TargetSnapshot) -> Document:
    """Describe what a target said of itself: host facts and engines."""
    return {
        "name": snapshot.target,
        "address": snapshot.address,
        "seen_at_unix_ns": snapshot.seen_at_unix_ns,
        "host": finite(snapshot.host),
        "engines": finite(snapshot.engines),
    }


def model_document(model: ModelVersion) -> Document:
    """Describe a model version."""
    return {
        "digest": model.digest,
        "name": model.name,
        "format": model.format,
        "size_bytes": model.size_bytes,
        "files": MODEL_FILES.to_data(model.files),
        "created_at_unix_ns": model.created_at_unix_ns,
        "parent_digest": model.parent_digest,
        "derivation": model.derivation,
    }


def engine_document(engine: EngineRef) -> Document:
    """Describe which engine ran."""
    return {"name": engine.name, "version": engine.version, "environment": engine.environment}


def subject_document(outcome: Measurement | Profile) -> Document:
    """Describe what measurements and profiles share: what ran where, and how it ended."""
    return {
        "id": outcome.id,
        "target": outcome.target,
        "engine": engine_document(outcome.engine),
        "model": {"name": outcome.model_name, "digest": outcome.model_digest},
        "device": outcome.configuration.device,
        "configuration": CONFIGURATION.to_data(outcome.configuration),
        "effective": EFFECTIVE.to_data(outcome.effective),
        "status": outcome.status.value,
        "failure": FAILURE.to_data(outcome.failure) if outcome.failure else None,
    }


def _heading(benchmark: Benchmark) -> Document:
    created = datetime.fromtimestamp(benchmark.created_at_unix_ns / 1e9, UTC)
    return {
        "id": benchmark.id,
        "name": benchmark.name,
        "created_at": created.isoformat(timespec="milliseconds"),
        "created_at_unix_ns": benchmark.created_at_unix_ns,
        "rerun_of": benchmark.rerun_of,
        "imported": benchmark.imported,
    }


def _latency(latency: LatencySummary) -> Document:
    described: Document = LATENCY.to_data(latency)
    return {**described, "median_relative_half_width": finite(latency.median_relative_half_width)}


def _evidence(blocks: Sequence[Block]) -> Document | None:
    """What the machine was doing, summarized; None where no block was kept, so that nothing is known."""
    if not blocks:
        return None
    summary = summarize_evidence(blocks)
    return {
        "blocks": summary.blocks,
        "disturbed_blocks": summary.disturbed_blocks,
        "disturbed_share": summary.disturbed_share,
        "disturbances": dict(summary.disturbances),
        "missing": dict(summary.missing),
    }
