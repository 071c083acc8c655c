"""How often a bisect names the right version, and how often a wrong one.

    python -m benchmarks.bisects [--bisects 120]    over recorded process pairs, drawn anew
    python -m benchmarks.bisects --live N           wheels of an engine whose work is known, until N are kept

Sixteen versions, of which one has become slower, or two by 4 % each, or none. The decision is the bisect's own and the
gates are the gate's own rule, on recorded pairs of equal things whose times are made longer by what is planted
(benchmarks/verdict_replay.py). Each has the cheapest budget in which nine of ten gates tell a step that is planted, but
no less than three pairs. Tables go into docs/evidence/bisect.md with --fill.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import expm1, log1p
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.markdown import fill, markdown_table
from benchmarks.planted_wheels import layered_model, make_wheels
from benchmarks.verdict_recordings import EQUAL, FOLDER, add_line, by_series, kept_lines, read
from benchmarks.verdict_replay import Observed, Share, observe, orders
from enginebench_controller.stats.paired import sequential_interval, spread
from enginebench_controller.verdicts.bisect.decision import BisectFinding, Decided, GateSeen, Question, decide
from enginebench_controller.verdicts.gate.results import seconds_for
from enginebench_controller.verdicts.gate.rule import GateRule
from enginebench_controller.verdicts.gate.rule import decide as gate_decides

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "bisect.md"
VERSIONS = 16
KEPT = Path(__file__).parent / "recordings" / "bisect"
LIVE_FILE = "live.jsonl"
WORSE = 0.05
FEWEST = 3
LAYER = 2
NAMED = (BisectFinding.CULPRIT, BisectFinding.ONE_OF)


@dataclass(frozen=True)
class Case:
    """What is planted: so many equal steps of a share; `broken` versions cannot be installed."""

    name: str
    share: float = 0.0
    steps: int = 1
    broken: int = 0

    def places(self, generator: np.random.Generator) -> list[int]:
        """Where it is planted, and behind these the broken ones."""
        drawn = generator.choice(np.arange(1, VERSIONS - 1), size=self.steps + self.broken, replace=False)
        return [*sorted(map(int, drawn[: self.steps])), *map(int, drawn[self.steps :])]


NOTHING = Case("nothing changed")
PLANTED = (Case("5 %", 0.05), Case("10 %", 0.10), Case("30 %", 0.30), Case("two of 4 %", 0.04, steps=2))
LIVE = (*PLANTED, Case("10 %, two cannot be installed", 0.10, broken=2))


def main() -> None:
    """Replay, or measure, and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--bisects", type=int, default=120, metavar="N", help="bisects, half with nothing changed")
    parser.add_argument("--live", type=int, metavar="N", help="measure, end to end, until so many are kept")
    parser.add_argument("--budget", default="2m", metavar="TIME", help="with --live: of each gate")
    parser.add_argument("--fill", action="store_true", help="put the table into docs/evidence/bisect.md")
    arguments = parser.parse_args()
    if arguments.live:
        live(KEPT, arguments.live, arguments.budget)
    part, text = ("live", live_table(KEPT)) if arguments.live else ("recorded", table(arguments.bisects))
    print(text)
    if arguments.fill:
        fill(PAGE, part, text)


def table(count: int) -> str:
    """A row a condition and case: how often the right one, a wrong one and none was named, gates and minutes."""
    rows = []
    for condition in ("quiet", "noisy"):
        chosen = [
            observe(found)
            for series, found in by_series(read(FOLDER)).items()
            if (series[0], series[3]) == (condition, EQUAL)
        ]
        cases = [*[NOTHING] * len(PLANTED), *PLANTED]
        drawn = [
            (case, replay(case, chosen[one % len(chosen)], one)) for one in range(count) for case in [cases[one % 8]]
        ]
        for case in (NOTHING, *PLANTED):
            rows.append([condition, case.name, *_row([found for each, found in drawn if each == case])])
    headings = ["machine", "planted", "right", "wrong", "none named", "gates", "minutes of measuring"]
    return markdown_table(headings, rows)


@dataclass(frozen=True)
class Replayed:
    """What a bisect came to: "right", "wrong" or "none"; how many gates, and how long they measured."""

    outcome: str
    gates: int
    seconds: float


def replay(case: Case, seen: Observed, seed: int) -> Replayed:
    """One bisect over recorded rounds."""
    generator = np.random.default_rng(seed)
    steps = case.places(generator)[: case.steps] if case.share else []
    levels = [log1p(case.share) * sum(place >= step for step in steps) for place in range(VERSIONS)]
    budget_s = cheapest(seen, case.share or WORSE)
    looks: list[GateSeen] = []
    spent = 0.0
    while isinstance(following := decide(VERSIONS, WORSE, looks), Question):
        delta = levels[following.head] - levels[following.base]
        look, seconds = gate(seen.slower(expm1(delta)), following, budget_s, int(generator.integers(1 << 30)))
        looks.append(look)
        spent += seconds
    return Replayed(judged(following, steps), len(looks), spent)


def judged(found: Decided, steps: Sequence[int]) -> str:
    """Whether one of the steps was named; of several suspects one must be it."""
    if found.finding not in NAMED:
        return "none"
    return "right" if set(found.suspects) & set(steps) else "wrong"


