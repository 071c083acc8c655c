"""A search for a configuration over recorded processes: what it names, and how long an exhaustive one takes.

The search is `verdicts.recommend.search.next_step` itself. The processes of a round are drawn from those of
their points, their blocks with replacement until there is as much as the search wants, and for all of the round one
mood of the machine, as the groups of the table found it; it is charged the seconds of that, and of the starts. A search
has a fifth of the seconds of an exhaustive one, which gives every point five processes, as the last
stage of a search does; so has the rival that measures points drawn at random.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.markdown import markdown_table
from benchmarks.recommend_tables import Table, TableProcess
from enginebench_controller.plan.points import LOOK_ITERATIONS, samples_of_limit
from enginebench_controller.plan.recommend import Goal, LatencyLimit
from enginebench_controller.runs.searches.recommend_ground import CONFIRM_S, LONGEST_CONFIRM_S, LOOK_S
from enginebench_controller.verdicts.recommend.candidates import (
    FRESH,
    Reading,
    SearchTerms,
    Step,
    StepPurpose,
    StepTaken,
    interval,
)
from enginebench_controller.verdicts.recommend.search import SearchOutcome, next_step
from enginebench_controller.verdicts.recommend.steps import percentile_ns

SHARE = 0.2
"""Of an exhaustive search's time that a search has."""
FEWEST_BLOCKS = 3
TOO_MUCH = log(1.03)
P95 = 95.0


@dataclass(frozen=True)
class Wanted:
    """What is asked of a model: a goal, and at most one limit, as a multiple of what the table has."""

    name: str
    goal: Goal
    limit: str = ""
    multiple: float = 1.0


CASES = (
    Wanted("throughput", Goal.THROUGHPUT),
    Wanted("throughput, p95 as half of the points", Goal.THROUGHPUT, "half"),
    Wanted("throughput, p95 just held by the best", Goal.THROUGHPUT, "best", 1.02),
    Wanted("throughput, p95 just not held by the best", Goal.THROUGHPUT, "best", 0.98),
    Wanted("throughput, p95 that few hold", Goal.THROUGHPUT, "fastest", 1.15),
    Wanted("latency", Goal.LATENCY),
    Wanted("memory, p95 as half of the points", Goal.MEMORY, "half"),
)


