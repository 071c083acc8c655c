"""A search for a configuration for real, and its winner beside the best of the table, in fresh processes."""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from math import exp
from pathlib import Path
from typing import Any

from benchmarks.command_line import CommandLine
from benchmarks.markdown import markdown_table
from benchmarks.recommend_replay import CASES, P95, SHARE, Known, Wanted
from benchmarks.recommend_tables import (
    MODELS,
    Bench,
    TrialModel,
    by_place,
    home_apart,
    model_file,
    open_bench,
    order_of,
    tables,
)
from benchmarks.verdict_recorder import neighbour
from benchmarks.verdict_recordings import add_line, kept_lines
from enginebench_controller.plan.points import samples_of_limit
from enginebench_controller.plan.recommend import Goal, LatencyLimit
from enginebench_controller.records import Measurement
from enginebench_controller.runs.searches.recommend_ground import CONFIRM_S
from enginebench_controller.verdicts.recommend.candidates import Reading, interval
from enginebench_controller.verdicts.recommend.search import SearchOutcome
from enginebench_controller.verdicts.recommend.steps import figures_of, reading_of

LIVE = "live.jsonl"
BEST = 3
CHECK_ROUNDS = 6


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
    if winner is None or said["outcome"] != SearchOutcome.FOUND:
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
            one.winner.partition(" · ")[2] if one.outcome == SearchOutcome.FOUND else one.outcome.replace("_", " "),
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
