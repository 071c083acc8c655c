"""The policy of a search: what it asks for next, and what it says, on made-up points whose truth is known."""

import sys
from dataclasses import replace
from itertools import product
from math import log
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[4]))

from benchmarks.recommend_synthetic import CASES, mistakes, searched, space

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.verdicts.recommend.candidates import (
    FRESH,
    Known,
    Limits,
    Reading,
    SearchTerms,
    Step,
    StepTaken,
)
from enginebench_controller.verdicts.recommend.search import Fate, SearchOutcome, answer, least_budget_s, next_step

POINTS = [
    {"engine": engine, "batch": batch, "cores": cores}
    for engine, batch, cores in product("ab", (1.0, 2.0, 4.0, 8.0), (1.0, 2.0))
]
TERMS = SearchTerms(budget_s=240.0, limits=1, start_s=1.0, look_s=0.5)
EACH_S = 1.5


def cost(place):
    one = POINTS[place]
    return (0.3 if one["engine"] == "b" else 0.0) - 0.2 * log(one["batch"]) - 0.6 * log(one["cores"])


def excess(place, limit=0.0):
    return cost(place) + log(POINTS[place]["batch"]) - limit


def luck(place, number):
    """Of a process: 2 %, the same every time."""
    return np.random.default_rng([place, number, 7]).normal(0, 0.02)


def take(step, limit=0.0, refused=(), begun=0):
    """Measured, with a little noise."""
    rounds = tuple(
        {
            place: Reading(cost(place) + wobble, (excess(place, limit) + wobble,))
            for place in step.candidates
            if place not in refused
            for wobble in [luck(place, number)]
        }
        for number in range(begun, begun + step.rounds)
    )
    why = {place: "it crashed" for place in step.candidates if place in refused}
    return StepTaken(step, rounds, why, EACH_S * len(step.candidates) * step.rounds)


def carried_out(terms=TERMS, limit=0.0, refused=()):
    taken = []
    while isinstance(step := next_step(POINTS, terms, taken), Step):
        taken.append(take(step, limit, refused, sum(one.step.rounds for one in taken)))
    return taken, step


def best_within(limit):
    able = [place for place in range(len(POINTS)) if excess(place, limit) <= -0.1]
    return min(able, key=cost)


def test_the_next_best_is_one_that_may_be_as_good_and_not_what_was_measured_in_vain() -> None:
    space = [{"batch": 1.0}, {"batch": 2.0}, {"batch": 4.0}]
    wobble = [0.01, -0.01, 0.02, -0.02, 0.0]
    looked = StepTaken(
        Step(StepPurpose.LOOK, (0, 1), 2, 0.5),
        tuple({0: Reading(one, ()), 1: Reading(0.02 - one, ())} for one in wobble[:2]),
        {},
        4.0,
    )
    confirmed = StepTaken(
        Step(StepPurpose.CONFIRM, (0, 2), 5, 1.0),
        tuple({0: Reading(one, ()), 2: Reading(1.4 - one, ())} for one in wobble),
        {},
        20.0,
    )
    told = answer(space, SearchTerms(budget_s=30.0, limits=0, start_s=1.0, look_s=0.5), [looked, confirmed])
    assert (told.outcome, told.best, told.runner_up) == (SearchOutcome.FOUND, 0, 1)


def test_the_best_that_holds_the_limit_is_found_and_confirmed_in_fresh_processes() -> None:
    taken, found = carried_out(limit=1.0)
    assert (found.outcome, found.best) == (SearchOutcome.FOUND, best_within(1.0))
    last = [one for one in taken if one.step.purpose is StepPurpose.CONFIRM]
    assert sum(one.step.rounds for one in last if found.best in one.step.candidates) >= FRESH
    assert all(found.runner_up in one.step.candidates for one in last[:1]), "the next best is measured again, too"
    told = found.told[found.best]
    assert told.fate is Fate.BEST
    assert told.of_limit[0][2] < 1, "the upper end of the interval is what holds a limit"