class Known:
    """A table as a search asks it: what is true of each point, and what its processes and the machine add to that.

    Groups were measured at different times, and the machine was in another mood in each: what a group has in common is
    taken out, and put back for all that take part in a round that is drawn.
    """

    def __init__(self, table: Table, wanted: Wanted) -> None:
        self.table, self.wanted = table, wanted
        self.places = [place for place in range(len(table.points)) if place not in table.refused]
        self.axes = [table.points[place].axes for place in self.places]
        number = {place: one for one, place in enumerate(self.places)}
        self._seen: list[list[tuple[int, TableProcess]]] = [[] for _ in self.places]
        for group, found in enumerate(table.groups):
            for process in found.processes:
                if process.point in number:
                    self._seen[number[process.point]].append((group, process))

    @cached_property
    def starts_s(self) -> float:
        """What a process takes beside what is timed in it."""
        timed = [_timed_s(process) for group in self.table.groups for process in group.processes]
        return (sum(one.seconds for one in self.table.groups) - sum(timed)) / len(timed)

    def seconds(self, place: int, process_s: float) -> float:
        """What a process of a point takes, of which so much is to be timed; slow ones take longer."""
        blocks_s = [duration / 1e6 for _, process in self._seen[place] for duration, _ in process.blocks_us]
        return self.starts_s + max(process_s, FEWEST_BLOCKS * float(np.mean(blocks_s)))

    @cached_property
    def _fit(self) -> tuple[np.ndarray, np.ndarray]:
        """What points and groups add up to, for cost and p95: arrays of shape (points, 2) and (groups, 2)."""
        rows = [(place, group, one) for place, found in enumerate(self._seen) for group, one in found]
        points, groups = len(self.places), len(self.table.groups)
        design = np.zeros((len(rows) + 1, points + groups))
        for row, (place, group, _) in enumerate(rows):
            design[row, [place, points + group]] = 1.0
        design[-1, points:] = 1.0  # groups add nothing on average
        values = np.array([*(self._figures(place, one, range(len(one.blocks_us))) for place, _, one in rows), (0, 0)])
        found = np.linalg.lstsq(design, values, rcond=None)[0]
        return found[:points], found[points:]

    def _figures(self, place: int, process: TableProcess, blocks: Sequence[int]) -> tuple[float, float]:
        """Cost and p95 over some blocks of a process, as logarithms."""
        latencies = process.latencies_us(blocks)
        cost = {
            Goal.THROUGHPUT: lambda: -log(process.items_per_s(float(self.axes[place]["batch"]), blocks)),
            Goal.LATENCY: lambda: log(float(np.median(latencies))),
            Goal.MEMORY: lambda: log(process.peak_rss_bytes or 1),
        }[self.wanted.goal]()
        return cost, log(percentile_ns(latencies.tolist(), P95))

    def drawn(
        self, place: int, mood: int, generator: np.random.Generator, process_s: float, fewest: int
    ) -> tuple[float, float, float]:
        """Cost and p95 of a process drawn anew, as logarithms, with that group's mood of the machine; and its seconds.

        Blocks are drawn until so many seconds are timed, and so many inferences.
        """
        group, process = self._seen[place][generator.integers(len(self._seen[place]))]
        blocks: list[int] = []
        seconds, inferences = 0.0, 0
        while len(blocks) < FEWEST_BLOCKS or seconds < process_s or inferences < fewest:
            blocks.append(int(generator.integers(len(process.blocks_us))))
            duration, latencies = process.blocks_us[blocks[-1]]
            seconds, inferences = seconds + duration / 1e6, inferences + len(latencies)
        cost, p95 = self._figures(place, process, blocks)
        of_cost, of_p95 = self._fit[1][mood] - self._fit[1][group]
        return cost + of_cost, p95 + of_p95, self.starts_s + seconds

    @property
    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """The cost of each point, and its p95, as logarithms, in the machine's mean mood: arrays of shape (n,)."""
        return self._fit[0][:, 0], self._fit[0][:, 1]

    @cached_property
    def limit_us(self) -> float | None:
        """The limit of p95, in microseconds as a logarithm; None where there is none."""
        cost, p95 = self.truth
        of = {"half": float(np.median(p95)), "best": float(p95[int(cost.argmin())]), "fastest": float(p95.min())}
        return of[self.wanted.limit] + log(self.wanted.multiple) if self.wanted.limit else None

    @property
    def able(self) -> list[int]:
        """The points that hold the limit."""
        return [one for one, p95 in enumerate(self.truth[1]) if self.limit_us is None or p95 <= self.limit_us]

    @property
    def samples(self) -> int:
        """So many inferences a process of the last stage needs, see `samples_of_limit`."""
        return LOOK_ITERATIONS if self.limit_us is None else samples_of_limit(LatencyLimit(P95, 1.0))

    @property
    def confirm_s(self) -> float:
        """How long a process of the last stage is timed, as in `runs.searches.ground`."""
        needed_s = 0.0 if self.limit_us is None else 1.2 * self.samples * exp(self.limit_us) / 1e6
        return min(LONGEST_CONFIRM_S, max(CONFIRM_S, needed_s))

    def exhaustive_s(self) -> float:
        """The seconds of an exhaustive search."""
        return FRESH * sum(self.seconds(place, self.confirm_s) for place in range(len(self.places)))


def _timed_s(process: TableProcess) -> float:
    return sum(duration for duration, _ in process.blocks_us) / 1e6


