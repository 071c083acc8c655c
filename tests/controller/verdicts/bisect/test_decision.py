"""What a bisect asks next follows from what its gates said; noise ends in "cannot tell", never in a wrong culprit."""

from collections import Counter
from collections.abc import Callable, Sequence
from math import log, log1p, sqrt

import numpy as np
import pytest

from enginebench_controller.stats.paired import LOOKED_AT, RatioInterval
from enginebench_controller.verdicts.bisect.decision import (
    PATIENCE,
    BisectFinding,
    Decided,
    GatePurpose,
    GateSeen,
    Question,
    decide,
)
from enginebench_controller.verdicts.gate.rule import GateOutcome, GateRule, promised_difference
from enginebench_controller.verdicts.gate.rule import decide as gate_decides

WORSE = 0.05
SIXTEEN = 16
Gate = Callable[[Question], GateSeen]


def steps(*changes: tuple[int, float], count: int = SIXTEEN) -> list[float]:
    """By place, the logarithm of how long a candidate takes, which grows by a share from each of these places on."""
    return [sum(log1p(share) for place, share in changes if one >= place) for one in range(count)]


def exact(levels: Sequence[float], broken: Sequence[int] = ()) -> Gate:
    """Gates without noise; some candidates cannot be run."""
    return noisy(levels, 1e-9, np.random.default_rng(0), broken)


def noisy(levels: Sequence[float], error: float, random: np.random.Generator, broken: Sequence[int] = ()) -> Gate:
    """Gates whose estimates scatter by this standard error of a log ratio, less where they may take longer."""

    def carry_out(question: Question) -> GateSeen:
        if question.head in broken:
            return GateSeen(GateOutcome.CANNOT_TELL, reason="no wheel")
        se = error / sqrt(question.patience)
        middle = levels[question.head] - levels[question.base] + random.normal(0, se)
        interval = RatioInterval(middle, middle - LOOKED_AT * se, middle + LOOKED_AT * se)
        found = gate_decides(interval, GateRule(question.tolerance, question.difference))
        return GateSeen(found.outcome, found.is_better, interval)

    return carry_out


def bisected(gate: Gate, count: int = SIXTEEN, worse: float = WORSE) -> tuple[Decided, list[Question]]:
    """The answer, and what was asked for it."""
    looks: list[GateSeen] = []
    asked: list[Question] = []
    while isinstance(following := decide(count, worse, looks), Question):
        asked.append(following)
        looks.append(gate(following))
        assert len(asked) < 30, "it comes to an end"
    return following, asked


@pytest.mark.parametrize("place", range(1, SIXTEEN))
def test_the_culprit_is_found_in_four_steps_and_held_against_the_one_before_it(place: int) -> None:
    found, asked = bisected(exact(steps((place, 0.1))))
    assert (found.finding, found.suspects, found.before) == (BisectFinding.CULPRIT, (place,), place - 1)
    purposes = Counter(one.purpose for one in asked)
    assert (purposes[GatePurpose.ENDS], purposes[GatePurpose.NEIGHBOURS]) == (1, 1)
    assert purposes[GatePurpose.STEP] <= 4
    assert (asked[-1].base, asked[-1].head) == (place - 1, place)
    assert found.share == pytest.approx(1.0)
    assert all(one.base == 0 for one in asked[:-1]), "all are compared with the good one"


def test_what_is_left_is_never_told_too_low() -> None:
    for place in range(1, SIXTEEN):
        _, asked = bisected(exact(steps((place, 0.1))))
        assert all(one.left >= len(asked) - number for number, one in enumerate(asked))


def test_two_steps_end_in_one_of_them_which_explains_its_part() -> None:
    found, _ = bisected(exact(steps((5, 0.04), (11, 0.04))))
    assert found.finding is BisectFinding.CULPRIT
    assert found.suspects in ((5,), (11,))
    assert found.share == pytest.approx(0.5)
    assert found.has_further_steps


def test_a_single_step_has_no_further_ones() -> None:
    found, _ = bisected(exact(steps((5, 0.3))))
    assert not found.has_further_steps


