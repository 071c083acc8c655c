"""How often a recommendation on real models is right, held against tables of all their points.

    python -m benchmarks.recommendations --record          measure what the tables lack (benchmarks/recommend_tables.py)
    python -m benchmarks.recommendations [--draws 25]      search over the recorded processes, drawn anew
    python -m benchmarks.recommendations --live N [--noisy]  search for real, and hold the winner against the best

The search is `verdicts.recommend.search.next_step` itself. In a replay the processes of a round are drawn from those of
their points, their blocks with replacement until there is as much as the search wants, and for all of the round one
mood of the machine, as the groups of the table found it; it is charged the seconds of that, and of the starts. A search
has a fifth of the seconds of an exhaustive one, which gives every point five processes, as the last
stage of a search does; so has the rival that measures points drawn at random. Tables go into docs/evidence/recommend.md
with --fill.
"""

import argparse
import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cached_property
from math import exp, log
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np

from benchmarks.command_line import CommandLine
from benchmarks.markdown import fill, markdown_table
from benchmarks.recommend_tables import (
    FOLDER,
    MODELS,
    Bench,
    Table,
    TableProcess,
    TrialModel,
    by_place,
    home_apart,
    model_file,
    open_bench,
    order_of,
    record,
    tables,
)
from benchmarks.verdict_recorder import neighbour
from benchmarks.verdict_recordings import add_line, kept_lines
from enginebench_controller.plan.points import LOOK_ITERATIONS, samples_of_limit
from enginebench_controller.plan.recommend import Goal, LatencyLimit
from enginebench_controller.records import Measurement
from enginebench_controller.runs.recommending import CONFIRM_S, LONGEST_CONFIRM_S, LOOK_S
from enginebench_controller.verdicts.recommend.candidates import (
    FRESH,
    Reading,
    SearchTerms,
    Step,
    StepPurpose,
    StepTaken,
    interval,
)
from enginebench_controller.verdicts.recommend.search import Outcome, next_step
from enginebench_controller.verdicts.recommend.steps import figures_of, percentile_ns, reading_of

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "recommend.md"
LIVE = "live.jsonl"
SHARE = 0.2
"""Of an exhaustive search's time that a search has."""
FEWEST_BLOCKS = 3
TOO_MUCH = log(1.03)
BEST = 3
CHECK_ROUNDS = 6
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
        """How long a process of the last stage is timed, as in `runs.recommending`."""
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