@dataclass
class Drawing:
    """What a search measures is drawn from a table, and its clock only counts."""

    known: Known
    generator: np.random.Generator
    now_s: float = 0.0

    def take(self, step: Step) -> StepTaken:
        """Carry out a step."""
        begin_s = self.now_s
        fewest = self.known.samples if step.purpose is StepPurpose.CONFIRM else LOOK_ITERATIONS
        rounds = tuple(self.round(step.candidates, step.process_s, fewest) for _ in range(step.rounds))
        return StepTaken(step, rounds, {}, self.now_s - begin_s)

    def round(self, candidates: Sequence[int], process_s: float, fewest: int) -> dict[int, Reading]:
        """A process of each, all in one mood of the machine."""
        mood = int(self.generator.integers(len(self.known.table.groups)))
        limit = self.known.limit_us
        found = {}
        for one in candidates:
            cost, p95, seconds = self.known.drawn(one, mood, self.generator, process_s, fewest)
            found[one] = Reading(cost, () if limit is None else (p95 - limit,))
            self.now_s += seconds
        return found


def searched(known: Known, seed: int) -> tuple[SearchOutcome, int | None, float]:
    """What the search names, and its seconds as a share of an exhaustive one's."""
    whole_s = known.exhaustive_s()
    points = known.table.points
    terms = SearchTerms(
        SHARE * whole_s,
        limits=0 if known.limit_us is None else 1,
        start_s=known.starts_s,
        look_s=LOOK_S,
        confirm_s=known.confirm_s,
        first=tuple(place for place, one in enumerate(known.places) if points[one].is_default),
        work=tuple(1 + float(one["batch"]) / float(one["cores"]) / 2 for one in known.axes),
    )
    machine = Drawing(known, np.random.default_rng(seed))
    taken: list[StepTaken] = []
    while isinstance(step := next_step(known.axes, terms, taken), Step):
        taken.append(machine.take(step))
    return step.outcome, step.best, machine.now_s / whole_s


def at_random(known: Known, seed: int) -> int | None:
    """The best of as many points, drawn at random, as get five processes each in the seconds of a search."""
    machine = Drawing(known, np.random.default_rng(seed))
    left_s = SHARE * known.exhaustive_s()
    seen: dict[int, list[Reading]] = {}
    for place in machine.generator.permutation(len(known.places)).tolist():
        needed_s = FRESH * known.seconds(place, CONFIRM_S)
        if seen and needed_s > left_s:
            break
        left_s -= needed_s
        seen[place] = [machine.round([place], CONFIRM_S, known.samples)[place] for _ in range(FRESH)]
    return _cheapest(known, seen)


def exhaustive(known: Known, seed: int) -> int | None:
    """The best of all points after five processes of each, which takes five times as long as the search."""
    machine = Drawing(known, np.random.default_rng(seed))
    rounds = [machine.round(range(len(known.places)), known.confirm_s, known.samples) for _ in range(FRESH)]
    return _cheapest(known, {place: [one[place] for one in rounds] for place in range(len(known.places))})


def _cheapest(known: Known, seen: Mapping[int, Sequence[Reading]]) -> int | None:
    """The one of the smallest cost that surely holds the limit."""
    able = [one for one, found in seen.items() if known.limit_us is None or _holds([r.excess[0] for r in found])]
    return min(able, key=lambda one: float(np.mean([r.cost for r in seen[one]])), default=None)


def _holds(values: Sequence[float]) -> bool:
    return interval(values)[2] < 0


@dataclass(frozen=True)
class Replay:
    """One case of one model, drawn so often: shares of draws, and the mean share of an exhaustive search's time."""

    model: str
    case: str
    right: float
    close: float
    worse: float
    breaks: float
    nothing: float
    untold: float
    time: float
    random_right: float
    exhaustive_right: float


