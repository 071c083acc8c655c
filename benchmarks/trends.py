"""How often a trend's alerts are right: the machine that slowed is not blamed on the engine, a slower engine is found.

    python -m benchmarks.trends [--histories 200]    histories put together from points, replayed
    python -m benchmarks.trends --live N             measured, end to end, with the gate that confirms

A history is of two versions. Its points are made up of the kinds of noise that real ones have, or drawn in stretches of
neighbours from those that `--live` kept (`--points FILE`). Where the alerts leave a candidate, the gate's own rule is
replayed on process pairs (benchmarks/verdict_replay.py). Of odd nights, one in ten, times are off by up to a factor of
two, either way. Tables go into docs/evidence/trends.md with --fill.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log1p
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.markdown import fill, markdown_table
from benchmarks.verdict_replay import Observed, Share, gate, observe, orders
from benchmarks.verdict_synthetic import NOISES, rounds
from enginebench_controller.records import Configuration, EngineRef, Status
from enginebench_controller.stats.change_points import SHORTEST, change_points
from enginebench_controller.store.trends import TrendHistory, TrendPoint
from enginebench_controller.verdicts.alerts import Cause, alerts
from enginebench_controller.verdicts.gate.rule import GateOutcome, GateRule

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "trends.md"
BUDGET_S = 120.0
BEFORE, AFTER = 12, 8
STRETCH = 3
USUAL_NS, PRODUCT_NS, STREAM_NS = 2e6, 270e3, 80e3
PAIRS = 300

Points = NDArray[np.float64]
"""Of shape (points, 4): logarithms of the median and of both parts of the reference work, and what was disturbed."""


@dataclass(frozen=True)
class Case:
    """What becomes of the machine, and of the engine, at the point where the version changes; `odd` are nights."""

    name: str
    machine: str = "quiet"
    planted: float = 0.0
    odd: bool = False

    @property
    def is_machine(self) -> bool:
        """Whether nothing but the machine has changed."""
        return not self.planted


CASES = (
    Case("nothing changes"),
    Case("slower clock", "clock"),
    Case("quota", "quota"),
    Case("neighbour", "neighbour"),
    Case("3 % planted", planted=0.03),
    Case("5 % planted", planted=0.05),
    Case("10 % planted", planted=0.10),
    Case("10 % planted, and a neighbour", "neighbour", planted=0.10),
    Case("nothing changes, odd nights", odd=True),
    Case("quota, odd nights", "quota", odd=True),
    Case("neighbour, odd nights", "neighbour", odd=True),
    Case("5 % planted, odd nights", planted=0.05, odd=True),
    Case("10 % planted, odd nights", planted=0.10, odd=True),
)

ODD_SHARE, ODD_LEAST, ODD_MOST = 0.1, 0.2, 0.65
"""How many nights are odd, and how much, in logarithms."""


class Stretch(NamedTuple):
    """So many points at a level, with so much noise; from the first on they may grow by a share a day."""

    points: int
    level: float
    noise: float = 0.01
    a_day: float = 0.0


SERIES: Mapping[str, Sequence[Stretch]] = {
    name: [Stretch(*one) for one in stretches]
    for name, stretches in (
        ("16 alike", [(16, 1.0)]),
        ("30 alike, but three odd", [(9, 1.0), (1, 1.6), (9, 1.0), (1, 1.4), (8, 1.0), (1, 0.6), (1, 1.0)]),
        ("8, then 8 at 1.1", [(8, 1.0), (8, 1.1)]),
        ("8, then 8 at 1.1, then one at 0.6", [(8, 1.0), (8, 1.1), (1, 0.6)]),
        ("8, then 8 at 1.1, then two at 0.6", [(8, 1.0), (8, 1.1), (2, 0.6)]),
        ("8 and one at 1.6 amid them, then 8 at 1.1", [(4, 1.0), (1, 1.6), (4, 1.0), (8, 1.1)]),
        ("6 and two at 1.6 amid them, then 8 at 1.1", [(3, 1.0), (2, 1.6), (3, 1.0), (8, 1.1)]),
        ("10 and two at 1.6 amid them, then 10 at 1.3", [(5, 1.0), (2, 1.6), (5, 1.0), (10, 1.3)]),
        ("6 and one at 1.6 amid them, then 20 at 1.1", [(3, 1.0), (1, 1.6), (3, 1.0), (20, 1.1)]),
        ("10, then 4 at 1.1", [(10, 1.0), (4, 1.1)]),
        ("12, then 3 at 1.1", [(12, 1.0), (3, 1.1)]),
        ("30, then 4 at 1.1", [(30, 1.0), (4, 1.1)]),
        ("5, then 5 at 1.5, one of them at 2.2", [(5, 1.0), (2, 1.5), (1, 2.2), (2, 1.5)]),
        ("12, then 8 at 1.5 with noise of 10 %", [(12, 1.0, 0.005), (8, 1.5, 0.1)]),
        ("12, then 5 at 2.0 with noise of 20 %", [(12, 1.0, 0.005), (5, 2.0, 0.2)]),
        ("16, then 8 of which each is 5 % more", [(16, 1.0, 0.005), (8, 1.0, 0.005, 0.05)]),
        ("30, then 12 of which each is 4 % more", [(30, 1.0, 0.005), (12, 1.0, 0.005, 0.04)]),
    )
}
"""What lasts for fewer than `SHORTEST` is no level; noise is of 1 % where no other is told."""


def main() -> None:
    """Replay, or measure and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--histories", type=int, default=200, metavar="N", help="histories a case")
    parser.add_argument("--points", type=Path, metavar="FILE", help="points that --live kept, instead of made-up ones")
    parser.add_argument("--live", type=int, metavar="N", help="measure so many histories, with the gates that confirm")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="with --live: keep the points that were measured")
    parser.add_argument("--fill", action="store_true", help="put the table into docs/evidence/trends.md")
    arguments = parser.parse_args()
    if arguments.live:
        from benchmarks.trend_live import live  # noqa: PLC0415  # needs an agent; replaying does not

        part, text = "live", live(arguments.live, arguments.keep)
    else:
        recorded = None if arguments.points is None else json.loads(arguments.points.read_text())
        part = "synthetic" if recorded is None else "recorded"
        text = table(arguments.histories, recorded)
    told = {part: text}
    if part == "synthetic":
        told["series"] = series_table(arguments.histories)
    for name, found in told.items():
        print(found)
        if arguments.fill:
            fill(PAGE, name, found)


