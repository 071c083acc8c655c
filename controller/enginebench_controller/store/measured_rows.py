"""What belongs to a measurement as table rows and back: its statistics, processes, blocks and captured outputs."""

import json
from dataclasses import fields

from enginebench_controller.records import (
    Block,
    Calibration,
    CapturedOutput,
    Evidence,
    Interval,
    IntervalMethod,
    LatencySummary,
    Process,
    StopReason,
    WarmUp,
)
from enginebench_controller.records.float32_bytes import from_float32_bytes, to_float32_bytes
from enginebench_controller.records.json_form import AFTERWARDS, BYSTANDERS, EFFECTIVE, PERCENTILES, PHASES
from enginebench_controller.store.json_column import to_json
from enginebench_controller.store.statements import Row

_LATENCY_COLUMNS = ("samples", "mean_ns", "sd_ns", "cv", "min_ns", "max_ns", "median_ns", "mad_ns", "outliers")
_PERCENTILE_COLUMNS = {"p90_ns": 90, "p95_ns": 95, "p99_ns": 99, "p999_ns": 99.9}
_EVIDENCE_COLUMNS = tuple(one.name for one in fields(Evidence) if one.name != "missing")
_PROCESS_COLUMNS = (
    "started_at_unix_ns",
    "iterations",
    "steady_state_ns",
    "cpu_time_ns",
    "median_ns",
    "drift",
    "throughput_items_per_s",
    "scheduled_arrivals",
    "unsent_arrivals",
    "clock_jump_ns",
    "agent_paused_ns",
)
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
        **{column: getattr(latency, column) if latency else None for column in (*_LATENCY_COLUMNS, "excluded")},
        **{name: latency.percentile_ns(percent) if latency else None for name, percent in _PERCENTILE_COLUMNS.items()},
        **_to_interval_columns(_MEDIAN_INTERVAL, latency.median_interval if latency else None),
        "percentiles": to_json(PERCENTILES.to_data(latency.percentiles)) if latency else None,
    }


def from_latency_columns(row: Row) -> LatencySummary | None:
    """Read the columns of `measurements` that hold its latency."""
    if row["samples"] is None:
        return None
    return LatencySummary(
        **{column: row[column] for column in (*_LATENCY_COLUMNS, "excluded")},
        median_interval=_from_interval_columns(_MEDIAN_INTERVAL, row),
        percentiles=PERCENTILES.from_data(json.loads(row["percentiles"])),
    )


def to_throughput_columns(rate_per_s: float | None, interval: Interval | None) -> Row:
    """Give the columns of `measurements` that hold its throughput."""
    return {"throughput_items_per_s": rate_per_s, **_to_interval_columns(_THROUGHPUT_INTERVAL, interval)}


def from_throughput_interval(row: Row) -> Interval | None:
    """Read the throughput's interval from the columns of `measurements`."""
    return _from_interval_columns(_THROUGHPUT_INTERVAL, row)


def to_process_row(process: Process) -> Row:
    """Give the row of `processes`, but for the measurement's id."""
    warm_up, calibration = process.warm_up, process.calibration
    return {
        "process": process.index,
        **{column: getattr(process, column) for column in _PROCESS_COLUMNS},
        "stop_reason": process.stop_reason.value if process.stop_reason else None,
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
        **{column: row[column] for column in _PROCESS_COLUMNS},
        stop_reason=StopReason(row["stop_reason"]) if row["stop_reason"] else None,
        warm_up=_from_warm_up_columns(row),
        calibration=_from_calibration_columns(row),
        afterwards=AFTERWARDS.from_data(json.loads(row["afterwards"])) if row["afterwards"] else None,
        bystanders=BYSTANDERS.from_data(json.loads(row["bystanders"])) if row["bystanders"] else None,
        phases=PHASES.from_data(json.loads(row["phases"])),
        effective=EFFECTIVE.from_data(json.loads(row["effective"])),
    )


def to_block_row(block: Block) -> Row:
    """Give the row of `blocks`, but for the measurement's id."""
    return {
        "process": block.process,
        "block": block.index,
        "begin_ns": block.begin_ns,
        "duration_ns": block.duration_ns,
        "iterations": block.iterations,
        "disturbances": list(block.disturbances),
        "paused_ns": block.paused_ns,
        **{column: getattr(block.evidence, column) for column in _EVIDENCE_COLUMNS},
        "evidence_missing": to_json(block.evidence.missing) if block.evidence.missing else None,
    }


def from_block_row(row: Row) -> Block:
    """Read a row of `blocks`."""
    missing = json.loads(row["evidence_missing"]) if row["evidence_missing"] else {}
    return Block(
        process=row["process"],
        index=row["block"],
        begin_ns=row["begin_ns"],
        duration_ns=row["duration_ns"],
        iterations=row["iterations"],
        evidence=Evidence(**{column: row[column] for column in _EVIDENCE_COLUMNS}, missing=missing),
        disturbances=tuple(row["disturbances"]),
        paused_ns=row["paused_ns"],
    )


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


def _from_calibration_columns(row: Row) -> Calibration | None:
    return None if row["timer_ns"] is None else Calibration(row["timer_ns"], row["empty_loop_ns"], row["block_ns"])