def replay(table: Table, wanted: Wanted, draws: int) -> Replay:
    """Search so often over the processes of a table."""
    known = Known(table, wanted)
    found = [searched(known, seed) for seed in range(draws)]
    named = [best if outcome is SearchOutcome.FOUND else None for outcome, best, _ in found]
    random = [at_random(known, 1_000 + seed) for seed in range(draws)]
    able = bool(known.able)
    return Replay(
        table.model,
        wanted.name,
        right=_mean(_is_right(known, one) for one in named),
        close=_mean(_is_right(known, one, log(1.1)) for one in named),
        worse=_mean(one is not None and able and _excess(known, one) > TOO_MUCH for one in named),
        breaks=_mean(one is not None and one not in known.able for one in named),
        nothing=_mean(outcome is SearchOutcome.NOTHING and able for outcome, _, _ in found),
        untold=_mean(outcome is SearchOutcome.CANNOT_TELL for outcome, _, _ in found),
        time=_mean(share for _, _, share in found),
        random_right=_mean(_is_right(known, one) for one in random),
        exhaustive_right=_mean(_is_right(known, exhaustive(known, 2_000 + seed)) for seed in range(draws)),
    )


def _excess(known: Known, place: int) -> float:
    """By how much a point costs more than the best that holds the limit."""
    cost = known.truth[0]
    return float(cost[place] - min(cost[one] for one in known.able))


def _is_right(known: Known, place: int | None, too_much: float = TOO_MUCH) -> bool:
    return place is not None and place in known.able and _excess(known, place) <= too_much


def _mean(values: Iterator[Any]) -> float:
    return float(np.mean([float(one) for one in values]))


HEADINGS = (
    "wanted",
    "models",
    "within 3 %, limit held",
    "within 10 %, limit held",
    "worse by over 3 %",
    "breaks the limit",
    "“nothing”, wrongly",
    "cannot tell",
    "of an exhaustive search’s time",
    "random, as long: within 3 %",
    "exhaustive, five times as long: within 3 %",
)
_FIGURES = ("right", "close", "worse", "breaks", "nothing", "untold", "time", "random_right", "exhaustive_right")


def replay_table(found: Sequence[Replay]) -> str:
    """A row a kind of case and one of all, each share with its 95 % interval by a bootstrap over cases."""
    kinds = list(dict.fromkeys(one.case for one in found))
    rows = [_row(kind, [one for one in found if one.case == kind]) for kind in kinds]
    return markdown_table(HEADINGS, [*rows, _row("all", found)])


def _row(name: str, found: Sequence[Replay]) -> list[str]:
    return [name, str(len(found)), *(_share([getattr(one, figure) for one in found]) for figure in _FIGURES)]


def _share(values: Sequence[float]) -> str:
    low, high = _ends(values)
    return f"{100 * float(np.mean(values)):.1f} % ({100 * low:.0f}–{100 * high:.0f})"


def _ends(values: Sequence[float]) -> tuple[float, float]:
    generator = np.random.default_rng(1)
    means = generator.choice(np.asarray(values), size=(4000, len(values))).mean(axis=1)
    return float(np.quantile(means, 0.025)), float(np.quantile(means, 0.975))


def better_than_random(found: Sequence[Replay]) -> str:
    """By how much more often a search is right than random points, in a sentence."""
    differences = [one.right - one.random_right for one in found]
    low, high = _ends(differences)
    return (
        f"A search is right {100 * float(np.mean(differences)):.0f} percentage points more often than points drawn at "
        f"random within the same time ({100 * low:.0f} to {100 * high:.0f})."
    )


def draw(found: Sequence[Replay], path: Path) -> None:
    """Each case as a point: how often random points are right, and how often the search is."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "recommendations"
    from matplotlib.figure import Figure  # noqa: PLC0415  # once the backend is chosen

    figure = Figure(figsize=(6.4, 4.2))
    axes = figure.subplots()
    for case, marker in zip(dict.fromkeys(one.case for one in found), "osD^vPX", strict=False):
        mine = [one for one in found if one.case == case]
        axes.scatter([o.random_right for o in mine], [o.right for o in mine], marker=marker, label=case, alpha=0.7)
    axes.plot([0, 1], [0, 1], color="grey", linewidth=0.8)
    axes.set_xlabel("points drawn at random: share of draws that are right")
    axes.set_ylabel("search: share of draws that are right")
    axes.legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})