def table(count: int, recorded: Mapping[str, Sequence[Sequence[float]]] | None) -> str:
    """A row a case: what was alarmed, what was put down to the machine, and what the gate confirmed."""
    pools = None if recorded is None else {name: np.array(rows, dtype=np.float64) for name, rows in recorded.items()}
    rows = []
    for number, case in enumerate(CASES):
        if pools is not None and case.machine not in pools:
            continue
        found = [replay(case, seed=1000 * number + each, pools=pools) for each in range(count)]
        rows.append([case.name, *(_share([one[column] for one in found]) for column in range(3))])
    headings = ["history", "a change is seen", "put down to the machine", "blamed on the engine (confirmed)"]
    return markdown_table(headings, rows)


def series_table(count: int) -> str:
    """A row a series of points: how often any change is told, and how often where there is one."""
    rows = []
    for number, (name, stretches) in enumerate(SERIES.items()):
        begins = _begins(stretches)
        found = [_told(stretches, begins, 1000 * number + each) for each in range(count)]
        rows.append(
            [name, _share([any_ for any_, _ in found]), "–" if begins is None else _share([one for _, one in found])]
        )
    return markdown_table(["points", "a change is told", "where it is"], rows)


def _begins(stretches: Sequence[Stretch]) -> int | None:
    """Where the first other level begins. Of one with odd points amid it, that is where it begins with them."""
    first = stretches[0]
    for place, one in enumerate(stretches):
        is_other = one.level != first.level or one.a_day
        if is_other and sum(each.points for each in stretches if each.level == one.level) >= SHORTEST:
            return sum(each.points for each in stretches[:place])
    return None


def _told(stretches: Sequence[Stretch], begins: int | None, seed: int) -> tuple[bool, bool]:
    generator = np.random.default_rng(seed)
    values = [
        one.level * (1 + one.a_day) ** (day + 1) * exp(generator.normal(0, one.noise))
        for one in stretches
        for day in range(one.points)
    ]
    places = change_points(values)
    return bool(places), begins is not None and any(abs(one - begins) <= 1 for one in places)


def replay(case: Case, seed: int, pools: Mapping[str, Points] | None = None) -> tuple[bool, bool, bool]:
    """Of one history: whether there was an alert, one put down to the machine, one that a gate confirmed as worse."""
    generator = np.random.default_rng(seed)
    found = alerts(history(case, generator, pools)).alerts
    candidates = [one for one in found if one.cause is Cause.CANDIDATE and one.is_slower]
    confirmed = any(_confirmed(case, int(generator.integers(1 << 30))) for _ in candidates)
    return bool(found), any(one.cause is Cause.MACHINE for one in found), confirmed


