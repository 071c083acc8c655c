"""The most requests a second: which rate is measured next, and what is said, where the truth is known."""

import sys
from dataclasses import replace
from math import log
from pathlib import Path
from statistics import median

import pytest
from pydantic import TypeAdapter

sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.recommend_synthetic import Server, found_rate

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.plan.points import samples_of_limit
from enginebench_controller.plan.recommend import LatencyLimit
from enginebench_controller.verdicts.recommend.candidates import FRESH, RateTerms, Reading, SearchTerms, Step, StepTaken
from enginebench_controller.verdicts.recommend.rates import Kept, RatedCandidate, RateFound, RateRefused, next_rate
from enginebench_controller.verdicts.recommend.search import Fate, SearchOutcome, answer, least_budget_s, next_step

TERMS = RateTerms(start_s=1.0)
SERVER = Server(service_s=0.010, limit_s=0.030)
RIVALS = (SERVER.rival(0),)


def carried_out(rivals=RIVALS, budget_s=150.0, servers=(SERVER,), noise=None):
    """What a search of rates comes to, and its steps."""
    return found_rate(rivals, TERMS, budget_s, servers, noise=noise)


def test_fresh_processes_climb_to_the_highest_rate_that_holds_the_limit() -> None:
    found, taken = carried_out()
    assert (found.kept, found.candidate) == (Kept.HELD, 0)
    assert 0.9 * SERVER.most_per_s < found.rate_per_s <= SERVER.most_per_s < found.breaks_at_per_s
    assert taken[-1].step.rounds == FRESH
    assert taken[-1].step.rate_per_s == found.rate_per_s
    assert found.of_limit[0][2] < 1


def test_a_limit_that_is_broken_at_every_rate_is_told_so() -> None:
    servers = (Server(service_s=0.010, limit_s=0.009),)
    found, _ = carried_out((servers[0].rival(0),), budget_s=300.0, servers=servers)
    assert (found.kept, found.rate_per_s) == (Kept.NONE, None)
    found, _ = carried_out((servers[0].rival(0),), budget_s=100.0, servers=servers)
    assert (found.kept, found.rate_per_s) == (Kept.CANNOT_TELL, None), "lower rates were not looked at"


def test_a_rival_only_has_to_show_that_it_keeps_up_more() -> None:
    slower, faster = Server(0.012, 0.030), Server(0.006, 0.030)
    rivals = (SERVER.rival(0), slower.rival(1))
    found, taken = carried_out(rivals, servers=(SERVER, slower))
    assert found.candidate == 0
    assert sum(one.step.candidates == (1,) for one in taken) <= 2

    rivals = (SERVER.rival(0), faster.rival(1))
    found, _ = carried_out(rivals, 300.0, servers=(SERVER, faster))
    assert (found.kept, found.candidate) == (Kept.HELD, 1)
    assert 0.9 * faster.most_per_s < found.rate_per_s <= faster.most_per_s


def test_a_rate_that_there_was_no_time_to_lower_is_no_sign_that_none_is_kept() -> None:
    look = Step(StepPurpose.RATE, (0,), 2, 10.0, 140.0)
    over = {0: Reading(0.0, (0.3,))}
    rival, terms = RatedCandidate(0, 200.0), RateTerms(samples=20)
    for budget_s, taken in ((40.0, [StepTaken(look, (over, over), {}, 30.0)]), (5.0, [])):
        found = next_rate([rival], terms, budget_s, taken)
        assert (found.kept, found.rate_per_s) == (Kept.CANNOT_TELL, None)


def test_without_time_for_fresh_processes_nothing_is_said_to_hold() -> None:
    found, taken = carried_out(budget_s=20.0)
    assert found.kept is not Kept.HELD
    assert sum(one.seconds for one in taken) <= 21.0


