"""Records as table rows and back: `to_…_row` gives a mapping of column to value, `from_…_row` takes one."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

from enginebench_controller.records import (
    Benchmark,
    Block,
    CapturedOutput,
    Disturbance,
    DisturbanceKind,
    EngineRef,
    Evidence,
    Failure,
    Grounds,
    Interval,
    IntervalMethod,
    LatencySummary,
    Measurement,
    MeasuringCost,
    ModelVersion,
    Process,
    Profile,
    Readback,
    Search,
    SearchKind,
    Status,
    Target,
    TargetSnapshot,
    WarmUp,
)
from enginebench_controller.records.fields import (
    AFTERWARDS,
    BYSTANDERS,
    CONFIGURATION,
    DERIVATION,
    EFFECTIVE,
    ENGINES,
    FAILURE,
    GROUNDS,
    HOST,
    MODEL_FILES,
    PERCENTILES,
    PHASES,
    finite,
    from_float32_bytes,
    to_float32_bytes,
)
from enginebench_controller.records.figures import figures, from_values, values
from enginebench_controller.store.statements import Row


def to_json(data: Any) -> str:
    """Render JSON-able data for a JSON column; what is not finite becomes null."""
    return json.dumps(finite(data), allow_nan=False)


def to_subject_columns(outcome: Measurement | Profile) -> Row:
    """Give the columns."""
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
        "cluster": asked.cluster,
        "status": outcome.status.value,
        "failure_kind": outcome.failure.kind.value if outcome.failure else None,
        "configuration": to_json(CONFIGURATION.to_data(asked)),
        "effective": to_json(EFFECTIVE.to_data(outcome.effective)),
        "failure": to_json(FAILURE.to_data(outcome.failure)) if outcome.failure else None,
    }


def from_subject_columns(row: Row) -> Row:
    """Read the columns, as the fields that the records share."""
    return {
        "id": row["id"],
        "target": row["target"],
        "engine": EngineRef(row["engine"], row["environment"], row["engine_version"]),
        "model_digest": row["model_digest"],
        "model_name": row["model_name"],
        "configuration": CONFIGURATION.from_text(row["configuration"]),
        "status": Status(row["status"]),
        "failure": _from_failure(row["failure"]),
        "effective": EFFECTIVE.from_text(row["effective"]),
    }


def _from_failure(text: str | None) -> Failure | None:
    return None if text is None else FAILURE.from_text(text)


_PERCENTILE_COLUMNS = {"p90_ns": 90, "p95_ns": 95, "p99_ns": 99, "p999_ns": 99.9}
_MEDIAN_INTERVAL = ("median_low_ns", "median_high_ns", "median_interval_level", "median_interval_method")
_THROUGHPUT_INTERVAL = (
    "throughput_low_items_per_s",
    "throughput_high_items_per_s",
    "throughput_interval_level",
    "throughput_interval_method",
)


def to_latency_columns(latency: LatencySummary | None) -> Row:
    """Give the columns of `measurements` that hold its latency; all NULL without one."""
    return {
        **(values(latency) if latency else dict.fromkeys(figures(LatencySummary))),
        **{name: latency.percentile_ns(percent) if latency else None for name, percent in _PERCENTILE_COLUMNS.items()},
        **_to_interval_columns(_MEDIAN_INTERVAL, latency.median_interval if latency else None),
        "percentiles": to_json(PERCENTILES.to_data(latency.percentiles)) if latency else None,
    }


def from_latency_columns(row: Row) -> LatencySummary | None:
    """Read the columns of `measurements` that hold its latency."""
    if row["samples"] is None:
        return None
    return LatencySummary(
        **from_values(LatencySummary, row),
        median_interval=_from_interval_columns(_MEDIAN_INTERVAL, row),
        percentiles=PERCENTILES.from_text(row["percentiles"]),
    )


def from_rate_interval_columns(row: Row) -> Interval | None:
    """Read the columns of `measurements` that hold the interval of its throughput."""
    return _from_interval_columns(_THROUGHPUT_INTERVAL, row)


def to_process_row(process: Process) -> Row:
    """Give the row of `processes`, but for the measurement's id."""
    warm_up, calibration = process.warm_up, process.calibration
    return {
        "process": process.index,
        **values(process),
        "warm_up_steady": warm_up.steady if warm_up else None,
        "warm_up_iterations": warm_up.iterations if warm_up else None,
        "warm_up_reason": warm_up.reason if warm_up else None,
        "timer_ns": calibration.timer_ns if calibration else None,
        "empty_loop_ns": calibration.empty_loop_ns if calibration else None,
        "block_ns": calibration.block_ns if calibration else None,
        "afterwards": to_json(AFTERWARDS.to_data(process.afterwards)) if process.afterwards else None,
        "bystanders": to_json(BYSTANDERS.to_data(process.bystanders)) if process.bystanders else None,
        "phases": to_json(PHASES.to_data(process.phases)),
        "effective": to_json(EFFECTIVE.to_data(process.effective)),
    }


