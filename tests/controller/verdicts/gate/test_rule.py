"""The rule of the gate: worse, pass, or cannot tell; and what difference is promised."""

from math import log

import numpy as np
import pytest

from enginebench_controller.errors import ExitCode
from enginebench_controller.stats.paired import RatioInterval, interval, sequential_interval, spread
from enginebench_controller.verdicts.gate.rule import GateOutcome, GateRule, decide, exit_code, promised_difference

WORSE, PASSES, CANNOT_TELL = GateOutcome.WORSE, GateOutcome.PASSES, GateOutcome.CANNOT_TELL
RULE = GateRule(tolerance=0.01, difference=0.03)


def of(middle, half):
    """An interval of ratios 1 + middle ± half."""
    return RatioInterval(log(1 + middle), log(1 + middle - half), log(1 + middle + half))


@pytest.mark.parametrize(
    ("middle", "half", "outcome", "is_better"),
    [
        (0.03, 0.02, WORSE, False),
        (0.011, 0.010, WORSE, False),  # beyond 1, and the middle beyond what is tolerated
        (0.50, 0.20, WORSE, False),
        (0.009, 0.005, PASSES, False),  # beyond 1, but tolerated
        (0.00, 0.02, PASSES, False),
        (0.00, 0.029, PASSES, False),
        (0.00, 0.031, CANNOT_TELL, False),  # it may be worse by more than 3 %
        (0.02, 0.021, CANNOT_TELL, False),
        (0.009, 0.0085, PASSES, False),
        (0.005, 0.03, CANNOT_TELL, False),
        (-0.05, 0.02, PASSES, True),
        (-0.05, 0.06, PASSES, False),  # not worse, and not surely better
        (-0.05, 0.09, CANNOT_TELL, False),
        (-0.008, 0.005, PASSES, False),  # better by less than is tolerated of worse
    ],
)
def test_worse_pass_and_cannot_tell(middle, half, outcome, is_better):
    found = decide(of(middle, half), RULE)

    assert (found.outcome, found.is_better) == (outcome, is_better)


@pytest.mark.parametrize(
    ("middle", "half", "stands"),
    [
        (0.05, 0.02, True),
        (0.0, 0.01, True),
        (0.0, 0.05, False),
        (-0.02, 0.03, True),  # equal things seem so, too
        (-0.2, 0.1, True),
        (-0.2, 0.22, False),
    ],
)
def test_a_verdict_stands_unless_more_pairs_could_tell_more(middle, half, stands):
    """What passes and seems better by more than D is worth a few more pairs, so that it can be told."""
    assert decide(of(middle, half), RULE).stands == stands


def test_without_an_interval_nothing_can_be_told():
    assert decide(None, RULE).outcome is CANNOT_TELL
    assert "too few pairs" in decide(None, RULE).sentence


def test_the_bound_is_the_larger_of_what_is_tolerated_and_promised():
    assert GateRule(0.01, 0.03).bound == 0.03
    assert GateRule(0.05, 0.03).bound == 0.05
    assert decide(of(0.0, 0.04), GateRule(0.05, 0.03)).outcome is PASSES
    assert decide(of(0.0, 0.04), GateRule(0.01, 0.02)).outcome is CANNOT_TELL


@pytest.mark.parametrize(
    ("middle", "half", "sentence"),
    [
        (0.05, 0.01, "head ÷ base is 1.050 (1.040–1.060): worse by more than the 1 % tolerated"),
        (0.0, 0.01, "head ÷ base is 1.000 (0.990–1.010): not worse by more than 3 %"),
        (-0.05, 0.01, "head ÷ base is 0.950 (0.940–0.960): better"),
        (0.02, 0.05, "head ÷ base is 1.020 (0.970–1.070): cannot tell whether it is worse by more than 3 %"),
    ],
)
def test_the_sentence_names_the_ratio_and_the_bound(middle, half, sentence):
    assert decide(of(middle, half), RULE).sentence == sentence


def test_of_what_more_is_better_the_sentence_tells_the_ratio_of_the_figures_themselves():
    """20 % less throughput is 1.25 where less is better, which is what is judged."""
    rule = GateRule(more_is_better=True)

    assert decide(of(0.25, 0.01), rule).sentence.startswith("head ÷ base is 0.800 (0.794–0.806): worse")
    told = decide(of(0.25, 0.01), rule, control=of(0.25, 0.01)).sentence
    assert told.endswith("base ÷ base is 0.800 (0.794–0.806) here and now")


