"""Records as table rows and back: `to_…_row` gives a mapping of column to value, `from_…_row` takes one."""

import json

from enginebench_controller.records import (
    Benchmark,
    Block,
    CapturedOutput,
    Grounds,
    Measurement,
    ModelVersion,
    Process,
    Readback,
    Target,
    TargetSnapshot,
)
from enginebench_controller.records.json_form import GROUNDS, MODEL_FILES, PHASES
from enginebench_controller.store.json_column import to_json
from enginebench_controller.store.measured_rows import (
    from_latency_columns,
    from_throughput_interval,
    to_latency_columns,
    to_throughput_columns,
)
from enginebench_controller.store.statements import Row
from enginebench_controller.store.subject_columns import from_subject_columns, to_subject_columns


def to_target_row(target: Target) -> Row:
    """Give the row of `targets`."""
    return {"name": target.name, "address": target.address, "added_at_unix_ns": target.added_at_unix_ns}


def from_target_row(row: Row) -> Target:
    """Read a row of `targets`."""
    return Target(row["name"], row["address"], row["added_at_unix_ns"])


def to_snapshot_row(snapshot: TargetSnapshot) -> Row:
    """Give the row of `snapshots`, which is also that of `benchmark_snapshots` but for the benchmark's id."""
    return {
        "target": snapshot.target,
        "address": snapshot.address,
        "seen_at_unix_ns": snapshot.seen_at_unix_ns,
        "host": to_json(snapshot.host),
        "engines": to_json(snapshot.engines),
    }


def from_snapshot_row(row: Row) -> TargetSnapshot:
    """Read a row of `snapshots` or `benchmark_snapshots`."""
    return TargetSnapshot(
        target=row["target"],
        address=row["address"],
        seen_at_unix_ns=row["seen_at_unix_ns"],
        host=json.loads(row["host"]),
        engines=tuple(json.loads(row["engines"])),
    )


def to_model_row(model: ModelVersion) -> Row:
    """Give the row of `models`."""
    return {
        "digest": model.digest,
        "name": model.name,
        "format": model.format,
        "files": to_json(MODEL_FILES.to_data(model.files)),
        "created_at_unix_ns": model.created_at_unix_ns,
        "parent_digest": model.parent_digest,
        "derivation": model.derivation,
    }


def from_model_row(row: Row) -> ModelVersion:
    """Read a row of `models`."""
    return ModelVersion(**{**row, "files": MODEL_FILES.from_data(json.loads(row["files"]))})


def to_benchmark_row(benchmark: Benchmark) -> Row:
    """Give the row of `benchmarks`."""
    return {
        "id": benchmark.id,
        "name": benchmark.name,
        "created_at_unix_ns": benchmark.created_at_unix_ns,
        "plan": to_json(benchmark.plan),
        "rerun_of": benchmark.rerun_of,
        "imported": benchmark.imported,
    }


def from_benchmark_row(row: Row) -> Benchmark:
    """Read the columns of `benchmarks`; others are left alone."""
    return Benchmark(
        id=row["id"],
        name=row["name"],
        created_at_unix_ns=row["created_at_unix_ns"],
        plan=json.loads(row["plan"]),
        rerun_of=row["rerun_of"],
        imported=row["imported"],
    )


def to_measurement_row(measurement: Measurement) -> Row:
    """Give the row of `measurements`, but for its position; what it consists of has rows of its own."""
    asked, got = measurement.configuration, measurement.effective
    return {
        **to_subject_columns(measurement),
        "benchmark_id": measurement.benchmark_id,
        "streams": asked.streams,
        "precision": asked.precision,
        "hint": asked.hint.value,
        "load": asked.load.value,
        "requests": asked.requests,
        "arrival_process": asked.arrivals.process.value if asked.arrivals else None,
        "arrival_rate_per_s": asked.arrivals.rate_per_s if asked.arrivals else None,
        "started_at_unix_ns": measurement.started_at_unix_ns,
        "effective_threads": _integer(got.threads),
        "effective_streams": _integer(got.streams),
        "effective_precision": _text(got.precision),
        "effective_provider": _text(got.provider),
        "effective_isa": _text(got.isa),
        "iterations": measurement.iterations,
        "steady_state_ns": measurement.steady_state_ns,
        "cpu_time_ns": measurement.cpu_time_ns,
        "input_set_sha256": measurement.input_set_sha256,
        **to_latency_columns(measurement.latency),
        **to_throughput_columns(measurement.throughput_items_per_s, measurement.throughput_interval),
        "process_spread": measurement.process_spread,
        "interleaving_group": measurement.interleaving_group,
        "grounds": to_json(GROUNDS.to_data(measurement.grounds)) if measurement.grounds != Grounds() else None,
        "phases": to_json(PHASES.to_data(measurement.phases)),
    }


def from_measurement_row(
    row: Row,
    processes: tuple[Process, ...] = (),
    blocks: tuple[Block, ...] = (),
    captured_outputs: tuple[CapturedOutput, ...] = (),
) -> Measurement:
    """Read a row of `measurements`, with what was read of the tables that belong to it."""
    return Measurement(
        **from_subject_columns(row),
        benchmark_id=row["benchmark_id"],
        started_at_unix_ns=row["started_at_unix_ns"],
        phases=PHASES.from_data(json.loads(row["phases"])),
        processes=processes,
        blocks=blocks,
        iterations=row["iterations"],
        steady_state_ns=row["steady_state_ns"],
        cpu_time_ns=row["cpu_time_ns"],
        input_set_sha256=row["input_set_sha256"],
        latency=from_latency_columns(row),
        throughput_items_per_s=row["throughput_items_per_s"],
        throughput_interval=from_throughput_interval(row),
        process_spread=row["process_spread"],
        captured_outputs=captured_outputs,
        interleaving_group=row["interleaving_group"],
        grounds=GROUNDS.from_data(json.loads(row["grounds"])) if row["grounds"] else Grounds(),
    )


def _integer(readback: Readback | None) -> int | None:
    return readback.value if readback and isinstance(readback.value, int) else None


def _text(readback: Readback | None) -> str | None:
    return str(readback.value) if readback else None