def from_process_row(row: Row) -> Process:
    """Read a row of `processes`."""
    return Process(
        index=row["process"],
        **from_values(Process, row),
        warm_up=_from_warm_up_columns(row),
        calibration=_from_calibration_columns(row),
        afterwards=AFTERWARDS.from_text(row["afterwards"]) if row["afterwards"] else None,
        bystanders=BYSTANDERS.from_text(row["bystanders"]) if row["bystanders"] else None,
        phases=PHASES.from_text(row["phases"]),
        effective=EFFECTIVE.from_text(row["effective"]),
    )


def to_block_row(block: Block) -> Row:
    """Give the row of `blocks`, but for the measurement's id."""
    return {
        "process": block.process,
        "block": block.index,
        **values(block),
        **values(block.evidence),
        "disturbances": list(map(str, block.disturbances)),
        "disturbed_by": to_disturbances(block.disturbances) if block.disturbances else None,
        "evidence_missing": to_json(block.evidence.missing) if block.evidence.missing else None,
    }


def from_block_row(row: Row) -> Block:
    """Read a row of `blocks`."""
    return Block(
        process=row["process"],
        index=row["block"],
        **from_values(Block, row),
        evidence=Evidence(**from_values(Evidence, row), missing=_missing(row["evidence_missing"])),
        disturbances=from_disturbances(row["disturbed_by"]) if row["disturbed_by"] else (),
    )


@lru_cache
def _missing(text: str | None) -> Mapping[str, str]:
    """Why some evidence is missing: on one machine the same of all blocks, which are thousands."""
    return json.loads(text) if text else {}


def to_disturbances(disturbances: Iterable[Disturbance]) -> str:
    """Give the text of `disturbed_by`, with those amounts that each has."""
    return to_json(
        [{name: value for name, value in asdict(one).items() if value not in (None, "")} for one in disturbances]
    )


def from_disturbances(text: str) -> tuple[Disturbance, ...]:
    """Read the text of `disturbed_by`; without pydantic, since a page reads thousands of blocks."""
    return tuple(Disturbance(DisturbanceKind(one.pop("kind")), **one) for one in json.loads(text))


def to_output_row(output: CapturedOutput) -> Row:
    """Give the row of `captured_outputs`, but for the measurement's id and its position."""
    return {
        "input_index": output.input_index,
        "name": output.name,
        "dtype": output.dtype,
        "shape": list(output.shape),
        "stride": output.stride,
        "elements": to_float32_bytes(output.values),
    }


def from_output_row(row: Row) -> CapturedOutput:
    """Read a row of `captured_outputs`."""
    return CapturedOutput(
        input_index=row["input_index"],
        name=row["name"],
        dtype=row["dtype"],
        shape=tuple(row["shape"]),
        stride=row["stride"],
        values=from_float32_bytes(row["elements"]),
    )


def _to_interval_columns(names: tuple[str, str, str, str], interval: Interval | None) -> Row:
    if interval is None:
        return dict.fromkeys(names)
    return dict(zip(names, (interval.low, interval.high, interval.level, interval.method.value), strict=True))


def _from_interval_columns(names: tuple[str, str, str, str], row: Row) -> Interval | None:
    low, high, level, method = (row[name] for name in names)
    return None if low is None else Interval(low, high, level, IntervalMethod(method))


