"""What to measure next while looking for the best of many configurations, and what is to be said in the end.

A pure function of the space, the terms and the steps so far: the same results lead to the same step, so a search that
was interrupted goes on by asking again. It begins broad and short; `stats.response` then says which can still win, and
those race in rounds until they are beaten beyond noise; what wins is measured again in fresh processes, with whatever
comes next to it, and only these say whether a limit is held.

Why not Optuna, SMAC or irace: their trials are single values, and what tells two configurations apart here is that they
were alive in the same round; successive halving (irace, too) drops by rank alone, without what its likes already tell.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import ceil, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from enginebench_controller.stats.response import Axes, Response, Seen, respond, spread_out
from enginebench_proto.agreed import student_t

CONFIRM_SHARE = 0.4
"""Of the budget, for the last stage."""
FRESH = 5
"""So many fresh processes at least say whether a limit is held."""
SHORTLIST = 3
"""So many are measured again: the best, what comes next, and one that holds the limit more surely."""
WORTH = log(1.01)
"""What is better by less is not looked for."""
SURE = 2.6
"""By so many standard errors a candidate is out: 1 % of each, since it is looked at many times."""
LIMIT_CONFIDENCE = 0.975
"""Of one end of the interval of a limited figure."""
FAR = log(1.5)
"""What is farther beyond its limit than this is no matter of a slower machine."""
FIRST_LOOK = 8
"""So many at most before it is known how long starting engines takes: of a round that is cut off nothing is left."""
MOST_ROUNDS = 4
"""Of one step: afterwards it is looked who is still in."""


class Purpose(StrEnum):
    """What a step is to learn."""

    LOOK = "look"
    RACE = "race"
    CONFIRM = "confirm"


@dataclass(frozen=True)
class SearchTerms:
    """How a search is to go. Each process takes `start_s`, as guessed before any was started, and what is timed in it:
    `look_s`, or `confirm_s` in the last stage. `limits` are as many as each reading has; at most `together` are alive.
    The first look has those at the places `first` in any case, and of the others rather those with little `work`, which
    is told in relation to each other, if at all.
    """

    budget_s: float
    limits: int = 0
    together: int = 12
    start_s: float = 2.5
    look_s: float = 0.5
    confirm_s: float = 1.0
    first: tuple[int, ...] = ()
    work: tuple[float, ...] = ()


@dataclass(frozen=True)
class Reading:
    """One process, as logarithms: what is to be small, and of each limited figure by how much it exceeds its limit."""

    cost: float
    excess: tuple[float, ...] = ()


@dataclass(frozen=True)
class Step:
    """Candidates, by their places, to be alive together for so many rounds; `process_s` is timed in each process."""

    purpose: Purpose
    candidates: tuple[int, ...]
    rounds: int
    process_s: float


@dataclass(frozen=True)
class StepTaken:
    """What came of a step: in each of its rounds the readings by candidate, and by candidate why it cannot be had."""

    step: Step
    rounds: tuple[Mapping[int, Reading], ...]
    refused: Mapping[int, str]
    seconds: float


class Limits(StrEnum):
    """What is known of a candidate's limits."""

    HELD = "held"
    BROKEN = "broken"
    CANNOT_TELL = "cannot_tell"


class Fate(StrEnum):
    """What became of a candidate."""

    BEST = "best"
    RUNNER_UP = "runner_up"
    BEATEN = "beaten"
    BREAKS_LIMIT = "breaks_limit"
    LIMIT_NOT_TOLD = "limit_not_told"
    NOT_TOLD_APART = "not_told_apart"
    REFUSED = "refused"


@dataclass(frozen=True)
class Told:
    """What is said of a candidate: its cost ÷ that of the best, and each limited figure ÷ its limit, with intervals.

    `processes` is 0 of one that was never measured, whose figures are what its likes say.
    """

    candidate: int
    fate: Fate
    processes: int = 0
    ratio: tuple[float, float, float] | None = None
    of_limit: tuple[tuple[float, float, float], ...] = ()
    why: str = ""


class Outcome(StrEnum):
    """What a search comes to: one that holds its limits; one that may; none does; or it was broken off."""

    FOUND = "found"
    CANNOT_TELL = "cannot_tell"
    NOTHING = "nothing"
    UNCONFIRMED = "unconfirmed"


@dataclass(frozen=True)
class Answer:
    """What is to be said. `best` is the nearest where nothing holds the limits; None where none could be measured."""

    outcome: Outcome
    best: int | None
    runner_up: int | None
    told: tuple[Told, ...]
    rounds: int
    slow_rounds: int
    noise: float


def least_budget_s(candidates: int, terms: SearchTerms) -> float:
    """The seconds below which a search tells nothing: a look at a few, and fresh processes of two."""
    looks, confirmed = min(candidates, 6), min(candidates, 2) * FRESH
    return (looks if candidates > 1 else 0) * (terms.start_s + terms.look_s) + confirmed * (
        terms.start_s + terms.confirm_s
    )