def cheapest(seen: Observed, difference: float) -> float:
    """The seconds in which nine of ten gates tell such a difference."""
    scatter, each = spread(seen.ratios), float(np.median(seen.wall_s))
    found = seconds_for(scatter or 0.0, each, difference, expm1(log1p(difference) / 2))
    return max(found or 3600.0, FEWEST * each)


def gate(seen: Observed, question: Question, budget_s: float, seed: int) -> tuple[GateSeen, float]:
    """Take rounds as they were drawn until the rule can tell, or the budget is spent; and the seconds that took."""
    budget_s *= question.patience
    rule = GateRule(question.tolerance, question.difference)
    (order,) = orders(seen, budget_s, 1, seed)
    walls, ratios, controls = (
        [float(each[one]) for one in order] for each in (seen.wall_s, seen.ratios, seen.controls)
    )
    found = gate_decides(None, rule)
    for taken in range(1, len(order) + 1):
        usual = median(walls[:taken])
        most = max(taken, int(budget_s / usual))
        ratio, control = (sequential_interval(one[:taken], most) for one in (ratios, controls))
        found = gate_decides(ratio, rule, control)
        if found.stands or sum(walls[:taken]) + usual > budget_s:
            break
    return GateSeen(found.outcome, found.is_better, found.ratio), sum(walls[:taken])


def _row(found: Sequence[Replayed]) -> list[str]:
    counted = Counter(one.outcome for one in found)
    shares = [str(Share(counted[one], len(found))) for one in ("right", "wrong", "none")]
    return [*shares, f"{median(one.gates for one in found):.0f}", f"{median(one.seconds for one in found) / 60:.1f}"]


@dataclass(frozen=True)
class LiveBisect:
    """One bisect end to end: what was planted where, what was named, and the layer that came first.

    `load` is how many processes wanted a processor before it began; `ratio` is that of the step, with its ends.
    """

    planted: str
    at: str
    named: str
    right: bool
    layer_first: bool
    ratio: tuple[float, float, float | None] | None
    gates: int
    minutes: float
    load: float | None


def live(folder: Path, count: int, budget: str) -> None:
    """Bisect sets of wheels, of the case that there are fewest of, until so many are kept."""
    while len(done := kept_lines(folder / LIVE_FILE)) < count:
        counts = Counter(one["planted"] for one in done)
        with tempfile.TemporaryDirectory() as place:
            one = _live(min(LIVE, key=lambda case: counts[case.name]), Path(place), budget, len(done))
        add_line(folder / LIVE_FILE, one)
        print(f"{len(done) + 1} of {count}: {one}", file=sys.stderr, flush=True)


def live_table(folder: Path) -> str:
    """What all live bisects come to, and a row each."""
    found = [LiveBisect(**line) for line in kept_lines(folder / LIVE_FILE)]
    rows = [
        [
            one.planted,
            one.at,
            one.named,
            "yes" if one.right else "no",
            "yes" if one.layer_first else "no",
            "–" if one.ratio is None else f"{one.ratio[0]:.3f} ({one.ratio[1]:.3f}–{one.ratio[2] or float('inf'):.3f})",
            str(one.gates),
            f"{one.minutes:.1f}",
            "–" if one.load is None else f"{one.load:.1f}",
        ]
        for one in found
    ]
    headings = (
        "planted",
        "at",
        "named",
        "right",
        "layer first",
        "ratio of the step",
        "gates",
        "minutes",
        "load before",
    )
    shares = [
        str(Share(sum(values), len(found))) for values in zip(*((o.right, o.layer_first) for o in found), strict=True)
    ]
    return f"Of {len(found)}, the right one was named: {shares[0]}; its layer came first: {shares[1]}.\n\n" + (
        markdown_table(headings, rows)
    )


def _live(case: Case, folder: Path, budget: str, seed: int) -> LiveBisect:
    places = case.places(np.random.default_rng(seed))
    steps, broken = places[: case.steps], places[case.steps :]
    versions = make_wheels(folder / "wheels", dict.fromkeys(steps, case.share), broken=broken, layer=LAYER)
    model = layered_model(folder / "layered.onnx")
    ends = ("--good", versions[0], "--bad", versions[-1], "--wheels", folder / "wheels")
    begun, load = time.monotonic(), os.getloadavg()[0]
    told = _cli(folder / "home", "bisect", model, "--engine", "planted", *ends, "--cores", 1, "--budget", budget)
    suspects = [versions.index(one) for one in told["suspects"]] if told["finding"] in NAMED else []
    step = told["step"]
    return LiveBisect(
        planted=case.name,
        at=", ".join(versions[one] for one in steps),
        named=", ".join(versions[one] for one in suspects) or told["finding"],
        right=bool(set(suspects) & set(steps)),
        layer_first=bool(told["layers"]) and told["layers"][0]["name"] == f"layer_{LAYER}",
        ratio=None if step is None else (step["ratio"], step["low"], step["high"]),
        gates=len(told["gates"]),
        minutes=round((time.monotonic() - begun) / 60, 1),
        load=round(load, 1),
    )


def _cli(home: Path, *arguments: object) -> Mapping[str, Any]:
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    command = [sys.executable, "-m", "enginebench_controller", *map(str, arguments), "--json"]
    variables = os.environ | {"ENGINEBENCH_HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, env=variables, check=False)
    if done.returncode not in (0, 5):
        raise SystemExit(f"{' '.join(command)} left with {done.returncode}:\n{done.stderr}")
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