def test_the_last_time_is_for_what_surely_holds_the_limit_where_the_best_was_looked_at_afresh_and_may_not() -> None:
    space = [{"batch": 1.0}, {"batch": 2.0}]
    wobble = [0.01, -0.01, 0.02, -0.02, 0.0]
    looked = StepTaken(
        Step(StepPurpose.LOOK, (0, 1), 2, 0.5),
        tuple({0: Reading(one, (one - 0.1,)), 1: Reading(0.02 - one, (one - 2.0,))} for one in wobble[:2]),
        {},
        6.0,
    )
    confirmed = StepTaken(
        Step(StepPurpose.CONFIRM, (0,), 5, 0.5), tuple({0: Reading(one, (10 * one - 0.1,))} for one in wobble), {}, 7.5
    )
    terms = SearchTerms(budget_s=34.5, limits=1, start_s=1.0, look_s=0.5, confirm_s=0.5)
    asked = next_step(space, terms, [looked, confirmed, confirmed])
    assert isinstance(asked, Step) and (asked.purpose, asked.candidates) == (StepPurpose.CONFIRM, (1,))
    told = answer(space, terms, [looked, confirmed, confirmed, take(asked)])
    assert (told.outcome, told.best) == (SearchOutcome.FOUND, 1)


def test_what_breaks_the_limit_or_is_beaten_is_told_with_its_figures() -> None:
    _, found = carried_out(limit=1.0)
    fates = {one.candidate: one for one in found.told}
    fastest = min(range(len(POINTS)), key=cost)
    assert fates[fastest].fate is Fate.BREAKS_LIMIT
    assert fates[fastest].of_limit[0][1] > 1
    slowest = max(range(len(POINTS)), key=cost)
    assert fates[slowest].fate is Fate.BEATEN
    assert fates[slowest].ratio[1] > 1


def test_of_what_lies_below_its_limit_by_a_few_processes_it_is_not_said_that_it_may_break_it() -> None:
    _, found = carried_out(replace(TERMS, budget_s=20), limit=1.2)
    untold = [one for one in found.told if one.fate is Fate.LIMIT_NOT_TOLD]
    assert untold and all(one.of_limit[0][2] > 1 for one in untold)


@pytest.mark.parametrize("budget_s", [30, 36, 42, 50])
def test_a_leader_that_is_confirmed_is_not_measured_alone_again(budget_s: float) -> None:
    taken, found = carried_out(replace(TERMS, limits=0, budget_s=budget_s))
    alone = [one.step for one in taken if one.step.purpose is StepPurpose.CONFIRM and len(one.step.candidates) == 1]
    assert sum(one.rounds for one in alone if one.candidates == (found.best,)) <= FRESH


def test_what_never_ran_and_may_be_better_is_neither_beaten_nor_compared() -> None:
    _, found = carried_out(replace(TERMS, budget_s=20), limit=1.2)
    never = [one for one in found.told if not one.processes]
    open_ = [one for one in never if one.fate is Fate.NOT_TRIED]
    assert open_ and all(one.ratio[1] < 1 for one in open_)
    assert {one.fate for one in never} <= {Fate.NOT_TRIED, Fate.BEATEN, Fate.BREAKS_LIMIT}


def test_nothing_meets_it_names_the_nearest_that_was_measured_again() -> None:
    taken, found = carried_out(limit=-1.5)
    assert found.outcome is SearchOutcome.NOTHING
    assert found.best == min(range(len(POINTS)), key=excess)
    assert any(one.step.purpose is StepPurpose.CONFIRM and found.best in one.step.candidates for one in taken)
    assert found.told[found.best].fate is Fate.NEAREST
    assert Fate.RUNNER_UP not in {one.fate for one in found.told}, "it breaks the limit as well"


def test_at_the_edge_it_cannot_tell_and_does_not_say_held() -> None:
    nearest = min(range(len(POINTS)), key=excess)
    _, found = carried_out(limit=excess(nearest) + 0.001)
    assert found.outcome is SearchOutcome.CANNOT_TELL
    assert found.best == nearest
    assert found.told[nearest].fate is Fate.BEST_IF_HELD


def test_a_runner_up_whose_limit_cannot_be_told_says_so() -> None:
    fastest = min(range(len(POINTS)), key=cost)
    _, found = carried_out(limit=excess(fastest) + 0.001)
    assert found.outcome is SearchOutcome.FOUND
    assert found.told[fastest].fate is Fate.LIMIT_NOT_TOLD


def test_the_same_results_lead_to_the_same_steps_so_that_a_search_goes_on_where_it_was() -> None:
    taken, found = carried_out(limit=1.0)
    for number in range(len(taken)):
        assert next_step(POINTS, TERMS, taken[:number]) == taken[number].step
    assert next_step(POINTS, TERMS, taken) == found