def history(case: Case, generator: np.random.Generator, pools: Mapping[str, Points] | None = None) -> TrendHistory:
    """A history whose version, and what the case says, changes after `BEFORE` points."""
    if pools is None:
        shape = _Shape.draw(generator)
        before, after = _made_up("quiet", BEFORE, shape, generator), _made_up(case.machine, AFTER, shape, generator)
    else:
        before, after = (
            _drawn(pools[name], count, generator) for name, count in (("quiet", BEFORE), (case.machine, AFTER))
        )
    after[:, 0] += log1p(case.planted)
    if case.odd:
        for part in (before, after):
            part[:, 0] += _odd_nights(len(part), generator)
    points = [_point(number, row, "2.0" if number >= BEFORE else "1.0") for number, row in enumerate([*before, *after])]
    return TrendHistory("net", "ab" * 32, "local", "engine", "default", Configuration("CPU", 1, 2), tuple(points))


@dataclass(frozen=True)
class _Shape:
    """What is the same in one history: how much days differ, and how much the machine slows engine and reference."""

    sigma: float
    slower: float
    follows: float

    @classmethod
    def draw(cls, generator: np.random.Generator) -> "_Shape":
        """SD from day to day of 0.5 to 1.5 %; a machine that slows engines by 5 to 40 %."""
        return cls(generator.uniform(0.005, 0.015), generator.uniform(0.05, 0.4), generator.uniform(0.7, 1.3))


def _made_up(machine: str, count: int, shape: _Shape, generator: np.random.Generator) -> Points:
    """Days that differ, follow one another a little, and now and then are bad ones.

    A slower clock slows everything alike, more or less; a quota slows what runs for long, and the reference work
    hardly, as do neighbours, whom the evidence knows.
    """
    luck = generator.normal(0, shape.sigma, count)
    for place in range(1, count):
        luck[place] = 0.3 * luck[place - 1] + luck[place] * np.sqrt(1 - 0.09)
    bad = generator.random(count) < 0.05
    points = np.zeros((count, 4))
    points[:, 0] = luck + bad * generator.exponential(0.1, count)
    points[:, 1:3] = generator.normal(0, 0.01, (count, 2))
    points[:, 3] = generator.uniform(0, 0.1, count)
    if machine != "quiet":
        points[:, 0] += np.log1p(shape.slower)
        follows = {"clock": shape.follows, "quota": 0.1, "neighbour": 0.1}[machine]
        points[:, 1:3] += follows * np.log1p(shape.slower)
        points[:, 3] = generator.uniform(0.5, 1.0, count) if machine == "neighbour" else points[:, 3]
    return points


def _odd_nights(count: int, generator: np.random.Generator) -> NDArray[np.float64]:
    """What a night is off by, in logarithms: of most nothing."""
    off = generator.uniform(ODD_LEAST, ODD_MOST, count) * generator.choice([-1.0, 1.0], count)
    return off * (generator.random(count) < ODD_SHARE)


def _drawn(pool: Points, count: int, generator: np.random.Generator) -> Points:
    """Stretches of neighbouring points, for days that follow one another share their luck."""
    order: list[int] = []
    while len(order) < count:
        begin = int(generator.integers(len(pool)))
        order += [(begin + step) % len(pool) for step in range(STRETCH)]
    return np.array(pool[order[:count]])


def _point(number: int, row: Sequence[float], version: str) -> TrendPoint:
    return TrendPoint(
        measurement_id=f"m{number}",
        benchmark_id=f"b{number}",
        benchmark_name=f"day {number}",
        imported=False,
        at_unix_ns=number * 86_400_000_000_000,
        engine=EngineRef("engine", "default", version),
        options={},
        status=Status.OK,
        failure_kind=None,
        median_ns=USUAL_NS * exp(row[0]),
        median_interval=None,
        mean_ns=None,
        throughput_items_per_s=None,
        throughput_interval=None,
        effective_precision="f32",
        effective_threads=2,
        input_set_sha256=None,
        cpu_model="any",
        reference_product_ns=PRODUCT_NS * exp(row[1]),
        reference_stream_ns=STREAM_NS * exp(row[2]),
        disturbed=row[3],
    )


_SEEN: dict[tuple[str, float], Observed] = {}


def _confirmed(case: Case, seed: int) -> bool:
    """Whether the gate's own rule calls the new version worse, beside whatever still slows the machine."""
    noise = NOISES[0 if case.machine in ("quiet", "clock") else 1]
    known = _SEEN.setdefault(
        (noise.condition, case.planted), observe(list(rounds(noise, case.name, case.planted, PAIRS, seed=7)))
    )
    (order,) = orders(known, BUDGET_S, 1, seed)
    return gate(known, order, BUDGET_S, GateRule(), log1p(case.planted)).outcome is GateOutcome.WORSE


def _share(found: Sequence[bool]) -> str:
    return str(Share(sum(found), len(found)))


if __name__ == "__main__":
    main()