def _from_warm_up_columns(row: Row) -> WarmUp | None:
    if row["warm_up_iterations"] is None:
        return None
    return WarmUp(row["warm_up_steady"], row["warm_up_iterations"], row["warm_up_reason"])


def _from_calibration_columns(row: Row) -> MeasuringCost | None:
    return None if row["timer_ns"] is None else MeasuringCost(row["timer_ns"], row["empty_loop_ns"], row["block_ns"])


def to_target_row(target: Target) -> Row:
    """Give the row of `targets`."""
    return {
        "name": target.name,
        "address": target.address,
        "added_at_unix_ns": target.added_at_unix_ns,
        "labels": to_json(dict(target.labels)),
    }


def from_target_row(row: Row) -> Target:
    """Read a row of `targets`."""
    return Target(row["name"], row["address"], row["added_at_unix_ns"], json.loads(row["labels"]))


def to_snapshot_row(snapshot: TargetSnapshot) -> Row:
    """Give the row of `snapshots`, which is also that of `benchmark_snapshots` but for the benchmark's id."""
    return {
        "target": snapshot.target,
        "address": snapshot.address,
        "seen_at_unix_ns": snapshot.seen_at_unix_ns,
        "host": to_json(HOST.to_data(snapshot.host)),
        "engines": to_json(ENGINES.to_data(snapshot.engines)),
    }


def from_snapshot_row(row: Row) -> TargetSnapshot:
    """Read a row of `snapshots` or `benchmark_snapshots`."""
    return TargetSnapshot(
        target=row["target"],
        address=row["address"],
        seen_at_unix_ns=row["seen_at_unix_ns"],
        host=HOST.from_text(row["host"]),
        engines=ENGINES.from_text(row["engines"]),
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
        "derivation": str(model.derivation) if model.derivation else None,
        "derived_by": to_json(DERIVATION.to_data(model.derivation)) if model.derivation else None,
    }


def from_model_row(row: Row) -> ModelVersion:
    """Read a row of `models`."""
    return ModelVersion(
        digest=row["digest"],
        name=row["name"],
        format=row["format"],
        files=MODEL_FILES.from_text(row["files"]),
        created_at_unix_ns=row["created_at_unix_ns"],
        parent_digest=row["parent_digest"],
        derivation=DERIVATION.from_text(row["derived_by"]) if row["derived_by"] else None,
    )


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
        **values(measurement),
        "effective_threads": _integer(got.threads),
        "effective_streams": _integer(got.streams),
        "effective_precision": _text(got.precision),
        "effective_provider": _text(got.provider),
        "effective_isa": _text(got.isa),
        **to_latency_columns(measurement.latency),
        **_to_interval_columns(_THROUGHPUT_INTERVAL, measurement.throughput_interval),
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
        **from_values(Measurement, row),
        phases=PHASES.from_text(row["phases"]),
        processes=processes,
        blocks=blocks,
        latency=from_latency_columns(row),
        throughput_interval=from_rate_interval_columns(row),
        captured_outputs=captured_outputs,
        grounds=GROUNDS.from_text(row["grounds"]) if row["grounds"] else Grounds(),
    )


def _integer(readback: Readback | None) -> int | None:
    return readback.value if readback and isinstance(readback.value, int) else None


def _text(readback: Readback | None) -> str | None:
    return str(readback.value) if readback else None


def to_search_row(search: Search) -> Row:
    """Give a row of `searches`."""
    return {
        "id": search.id,
        "kind": search.kind.value,
        "name": search.name,
        "created_at_unix_ns": search.created_at_unix_ns,
        "asked": to_json(dict(search.order)),
        "skipped": to_json(dict(search.skipped)),
        "answer": None if search.answer is None else to_json(dict(search.answer)),
        "ended_at_unix_ns": search.ended_at_unix_ns,
    }


def from_search_row(row: Row) -> Search:
    """Read a row of `searches`."""
    return Search(
        id=row["id"],
        kind=SearchKind(row["kind"]),
        name=row["name"],
        created_at_unix_ns=row["created_at_unix_ns"],
        order=json.loads(row["asked"]),
        skipped=json.loads(row["skipped"]),
        answer=None if row["answer"] is None else json.loads(row["answer"]),
        ended_at_unix_ns=row["ended_at_unix_ns"],
    )
