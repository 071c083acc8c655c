"""(a) Our loop against the bare loop: two live processes that alternate blocks, fresh ones every round.

Two processes of the same work, one after the other, can differ by half; two that are alive together and take turns in
the order A B B A see the same machine. A round is one such pair, its ratio the median over its turns, and what differs
between pairs is in the interval.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.markdown import markdown_table
from benchmarks.ours import LiveWorker
from benchmarks.peers import LiveLoop, engines
from benchmarks.ratio import median_ratio
from benchmarks.setting import MODELS, Setting

TURNS = 24
"""Turns of each side in a round: their ratios scatter by several percent on a shared machine, however long they are."""
BAND = (0.98, 1.02)
WITHOUT_TOOL = ("onnxruntime", "torch")

Row = Mapping[str, Any]


def measure(setting: Setting) -> list[Row]:
    """One row for each model and engine, with the medians of every round on both sides."""
    cells = [(model, engine) for model in setting.models for engine in engines(setting) if _is_asked(model, engine)]
    rounds: dict[tuple[str, str], list[tuple[float, float, float]]] = {cell: [] for cell in cells}
    for _ in range(setting.rounds):
        for cell in setting.random.sample(cells, len(cells)):
            rounds[cell].append(_round(setting, *cell))
            print(f"  {cell[0]} {cell[1]}: {rounds[cell][-1][0]:.4f}", flush=True)
    return [_row(model, engine, rounds[model, engine]) for model, engine in cells]


def _is_asked(model: str, engine: str) -> bool:
    """Engines without a tool of their own on every model, the others, which `tools` compares too, on the small one."""
    return engine in WITHOUT_TOOL or model == MODELS[0]


def _round(setting: Setting, model: str, engine: str) -> tuple[float, float, float]:
    """The ratio of ours to theirs, and the median of either side's blocks in nanoseconds."""
    path = setting.models[model]
    with LiveWorker(setting, engine, path) as ours, LiveLoop(setting, engine, path) as theirs:
        sides: tuple[LiveWorker | LiveLoop, ...] = (ours, theirs)
        for live in sides:
            live.wait_until_warm()
        for live in sides:
            live.turn()  # the first after a pause does not count
        first = setting.random.randrange(2)
        medians: tuple[list[float], list[float]] = ([], [])
        for turn in range(TURNS):
            for side in ((turn + first) % 2, (turn + first + 1) % 2):
                medians[side].append(sides[side].turn())
    ratios = [one / other for one, other in zip(*medians, strict=True)]
    return statistics.median(ratios), statistics.median(medians[0]), statistics.median(medians[1])


def _row(model: str, engine: str, rounds: Sequence[tuple[float, float, float]]) -> Row:
    ratios, ours, theirs = zip(*rounds, strict=True)
    return {"model": model, "engine": engine, "ratios": ratios, "ours_ns": ours, "theirs_ns": theirs}


def table(rows: Sequence[Row]) -> str:
    """The ratio of medians with its interval, and whether it lies in the band that was asked for."""
    return markdown_table(
        ("model", "engine", "rounds", "bare loop", "enginebench", "ratio [95 %]", "0.98–1.02"), map(_cells, rows)
    )


def _cells(row: Row) -> Sequence[str]:
    ratio = median_ratio(row["ratios"])
    ours_ms, theirs_ms = (statistics.median(row[side]) / 1e6 for side in ("ours_ns", "theirs_ns"))
    within = "yes" if BAND[0] <= ratio.value <= BAND[1] else "no"
    times = (f"{theirs_ms:.3f} ms", f"{ours_ms:.3f} ms")
    return row["model"], row["engine"], str(len(row["ours_ns"])), *times, str(ratio), within