def test_it_begins_broad_and_keeps_ever_fewer() -> None:
    taken, _ = carried_out(limit=1.0)
    sizes = [len(one.step.candidates) for one in taken]
    assert {POINTS[place]["engine"] for place in taken[0].step.candidates} == {"a", "b"}
    assert sizes[0] >= len(POINTS) / 2
    assert sizes[-1] <= 3
    assert sum(one.seconds for one in taken) <= TERMS.budget_s


def test_fresh_processes_are_for_what_was_looked_at_until_the_best_so_far_is_told() -> None:
    """Of the others more may be expected, but each is one of many: rounds of the last stage are too dear for looks."""
    looked = take(Step(StepPurpose.LOOK, (0, 2, 8), 1, 0.5), limit=2.0)
    confirmed = take(Step(StepPurpose.CONFIRM, (2,), FRESH - 1, 1.0), limit=2.0, begun=1)
    step = next_step(POINTS, TERMS, [looked, confirmed])
    assert isinstance(step, Step)
    assert set(step.candidates) <= {0, 2, 8}


def test_a_small_space_without_limits_is_told_long_before_the_budget_ends() -> None:
    """Also where one was never looked at, as more were to be than a first look holds."""
    space = [{"engine": engine, "batch": batch} for engine, batch in product("abc", (1.0, 4.0, 8.0))]
    terms = SearchTerms(budget_s=240.0, limits=0, start_s=1.0, look_s=0.5)
    taken = []
    while isinstance(step := next_step(space, terms, taken), Step):
        rounds = tuple(
            {place: Reading(0.1 * place + luck(place, 100 * len(taken) + number), ()) for place in step.candidates}
            for number in range(step.rounds)
        )
        taken.append(StepTaken(step, rounds, {}, EACH_S * len(step.candidates) * step.rounds))
    assert step.outcome is SearchOutcome.FOUND and step.best == 0
    assert sum(one.seconds for one in taken) < terms.budget_s / 2


def test_who_is_refused_never_comes_again_and_the_reason_is_told() -> None:
    best = best_within(1.0)
    taken, found = carried_out(limit=1.0, refused=(best,))
    assert sum(best in one.step.candidates for one in taken) <= 1
    assert found.best != best
    assert (found.told[best].fate, found.told[best].why) == (Fate.REFUSED, "it crashed")


def test_where_all_are_refused_there_is_nothing() -> None:
    taken, found = carried_out(refused=range(len(POINTS)))
    assert (found.outcome, found.best) == (SearchOutcome.NOTHING, None)
    assert {one.why for one in found.told if one.fate is Fate.REFUSED} == {"it crashed"}
    assert taken


OF_B = {place for place, one in enumerate(POINTS) if one["engine"] == "b"}
LEAST_OF_B = next(place for place in OF_B if (POINTS[place]["batch"], POINTS[place]["cores"]) == (1, 2))


def test_an_engine_of_which_three_points_failed_and_none_ran_has_one_last_try() -> None:
    taken, found = carried_out(limit=1.0, refused=OF_B)
    tried = {place for step in taken for place in step.step.candidates} & OF_B
    ran = taken[0].step.candidates
    assert LEAST_OF_B in tried
    assert len(tried) <= max(3, len(OF_B & set(ran))) + 1
    assert {one.candidate for one in found.told if one.fate is Fate.NOT_TRIED} == OF_B - tried
    taken, _ = carried_out(limit=1.0, refused=OF_B - {next(place for place in ran if place in OF_B)})
    assert {place for step in taken for place in step.step.candidates} & OF_B > tried & set(ran)


def test_what_asks_least_is_tried_though_three_larger_ones_were_too_much_and_if_it_runs_so_are_all() -> None:
    large = sorted(place for place in OF_B if POINTS[place]["batch"] > 1)
    taken = [take(Step(StepPurpose.LOOK, (0, *large[:3]), 1, 0.5), refused=large)]
    assert Known(POINTS, TERMS, taken).gone == OF_B - {LEAST_OF_B}
    taken.append(take(Step(StepPurpose.LOOK, (0, LEAST_OF_B), 1, 0.5), refused=large))
    assert Known(POINTS, TERMS, taken).gone == set(large[:3])


def test_with_more_cores_it_is_tried_once_more_what_took_too_long_with_one() -> None:
    tries = ((1.0, 1.0, "none"), (1.0, 1.0, "latency"), (1.0, 8.0, "none"), (1.0, 8.0, "latency"), (2.0, 1.0, "none"))
    space = [{"engine": "a", "batch": batch, "cores": cores, "hint": hint} for batch, cores, hint in tries]
    failed = dict.fromkeys((0, 1, 4), "it did not finish in time")
    taken = StepTaken(Step(StepPurpose.LOOK, tuple(failed), 1, 0.5), ({},), failed, 5.0)
    assert Known(space, TERMS, [taken]).gone == {0, 1, 3, 4}


