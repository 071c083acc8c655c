"""One configuration for several targets: what is measured for it, and which it is, where the truth is known."""

from math import log

import numpy as np

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.verdicts.recommend.candidates import FRESH, Reading, SearchTerms, Step, StepTaken
from enginebench_controller.verdicts.recommend.for_all import ForAll, OnTarget, next_for_all
from enginebench_controller.verdicts.recommend.search import SearchOutcome, next_step

POINTS = [{"engine": engine, "batch": batch} for engine in "abc" for batch in (1.0, 2.0, 4.0, 8.0)]
TERMS = SearchTerms(300.0, limits=1, start_s=1.0)
LIMIT = log(10.0)
A, B, C = range(0, 4), range(4, 8), range(8, 12)


def each(*fastest):
    """What the points of each engine take: batch 1 the least."""
    return tuple(one * factor for one in fastest for factor in (1, 1.1, 1.2, 1.3))


ONE, OTHER = each(2, 8, 3), each(8, 2, 2.6)
"""What each point takes on two targets: a is the best of one, b of the other, and c loses least on both."""


def take(times, step, number, limit=LIMIT, refused=()):
    """Measured, with 1 % of luck."""
    draws = np.random.default_rng([number, len(step.candidates)])
    rounds = []
    for _ in range(step.rounds):
        lucky = {place: log(times[place]) + draws.normal(0, 0.01) for place in step.candidates if place not in refused}
        rounds.append({place: Reading(one, (one - limit,)) for place, one in lucky.items()})
    why = {place: "it crashed" for place in step.candidates if place in refused}
    return StepTaken(step, tuple(rounds), why, 1.8 * step.rounds * len(step.candidates))


def searched(times, limit=LIMIT, refused=(), terms=TERMS):
    """The steps of a target's own search."""
    taken = []
    while isinstance(step := next_step(POINTS, terms, taken), Step):
        taken.append(take(times, step, len(taken), limit, refused))
    return taken


def carried_out(targets, keys=None, limits=(LIMIT, LIMIT), refused=((), ()), terms=TERMS):
    """The answer for targets of which each point takes so long, and the steps that were for all."""
    own = SearchTerms(0.7 * terms.budget_s, terms.limits, start_s=1.0)
    taken = [searched(*one, own) for one in zip(targets, limits, refused, strict=True)]
    begun = [len(one) for one in taken]

    def known():
        return [
            OnTarget(POINTS, names, terms, one)
            for names, one in zip(keys or (range(12), range(12)), taken, strict=True)
        ]

    while not isinstance(told := next_for_all(known()), ForAll):
        for number, step in told.items():
            assert step.purpose is StepPurpose.FOR_ALL
            own_steps = taken[number]
            own_steps.append(take(targets[number], step, len(own_steps), limits[number], refused[number]))
    return told, [one[count:] for one, count in zip(taken, begun, strict=True)]


def test_it_is_the_one_whose_worst_loss_is_least_with_the_loss_on_each() -> None:
    found, steps = carried_out((ONE, OTHER))
    assert (found.outcome, found.places) == (SearchOutcome.FOUND, (8, 8))
    assert [round(ratio[0], 1) for ratio in found.ratios] == [1.5, 1.3]
    assert all(sum(8 in one.step.candidates for one in of_one) >= 1 for of_one in steps), "it was nobody's own best"


def test_what_is_for_all_ran_in_fresh_processes_beside_the_own_best() -> None:
    _, (of_one, of_other) = carried_out((ONE, OTHER))
    assert {0} <= set(of_one[0].step.candidates)
    assert {4} <= set(of_other[0].step.candidates)
    assert of_one[0].step.rounds >= FRESH - 1


def test_where_all_have_the_same_best_nothing_more_is_measured() -> None:
    found, steps = carried_out((ONE, ONE))
    assert (found.outcome, found.places) == (SearchOutcome.FOUND, (0, 0))
    assert steps == [[], []]
    assert all(ratio[0] == 1 for ratio in found.ratios)


def test_a_limit_that_no_point_holds_on_all_is_an_answer() -> None:
    found, _ = carried_out((each(2, 8, 8), each(8, 2, 8)), limits=(log(4.0), log(4.0)))
    assert (found.outcome, found.places) == (SearchOutcome.NOTHING, ())


def test_where_one_target_has_nothing_there_is_nothing_for_all() -> None:
    found, _ = carried_out((ONE, OTHER), limits=(LIMIT, log(0.5)))
    assert found.outcome is SearchOutcome.NOTHING


def test_what_crashes_on_one_is_not_for_all() -> None:
    found, _ = carried_out((ONE, OTHER), refused=((), C))
    assert found.outcome is SearchOutcome.FOUND
    assert found.places[0] not in C


def test_points_are_the_same_by_what_they_are_and_not_by_their_place() -> None:
    turned = (*OTHER[4:], *OTHER[:4])
    found, _ = carried_out((ONE, turned), keys=(range(12), (*B, *C, *A)))
    assert found.places == (8, 4)


def test_without_a_limit_it_is_the_best_of_those_that_ran_on_all_and_else_it_cannot_tell() -> None:
    free = SearchTerms(300.0, limits=0, start_s=1.0)

    def at(*places: int) -> StepTaken:
        return take(ONE, Step(StepPurpose.LOOK, places, 1, 1.0), 0)

    def told(of_one: StepTaken, of_other: StepTaken) -> ForAll:
        found = next_for_all([OnTarget(POINTS, range(12), free, [one]) for one in (of_one, of_other)], has_time=False)
        assert isinstance(found, ForAll)
        return found

    found = told(at(1, 5), at(5, 9))
    assert (found.outcome, found.places, found.lacking) == (SearchOutcome.FOUND, (5, 5), (0, 1))
    assert told(at(0, 1), at(4, 5)).outcome is SearchOutcome.CANNOT_TELL


def test_without_time_it_cannot_tell() -> None:
    own = SearchTerms(0.7 * TERMS.budget_s, 1, start_s=1.0)
    targets = [OnTarget(POINTS, range(12), TERMS, searched(times, terms=own)) for times in (ONE, OTHER)]
    found = next_for_all(targets, has_time=False)
    assert isinstance(found, ForAll)
    assert (found.outcome, found.places) == (SearchOutcome.CANNOT_TELL, (8, 8))