def next_step(space: Sequence[Axes], terms: SearchTerms, taken: Sequence[StepTaken]) -> Step | Answer:
    """The next step, or the answer once there is no time for another, or none is needed."""
    known = Known(space, terms, taken)
    if not known.seen:
        gone = {place for one in taken for place in one.refused}
        if taken and (len(gone) == len(space) or known.left_s < known.each_s(Purpose.LOOK)):
            return answer(space, terms, taken)
        return _first(space, terms, known, gone)
    if not any(one.step.purpose is Purpose.CONFIRM for one in taken):
        spare_s = known.left_s - CONFIRM_SHARE * terms.budget_s
        if race := _race(known, int(spare_s / known.each_s(Purpose.RACE))):
            return race
    return _confirm(known) or answer(space, terms, taken)


def answer(
    space: Sequence[Axes], terms: SearchTerms, taken: Sequence[StepTaken], *, broken_off: bool = False
) -> Answer:
    """What is to be said after these steps; of a search that was `broken_off` the best so far, unconfirmed."""
    known = Known(space, terms, taken)
    if not known.seen:
        told = tuple(Told(place, Fate.REFUSED, why=why) for place, why in sorted(known.refused.items()))
        return Answer(Outcome.NOTHING, None, None, told, 0, 0, 0.0)
    held = [one for one in known.measured if known.limits(one) is Limits.HELD]
    open_ = [one for one in known.measured if known.limits(one) is Limits.CANNOT_TELL]
    if held and not broken_off:
        outcome, best = Outcome.FOUND, known.cheapest(held)
    elif held or open_:
        outcome = Outcome.UNCONFIRMED if broken_off else Outcome.CANNOT_TELL
        best = known.cheapest(held) if held else known.promising()[0]
    else:
        best = known.nearest()[0]
        is_sure = len(known.fresh(best)) >= FRESH or known.least_excess(best) > FAR
        outcome = Outcome.UNCONFIRMED if broken_off else Outcome.NOTHING if is_sure else Outcome.CANNOT_TELL
    rivals = [one for one in (known.by_cost() or known.nearest()) if one != best]
    runner_up = next((one for one in rivals if known.fresh(one)), rivals[0] if rivals else None)
    told = tuple(_told(known, place, best, runner_up) for place in range(len(space)))
    return Answer(outcome, best, runner_up, told, known.round_count, len(known.slow), known.cost.noise)