def test_fewer_streams_are_tried_though_three_points_with_more_were_too_much() -> None:
    space = [{"engine": "a", "batch": 1.0, "streams": float(streams)} for streams in (1, 4, 8, 16, 32)]
    taken = StepTaken(Step(StepPurpose.LOOK, (1, 2, 3), 1, 0.5), ({},), dict.fromkeys((1, 2, 3), "no memory"), 5.0)
    assert Known(space, TERMS, [taken]).gone == {1, 2, 3, 4}


def test_broken_off_it_tells_the_best_so_far_as_unconfirmed() -> None:
    taken, _ = carried_out(limit=1.0)
    found = answer(POINTS, TERMS, taken[:1], broken_off=True)
    assert found.outcome is SearchOutcome.UNCONFIRMED
    assert found.best is not None


@pytest.mark.parametrize("broken_off", [True, False])
def test_the_best_that_may_hold_the_limit_is_one_that_ran(broken_off: bool) -> None:
    """Though of one that never ran more is to be expected: all that ran rather break the limit, by a little."""
    looked = take(Step(StepPurpose.LOOK, (3, 5, 7), 1, 0.5), limit=0.059)
    terms = replace(TERMS, budget_s=looked.seconds)
    known = Known(POINTS, terms, [looked])
    assert known.leader() is None and known.promising()[0] not in known.measured
    found = answer(POINTS, terms, [looked], broken_off=broken_off)
    assert found.outcome is (SearchOutcome.UNCONFIRMED if broken_off else SearchOutcome.CANNOT_TELL)
    assert found.told[found.best].processes > 0


@pytest.mark.parametrize("together", [1, 2])
def test_no_more_are_alive_in_any_step_than_fit(together: int) -> None:
    taken, found = carried_out(replace(TERMS, together=together), limit=1.0)
    assert any(one.step.purpose is StepPurpose.CONFIRM for one in taken)
    assert max(len(one.step.candidates) for one in taken) <= together
    assert found.outcome is SearchOutcome.FOUND


def test_where_few_fit_what_surely_holds_the_limit_has_its_turn_before_what_may_be_better() -> None:
    space = [{"batch": 1.0}, {"batch": 2.0}, {"batch": 4.0}]
    wobble = [0.01, -0.01, 0.02, -0.02, 0.0]
    near = tuple({0: Reading(one, (one - 0.01,)), 1: Reading(-one, (-one - 0.01,))} for one in wobble)
    looked = tuple(one | {2: Reading(0.05, (-2.0,))} for one in near[:2])
    taken = [
        StepTaken(Step(StepPurpose.LOOK, (0, 1, 2), 2, 0.5), looked, {}, 9.0),
        *[StepTaken(Step(StepPurpose.CONFIRM, (0, 1), 5, 0.5), near, {}, 15.0)] * 2,
    ]
    asked = next_step(space, replace(TERMS, together=2), taken)
    assert isinstance(asked, Step)
    assert asked.purpose is StepPurpose.CONFIRM and len(asked.candidates) == 2 and 2 in asked.candidates


def test_a_lone_point_is_only_confirmed() -> None:
    step = next_step(POINTS[:1], TERMS, [])
    taken = []
    while isinstance(step, Step):
        taken.append(take(step, 2.0, begun=100 * len(taken)))
        step = next_step(POINTS[:1], TERMS, taken)
    assert (step.outcome, step.best, step.runner_up) == (SearchOutcome.FOUND, 0, None)


def test_the_least_budget_is_enough_for_an_answer() -> None:
    least = least_budget_s(len(POINTS), TERMS)
    _, found = carried_out(SearchTerms(least, limits=1, start_s=1.0, look_s=0.5), limit=1.0)
    assert found.outcome in (SearchOutcome.FOUND, SearchOutcome.CANNOT_TELL)


@pytest.mark.parametrize("case", CASES)
def test_in_noise_and_spells_it_is_right_nearly_always(case) -> None:
    """A bounded form of docs/evidence/recommend.md: of twelve, one mistake of a kind may be chance, three may not."""
    number = list(CASES).index(case)
    found = []
    for seed in range(12):
        place = space(CASES[case], 900_000 + 1000 * number + seed)
        found.append(mistakes(place, searched(place, seed)[0]))
    for kind in ("worse", "breaks", "nothing"):
        assert sum(one[kind] for one in found) <= 2, kind


