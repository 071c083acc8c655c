"""Records as table rows and back: `to_…_row` gives a mapping of column to value, `from_…_row` takes one."""

import json

from enginebench_controller.json_form import CONFIGURATION, EFFECTIVE, FAILURE, MODEL_FILES, PHASES
from enginebench_controller.records import (
    Benchmark,
    Block,
    CapturedOutput,
    EngineRef,
    Failure,
    Layer,
    Measurement,
    ModelVersion,
    Process,
    Profile,
    Readback,
    Status,
    Target,
    TargetSnapshot,
)
from enginebench_controller.store.json_column import to_json
from enginebench_controller.store.measured_rows import (
    Row,
    from_latency_columns,
    from_throughput_interval,
    to_latency_columns,
    to_throughput_columns,
)


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
        **_subject(measurement),
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
        **_from_subject(row),
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
    )


def to_profile_row(profile: Profile) -> Row:
    """Give the row of `profiles`; the layers have rows of their own."""
    return {
        **_subject(profile),
        "name": profile.name,
        "created_at_unix_ns": profile.created_at_unix_ns,
        "iterations": profile.iterations,
        "profiled_latency_ns": profile.profiled_latency_ns,
        "unprofiled_latency_ns": profile.unprofiled_latency_ns,
    }


def from_profile_row(row: Row, layers: tuple[Layer, ...] = ()) -> Profile:
    """Read a row of `profiles`."""
    return Profile(
        **_from_subject(row),
        name=row["name"],
        created_at_unix_ns=row["created_at_unix_ns"],
        iterations=row["iterations"],
        profiled_latency_ns=row["profiled_latency_ns"],
        unprofiled_latency_ns=row["unprofiled_latency_ns"],
        layers=layers,
    )


def to_layer_row(layer: Layer) -> Row:
    """Give the row of `layers`, but for the profile's id and its position."""
    return {
        "name": layer.name,
        "type": layer.type,
        "execution_order": layer.order,
        "state": layer.state,
        "calls": layer.calls,
        "kernel": layer.kernel,
        "precision": layer.precision,
        "time_ns": list(layer.time_ns),
        "output_shapes": [list(shape) for shape in layer.output_shapes],
        "source_nodes": list(layer.source_nodes),
    }


def from_layer_row(row: Row) -> Layer:
    """Read a row of `layers`."""
    return Layer(
        name=row["name"],
        type=row["type"],
        order=row["execution_order"],
        state=row["state"],
        time_ns=tuple(row["time_ns"]),
        calls=row["calls"],
        kernel=row["kernel"],
        precision=row["precision"],
        output_shapes=tuple(tuple(shape) for shape in row["output_shapes"]),
        source_nodes=tuple(row["source_nodes"]),
    )


def _subject(outcome: Measurement | Profile) -> Row:
    """Give the columns that measurements and profiles share: what ran where and how it ended."""
    asked = outcome.configuration
    return {
        "id": outcome.id,
        "target": outcome.target,
        "engine": outcome.engine.name,
        "engine_version": outcome.engine.version,
        "environment": outcome.engine.environment,
        "model_digest": outcome.model_digest,
        "model_name": outcome.model_name,
        "device": asked.device,
        "batch": asked.batch,
        "cores": asked.cores,
        "status": outcome.status.value,
        "failure_kind": outcome.failure.kind.value if outcome.failure else None,
        "configuration": to_json(CONFIGURATION.to_data(asked)),
        "effective": to_json(EFFECTIVE.to_data(outcome.effective)),
        "failure": to_json(FAILURE.to_data(outcome.failure)) if outcome.failure else None,
    }


def _from_subject(row: Row) -> Row:
    return {
        "id": row["id"],
        "target": row["target"],
        "engine": EngineRef(row["engine"], row["environment"], row["engine_version"]),
        "model_digest": row["model_digest"],
        "model_name": row["model_name"],
        "configuration": CONFIGURATION.from_data(json.loads(row["configuration"])),
        "status": Status(row["status"]),
        "failure": _from_failure(row["failure"]),
        "effective": EFFECTIVE.from_data(json.loads(row["effective"])),
    }


def _from_failure(text: str | None) -> Failure | None:
    return None if text is None else FAILURE.from_data(json.loads(text))


def _integer(readback: Readback | None) -> int | None:
    return readback.value if readback and isinstance(readback.value, int) else None


def _text(readback: Readback | None) -> str | None:
    return str(readback.value) if readback else None