def test_nothing_is_named_where_good_and_bad_are_alike_and_exchanged_ones_are_told() -> None:
    found, asked = bisected(exact(steps()))
    assert (found.finding, len(asked)) == (BisectFinding.NOT_APART, 1)
    found, asked = bisected(exact(steps((3, -0.2))))
    assert (found.finding, len(asked)) == (BisectFinding.EXCHANGED, 1)


def test_what_is_worse_by_less_than_counts_is_no_culprit() -> None:
    found, _ = bisected(exact(steps((5, 0.02))))
    assert found.finding is BisectFinding.NOT_APART


def test_candidates_that_cannot_be_run_are_passed_over_and_those_beside_the_culprit_are_told() -> None:
    found, _ = bisected(exact(steps((5, 0.1)), broken=(7, 9)))
    assert (found.finding, found.suspects) == (BisectFinding.CULPRIT, (5,))
    found, _ = bisected(exact(steps((5, 0.1)), broken=(4, 5)))
    assert (found.finding, found.suspects, found.before) == (BisectFinding.ONE_OF, (4, 5, 6), 3)


def test_good_or_bad_that_cannot_be_run_leave_nothing_to_bisect() -> None:
    found, asked = bisected(exact(steps((5, 0.1)), broken=(15,)))
    assert (found.finding, len(asked)) == (BisectFinding.CANNOT_RUN, 1)
    assert found.reason == "bad came to nothing: no wheel"


@pytest.mark.parametrize(
    ("purpose", "look", "told"),
    [
        (GatePurpose.ENDS, {"base_reason": "killed"}, "good came to nothing: killed"),
        (GatePurpose.STEP, {"base_reason": "killed"}, "a gate between them came to nothing: good: killed"),
        (
            GatePurpose.NEIGHBOURS,
            {"base_reason": "killed", "reason": "it crashed"},
            "the gate of the last against the one before it came to nothing: the one before: killed; "
            "the last: it crashed",
        ),
        (
            GatePurpose.NEIGHBOURS,
            {"reason": "it crashed"},
            "the gate of the last against the one before it came to nothing: the last: it crashed",
        ),
    ],
)
def test_of_a_gate_that_came_to_nothing_the_answer_says_which_side_did(
    purpose: GatePurpose, look: dict[str, str], told: str
) -> None:
    true = exact(steps((5, 0.1)))

    def failing(question: Question) -> GateSeen:
        return GateSeen(GateOutcome.CANNOT_TELL, **look) if question.purpose is purpose else true(question)

    assert bisected(failing)[0].reason == told


def test_two_candidates_are_gated_twice() -> None:
    found, asked = bisected(exact(steps((1, 0.1), count=2)), count=2)
    assert (found.finding, found.suspects) == (BisectFinding.CULPRIT, (1,))
    assert [one.purpose for one in asked] == [GatePurpose.ENDS, GatePurpose.NEIGHBOURS]


def test_what_is_in_doubt_is_asked_once_more_with_a_longer_budget_and_then_cannot_be_told() -> None:
    true = exact(steps((5, 0.1)))

    def blurred(question: Question) -> GateSeen:
        wide = RatioInterval(log(1.04), log(0.9), log(1.2))
        return GateSeen(GateOutcome.CANNOT_TELL, ratio=wide) if question.head == 7 else true(question)

    found, asked = bisected(blurred)
    assert found.finding is BisectFinding.CANNOT_TELL
    assert found.reason.endswith("cannot tell, not with 3 budgets, an hour at most, either"), "three of 1h are none"
    assert found.suspects == tuple(range(1, 16))
    assert [(one.head, one.patience) for one in asked[1:]] == [(7, 1), (7, PATIENCE)]


def test_neighbours_that_took_a_longer_budget_to_tell_begin_with_it_and_are_asked_once() -> None:
    true = exact(steps((1, 0.1)))

    def slow(question: Question) -> GateSeen:
        return true(question) if question.patience > 1 else GateSeen(GateOutcome.CANNOT_TELL)

    found, asked = bisected(slow)
    assert (found.finding, found.suspects) == (BisectFinding.CULPRIT, (1,))
    assert [one.patience for one in asked if one.purpose is GatePurpose.NEIGHBOURS] == [PATIENCE]
    _, asked = bisected(exact(steps((1, 0.1))))
    assert asked[-1].patience == 1