def test_a_limit_that_is_held_while_the_machine_is_slower_is_held():
    """Of seven fresh processes three found the machine slower by a quarter, and still took half of the limit."""
    space = [{"engine": "a", "batch": 1.0}, {"engine": "b", "batch": 1.0}]
    moods = (0.0, 0.25, 0.0, 0.25, 0.0, 0.25, 0.0)
    rounds = tuple(
        {0: Reading(mood + wobble, (log(0.5) + mood + wobble,)), 1: Reading(1.0 + mood, (0.5 + mood,))}
        for number, mood in enumerate(moods)
        for wobble in [luck(0, number)]
    )
    taken = [StepTaken(Step(StepPurpose.CONFIRM, (0, 1), len(moods), 1.0), rounds, {}, 240.0)]
    found = answer(space, TERMS, taken)
    assert found.slow_rounds == {1, 3, 5}
    assert found.outcome is SearchOutcome.FOUND
    assert found.best == 0
    assert found.told[0].of_limit[0][2] < 1


def test_those_to_be_compared_run_before_anything_is_decided() -> None:
    terms = SearchTerms(240.0, limits=1, start_s=1.0, look_s=0.5, together=3, compared=(15, 3, 9, 4))
    taken = []
    for _ in range(2):
        step = next_step(POINTS, terms, taken)
        assert step.purpose is StepPurpose.LOOK
        taken.append(take(step, 1.0, begun=100 * len(taken)))
    assert [place for one in taken for place in one.step.candidates][:4] == [15, 3, 9, 4]
    assert least_budget_s(2, terms) >= 4 * (terms.start_s + terms.look_s)


def test_those_to_be_compared_that_were_broken_off_run_once_more() -> None:
    terms = SearchTerms(240.0, limits=1, start_s=1.0, look_s=0.5, together=3, compared=(15, 3, 9, 4))
    first = take(next_step(POINTS, terms, []), 1.0)
    last = next_step(POINTS, terms, [first])
    assert last.candidates == (4,)
    lost = StepTaken(last, (), {}, 5.0)
    assert next_step(POINTS, terms, [first, lost]).candidates == (4,)


def test_whose_variant_is_refused_never_runs() -> None:
    terms = SearchTerms(240.0, limits=1, start_s=1.0, look_s=0.5)
    first = take(next_step(POINTS, terms, []), 1.0)
    others = [place for place in range(len(POINTS)) if place not in first.step.candidates]
    taken = [StepTaken(first.step, first.rounds, dict.fromkeys(others, "too far off"), first.seconds)]
    while isinstance(step := next_step(POINTS, terms, taken), Step):
        assert not set(step.candidates) & set(others)
        taken.append(take(step, 1.0, begun=100 * len(taken)))
    assert {step.told[place].fate for place in others} == {Fate.REFUSED}


def test_a_last_stage_that_ran_out_of_time_leaves_the_best_so_far_and_says_that_nobody_can_tell() -> None:
    taken, found = carried_out(limit=1.0)
    last = next(number for number, one in enumerate(taken) if one.step.purpose is StepPurpose.CONFIRM)
    cut = StepTaken(taken[last].step, (), {}, TERMS.budget_s)
    told = next_step(POINTS, TERMS, [*taken[:last], cut])
    assert (told.outcome, told.best) == (SearchOutcome.CANNOT_TELL, found.best)
    refused = replace(cut, refused=dict.fromkeys(cut.step.candidates, "out of time"))
    assert next_step(POINTS, TERMS, [*taken[:last], refused]).best != found.best, "hence none is refused for that"


@pytest.mark.parametrize(
    ("over", "enough", "limits"), [(-1.0, True, "HELD"), (-1.0, False, "CANNOT_TELL"), (1.0, False, "BROKEN")]
)
def test_processes_with_too_few_inferences_for_the_percentile_may_break_a_limit_but_not_hold_it(
    over: float, enough: bool, limits: str
) -> None:
    fresh = Step(StepPurpose.CONFIRM, (0,), FRESH, 1.0)
    rounds = tuple({0: Reading(1.0, (over + luck(0, number),), enough)} for number in range(FRESH))
    known = Known(POINTS, TERMS, [StepTaken(fresh, rounds, {}, 10.0)])
    assert known.limits(0) is Limits[limits]