def test_of_a_step_that_was_broken_off_too_few_are_left_to_hold_a_limit() -> None:
    _, taken = carried_out()
    place, fresh = next((place, one) for place, one in enumerate(taken) if one.step.rounds >= FRESH)
    taken = [*taken[:place], replace(fresh, rounds=fresh.rounds[:2])]
    assert next_rate(RIVALS, TERMS, 0.0, taken).kept is Kept.CANNOT_TELL

    while isinstance(found := next_rate(RIVALS, TERMS, 300.0, taken), Step):
        taken.append(SERVER.take(found))
    told = [one.rounds for one in taken if one.step.rounds >= FRESH and one.step.rate_per_s == found.rate_per_s]
    assert found.kept is Kept.HELD
    assert sum(map(len, told)) >= FRESH


def test_a_single_process_beyond_a_limit_may_have_met_a_spell() -> None:
    look = Step(StepPurpose.RATE, (0,), 2, 10.0, 50.0)
    over = ({0: Reading(0.0, (0.1,))},)
    assert next_rate(RIVALS, TERMS, 0.0, [StepTaken(look, over, {}, 10.0)]).breaks_at_per_s is None
    assert next_rate(RIVALS, TERMS, 0.0, [StepTaken(look, over * 2, {}, 20.0)]).breaks_at_per_s == 50.0


def crashed(step):
    return StepTaken(step, (), {step.candidates[0]: "it crashed"}, 5.0)


def test_what_crashes_at_a_rate_is_not_tried_again_and_says_nothing_of_the_limits() -> None:
    step = next_rate(RIVALS, TERMS, 150.0, [])
    found = next_rate(RIVALS, TERMS, 150.0, [crashed(step)])
    assert (found.kept, found.rate_per_s) == (Kept.CANNOT_TELL, None)
    assert found.refused == (RateRefused(0, step.rate_per_s, "it crashed"),)
    broken = RatedCandidate(1, 100.0)
    over = ({1: Reading(0.0, (0.3,))},) * 2
    looks = [StepTaken(Step(StepPurpose.RATE, (1,), 2, 10.0, rate), over, {}, 5.0) for rate in (50.0, 10.0, 1.5)]
    found = next_rate([*RIVALS, broken], TERMS, 150.0, [crashed(step), *looks])
    assert (found.kept, found.candidate) == (Kept.CANNOT_TELL, 0), "who breaks the limit is not all that there is"


def test_where_the_best_crashes_at_a_rate_the_next_one_is_tried_and_so_on_as_long_as_there_is_time() -> None:
    rivals = [SERVER.rival(place) for place in range(3)]
    first = crashed(next_rate(rivals[:1], TERMS, 300.0, [], rivals[1:]))
    assert first.step.candidates == (0,)
    second = crashed(next_rate(rivals[:1], TERMS, 300.0, [first], rivals[1:]))
    assert second.step.candidates == (1,)
    taken = [first, second]
    while isinstance(found := next_rate(rivals[:1], TERMS, 300.0, taken, rivals[1:]), Step):
        assert found.candidates == (2,)
        one = SERVER.take(found)
        taken.append(replace(one, rounds=tuple({2: each[2]} for each in one.rounds)))
    assert (found.kept, found.candidate) == (Kept.HELD, 2)
    assert [(one.candidate, one.why) for one in found.refused] == [(0, "it crashed"), (1, "it crashed")]
    untold = next_rate(rivals[:1], TERMS, 0.0, taken[:1], rivals[1:])
    assert (untold.kept, untold.candidate, untold.rate_per_s) == (Kept.CANNOT_TELL, 1, None)


def test_what_held_a_lower_rate_than_that_at_which_it_crashed_holds_it() -> None:
    found, taken = carried_out()
    higher = Step(StepPurpose.RATE, (0,), FRESH, 3.0, 1.1 * found.rate_per_s)
    told = next_rate(RIVALS, TERMS, 300.0, [*taken, crashed(higher)], [SERVER.rival(1)])
    assert (told.kept, told.rate_per_s) == (Kept.HELD, found.rate_per_s)
    assert told.refused == (RateRefused(0, higher.rate_per_s, "it crashed", found.rate_per_s),)