def searched(known: Known, seed: int) -> tuple[Outcome, int | None, float]:
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
    named = [best if outcome is Outcome.FOUND else None for outcome, best, _ in found]
    random = [at_random(known, 1_000 + seed) for seed in range(draws)]
    able = bool(known.able)
    return Replay(
        table.model,
        wanted.name,
        right=_mean(_is_right(known, one) for one in named),
        close=_mean(_is_right(known, one, log(1.1)) for one in named),
        worse=_mean(one is not None and able and _excess(known, one) > TOO_MUCH for one in named),
        breaks=_mean(one is not None and one not in known.able for one in named),
        nothing=_mean(outcome is Outcome.NOTHING and able for outcome, _, _ in found),
        untold=_mean(outcome is Outcome.CANNOT_TELL for outcome, _, _ in found),
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


@dataclass(frozen=True)
class Searched:
    """One live search: what was asked, the answer, and the winner beside the table's best in fresh processes.

    `ratio`: the winner costs so many times as much as the best of these, with its interval; `of_limit`: its limited
    figure ÷ the limit. None where nothing was named. Seconds are of the search, and of an exhaustive one by the table.
    """

    condition: str
    model: str
    wanted: str
    limit: str
    outcome: str
    winner: str
    beside: tuple[str, ...]
    ratio: tuple[float, float, float] | None
    of_limit: tuple[float, float, float] | None
    seconds: float
    exhaustive_s: float


def live(folder: Path, count: int, *, noisy: bool) -> None:
    """Search until so many are kept: each model in turn, and each case in turn."""
    condition = "noisy" if noisy else "quiet"
    quickest_first = sorted(tables(folder), key=lambda one: Known(one, CASES[0]).exhaustive_s())
    while (done := len([one for one in kept(folder) if one.condition == condition])) < count:
        table = quickest_first[done % len(quickest_first)]
        wanted = CASES[(1 + 3 * done) % len(CASES)]
        (model,) = (one for one in MODELS if one.name == table.model)
        with neighbour(present=noisy):
            one = _live(condition, model, Known(table, wanted))
        add_line(folder / LIVE, one)
        print(f"{done + 1} of {count}: {one}", flush=True)


def _live(condition: str, model: TrialModel, known: Known) -> Searched:
    wanted, limit = known.wanted, known.limit_us
    limit_ms = None if limit is None else exp(limit) / 1e3
    text = "" if limit_ms is None else f"p95<{limit_ms:.3f}ms"
    said = CommandLine(home_apart().path, "").json("recommend", *_words(model, known, text))
    tried = said["tried"]
    winner = None if said["best"] is None else tried[said["best"]]["title"]
    found = Searched(
        condition=condition,
        model=model.name,
        wanted=wanted.name,
        limit=text,
        outcome=said["outcome"],
        winner=winner or "",
        beside=tuple(known.table.points[known.places[one]].title for one in _best(known)),
        ratio=None,
        of_limit=None,
        seconds=said["seconds"],
        exhaustive_s=round(known.exhaustive_s(), 1),
    )
    if winner is None or said["outcome"] != Outcome.FOUND:
        return found
    ratio, of_limit = asyncio.run(_check(model, found, limit_ms, wanted))
    return Searched(**{**vars(found), "ratio": ratio, "of_limit": of_limit})


def _words(model: TrialModel, known: Known, limit: str) -> Iterator[str]:
    path, fields = model_file(model)
    yield path
    for axis, values in model.axes.items():
        yield from ("--among", f"{axis}={','.join(values)}")
    for name, shape in fields.get("shapes", {}).items():
        yield from ("--shape", f"{name}={shape}")
    if limit:
        yield from ("--max-latency", limit)
    if known.wanted.goal is not Goal.THROUGHPUT:
        yield from ("--minimize", str(known.wanted.goal))
    yield from ("--budget", f"{SHARE * known.exhaustive_s():.0f}s")


def _best(known: Known) -> list[int]:
    """The table's best that hold the limit."""
    cost = known.truth[0]
    return sorted(known.able, key=lambda one: float(cost[one]))[:BEST]


async def _check(
    model: TrialModel, found: Searched, limit_ms: float | None, wanted: Wanted
) -> tuple[tuple[float, float, float] | None, tuple[float, float, float] | None]:
    """The winner beside the table's best, in fresh processes that take turns."""
    limit = None if limit_ms is None else LatencyLimit(P95, limit_ms * 1e6)
    more = {} if limit is None else {"max_latency": found.limit}
    order = order_of(model, goal=wanted.goal, **more)
    async with AsyncExitStack() as stack:
        bench = await open_bench(stack, home_apart(), order_of(model))
        titles = [one.case.title for one in bench.space.points]
        places = list(dict.fromkeys(titles.index(one) for one in (found.winner, *found.beside)))
        benchmark = await bench.measure(
            [bench.space.points[one] for one in places], CHECK_ROUNDS, CONFIRM_S, samples_of_limit(limit)
        )
        measured = by_place(bench.space.points, bench.home.store.measurements(benchmark.id))
        readings = {place: _readings(bench, order, one) for place, one in measured.items()}
    winner = readings[places[0]]
    others = [found for place, found in readings.items() if place != places[0]]
    ratios = [interval([one.cost - other.cost for one, other in zip(winner, found, strict=True)]) for found in others]
    ratio = max(ratios, default=(0.0, 0.0, 0.0))
    of_limit = None if limit is None else _exponentials(interval([one.excess[0] for one in winner]))
    return _exponentials(ratio), of_limit


def _readings(bench: Bench, order: Any, one: Measurement) -> list[Reading]:
    figures = figures_of(order, one, bench.home.store.block_samples(one.id))
    if isinstance(figures, str):
        raise RuntimeError(figures)  # noqa: TRY004  # a reason, and no wrong type
    return [reading_of(order, each) for each in figures]


def _exponentials(values: tuple[float, float, float]) -> tuple[float, float, float]:
    return exp(values[0]), exp(values[1]), exp(values[2])


def kept(folder: Path) -> list[Searched]:
    """All live searches that were kept."""
    return [
        Searched(
            **{
                **line,
                "beside": tuple(line["beside"]),
                **{name: None if line[name] is None else tuple(line[name]) for name in ("ratio", "of_limit")},
            }
        )
        for line in kept_lines(folder / LIVE)
    ]


def live_table(found: Sequence[Searched]) -> str:
    """A row a live search."""
    headings = ("machine", "model", "wanted", "answer", "costs × the best", "p95 ÷ limit", "seconds", "of exhaustive")
    rows = [
        [
            one.condition,
            one.model,
            one.wanted + (f" ({one.limit})" if one.limit else ""),
            one.winner.partition(" · ")[2] if one.outcome == Outcome.FOUND else one.outcome.replace("_", " "),
            _bounds(one.ratio),
            _bounds(one.of_limit),
            f"{one.seconds:.0f}",
            f"{100 * one.seconds / one.exhaustive_s:.0f} %",
        ]
        for one in found
    ]
    return markdown_table(headings, rows)


def _bounds(found: tuple[float, float, float] | None) -> str:
    return "–" if found is None else f"{found[0]:.3f} ({found[1]:.3f}–{found[2]:.3f})"


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


def main() -> None:
    """Measure, or replay, and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--record", action="store_true", help="measure what the tables lack")
    parser.add_argument("--draws", type=int, default=25, metavar="N", help="searches of each case over a table")
    parser.add_argument("--live", type=int, metavar="N", help="search for real until so many are kept")
    parser.add_argument("--noisy", action="store_true", help="with --live: beside a neighbour")
    parser.add_argument("--fill", action="store_true", help="put the tables into docs/evidence/recommend.md")
    arguments = parser.parse_args()
    if arguments.record:
        record(FOLDER)
        return
    if arguments.live:
        live(FOLDER, arguments.live, noisy=arguments.noisy)
    else:
        found = [replay(table, wanted, arguments.draws) for table in tables() for wanted in CASES]
        text = f"{replay_table(found)}\n\n{better_than_random(found)}"
        print(text)
        if arguments.fill:
            draw(found, PAGE.with_name("recommend.svg"))
            fill(PAGE, "recorded", f"{text}\n\n![search and random points](recommend.svg)")
    if arguments.fill:
        fill(PAGE, "live", live_table(kept(FOLDER)))


if __name__ == "__main__":
    main()