def test_neighbours_in_doubt_for_all_that_longer_budget_are_asked_once_more_and_no_third_time() -> None:
    true = exact(steps((1, 0.1)))

    def slow(question: Question) -> GateSeen:
        tells = question.patience > 1 and question.purpose is not GatePurpose.NEIGHBOURS
        return true(question) if tells else GateSeen(GateOutcome.CANNOT_TELL)

    found, asked = bisected(slow)
    assert found.finding is BisectFinding.CANNOT_TELL
    assert [one.patience for one in asked if one.purpose is GatePurpose.NEIGHBOURS] == [PATIENCE, PATIENCE]


def test_one_long_gate_of_the_neighbours_that_was_disturbed_does_not_end_a_bisect_in_doubt() -> None:
    """So it was with those of before, of which the first was short: a bisect that is resumed comes to the same."""
    true, seen = exact(steps((1, 0.1))), list[Question]()

    def disturbed_once(question: Question) -> GateSeen:
        tells = question.patience > 1 and not (question.purpose is GatePurpose.NEIGHBOURS and not seen)
        seen.extend([question] if question.purpose is GatePurpose.NEIGHBOURS else [])
        return true(question) if tells else GateSeen(GateOutcome.CANNOT_TELL)

    found, _ = bisected(disturbed_once)
    assert (found.finding, found.suspects) == (BisectFinding.CULPRIT, (1,))


def test_a_gate_that_led_astray_is_carried_out_again_where_the_neighbours_do_not_differ() -> None:
    true = exact(steps((9, 0.1)))

    def lies_once(question: Question) -> GateSeen:
        if question.head == 7 and question.purpose is GatePurpose.STEP and question.patience == 1:
            return GateSeen(GateOutcome.WORSE, ratio=RatioInterval(log(1.1), log(1.05), log(1.15)))
        return true(question)

    found, _ = bisected(lies_once)
    assert (found.finding, found.suspects) == (BisectFinding.CULPRIT, (9,))


def test_a_first_gate_that_was_wrong_names_nobody() -> None:
    true = exact(steps())

    def lies_once(question: Question) -> GateSeen:
        if question.purpose is GatePurpose.ENDS:
            return GateSeen(GateOutcome.WORSE, ratio=RatioInterval(log(1.1), log(1.05), log(1.15)))
        return true(question)

    found, asked = bisected(lies_once)
    assert found.finding is BisectFinding.NOT_APART
    assert asked[-1].head == 15, "bad is looked at again"


def test_the_same_answers_lead_to_the_same_question() -> None:
    gate = exact(steps((5, 0.1)))
    looks: list[GateSeen] = []
    while isinstance(following := decide(SIXTEEN, WORSE, looks), Question):
        assert following == decide(SIXTEEN, WORSE, looks)
        looks.append(gate(following))


ERROR = 0.011
"""Of a gate whose budget can tell 5 % in nine of ten cases, as of 3 % pairs."""


def test_the_noise_that_is_simulated_is_what_a_gate_promises_to_tell() -> None:
    assert promised_difference(ERROR * sqrt(100), 100, 0.0247) == pytest.approx(0.04, abs=0.01)


@pytest.mark.parametrize(("planted", "least"), [(0.05, 0.85), (0.10, 0.97), (0.30, 0.98)])
def test_with_noise_the_culprit_is_found_and_no_other_is_named(planted: float, least: float) -> None:
    random = np.random.default_rng(7)
    outcomes: Counter[str] = Counter()
    for _ in range(400):
        place = int(random.integers(1, SIXTEEN))
        found, _ = bisected(noisy(steps((place, planted)), ERROR, random))
        named = found.finding is BisectFinding.CULPRIT
        outcomes["right" if named and found.suspects == (place,) else "wrong" if named else "none"] += 1
    assert outcomes["right"] >= least * 400, outcomes
    assert outcomes["wrong"] <= 0.02 * 400, outcomes


@pytest.mark.parametrize("error", [0.002, ERROR, 0.05])
def test_with_noise_nobody_is_named_where_nothing_changed(error: float) -> None:
    random = np.random.default_rng(11)
    found = [bisected(noisy(steps(), error, random))[0].finding for _ in range(1000)]
    assert sum(one in (BisectFinding.CULPRIT, BisectFinding.ONE_OF) for one in found) <= 10