def test_whose_outputs_are_as_wrong_as_those_of_one_that_ran_at_a_rate_is_not_tried_there() -> None:
    rivals = [SERVER.rival(place) for place in range(3)]
    step = next_rate(rivals[:1], TERMS, 300.0, [], rivals[1:])
    wrong = StepTaken(step, (), {0: "too far off", 1: "too far off"}, 5.0)
    assert next_rate(rivals[:1], TERMS, 300.0, [wrong], rivals[1:]).candidates == (2,)


def wrong(step, *places):
    return StepTaken(step, (), dict.fromkeys(places, "its outputs are wrong"), 5.0, frozenset(places))


def test_whose_outputs_are_wrong_at_a_rate_keeps_up_no_lower_one() -> None:
    found, taken = carried_out()
    higher = wrong(Step(StepPurpose.RATE, (0,), FRESH, 3.0, 1.1 * found.rate_per_s), 0)
    assert next_rate(RIVALS, TERMS, 300.0, [*taken, higher], [SERVER.rival(1)]).candidates == (1,)
    told = next_rate(RIVALS, TERMS, 0.0, [*taken, higher], [SERVER.rival(1)])
    assert (told.kept, told.candidate, told.rate_per_s) == (Kept.CANNOT_TELL, 1, None)
    assert [(one.candidate, one.held_per_s) for one in told.refused] == [(0, None)]
    assert next_rate(RIVALS, TERMS, 300.0, [*taken, higher]).kept is not Kept.HELD


def test_what_was_stored_before_anybody_told_who_failed_is_still_read() -> None:
    stored = {"kept": "held", "candidate": 0, "rate_per_s": 50.0, "breaks_at_per_s": None, "of_limit": []}
    assert TypeAdapter(RateFound).validate_python(stored) == RateFound(Kept.HELD, 0, 50.0)


def test_the_same_results_lead_to_the_same_rates() -> None:
    found, taken = carried_out(noise=0.05)
    for number in range(len(taken)):
        assert next_rate(RIVALS, TERMS, 150.0, taken[:number]) == taken[number].step
    assert next_rate(RIVALS, TERMS, 150.0, taken) == found


POINTS = [{"engine": engine, "batch": 1.0, "cores": cores} for engine in "ab" for cores in (1.0, 2.0)]
SERVERS = [Server(service_s, 0.030) for service_s in (0.012, 0.008, 0.016, 0.010)]
SEARCH = SearchTerms(300.0, limits=1, start_s=1.0, rate=TERMS)


def closed_loop(step, number):
    """Processes of a closed loop, in which no request waits for another."""
    rounds = tuple(
        {
            place: Reading(SERVERS[place].closed_cost + 0.01 * (-1) ** (number + each + place), (-1.0 - each / 100,))
            for place in step.candidates
        }
        for each in range(step.rounds)
    )
    return StepTaken(step, rounds, {}, 2.0 * step.rounds * len(step.candidates))


def carried_out_whole(crashing=()):
    """Closed loops first, then rates, at which some crash."""
    taken = []
    while isinstance(step := next_step(POINTS, SEARCH, taken), Step):
        at_rate = step.purpose is StepPurpose.RATE
        if at_rate and step.candidates[0] in crashing:
            taken.append(crashed(step))
        else:
            taken.append(SERVERS[step.candidates[0]].take(step) if at_rate else closed_loop(step, len(taken)))
    return step, taken


def test_closed_loops_choose_whose_rate_is_sought_and_the_budget_is_for_both() -> None:
    found, taken = carried_out_whole()
    assert (found.outcome, found.best) == (SearchOutcome.FOUND, 1)
    assert 0.85 * SERVERS[1].most_per_s < found.rate.rate_per_s <= SERVERS[1].most_per_s
    purposes = [one.step.purpose is StepPurpose.RATE for one in taken]
    assert purposes == sorted(purposes)
    assert sum(one.seconds for one in taken) <= SEARCH.budget_s


