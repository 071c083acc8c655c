"""How long it takes until a ratio of two engines, or a median, is known to 1 %, when all engines take turns.

Recorded rounds are drawn in stretches of neighbours, as verdicts are replayed. Two engines are charged the share of a
round that two of its members are; a median alone is charged one member's share.
"""

import asyncio
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from math import log, log1p
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.command_line import CommandLine, agent_apart
from benchmarks.markdown import markdown_table
from benchmarks.verdict_recorder import (
    BLOCK_MS,
    PROCESS_MS,
    QUIET,
    WARMUP_MS,
    WORK,
    model_files,
    sides_of,
    there,
    walls_ns,
)
from benchmarks.verdict_recordings import Round, append, read
from benchmarks.verdict_replay import STRETCH
from enginebench_controller.home import Home, default_home
from enginebench_controller.stats.paired import interval, log_ratio

FOLDER = "precision"
MODEL = "squeezenet"
WANTED = log1p(0.01)
PROCESSES = 12
SHORTEST_PAIRS = 3


def record(folder: Path, rounds: int) -> None:
    """Measure until so many rounds of all engines are kept."""
    work = partial(_record, folder / FOLDER, rounds)
    asyncio.run(agent_apart(WORK / "home", default_home().agent_data / "environments", work))


def _record(folder: Path, rounds: int, cli: CommandLine) -> None:
    engines = sorted(there(cli) & {"onnxruntime", "openvino", "torch", "deepsparse"})
    while len(found := read(folder) if folder.exists() else []) < rounds:
        document = cli.json(
            *("run", model_files(MODEL)["base"], "--engine", ",".join(engines), "--target", cli.target),
            *("--processes", PROCESSES, "--duration", f"{PROCESSES * PROCESS_MS}ms", "--interval", "0%"),
            *("--warmup", f"{WARMUP_MS}ms", "--block", f"{BLOCK_MS}ms", "--inputs", 2, "--wait-quiet", "0s"),
        )
        append(folder, _rounds(Home(cli.home), document["benchmark"]["id"], engines))
        print(f"{len(found) + PROCESSES} of {rounds} rounds", flush=True)


def _rounds(home: Home, benchmark: str, engines: Sequence[str]) -> Iterator[Round]:
    by_engine = {one.engine.name: one for one in home.store.measurements(benchmark)}
    members = [by_engine[engine] for engine in engines]
    sides = [sides_of(one, home) for one in members]
    for place, wall_ns in enumerate(walls_ns(members)):
        began = members[0].processes[place].started_at_unix_ns or 0
        processes = tuple(one[place] for one in sides)
        yield Round(QUIET, MODEL, "+".join(engines), "engines", place, began, wall_ns, processes)


def precision_table(folder: Path, draws: int) -> str:
    """The median time, over draws, until half the 95 % interval is 1 %, and how often that is within a minute; "" where
    nothing is recorded.
    """
    rounds = read(folder / FOLDER) if (folder / FOLDER).exists() else []
    if not rounds:
        return ""
    engines = rounds[0].engine.split("+")
    rows = []
    for first, second in combinations(range(len(engines)), 2):
        ratios = np.array([log_ratio(*one.medians(first, second)) for one in rounds])
        times = _times(ratios, rounds, 2 / len(engines), draws)
        rows.append((f"{engines[second]} ÷ {engines[first]}", *_cells(ratios, times)))
    for place, engine in enumerate(engines):
        medians = np.array([log(median(one.sides[place].medians_ns)) for one in rounds])
        rows.append(
            (f"median of {engine}", *_cells(medians - medians.mean(), _times(medians, rounds, 1 / len(engines), draws)))
        )
    columns = ("(a) known to ± 1 %", "spread of processes", "median time", "within 60 s")
    return f"{MODEL}, {len(rounds)} rounds of {len(engines)} engines:\n\n" + markdown_table(columns, rows)


def _times(values: np.ndarray, rounds: Sequence[Round], share: float, draws: int) -> list[float]:
    """Seconds until it is known, one for each draw; infinite where ten times as many rounds do not suffice."""
    generator = np.random.default_rng(1)
    walls = np.array([one.wall_ns for one in rounds]) / 1e9 * share
    found = []
    for _ in range(draws):
        begins = generator.integers(values.size, size=10 * values.size // STRETCH)
        order = [(begin + step) % values.size for begin in begins for step in range(STRETCH)]
        found.append(_time(values[order], walls[order]))
    return found


def _time(values: np.ndarray, walls: np.ndarray) -> float:
    for count in range(SHORTEST_PAIRS, values.size + 1):
        known = interval(list(values[:count]))
        if known is not None and known.half <= WANTED:
            return float(walls[:count].sum())
    return float("inf")


def _cells(values: np.ndarray, times: Sequence[float]) -> Sequence[str]:
    middle = median(times)
    soon = sum(one <= 60 for one in times) / len(times)
    deviation = 1.4826 * float(np.median(np.abs(values - np.median(values))))
    return f"{deviation:.1%}", "never" if middle == float("inf") else f"{middle:.0f} s", f"{soon:.0%}"
