"""How often a search names the right configuration, in spaces that nobody measured, on a clock that is only counted.

    python -m benchmarks.recommend_synthetic [--seeds 200] [--first 0] [--fill]

The search is `verdicts.recommend.search.next_step` itself; only the measuring is replaced, by draws. Processes differ
by 5 %, and a fifth of the time the machine is in a slower state, by 20 to 50 %, for tens of seconds. Rivals have the
same seconds: all points in rounds, and points drawn at random. Tables go into docs/evidence/recommend.md with --fill.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import exp, log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.markdown import fill, markdown_table
from benchmarks.verdict_replay import Share
from enginebench_controller.plan.points import samples_of_limit
from enginebench_controller.plan.recommend import LatencyLimit
from enginebench_controller.stats.response import Axes
from enginebench_controller.verdicts.recommend.candidates import (
    FRESH,
    RateTerms,
    Reading,
    SearchTerms,
    Step,
    StepTaken,
)
from enginebench_controller.verdicts.recommend.rates import Kept, RatedCandidate, RateFound, next_rate
from enginebench_controller.verdicts.recommend.search import SearchAnswer, SearchOutcome, next_step
from enginebench_controller.verdicts.recommend.steps import percentile_ns
from enginebench_proto.agreed import student_t

Numbers = NDArray[np.float64]

PAGE = Path(__file__).parents[1] / "docs" / "evidence" / "recommend.md"
BUDGET_S = 300.0
NOISE = 0.05
SLOW_S, USUAL_S = 40.0, 160.0
"""How long the slower state lasts, and the usual one, on average."""
TOO_MUCH = log(1.03)
LONG = 100_000
"""Requests of a queue that tell what is true of a rate."""
STEP_S = 1.0
"""What a step takes beside its processes."""


@dataclass(frozen=True)
class Space:
    """Points with what they truly take: logarithms of a cost, and of a limited figure ÷ its limit, if there is one."""

    axes: Sequence[Axes]
    cost: Sequence[float]
    excess: Sequence[float] | None
    start_s: Sequence[float]

    @property
    def able(self) -> list[int]:
        """The points that hold the limit."""
        return [one for one in range(len(self.axes)) if self.excess is None or self.excess[one] <= 0]

    @property
    def best(self) -> int | None:
        """The cheapest of them."""
        return min(self.able, key=lambda one: self.cost[one], default=None)


Limit = Callable[[np.random.Generator, np.ndarray, np.ndarray], float | None]
"""Draws a limit, as a logarithm, for points of such costs and such latencies."""


def _by_best(low: float, high: float) -> Limit:
    """So much above what the cheapest of all takes, or one of the next: it hardly holds it, or hardly breaks it."""

    def drawn(generator: np.random.Generator, cost: np.ndarray, latency: np.ndarray) -> float:
        place = np.argsort(cost)[generator.integers(min(5, cost.size))]
        return float(latency[place] + log(generator.uniform(low, high)))

    return drawn


def _by_fastest(low: float, high: float) -> Limit:
    return lambda generator, _, latency: float(latency.min() + log(generator.uniform(low, high)))


CASES: dict[str, Limit] = {
    "no limit": lambda *_: None,
    "a limit that half of the points hold": lambda _, __, latency: float(np.median(latency)),
    "a limit at the edge of one of the five best": _by_best(0.96, 1.06),
    "a limit that few hold": _by_fastest(1.02, 1.25),
    "a limit that none holds": _by_fastest(0.75, 0.97),
}


def space(limit: Limit, seed: int) -> Space:
    """A space of 24 to 64 points of three or four engines, with limits of that kind."""
    generator = np.random.default_rng(seed)
    found = [one for number in range(generator.integers(3, 5)) for one in _engine(f"engine {number}", generator)]
    kept = generator.permutation(len(found))[: generator.integers(24, 65)]
    axes, cost, latency, start_s = zip(*(found[one] for one in sorted(kept)), strict=True)
    drawn = limit(generator, np.array(cost), np.array(latency))
    return Space(axes, cost, None if drawn is None else [one - drawn for one in latency], start_s)


def _engine(name: str, generator: np.random.Generator) -> Iterator[tuple[Axes, float, float, float]]:
    """All points of an engine: their axes, the logarithms of an item's time and of the p95, and what a start takes."""
    item = log(generator.uniform(5, 15))
    per_batch, per_core = generator.uniform(0.8, 1.0), generator.uniform(0.5, 0.95)
    start_s = generator.uniform(0.8, 2.5)
    gains = {"sync": (0.0, 1), "async": (generator.uniform(-0.1, 0.2), 2), "throughput": (generator.uniform(0, 0.4), 4)}
    for batch, cores, (load, (gain, requests)) in product((1, 2, 4, 8, 16), (1, 2, 4), gains.items()):
        own = generator.normal(0, 0.06)
        cost = item + (per_batch - 1) * log(batch) - per_core * log(cores) - gain * log(2 * cores) / 2 + own
        tail = abs(generator.normal(0.06, 0.03))
        latency = cost + log(batch) + log(requests) + tail
        yield {"engine": name, "batch": float(batch), "cores": float(cores), "load": load}, cost, latency, start_s