def test_a_best_that_crashes_at_a_rate_gives_way_to_the_next_best_and_the_reason_is_told() -> None:
    found, taken = carried_out_whole({1})
    assert (found.outcome, found.best) == (SearchOutcome.FOUND, 3)
    assert 0.7 * SERVERS[3].most_per_s < found.rate.rate_per_s <= SERVERS[3].most_per_s
    (lost,) = found.rate.refused
    assert (lost.candidate, lost.why, lost.held_per_s) == (1, "it crashed", None)
    told = found.told[1]
    assert (told.fate, told.why) == (Fate.REFUSED, f"at {lost.rate_per_s:g} requests/s: it crashed")
    assert found.runner_up != 1
    assert answer(POINTS, SEARCH, taken) == found


def test_where_all_crash_at_a_rate_nobody_can_tell_and_nothing_is_said_to_break_the_limit() -> None:
    found, _ = carried_out_whole(range(len(POINTS)))
    assert (found.outcome, found.best) == (SearchOutcome.CANNOT_TELL, 1)
    assert found.told[1].fate is Fate.BEST_IF_HELD
    assert {one.candidate for one in found.rate.refused} == set(range(len(POINTS)))


def test_whose_outputs_are_wrong_at_a_higher_rate_is_not_recommended() -> None:
    _, taken = carried_out_whole()
    last = taken[-1].step
    assert last.candidates == (1,)
    taken = [*taken[:-1], wrong(last, 1)]
    found = answer(POINTS, SEARCH, taken)
    assert found.best != 1
    assert found.told[1].fate is Fate.REFUSED
    rest = [wrong(replace(last, candidates=(place,)), place) for place in range(len(POINTS)) if place != 1]
    nothing = answer(POINTS, SEARCH, [*taken, *rest])
    assert nothing.best is None
    assert all(one.fate is Fate.REFUSED for one in nothing.told)


def test_broken_off_it_tells_the_rate_so_far_as_unconfirmed() -> None:
    found, taken = carried_out_whole()
    assert answer(POINTS, SEARCH, taken[:1], broken_off=True).outcome is SearchOutcome.UNCONFIRMED
    late = answer(POINTS, SEARCH, taken, broken_off=True)
    assert (late.outcome, late.rate) == (SearchOutcome.UNCONFIRMED, found.rate)


def test_the_least_budget_has_time_for_both() -> None:
    assert least_budget_s(len(POINTS), SEARCH) > least_budget_s(len(POINTS), SearchTerms(300.0, limits=1, start_s=1.0))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("percent", "service_s", "limit_s", "budget_s"),
    [
        (95.0, 0.010, 0.030, 300.0),
        (99.0, 0.010, 0.030, 300.0),
        # Near what can be served, where a queue shows its tail late.
        (95.0, 0.020, 0.400, 80.0),
        (99.0, 0.030, 0.600, 150.0),
    ],
)
def test_what_is_named_holds_in_the_long_run_too(
    percent: float, service_s: float, limit_s: float, budget_s: float
) -> None:
    """A bounded form of docs/evidence/recommend.md, of queues that are drawn request by request."""
    server = Server(service_s, limit_s, percent)
    terms = RateTerms(1.0, samples=samples_of_limit(LatencyLimit(percent, 1.0)))
    rivals = (server.rival(0),)
    found = [found_rate(rivals, terms, budget_s, (server,), noise=0.0, seed=seed)[0] for seed in range(40)]
    held = [one.rate_per_s for one in found if one.kept is Kept.HELD]
    assert len(held) >= 30
    assert sum(server.excess(rate) > log(1.05) for rate in held) <= 3
    assert median(held) > 0.5 * server.most_per_s


def test_the_nearer_to_what_can_be_served_the_longer_a_limit_takes_to_be_seen_held() -> None:
    terms = RateTerms(samples=100)
    assert [round(terms.fresh_s(100 * busy, 100.0) * 100 * busy) for busy in (0.1, 0.5, 0.9)] == [100, 200, 9000]
    assert terms.look_s(1.0) == terms.longest_look_s
