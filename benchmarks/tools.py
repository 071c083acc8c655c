"""(a, b) Our figures against those of one-shot tools: their ratios, and how much each differs from run to run.

Both sides measure equally long in all; ours divides it among its three processes. Every round runs all cells in random
order, and the two sides of a cell one after the other, in random order too: a machine that is slow for a minute is slow
for both. Spreads need more rounds than medians do. Tools set their clocks to different parts of an inference; the wall
clock of the whole loop ÷ its inferences contains all of it for everyone.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import ours, peers
from benchmarks.markdown import markdown_table
from benchmarks.peers import Shot, Tool
from benchmarks.ratio import paired_ratio, spread_ratio, variation
from benchmarks.setting import MODELS, Setting

SMALL = MODELS[0]
ROUNDS_PER_ROUND = 2

Row = Mapping[str, Any]
Cell = tuple[str, Tool]
Shown = Shot | ours.Measured
Runs = dict[tuple[int, bool], list[Shown]]
"""By the number of the cell, and whether they are ours."""


def measure(setting: Setting) -> list[Row]:
    """One row for each model and tool, with the figures of every round on both sides."""
    cells = _cells(setting)
    runs: Runs = {(index, us): [] for index in range(len(cells)) for us in (True, False)}
    for _ in range(ROUNDS_PER_ROUND * setting.rounds):
        for index in setting.random.sample(range(len(cells)), len(cells)):
            for us in setting.random.sample((True, False), 2):
                shown = _run(setting, cells[index], us=us)
                runs[index, us].append(shown)
                print(f"  {_title(cells[index], us=us)}: {shown.median_ns / 1e6:.3f} ms", flush=True)
    return [
        {
            "model": model,
            "tool": tool.name,
            "engine": tool.engine,
            **_figures("ours", runs[index, True]),
            **_figures("theirs", runs[index, False]),
        }
        for index, (model, tool) in enumerate(cells)
    ]


def _figures(side: str, runs: Sequence[Shown]) -> Row:
    return {
        f"{side}_ns": [shown.median_ns for shown in runs],
        f"{side}_wall_ns": [1e9 / shown.items_per_s for shown in runs],
    }


def _cells(setting: Setting) -> list[Cell]:
    """Every native tool on every model; ONNX Runtime's wheel has none, so a bare loop stands for what people write."""
    native = [peers.BENCHMARK_APP, *([peers.DEEPSPARSE_BENCHMARK] if setting.deepsparse_python else [])]
    return [(model, tool) for model in setting.models for tool in native] + [(SMALL, peers.bare_loop("onnxruntime"))]


def _run(setting: Setting, cell: Cell, *, us: bool) -> Shown:
    model, tool = cell
    path = setting.models[model]
    return ours.run(setting, _plan(setting, tool, str(path))) if us else tool.run(setting, path)


def _plan(setting: Setting, tool: Tool, model: str) -> Mapping[str, Any]:
    duration = f"{setting.seconds}s"
    hint = ["latency" if tool is peers.BENCHMARK_APP else "none"]
    limits = {"duration": duration, "max_duration": duration, "interval": "0%", "inputs": tool.inputs}
    return {"models": [model], "engines": [tool.engine], "hint": hint, "cores": [setting.cores], **limits}


def _title(cell: Cell, *, us: bool) -> str:
    model, tool = cell
    return f"{model} {f'enginebench ({tool.engine})' if us else f'{tool.name} ({tool.engine})'}"


def table(rows: Sequence[Row]) -> str:
    """The ratios of ours to its, of medians and by wall clock; the spread of both sides' medians, and their ratio."""
    figures = ("its median", "ours", "ratio [95 %]", "ratio by wall clock [95 %]")
    spreads = ("its spread", "our spread", "ratio of spreads [95 %]")
    columns = ("model", "tool", "rounds", *figures, *spreads)
    return markdown_table(columns, map(_shown, rows))


def _shown(row: Row) -> Sequence[str]:
    ours_ns, theirs_ns = row["ours_ns"], row["theirs_ns"]
    times = [f"{statistics.median(side) / 1e6:.3f} ms" for side in (theirs_ns, ours_ns)]
    return (
        row["model"],
        f"{row['tool']} ({row['engine']})",
        str(len(ours_ns)),
        *times,
        str(paired_ratio(ours_ns, theirs_ns)),
        str(paired_ratio(row["ours_wall_ns"], row["theirs_wall_ns"])),
        *map(_spread, (theirs_ns, ours_ns)),
        str(spread_ratio(ours_ns, theirs_ns)),
    )


def _spread(medians: Sequence[float]) -> str:
    """Standard deviation ÷ mean, and the largest ÷ the smallest."""
    return f"{variation(medians):.1%}, {max(medians) / min(medians):.2f}×"