@dataclass
class Machine:
    """What is measured on it is drawn, and its clock only counts."""

    space: Space
    generator: np.random.Generator
    now_s: float = 0.0
    _until_s: float = 0.0
    _slower: float = 0.0
    _is_slow: bool = field(default=True)

    def take(self, step: Step) -> StepTaken:
        """Carry out a step."""
        begin_s = self.now_s
        rounds = tuple(self.round(step.candidates, step.process_s) for _ in range(step.rounds))
        self.now_s += STEP_S
        return StepTaken(step, rounds, {}, self.now_s - begin_s)

    def round(self, candidates: Sequence[int], process_s: float) -> dict[int, Reading]:
        """A process of each, all of which find the machine in the same state."""
        slower = self._state()
        found = {}
        for one in candidates:
            luck = self.generator.normal(0, NOISE) + slower
            excess = () if self.space.excess is None else (self.space.excess[one] + luck,)
            found[one] = Reading(self.space.cost[one] + luck, excess)
            self.now_s += self.space.start_s[one] + process_s
        return found

    def _state(self) -> float:
        while self.now_s >= self._until_s:
            self._is_slow = not self._is_slow
            self._until_s += self.generator.exponential(SLOW_S if self._is_slow else USUAL_S)
            self._slower = log(self.generator.uniform(1.2, 1.5)) if self._is_slow else 0.0
        return self._slower


@dataclass(frozen=True)
class Verdict:
    """What one way of searching came to: its outcome, and the point that it names."""

    outcome: SearchOutcome
    best: int | None


def searched(place: Space, seed: int, budget_s: float = BUDGET_S) -> tuple[Verdict, SearchAnswer, list[StepTaken]]:
    """The search, in this space."""
    terms = SearchTerms(budget_s, limits=0 if place.excess is None else 1)
    machine = Machine(place, np.random.default_rng(seed))
    taken: list[StepTaken] = []
    while isinstance(step := next_step(place.axes, terms, taken), Step):
        taken.append(machine.take(step))
    return Verdict(step.outcome, step.best), step, taken


def exhaustive(place: Space, seed: int, budget_s: float = BUDGET_S) -> Verdict:
    """All points in rounds, as long as there is time; named is the cheapest whose limit is held."""
    return _plain(place, seed, budget_s, range(len(place.axes)), 1)


def at_random(place: Space, seed: int, budget_s: float = BUDGET_S) -> Verdict:
    """As many points, drawn at random, as get enough processes to tell of limits."""
    generator = np.random.default_rng(seed + 1)
    each_s = float(np.mean(place.start_s)) + SearchTerms(budget_s).look_s
    count = max(1, min(len(place.axes), int(budget_s / each_s / FRESH)))
    return _plain(place, seed, budget_s, generator.permutation(len(place.axes))[:count].tolist(), FRESH)


def _plain(place: Space, seed: int, budget_s: float, points: Sequence[int], rounds: int) -> Verdict:
    machine = Machine(place, np.random.default_rng(seed))
    process_s = SearchTerms(budget_s).look_s
    seen: dict[int, list[Reading]] = {one: [] for one in points}
    begun = 0
    while True:
        before_s = machine.now_s
        for one, reading in machine.round(points, process_s).items():
            seen[one].append(reading)
        begun += 1
        if machine.now_s + (machine.now_s - before_s) > budget_s and begun >= min(rounds, 1):
            break
    able = [one for one, readings in seen.items() if place.excess is None or _holds([r.excess[0] for r in readings])]
    best = min(able, key=lambda one: float(np.mean([r.cost for r in seen[one]])), default=None)
    return Verdict(SearchOutcome.NOTHING if best is None else SearchOutcome.FOUND, best)