class Known:
    """What the steps so far tell of all candidates."""

    def __init__(self, space: Sequence[Axes], terms: SearchTerms, taken: Sequence[StepTaken]) -> None:
        self.space, self.terms, self.taken = space, terms, taken
        self.refused = {place: why for one in taken for place, why in one.refused.items()}
        numbered = [(step.step.purpose, one) for step in taken for one in step.rounds]
        self.round_count = len(numbered)
        self.seen = [
            (number, purpose, place, reading)
            for number, (purpose, one) in enumerate(numbered)
            for place, reading in one.items()
            if place not in self.refused
        ]
        self.measured = sorted({place for _, _, place, _ in self.seen})
        self.living = [place for place in range(len(space)) if place not in self.refused]
        self.left_s = terms.budget_s - sum(one.seconds for one in taken)

    @cached_property
    def cost(self) -> Response:
        """What is known of what is to be small."""
        return respond(self.space, [Seen(place, number, one.cost) for number, _, place, one in self.seen])

    @cached_property
    def excess(self) -> tuple[Response, ...]:
        """And of each limited figure."""
        return tuple(
            respond(self.space, [Seen(place, number, one.excess[limit]) for number, _, place, one in self.seen])
            for limit in range(self.terms.limits)
        )

    @cached_property
    def slow(self) -> frozenset[int]:
        """The rounds that found the machine in a slower state."""
        return frozenset(self.cost.slow)

    def each_s(self, purpose: Purpose) -> float:
        """What a process takes, by those that there were and by the guess, which counts like four of them."""
        begun = [(one, one.step.rounds * len(one.step.candidates)) for one in self.taken]
        processes = sum(count for _, count in begun)
        starting_s = sum(one.seconds - count * one.step.process_s for one, count in begun)
        weight = 4 if not processes else 1
        start_s = (weight * self.terms.start_s + max(starting_s, 0.0)) / (weight + processes)
        return start_s + (self.terms.confirm_s if purpose is Purpose.CONFIRM else self.terms.look_s)

    def fresh(self, place: int) -> list[Reading]:
        """Its processes of the last stage, without those of rounds in which the machine was slower."""
        return [
            one
            for number, purpose, candidate, one in self.seen
            if candidate == place and purpose is Purpose.CONFIRM and number not in self.slow
        ]

    def limits(self, place: int) -> Limits:
        """What is known of its limits: by fresh processes where there are enough, else only beyond doubt."""
        return self._limits[place]

    @cached_property
    def _limits(self) -> list[Limits]:
        return [self._limits_of(place) for place in range(len(self.space))]

    def _limits_of(self, place: int) -> Limits:
        if not self.terms.limits:
            return Limits.HELD
        fresh = self.fresh(place)
        if len(fresh) >= FRESH:
            ends = [_interval([one.excess[limit] for one in fresh]) for limit in range(self.terms.limits)]
            if all(high < 0 for _, _, high in ends):
                return Limits.HELD
            return Limits.BROKEN if any(low > 0 for _, low, _ in ends) else Limits.CANNOT_TELL
        broken = any(one.middle[place] - SURE * one.errors[place] > 0 for one in self.excess)
        return Limits.BROKEN if broken else Limits.CANNOT_TELL

    @cached_property
    def chance(self) -> NDArray[np.float64]:
        """How likely each holds its limits, as far as it is known; of shape (n,)."""
        found = np.ones(len(self.space))
        for one in self.excess:
            found *= ndtr(-one.middle / np.maximum(one.errors, 1e-9))
        for place in range(len(self.space)):
            if place in self.refused or self.limits(place) is Limits.BROKEN:
                found[place] = 0.0
            elif self.limits(place) is Limits.HELD:
                found[place] = 1.0
        return found

    def cheapest(self, places: Sequence[int]) -> int:
        """The one of the smallest cost."""
        return min(places, key=lambda place: (self.cost.middle[place], place))

    def by_cost(self) -> list[int]:
        """Those measured that may hold their limits, the cheapest first."""
        able = [one for one in self.measured if self.chance[one] > 0]
        return sorted(able, key=lambda one: (self.cost.middle[one], one))

    def nearest(self) -> list[int]:
        """Those that are left, the one first that exceeds its limits by least."""
        worst = np.max([one.middle for one in self.excess], axis=0) if self.excess else self.cost.middle
        return sorted(self.measured, key=lambda place: (float(worst[place]), place))

    def least_excess(self, place: int) -> float:
        """By how much it exceeds its limits at the least, as far as it is known."""
        return max((float(one.middle[place] - SURE * one.errors[place]) for one in self.excess), default=0.0)

    def doubted(self) -> list[int]:
        """Those that would be better than what holds the limits, and break them by no more than spells account for."""
        leader = self.leader()
        most = inf if leader is None else float(self.cost.middle[leader]) - WORTH
        broken = [one for one in self.nearest() if self.limits(one) is Limits.BROKEN and self.cost.middle[one] < most]
        return [one for one in broken if self.least_excess(one) < FAR]

    def leader(self) -> int | None:
        """The best of those measured that rather hold their limits than not; None where none does."""
        likely = [one for one in self.measured if self.chance[one] > 0.5]
        return self.cheapest(likely) if likely else None

    def safe(self) -> int | None:
        """The best of those that surely hold their limits."""
        surely = [one for one in self.measured if self.chance[one] > 0.99]
        return self.cheapest(surely) if surely else None

    def contenders(self) -> list[int]:
        """Who may still be the best: not known to break a limit, nor beaten by what surely holds them."""
        safe = self.safe()
        if safe is None:
            return [one for one in self.living if self.chance[one] > 0]
        above, errors = self.cost.against(safe)
        unbeaten = (above - SURE * errors < -WORTH) & (self.chance > 0)
        return [one for one in self.living if one == safe or unbeaten[one]]

    def promising(self) -> list[int]:
        """The contenders, the one first of which most is to be expected: by how much it may undercut the best, times
        the chance that it may win (Gardner and others, "Bayesian Optimization with Inequality Constraints", 2014).
        """
        contenders = self.contenders()
        reference = self.leader()
        if reference is None:
            return sorted(contenders or self.living, key=lambda one: (self.least_excess(one), one))
        above, errors = self.cost.against(reference)
        errors = np.maximum(errors, 1e-9)
        reached = -above / errors
        density = np.exp(-(reached**2) / 2) / sqrt(2 * np.pi)
        expected = errors * (reached * ndtr(reached) + density) * self.chance
        others = sorted((one for one in contenders if one != reference), key=lambda one: (-expected[one], one))
        return [reference, *others]


