"""(c) What the harness costs an inference: the fake engine takes a known time, the wall clock says what was added.

The median block counts, so that a burst of something else on the machine is not taken for the harness.
"""

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper

from benchmarks import ours
from benchmarks.markdown import markdown_table
from benchmarks.setting import RESULTS, Setting

SYNC_LATENCIES_US = (0, 10, 100, 1000)
CELLS = (*(("sync", 1, us) for us in SYNC_LATENCIES_US), ("async", 1, 0), ("async", 2, 0))
"""Load, requests in flight, latency in microseconds. Where several spin at once, they wait for each other."""
DURATION = "1s"
TARGET_US = 2.0

Row = Mapping[str, Any]


def measure(setting: Setting) -> list[Row]:
    """One row for each cell."""
    model = _identity_model(RESULTS / "models" / "identity.onnx")
    return [_row(setting, model, *cell) for cell in CELLS]


def _row(setting: Setting, model: Path, load: str, requests: int, latency_us: int) -> Row:
    plan = {"models": [str(model)], "engines": ["fake"], "cores": [1], "load": [load], "processes": 1}
    limits = {"duration": DURATION, "max_duration": DURATION, "interval": "0%", "warmup": "200ms"}
    in_flight = {"requests": [requests]} if load == "async" else {}
    options = {"options": {"fake.latency_us": str(latency_us)}}
    measured = ours.run(setting, {**plan, **limits, **in_flight, **options})
    within_ns = measured.median_ns - 1000 * latency_us
    if load == "sync":
        added_ns = within_ns + statistics.median(_between_ns(measured, setting))
    else:
        added_ns = _wall_ns(measured, setting)
    print(f"  {load} {requests} × {latency_us} µs: {added_ns:.0f} ns added", flush=True)
    return {
        "load": load,
        "requests": requests,
        "engine_ns": 1000 * latency_us,
        "within_ns": within_ns,
        "added_ns": added_ns,
    }


def _between_ns(measured: ours.Measured, setting: Setting) -> list[float]:
    """For each block: wall clock that no inference accounts for ÷ inferences."""
    latencies = {each.block: int(each.latency_ns.sum()) for each in measured.samples(setting)}
    blocks = measured.blocks(setting)
    return [(block.duration_ns - latencies[block.index]) / block.iterations for block in blocks]


def _wall_ns(measured: ours.Measured, setting: Setting) -> float:
    """Wall clock ÷ inferences of the median block: all of it is added where the engine takes no time."""
    return statistics.median(block.duration_ns / block.iterations for block in measured.blocks(setting))


def _identity_model(path: Path) -> Path:
    """The smallest model there is: y = max(x, 0) for one float."""
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 1])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"], "relu")], "identity", [x], [y])
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


def table(rows: Sequence[Row]) -> str:
    """What an inference takes beyond the engine's time: within the latency shown, and between two inferences."""
    return markdown_table(
        ("load", "in flight", "engine takes", "added", "of it in the latency shown", "≤ 2 µs"), map(_cells, rows)
    )


def _cells(row: Row) -> Sequence[str]:
    added_us, within_us = row["added_ns"] / 1000, row["within_ns"] / 1000
    # With several in flight a latency contains the wait for the interpreter, which the others use meanwhile.
    in_latency = f"{within_us:.2f} µs" if row["requests"] == 1 else "–"
    verdict = "yes" if added_us <= TARGET_US else "no"
    engine = f"{row['engine_ns'] / 1000:.0f} µs"
    return row["load"], str(row["requests"]), engine, f"{added_us:.2f} µs", in_latency, verdict
