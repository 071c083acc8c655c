"""(d) How long one waits: our default measurement, which ends when it knows the median to 1 %, against fixed times."""

import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import ours, peers
from benchmarks.markdown import markdown_table
from benchmarks.setting import MODELS, Setting

REPEATS_PER_ROUND = 0.1
PYPERF_SCRIPT = Path(__file__).parent / "pyperf_loop.py"

Row = Mapping[str, Any]


def measure(setting: Setting) -> list[Row]:
    """One row for each engine of ours, on the small network, and one for each tool."""
    cells = [(MODELS[0], engine) for engine in peers.engines(setting)]
    repeats = max(1, round(REPEATS_PER_ROUND * setting.rounds))
    rows = [_ours(setting, model, engine, repeats) for model, engine in cells]
    fixed = [
        {"tool": tool.name, "engine": tool.engine, "wall_s": [tool.default_s]}
        for tool in (peers.BENCHMARK_APP, peers.DEEPSPARSE_BENCHMARK)
    ]
    return [*rows, *fixed, _pyperf(setting)]


def _ours(setting: Setting, model: str, engine: str, repeats: int) -> Row:
    plan = {"models": [str(setting.models[model])], "engines": [engine], "cores": [setting.cores]}
    runs = [ours.run(setting, plan) for _ in range(repeats)]
    print(f"  {model} {engine}: {[round(run.wall_s, 1) for run in runs]} s", flush=True)
    return {
        "tool": "enginebench",
        "model": model,
        "engine": engine,
        "wall_s": [run.wall_s for run in runs],
        "half_width": [_half_width(run.document) for run in runs],
        "status": [run.document["status"] for run in runs],
    }


def _half_width(document: Mapping[str, Any]) -> float | None:
    """Half the width of the median's interval ÷ the median."""
    latency = document["latency"]
    interval = latency["median_interval"]
    return float((interval["high"] - interval["low"]) / 2 / latency["median_ns"]) if interval else None


def _pyperf(setting: Setting) -> Row:
    """pyperf starts twenty processes; how long that takes depends on what it measures, so it is measured."""
    command = [sys.executable, str(PYPERF_SCRIPT), "--quiet", "--inherit-environ", "ENGINEBENCH_LOOP"]
    model = setting.models[MODELS[0]]
    begin = time.perf_counter()
    subprocess.run(
        setting.pinned(command),
        env={"ENGINEBENCH_LOOP": f"{setting.cores} {model}"},
        capture_output=True,
        check=True,
        timeout=600,
    )
    return {"tool": "pyperf", "model": MODELS[0], "engine": "onnxruntime", "wall_s": [time.perf_counter() - begin]}


def table(rows: Sequence[Row]) -> str:
    """Seconds until there is a figure, start included, and how sure it is."""
    columns = ("tool", "engine", "model", "seconds", "interval of the median", "1 % reached")
    return markdown_table(columns, map(_cells, rows))


def _cells(row: Row) -> Sequence[str]:
    seconds = f"{statistics.median(row['wall_s']):.1f}"
    widths = [width for width in row.get("half_width", ()) if width is not None]
    shown = f"± {statistics.median(widths):.1%}" if widths else "none shown"
    states = row.get("status", ())
    reached = f"{sum(state == 'ok' for state in states)} of {len(states)}" if states else "–"
    return row["tool"], row["engine"], row.get("model", "any"), seconds, shown, reached