def _first(space: Sequence[Axes], terms: SearchTerms, known: Known, gone: set[int]) -> Step:
    """A look at a few that tell most, of no more than half the time before the last stage."""
    places = [one for one in range(len(space)) if one not in gone]
    affordable = int((known.left_s - CONFIRM_SHARE * terms.budget_s) / known.each_s(Purpose.LOOK))
    count = min(FIRST_LOOK, max(3, affordable // 2))
    given = [places.index(one) for one in terms.first if one in places]
    work = [terms.work[one] for one in places] if terms.work else []
    chosen = spread_out([space[one] for one in places], min(count, terms.together), given, work)
    return Step(Purpose.LOOK, tuple(places[one] for one in chosen), 1, terms.look_s)


def _race(known: Known, affordable: int) -> Step | None:
    """A round or more of those of which most is to be expected: ever fewer, as the time runs out."""
    contenders = known.promising()
    if affordable < 3 or len(contenders) <= SHORTLIST or known.least_excess(contenders[0]) > FAR:
        return None
    size = min(len(contenders), known.terms.together, max(4, ceil(affordable / 3)), affordable)
    rounds = max(1, min(MOST_ROUNDS, affordable // (2 * size)))
    unseen = sum(one not in known.measured for one in contenders[:size])
    purpose = Purpose.LOOK if 2 * unseen > size else Purpose.RACE
    return Step(purpose, tuple(contenders[:size]), 1 if unseen else rounds, known.terms.look_s)


def _confirm(known: Known) -> Step | None:
    """Fresh processes of the shortlist; None where they are not needed any more, or there is no time for them."""
    places = _shortlist(known)
    if not places:
        return None
    affordable = int(known.left_s / known.each_s(Purpose.CONFIRM) + 0.1)
    lacking = max(max(0, FRESH - len(known.fresh(one))) for one in places)
    while len(places) > 1 and affordable < len(places) * max(lacking, 1):
        places = places[:-1]
    rounds = min(max(lacking, MOST_ROUNDS), affordable // len(places))
    if rounds < 1:
        return None
    return Step(Purpose.CONFIRM, tuple(places), rounds, known.terms.confirm_s)


def _shortlist(known: Known) -> list[int]:
    """Whose fresh processes are still to tell something; none where all is said.

    What seems to break a limit by no more than a slower machine would make of it is looked at as long as there is time.
    """
    leader, doubted = known.leader(), known.doubted()
    if leader is None and not known.contenders():
        nearest = known.nearest()[:SHORTLIST]
        return nearest if doubted or not nearest or len(known.fresh(nearest[0])) < FRESH else []
    safest = max(known.measured, key=lambda one: (known.chance[one], -known.cost.middle[one]))
    sure = known.safe()
    wanted = [*known.promising()[:2], safest if sure is None else sure, *known.by_cost()[:2]]
    is_held = leader is not None and len(known.fresh(leader)) >= FRESH and known.limits(leader) is Limits.HELD
    if is_held and len(known.contenders()) < 2:
        wanted = [wanted[0], *doubted] if doubted else []
    # Of a round with a single process nobody knows whether the machine was slower or the process.
    return list(dict.fromkeys([*wanted, *known.nearest()]))[:SHORTLIST] if wanted else []


def _told(known: Known, place: int, best: int, runner_up: int | None) -> Told:
    if place in known.refused:
        return Told(place, Fate.REFUSED, why=known.refused[place])
    above, errors = known.cost.against(best)
    half = 1.96 * float(errors[place])
    ratio = _exponentials(float(above[place]), float(above[place]) - half, float(above[place]) + half)
    fresh = known.fresh(place)
    of_limit = tuple(
        _exponentials(*_interval([reading.excess[number] for reading in fresh]))
        if len(fresh) >= FRESH
        else _exponentials(float(m := one.middle[place]), m - SURE * one.errors[place], m + SURE * one.errors[place])
        for number, one in enumerate(known.excess)
    )
    processes = sum(candidate == place for _, _, candidate, _ in known.seen)
    return Told(place, _fate(known, place, best, runner_up), processes, ratio, of_limit)


def _fate(known: Known, place: int, best: int, runner_up: int | None) -> Fate:
    above, errors = known.cost.against(best)
    if place == best:
        return Fate.BEST
    if place == runner_up:
        return Fate.RUNNER_UP
    if known.limits(place) is Limits.BROKEN:
        return Fate.BREAKS_LIMIT
    if above[place] - SURE * errors[place] > -WORTH:
        return Fate.BEATEN
    return Fate.NOT_TOLD_APART if known.limits(place) is Limits.HELD or not known.excess else Fate.LIMIT_NOT_TOLD


def _interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of one value a process between the ends of its interval."""
    array = np.asarray(values, dtype=np.float64)
    middle = float(array.mean())
    if array.size < 2:
        return middle, -inf, inf
    half = student_t.quantile(LIMIT_CONFIDENCE, array.size - 1) * float(array.std(ddof=1)) / sqrt(array.size)
    return middle, middle - half, middle + half


def _exponentials(middle: float, low: float, high: float) -> tuple[float, float, float]:
    return float(np.exp(middle)), float(np.exp(low)), float(np.exp(min(high, 700.0)))
