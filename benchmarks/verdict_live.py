"""Gates carried out for real, so that what a replay predicts can be held against them.

Two of three gates are of equal things, the third is of a planted 3 %; each is kept as soon as it has ended, so that a
trial that was cut short goes on where it was.
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from benchmarks.command_line import CommandLine, agent_apart
from benchmarks.markdown import markdown_table
from benchmarks.verdict_recorder import NOISY, QUIET, SETS, WORK, model_files, neighbour, there
from benchmarks.verdict_recordings import EQUAL, add_line, kept_lines
from benchmarks.verdict_replay import Share
from enginebench_controller.home import default_home
from enginebench_controller.verdicts.gate.rule import GateOutcome

FILE = "live.jsonl"
PLANTED = "planted 3 %"
CASES = (EQUAL, EQUAL, PLANTED)
BUDGET_S = 60


@dataclass(frozen=True)
class Live:
    """One gate: what was asked, what it came to, and the seconds of the whole command."""

    condition: str
    model: str
    engine: str
    case: str
    outcome: str
    better: bool
    ratio: float | None
    pairs: int
    wall_s: float


def measure(folder: Path, count: int, *, noisy: bool = False) -> None:
    """Carry out gates until so many are kept, alone or beside a neighbour."""
    work = partial(_measure, folder, count, NOISY if noisy else QUIET)
    asyncio.run(agent_apart(WORK / "home", default_home().agent_data / "environments", work))


def _measure(folder: Path, count: int, condition: str, cli: CommandLine) -> None:
    engines = there(cli)
    sets = [one for one in SETS if one[1] in engines]
    while len(done := [one for one in kept(folder) if one.condition == condition]) < count:
        model, engine, case = next_gate(done, sets)
        files = model_files(model)
        begin = time.monotonic()
        with neighbour(present=condition != QUIET):
            said = cli.json(
                *("gate", "--base", files["base"], "--head", files[case], "--engine", engine),
                *("--target", cli.target, "--budget", f"{BUDGET_S}s", "--no-layers"),
            )
        (latency,) = (one for one in said["metrics"] if one["metric"] == "latency")
        took_s = time.monotonic() - begin
        one = Live(
            *(condition, model, engine, case, said["outcome"], said["better"]),
            *(latency["ratio"], said["pairs"], round(took_s, 1)),
        )
        add_line(folder / FILE, one)
        print(f"{len(done) + 1} of {count}: {said['sentence']}", flush=True)


def next_gate(done: Sequence[Live], sets: Sequence[tuple[str, str]]) -> tuple[str, str, str]:
    """Model, engine and case: the case that is due, on whichever of the sets had it least."""
    case = CASES[len(done) % len(CASES)]
    counts = Counter((one.model, one.engine) for one in done if one.case == case)
    return *min(random.sample(sets, len(sets)), key=lambda one: counts[one]), case


def kept(folder: Path) -> Sequence[Live]:
    """All gates of a folder, in their order."""
    return [Live(**line) for line in kept_lines(folder / FILE)]


def live_table(found: Iterable[Live]) -> str:
    """How often live gates came to which outcome, by condition and case."""
    rows = [(f"{condition}, {case}", *_cells(gates)) for (condition, case), gates in _by_case(found).items()]
    columns = ("(b) live", "gates", "worse", "better", "cannot tell", "median of the whole command", "median pairs")
    return markdown_table(columns, rows)


def _by_case(found: Iterable[Live]) -> Mapping[tuple[str, str], Sequence[Live]]:
    cases: dict[tuple[str, str], list[Live]] = {}
    for one in found:
        cases.setdefault((one.condition, one.case), []).append(one)
    return cases


def _cells(gates: Sequence[Live]) -> Sequence[str]:
    marks = (
        [one.outcome == GateOutcome.WORSE for one in gates],
        [one.better for one in gates],
        [one.outcome == GateOutcome.CANNOT_TELL for one in gates],
    )
    return (
        str(len(gates)),
        *(f"{sum(each)}: {Share(sum(each), len(gates))}" for each in marks),
        f"{median(one.wall_s for one in gates):.0f} s",
        f"{median(one.pairs for one in gates):.0f}",
    )