def _holds(values: Sequence[float]) -> bool:
    if len(values) < 2:
        return values[0] < 0
    half = student_t.quantile(0.975, len(values) - 1) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return float(np.mean(values)) + half < 0


def mistakes(place: Space, verdict: Verdict) -> dict[str, bool]:
    """What is wrong with a verdict, and whether it is right: one within 3 % of the best that holds the limit."""
    best, found = place.best, verdict.outcome is SearchOutcome.FOUND and verdict.best is not None
    named = verdict.best if found else None
    return {
        "worse": named is not None and best is not None and place.cost[named] - place.cost[best] > TOO_MUCH,
        "breaks": named is not None and named not in place.able,
        "nothing": verdict.outcome is SearchOutcome.NOTHING and best is not None,
        "untold": verdict.outcome is SearchOutcome.CANNOT_TELL,
        "right": named is not None
        and named in place.able
        and best is not None
        and place.cost[named] - place.cost[best] <= TOO_MUCH,
    }


@dataclass(frozen=True)
class Server:
    """What serves one request after the other, at a rate of random arrivals; services differ by 5 %.

    Latencies are those of a queue that begins empty, request by request, as an open loop has them. What is true of a
    rate is the tail of a queue that has long been full.
    """

    service_s: float
    limit_s: float
    percent: float = 99.0

    @property
    def capacity_per_s(self) -> float:
        """In a closed loop."""
        return 1 / self.service_s

    @property
    def closed_cost(self) -> float:
        """The logarithm of what an item takes in a closed loop."""
        return log(self.service_s)

    def rival(self, place: int) -> RatedCandidate:
        """What closed loops tell of it."""
        return RatedCandidate(place, self.capacity_per_s, log(self.service_s / self.limit_s))

    def latencies_s(
        self, rate_per_s: float, count: int, generator: np.random.Generator, slower: float = 1.0
    ) -> Numbers:
        """So many requests from an empty queue on: each waits for what the ones before left of their time (Lindley)."""
        services_s = slower * self.service_s * np.exp(NOISE * generator.standard_normal(count))
        gaps_s = generator.exponential(1 / rate_per_s, count)
        left_s = np.cumsum(np.concatenate([[0.0], services_s[:-1] - gaps_s[1:]]))
        return services_s + left_s - np.minimum.accumulate(left_s)

    def excess(self, rate_per_s: float) -> float:
        """The logarithm of the tail ÷ its limit; an overload exceeds it threefold."""
        if rate_per_s >= self.capacity_per_s:
            return log(3)
        seen = self.latencies_s(rate_per_s, LONG, np.random.default_rng(0))[LONG // 10 :]
        return log(float(np.quantile(seen, self.percent / 100)) / self.limit_s)

    @cached_property
    def most_per_s(self) -> float:
        """The rate at which the tail is at its limit."""
        low, high = 0.0, self.capacity_per_s
        for _ in range(12):
            middle = (low + high) / 2
            low, high = (middle, high) if self.excess(middle) <= 0 else (low, middle)
        return low

    def take(self, step: Step, generator: np.random.Generator | None = None, noise: float = 0.0) -> StepTaken:
        """Carry out a step at a rate, by the truth or as drawn: an eighth of all processes are slower by a fifth."""
        assert step.rate_per_s is not None  # there is no other step
        rounds = []
        for _ in range(step.rounds):
            if generator is None or step.rate_per_s >= self.capacity_per_s:
                excess = self.excess(step.rate_per_s)
            else:
                slower = exp(generator.normal(0, noise)) * (1.2 if generator.random() < 1 / 8 else 1.0)
                count = max(1, generator.poisson(step.rate_per_s * step.process_s))
                seen_s = self.latencies_s(step.rate_per_s, count, generator, slower)
                excess = log(percentile_ns(seen_s.tolist(), self.percent) / self.limit_s)
            rounds.append({step.candidates[0]: Reading(0.0, (excess,))})
        return StepTaken(step, tuple(rounds), {}, STEP_S + step.rounds * (1.0 + step.process_s))


def found_rate(
    rivals: Sequence[RatedCandidate],
    terms: RateTerms,
    budget_s: float,
    servers: Sequence[Server],
    *,
    noise: float | None = None,
    seed: int = 0,
) -> tuple[RateFound, list[StepTaken]]:
    """What a search of rates comes to; its processes are drawn where there is noise, even none."""
    generator = None if noise is None else np.random.default_rng(seed)
    taken: list[StepTaken] = []
    while isinstance(step := next_rate(rivals, terms, budget_s, taken), Step):
        taken.append(servers[step.candidates[0]].take(step, generator, noise or 0.0))
    return step, taken


RATE_HEADINGS = (
    "limited",
    "budget",
    "processes differ by",
    "breaks the limit",
    "by over 5 %",
    "by over 20 %",
    "within 15 %, limit held",
    "lower, limit held",
    "cannot tell",
)


def rates(seeds: range) -> str:
    """How near the rates that are named come to the highest that hold, and how often they break the limit."""
    rows = []
    for percent, budget_s, noise in product((95.0, 99.0), (BUDGET_S, 3 * BUDGET_S), (0.0, 0.05)):
        found = [_rate_mistakes(percent, budget_s, noise, seed) for seed in seeds]
        shares = [_share([one[kind] for one in found]) for kind in ("breaks", "5 %", "20 %", "near", "lower", "untold")]
        rows.append([f"p{percent:g}", f"{budget_s / 60:g} min", f"{noise:.0%}", *shares])
    return markdown_table(RATE_HEADINGS, rows)


def _rate_mistakes(percent: float, budget_s: float, noise: float, seed: int) -> dict[str, bool]:
    generator = np.random.default_rng(10_000_000 + seed)
    service_s = _log_uniform(generator, 0.002, 0.05)
    server = Server(service_s, service_s * _log_uniform(generator, 1.3, 10), percent)
    rivals = (server.rival(0),)
    terms = RateTerms(samples=samples_of_limit(LatencyLimit(percent, 1e9 * server.limit_s)))
    found, _ = found_rate(rivals, terms, budget_s / 2, (server,), noise=noise, seed=seed)
    rate = found.rate_per_s or 0.0
    is_held = found.kept is Kept.HELD
    excess = server.excess(rate) if is_held else 0.0
    return {
        "breaks": excess > 0,
        "5 %": excess > log(1.05),
        "20 %": excess > log(1.2),
        "near": is_held and excess <= 0 and rate > 0.85 * server.most_per_s,
        "lower": is_held and rate <= 0.85 * server.most_per_s,
        "untold": not is_held,
    }


def _log_uniform(generator: np.random.Generator, low: float, high: float) -> float:
    """Drawn so that each factor is as likely."""
    return float(np.exp(generator.uniform(log(low), log(high))))


def trial(case: str, seed: int) -> dict[str, dict[str, bool]]:
    """One space, and what each way of searching makes of it."""
    place = space(CASES[case], seed)
    ways = {"search": searched(place, seed)[0], "exhaustive": exhaustive(place, seed), "random": at_random(place, seed)}
    return {name: mistakes(place, verdict) for name, verdict in ways.items()}


HEADINGS = (
    "space",
    "way",
    "worse than the best by over 3 %",
    "breaks the limit",
    "“nothing meets it”, wrongly",
    "cannot tell",
    "within 3 %, limit held",
)


def table(seeds: range) -> str:
    """A row a kind of limit and a way of searching, in shares with their exact intervals."""
    rows = []
    for number, case in enumerate(CASES):
        found = [trial(case, 100_000 * number + seed) for seed in seeds]
        for way in ("search", "exhaustive", "random"):
            told = [one[way] for one in found]
            columns = ("worse", "breaks", "nothing", "untold", "right")
            rows.append([case, way, *(_share([one[name] for one in told]) for name in columns)])
    return markdown_table(HEADINGS, rows)


def _share(found: Sequence[bool]) -> str:
    return str(Share(sum(found), len(found)))


def main() -> None:
    """Search, and tell how often that was right."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=200, metavar="N", help="spaces of each kind")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="the first seed; those reported are from 0")
    parser.add_argument("--fill", action="store_true", help="put the table into docs/evidence/recommend.md")
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    of_rates = rates(seeds)
    print(of_rates)
    if arguments.fill:
        fill(PAGE, "rates", of_rates)
    text = table(seeds)
    print(text)
    if arguments.fill:
        fill(PAGE, "synthetic", text)


if __name__ == "__main__":
    main()
