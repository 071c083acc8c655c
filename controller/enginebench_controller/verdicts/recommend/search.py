"""What to measure next while looking for the best of many configurations, and what is to be said in the end.

A pure function of the space, the terms and the steps so far: the same results lead to the same step, so a search that
was interrupted goes on by asking again. It begins broad and short; `stats.response` then says which can still win, and
those race in rounds until they are beaten beyond noise; what wins is measured again in fresh processes, with whatever
comes next to it, and only these say whether a limit is held.

Why not Optuna, SMAC or irace: their trials are single values, and what tells two configurations apart here is that they
were alive in the same round; successive halving (irace, too) drops by rank alone, without what its likes already tell.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, inf

import numpy as np

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.stats.response import Axes, spread_out
from enginebench_controller.verdicts.recommend.candidates import (
    FAR,
    FRESH,
    SURE,
    WORTH,
    Known,
    Limits,
    LimitShare,
    SearchTerms,
    Step,
    StepTaken,
    exponentials,
    interval,
    shares_of_limit,
)
from enginebench_controller.verdicts.recommend.rates import Kept, RatedCandidate, RateFound, least_rate_s, next_rate

CONFIRM_SHARE = 0.4
"""Of the budget, for the last stage."""
CLOSED_SHARE = 0.5
"""Of the budget, for the closed loops from which rates are sought."""
SHORTLIST = 3
"""So many are measured again: the best, what comes next, and one that holds the limit more surely."""
FIRST_LOOK = 8
"""So many at most before it is known how long starting engines takes: of a round that is cut off nothing is left."""
BESIDE_COMPARED = 3
"""So many others there must be time to look at, where one of each version runs for its outputs."""
MOST_ROUNDS = 4
"""Of one step: afterwards it is looked who is still in."""


class Fate(StrEnum):
    """What became of a candidate. In place of the best stands one that may hold the limits, or the nearest to them.

    Not tried is what never ran and may be the best for all that its likes say, and what is of an engine tried in vain.
    """

    BEST = "best"
    BEST_IF_HELD = "best_if_held"
    NEAREST = "nearest"
    RUNNER_UP = "runner_up"
    BEATEN = "beaten"
    BREAKS_LIMIT = "breaks_limit"
    LIMIT_NOT_TOLD = "limit_not_told"
    NOT_TOLD_APART = "not_told_apart"
    REFUSED = "refused"
    NOT_TRIED = "not_tried"


@dataclass(frozen=True)
class CandidateTold:
    """What is said of a candidate: its cost ÷ that of the best, and each limited figure ÷ its limit, with intervals.

    `processes` is 0 of one that was never measured, whose figures are what its likes say.
    """

    candidate: int
    fate: Fate
    processes: int = 0
    ratio: tuple[float, float, float] | None = None
    of_limit: tuple[LimitShare, ...] = ()
    why: str = ""


class SearchOutcome(StrEnum):
    """What a search comes to: one that holds its limits; one that may; none does; or it was broken off."""

    FOUND = "found"
    CANNOT_TELL = "cannot_tell"
    NOTHING = "nothing"
    UNCONFIRMED = "unconfirmed"


@dataclass(frozen=True)
class SearchAnswer:
    """What is to be said. `best` is the nearest where nothing holds the limits; None where none could be measured.

    `slow_rounds`, by their numbers, took all that were alive in them longer: of one alone nobody knows what it was.
    """

    outcome: SearchOutcome
    best: int | None
    runner_up: int | None
    told: tuple[CandidateTold, ...]
    rounds: int
    slow_rounds: frozenset[int]
    noise: float
    rate: RateFound | None = None


def least_budget_s(candidates: int, terms: SearchTerms) -> float:
    """The seconds below which a search tells nothing: a look at a few, and fresh processes of two."""
    if terms.rate is not None:
        return max(least_budget_s(candidates, replace(terms, rate=None)), least_rate_s(terms.rate)) / CLOSED_SHARE
    compared = len(terms.compared)
    looks = max(min(candidates, 6), compared + min(candidates - compared, BESIDE_COMPARED) if compared else 0)
    confirmed = min(candidates, 2) * FRESH
    return (looks if candidates > 1 else 0) * (terms.start_s + terms.look_s) + confirmed * (
        terms.start_s + terms.confirm_s
    )


def next_step(space: Sequence[Axes], terms: SearchTerms, taken: Sequence[StepTaken]) -> Step | SearchAnswer:
    """The next step, or the answer once there is no time for another, or none is needed.

    Where a rate is sought, closed loops come first: what is fastest there within the limits takes most.
    """
    if terms.rate is None:
        return _next(space, terms, taken)
    closed_terms, closed = _closed(terms, taken)
    told = _next(space, closed_terms, closed)
    return told if isinstance(told, Step) else _at_rates(space, terms, taken, told)


def answer(
    space: Sequence[Axes], terms: SearchTerms, taken: Sequence[StepTaken], *, broken_off: bool = False
) -> SearchAnswer:
    """What is to be said after these steps; of a search that was `broken_off` the best so far, unconfirmed."""
    if terms.rate is None:
        return _answer(space, terms, taken, broken_off=broken_off)
    closed_terms, closed = _closed(terms, taken)
    told = _answer(space, closed_terms, closed, broken_off=broken_off)
    at_rates = _at_rates(space, terms, taken, told, has_time=False)
    return at_rates if isinstance(at_rates, SearchAnswer) else told


def _closed(terms: SearchTerms, taken: Sequence[StepTaken]) -> tuple[SearchTerms, list[StepTaken]]:
    """The terms and the steps of the closed loops alone."""
    steps = [one for one in taken if one.step.purpose is not StepPurpose.RATE]
    return replace(terms, budget_s=CLOSED_SHARE * terms.budget_s, rate=None), steps


def _at_rates(
    space: Sequence[Axes],
    terms: SearchTerms,
    taken: Sequence[StepTaken],
    told: SearchAnswer,
    *,
    has_time: bool = True,
) -> Step | SearchAnswer:
    """What to measure at which rate after what closed loops have `told`, or what there is to say then."""
    closed_terms, closed = _closed(terms, taken)
    if terms.rate is None or told.best is None or told.outcome is SearchOutcome.NOTHING:
        return told  # what breaks a limit one request after the other holds it at no rate
    known = Known(space, closed_terms, closed)
    places = list(dict.fromkeys([told.best, known.cheapest(known.measured)]))
    rivals = [_rival(known, one) for one in places]
    substitutes = [_rival(known, one) for one in known.by_cost() if one not in places]
    left_s = terms.budget_s - sum(one.seconds for one in closed) if has_time else 0.0
    at_rates = [one for one in taken if one.step.purpose is StepPurpose.RATE]
    found = next_rate(rivals, terms.rate, left_s, at_rates, substitutes)
    if isinstance(found, Step):
        return found
    outcome = told.outcome if told.outcome is SearchOutcome.UNCONFIRMED else _OF_KEPT[found.kept]
    steps = [*closed, *_refusals(at_rates, found)]
    if any(found.candidate in one.wrong for one in at_rates):  # as all are that were fit to be deployed
        return _answer(space, closed_terms, steps, broken_off=not has_time)
    return replace(_answer(space, closed_terms, steps, named=(outcome, found.candidate)), rate=found)


def _refusals(at_rates: Sequence[StepTaken], found: RateFound) -> list[StepTaken]:
    """Of steps at rates no more than who failed and kept up nothing: what is not to be deployed is no next best."""
    wrong = {place for one in at_rates for place in one.wrong}
    kept = {found.candidate, *(one.candidate for one in found.refused if one.held_per_s is not None)} - wrong

    def lost(step: StepTaken) -> dict[int, str]:
        where = f"at {step.step.rate_per_s:g} requests/s"
        return {place: f"{where}: {why}" for place, why in step.refused.items() if place not in kept}

    return [replace(one, rounds=(), refused=lost(one)) for one in at_rates]


_OF_KEPT = {
    Kept.HELD: SearchOutcome.FOUND,
    Kept.CANNOT_TELL: SearchOutcome.CANNOT_TELL,
    Kept.NONE: SearchOutcome.NOTHING,
}


def _rival(known: Known, place: int) -> RatedCandidate:
    """Of a candidate whose cost is the time that an item takes in a closed loop."""
    items_per_s = float(np.exp(-known.cost.middle[place]))
    excess = float(known.excess[0].middle[place]) if known.excess else -inf
    return RatedCandidate(place, items_per_s / float(known.space[place].get("batch", 1.0)), excess)


def _next(space: Sequence[Axes], terms: SearchTerms, taken: Sequence[StepTaken]) -> Step | SearchAnswer:
    known = Known(space, terms, taken)
    if not known.seen:
        if taken and (len(known.gone) == len(space) or known.left_s < known.each_s(StepPurpose.LOOK)):
            return _answer(space, terms, taken)
        return _first(space, terms, known)
    if compare := _compare(known):
        return compare
    if not any(one.step.purpose is StepPurpose.CONFIRM for one in taken):
        spare_s = known.left_s - CONFIRM_SHARE * terms.budget_s
        if race := _race(known, int(spare_s / known.each_s(StepPurpose.RACE))):
            return race
    return _confirm(known) or _answer(space, terms, taken)


def _answer(
    space: Sequence[Axes],
    terms: SearchTerms,
    taken: Sequence[StepTaken],
    *,
    broken_off: bool = False,
    named: tuple[SearchOutcome, int] | None = None,
) -> SearchAnswer:
    """What these steps tell. Outcome and best are those `named`, where that was decided by something else."""
    known = Known(space, terms, taken)
    if not known.seen:
        told = tuple(_gone(known, place) for place in sorted(known.gone))
        none = SearchOutcome.UNCONFIRMED if broken_off else SearchOutcome.NOTHING
        return SearchAnswer(none, None, None, told, 0, frozenset(), 0.0)
    held = [one for one in known.measured if known.limits(one) is Limits.HELD]
    open_ = [one for one in known.measured if known.limits(one) is Limits.CANNOT_TELL]
    if held and not broken_off:
        outcome, best = SearchOutcome.FOUND, known.cheapest(held)
    elif held or open_:
        outcome = SearchOutcome.UNCONFIRMED if broken_off else SearchOutcome.CANNOT_TELL
        # Of one that never ran more may be expected, but it has no figure to be told by.
        likely = (one for one in known.promising() if one in open_)
        best = known.cheapest(held) if held else next(likely, known.cheapest(open_))
    else:
        best = known.nearest()[0]
        is_sure = len(known.telling(best)) >= FRESH or known.least_excess(best) > FAR
        outcome = (
            SearchOutcome.UNCONFIRMED if broken_off else SearchOutcome.NOTHING if is_sure else SearchOutcome.CANNOT_TELL
        )
    outcome, best = named or (outcome, best)
    rivals = [one for one in (known.by_cost() or known.nearest()) if one != best]
    runner_up = _runner_up(known, best, rivals)
    told = tuple(_told(known, place, best, runner_up) for place in range(len(space)))
    told = tuple(
        replace(one, fate=_fate_of_best(known, outcome, best)) if one.candidate == best else one for one in told
    )
    return SearchAnswer(outcome, best, runner_up, told, known.round_count, known.slow_for_all, known.cost.noise)


def _runner_up(known: Known, best: int, rivals: Sequence[int]) -> int | None:
    """Of the rivals by their cost, one that may be as good as the best, of these one with fresh processes."""
    above, errors = known.cost.against(best)
    open_ = [one for one in rivals if above[one] - SURE * errors[one] <= WORTH]
    fresh = [one for one in open_ or rivals if known.telling(one)]
    return next(iter(fresh or open_ or rivals), None)


def _first(space: Sequence[Axes], terms: SearchTerms, known: Known) -> Step:
    """A look at a few that tell most, of no more than half the time before the last stage."""
    places = known.living
    affordable = int((known.left_s - CONFIRM_SHARE * terms.budget_s) / known.each_s(StepPurpose.LOOK))
    count = min(FIRST_LOOK, max(3, affordable // 2))
    wanted = dict.fromkeys([*terms.compared, *terms.first])
    given = [places.index(one) for one in wanted if one in places]
    work = [terms.work[one] for one in places] if terms.work else []
    chosen = spread_out([space[one] for one in places], min(count, terms.together), given, work)
    return Step(StepPurpose.LOOK, tuple(places[one] for one in chosen), 1, terms.look_s)


def _compare(known: Known) -> Step | None:
    """Those whose outputs are to be compared and that did not run yet."""
    ran = {place for one in known.taken for each in one.rounds for place in each}  # not all of a step that broke off
    lacking = [one for one in known.terms.compared if one not in ran and one not in known.gone]
    if not lacking or known.left_s < known.each_s(StepPurpose.LOOK):
        return None
    return Step(StepPurpose.LOOK, tuple(lacking[: min(FIRST_LOOK, known.terms.together)]), 1, known.terms.look_s)


def _race(known: Known, affordable: int) -> Step | None:
    """A round or more of those of which most is to be expected: ever fewer, as the time runs out."""
    contenders = known.promising()
    if affordable < 3 or len(contenders) <= SHORTLIST or known.least_excess(contenders[0]) > FAR:
        return None
    size = min(len(contenders), known.terms.together, max(4, ceil(affordable / 3)), affordable)
    rounds = max(1, min(MOST_ROUNDS, affordable // (2 * size)))
    unseen = sum(one not in known.measured for one in contenders[:size])
    purpose = StepPurpose.LOOK if 2 * unseen > size else StepPurpose.RACE
    return Step(purpose, tuple(contenders[:size]), 1 if unseen else rounds, known.terms.look_s)


def _confirm(known: Known) -> Step | None:
    """Fresh processes of the shortlist; None where they are not needed any more, or there is no time for them."""
    places = _shortlist(known)
    if not places:
        return None
    affordable = int(known.left_s / known.each_s(StepPurpose.CONFIRM) + 0.1)
    kept = _kept(known, places)
    most = known.terms.together
    while len(places) > 1 and (len(places) > most or affordable < len(places) * max(_lacking(known, places), 1)):
        places.remove(next(one for one in reversed(places) if one != kept))
    lacking = _lacking(known, places)
    if len(places) == 1 and not lacking and known.limits(kept) is Limits.HELD:
        return _glance(known)
    rounds = min(max(lacking, MOST_ROUNDS), affordable // len(places))
    if rounds < 1:
        return None
    return Step(StepPurpose.CONFIRM, tuple(places), rounds, known.terms.confirm_s)


def _lacking(known: Known, places: Sequence[int]) -> int:
    """How many rounds more some of these need until each has enough fresh processes."""
    return max(max(0, FRESH - len(known.telling(one))) for one in places)


def _glance(known: Known) -> Step | None:
    """A look at what nobody has seen and may be better, once the leader is confirmed and there is no time for another.

    But time must be left to confirm what is seen then: one process of many may be lucky.
    """
    unseen = [one for one in known.promising() if one not in known.measured]
    spare_s = known.left_s - FRESH * known.each_s(StepPurpose.CONFIRM)
    count = min(len(unseen), known.terms.together, int(spare_s / known.each_s(StepPurpose.LOOK)))
    return Step(StepPurpose.LOOK, tuple(unseen[:count]), 1, known.terms.look_s) if count > 0 else None


def _kept(known: Known, places: Sequence[int]) -> int:
    """Who of the shortlist goes last where there is no time for all: the leader, as long as it may still be confirmed.

    One that may break a limit all the same gives way, after one turn, or two where that is hardly to be believed, to
    the best of those that surely hold them: to tell nothing is of less use.
    """
    leader, surely = known.leader(), known.surely()
    turns = sum(one.step.purpose is StepPurpose.CONFIRM and leader in one.step.candidates for one in known.taken)
    if leader is None or turns < (2 if leader in surely else 1) or known.limits(leader) is Limits.HELD:
        return places[0]
    others = [one for one in surely if one in places and one != leader]
    return known.cheapest(others) if others else places[0]


def _shortlist(known: Known) -> list[int]:
    """Whose fresh processes are still to tell something; none where all is said.

    What seems to break a limit by no more than a slower machine would make of it is looked at as long as there is time.
    """
    leader, doubted = known.leader(), known.doubted()
    if leader is None and not known.contenders():
        nearest = known.nearest()[:SHORTLIST]
        return nearest if doubted or not nearest or len(known.telling(nearest[0])) < FRESH else []
    safest = max(known.measured, key=lambda one: (known.chance[one], -known.cost.middle[one]))
    sure = known.safe()
    # What nobody has looked at may be best, all of it: until the best so far is told, those of which something is known
    # go first. Then it is the others that keep a search from its end.
    is_told = leader is None or len(known.telling(leader)) >= FRESH
    promising = [one for one in known.promising() if is_told or one in known.measured]
    wanted = [*promising[:2], safest if sure is None else sure, *known.by_cost()[:2]]
    is_held = leader is not None and len(known.telling(leader)) >= FRESH and known.limits(leader) is Limits.HELD
    if is_held and len(known.contenders()) < 2:
        wanted = [wanted[0], *doubted] if doubted else []
    # Of a round with a single process nobody knows whether the machine was slower or the process.
    return list(dict.fromkeys([*wanted, *known.nearest()]))[:SHORTLIST] if wanted else []


def _told(known: Known, place: int, best: int, runner_up: int | None) -> CandidateTold:
    if place in known.gone:
        return _gone(known, place)
    above, errors = known.cost.against(best)
    half = 1.96 * float(errors[place])
    ratio = exponentials(float(above[place]), float(above[place]) - half, float(above[place]) + half)
    fresh = known.telling(place)
    of_limit = tuple(
        shares_of_limit(*interval([reading.excess[number] for reading in fresh]))
        if len(fresh) >= FRESH
        else shares_of_limit(float(m := one.middle[place]), m - SURE * one.errors[place], m + SURE * one.errors[place])
        for number, one in enumerate(known.excess)
    )
    processes = sum(candidate == place for _, _, candidate, _ in known.seen)
    fate = _fate(known, place, best, runner_up)
    if not processes and fate in (Fate.NOT_TOLD_APART, Fate.LIMIT_NOT_TOLD):
        fate = Fate.NOT_TRIED
    return CandidateTold(place, fate, processes, ratio, of_limit)


def _gone(known: Known, place: int) -> CandidateTold:
    why = known.refused.get(place)
    return CandidateTold(place, Fate.NOT_TRIED) if why is None else CandidateTold(place, Fate.REFUSED, why=why)


def _fate_of_best(known: Known, outcome: SearchOutcome, best: int) -> Fate:
    is_open = outcome in (SearchOutcome.UNCONFIRMED, SearchOutcome.CANNOT_TELL)
    if outcome is SearchOutcome.NOTHING or (is_open and known.limits(best) is Limits.BROKEN):
        return Fate.NEAREST
    return Fate.BEST_IF_HELD if outcome is SearchOutcome.CANNOT_TELL else Fate.BEST


def _fate(known: Known, place: int, best: int, runner_up: int | None) -> Fate:
    """Of one that is not the best."""
    if known.limits(place) is Limits.BROKEN:
        return Fate.BREAKS_LIMIT
    above, errors = known.cost.against(best)
    if place != runner_up and above[place] - SURE * errors[place] > -WORTH:
        return Fate.BEATEN
    is_below = all(one.middle[place] + SURE * one.errors[place] < 0 for one in known.excess)
    if known.limits(place) is not Limits.HELD and not is_below:
        return Fate.LIMIT_NOT_TOLD
    return Fate.RUNNER_UP if place == runner_up else Fate.NOT_TOLD_APART