def test_a_control_that_reads_different_lets_nothing_be_told():
    found = decide(of(0.05, 0.01), RULE, control=of(0.04, 0.02))

    assert found.outcome is CANNOT_TELL
    assert "base ÷ base is 1.040 (1.020–1.060) here and now" in found.sentence


def test_what_the_control_is_off_by_widens_the_interval():
    assert decide(of(0.02, 0.015), RULE).outcome is WORSE
    assert decide(of(0.02, 0.015), RULE, control=of(0.0, 0.02)).outcome is WORSE
    assert decide(of(0.02, 0.015), RULE, control=of(0.016, 0.02)).outcome is CANNOT_TELL
    assert decide(of(0.0, 0.025), RULE, control=of(-0.02, 0.03)).outcome is CANNOT_TELL


def test_the_wider_the_interval_the_less_is_told():
    """Never the other verdict: what is worse with a narrow interval may become untold, and no pass."""
    for middle in np.linspace(-0.1, 0.1, 41):
        outcomes = [decide(of(middle, half), RULE).outcome for half in np.linspace(0.0001, 0.2, 100)]
        assert WORSE not in outcomes or outcomes[0] is WORSE
        told = [one is not CANNOT_TELL for one in outcomes]
        assert PASSES not in outcomes or middle < 0.03
        assert not told[-1]


def drawn(generator, true, sd, pairs):
    return generator.normal(log(1 + true), sd, pairs)


def gated(log_ratios, rule):
    """Stopped as soon as the rule can tell."""
    for pairs in range(2, len(log_ratios) + 1):
        found = decide(sequential_interval(log_ratios[:pairs], len(log_ratios)), rule)
        if found.outcome is not CANNOT_TELL:
            return found.outcome, pairs
    return CANNOT_TELL, len(log_ratios)


def test_what_is_promised_is_found_and_equal_things_pass():
    generator = np.random.default_rng(1)
    sd, pairs = 0.02, 25
    promised = promised_difference(spread(drawn(generator, 0, sd, 4000)), pairs)
    rule = GateRule(difference=promised)

    worse = [gated(drawn(generator, promised, sd, pairs), rule)[0] for _ in range(300)]
    equal = [gated(drawn(generator, 0, sd, pairs), rule)[0] for _ in range(300)]

    assert 0.01 < promised < 0.03
    assert worse.count(WORSE) / 300 >= 0.84
    assert equal.count(PASSES) / 300 >= 0.84
    assert equal.count(WORSE) <= 6


def test_equal_things_are_seldom_worse_and_3_percent_is_found():
    generator = np.random.default_rng(2)

    equal, three = ([gated(drawn(generator, true, 0.02, 25), RULE) for _ in range(300)] for true in (0, 0.03))

    assert [one for one, _ in equal].count(WORSE) <= 5
    assert [one for one, _ in three].count(WORSE) >= 290
    assert np.median([pairs for _, pairs in three]) < 20


def test_more_pairs_and_quieter_ones_promise_more():
    assert promised_difference(0.02, 100) < promised_difference(0.02, 25) < promised_difference(0.04, 25)
    assert promised_difference(1e-9, 25) == pytest.approx(0.01)  # no smaller difference is worse
    assert promised_difference(1e-9, 25, tolerance=0.05) == pytest.approx(0.05)
    assert promised_difference(60, 2) == pytest.approx(999)  # of processes that have nothing in common: anything
    with pytest.raises(ValueError, match="2 are needed"):
        promised_difference(0.02, 1)


def test_many_gates_with_a_control_that_is_equal_lose_little():
    generator = np.random.default_rng(3)

    def one(true):
        base, control, head = (generator.normal(0, 0.014, 25) for _ in range(3))
        return decide(interval(head - base + log(1 + true)), RULE, interval(control - base)).outcome

    assert [one(0.04) for _ in range(300)].count(WORSE) >= 285


@pytest.mark.parametrize(
    ("worse", "failed", "cannot_tell", "strict", "expected"),
    [
        (False, False, False, True, ExitCode.OK),
        (True, True, True, True, ExitCode.CONDITION_MET),
        (True, False, False, False, ExitCode.CONDITION_MET),
        (False, True, True, True, ExitCode.SOME_FAILED),
        (False, False, True, True, ExitCode.CANNOT_TELL),
        (False, False, True, False, ExitCode.OK),
    ],
)
def test_worse_comes_before_what_failed_and_this_before_what_cannot_be_told(
    worse, failed, cannot_tell, strict, expected
):
    assert exit_code(worse=worse, failed=failed, cannot_tell=cannot_tell, strict=strict) is expected
    assert (int(ExitCode.CONDITION_MET), int(ExitCode.CANNOT_TELL)) == (4, 5)
