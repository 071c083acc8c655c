"""Warm-up ends when two halves of a window are alike, says so when they never are, and knows noise from drift."""

from collections.abc import Iterator
from itertools import chain, cycle, repeat

import pytest

from agent.worker.scripted_loads import MILLISECOND, STATIONARY, Latencies, ScriptedLoad, cooling, drawn
from enginebench_agent.worker.keeper import Pauses
from enginebench_agent.worker.loads.block import TimedBlock
from enginebench_agent.worker.warm_up import WarmUpRule, mann_whitney_p, unsteadiness, warm_up, warm_up_rule
from enginebench_proto.v1.configuration_pb2 import StopRule
from enginebench_proto.v1.measurement_pb2 import WarmUp

WINDOW = WarmUpRule(window_ns=400 * MILLISECOND, max_ns=4000 * MILLISECOND)


def warmed(latencies: object, rule: WarmUpRule = WINDOW) -> WarmUp:
    return warm_up(ScriptedLoad(iter(latencies)), rule, lambda *_: None)


@pytest.mark.parametrize("latencies", STATIONARY)
def test_a_stationary_latency_is_steady_whatever_its_shape(latencies: Latencies) -> None:
    outcomes = [warmed(drawn(latencies, seed)) for seed in range(40)]
    assert all(outcome.steady and not outcome.reason for outcome in outcomes)
    # A window of these lasts about 400 ms; one in a hundred is taken for unsteady by chance, and the next one is not.
    assert sum(outcome.iterations <= 450 for outcome in outcomes) >= 30


def test_a_drift_is_waited_for_and_no_longer() -> None:
    """From 2 ms down to 1 ms over 600 inferences of 900 ms in all; then a window of 400 ms is steady."""
    outcome = warmed(cooling(2, 1, 600))
    assert outcome.steady
    assert 600 < outcome.iterations < 1300


def test_a_pause_takes_nothing_from_the_time_to_warm_up() -> None:
    pauses, stopped_ns = Pauses(), 20_000 * MILLISECOND

    def stopped_once() -> Iterator[int]:
        for number, latency_ns in enumerate(cooling(2, 1, 600)):
            if number == 400:
                pauses.begin(load.now_ns)
                pauses.end(load.now_ns + stopped_ns)
            yield latency_ns + (stopped_ns if number == 400 else 0)

    load = ScriptedLoad(stopped_once())
    assert warm_up(load, WINDOW, lambda *_: None, pauses=pauses).steady


def test_a_drift_without_end_is_cut_off_and_told() -> None:
    outcome = warmed(cooling(10, 1, 300), WarmUpRule(400 * MILLISECOND, 1200 * MILLISECOND))
    assert not outcome.steady
    assert "still fell by" in outcome.reason
    assert outcome.reason.endswith("between its two halves")


def test_growing_slower_is_told_as_such() -> None:
    outcome = warmed(cooling(1, 5, 600), WarmUpRule(400 * MILLISECOND, 400 * MILLISECOND))
    assert not outcome.steady
    assert "still rose by" in outcome.reason


def test_the_first_inference_after_a_look_at_half_a_window_is_not_judged() -> None:
    """Each look is a pause of ours, after which an inference takes five times as long."""

    class Pausing(ScriptedLoad):
        aligned = 0

        def align(self) -> None:
            self.aligned += 1
            self.is_cold = False

        def block(self, length_ns: int, fewest: int = 1, *, in_turn: bool = False) -> TimedBlock:
            block = super().block(length_ns, fewest, in_turn=in_turn)
            if self.is_cold:
                block.latency_ns[0] *= 5
            self.is_cold = True
            return block

        is_cold = False

    load = Pausing(repeat(MILLISECOND))
    outcome = warm_up(load, WINDOW, lambda *_: None)
    assert outcome.steady and load.aligned == 1
    slow = Pausing(repeat(400 * MILLISECOND))
    assert warm_up(slow, WINDOW, lambda *_: None).iterations > 0
    assert slow.aligned == 0, "one more inference would be much of so few"


def test_a_slow_first_inference_costs_half_a_window() -> None:
    outcome = warmed(chain([30 * MILLISECOND], drawn(STATIONARY[0], 1)))
    assert outcome.steady
    assert 500 < outcome.iterations < 650


def test_one_that_is_always_slow_at_first_is_told() -> None:
    assert unsteadiness([5000] + [1000] * 30, [1000] * 30) == "the first inference still took 5 times the median"
    assert "took 1,500 times" in unsteadiness([1_500_000] + [1000] * 30, [1000] * 30)


def test_a_slow_model_gets_the_warm_up_that_it_takes_to_tell() -> None:
    """Four inferences of 400 ms are no basis for a test: alike within 5 % they count as steady, else more are run."""
    rule = warm_up_rule(StopRule(warmup_ns=500 * MILLISECOND), requests=1)
    alike = warmed(repeat(400 * MILLISECOND), rule)
    assert (alike.steady, alike.iterations) == (True, 4)
    falling = warmed(chain([800 * MILLISECOND] * 2, repeat(400 * MILLISECOND)), rule)
    assert (falling.steady, falling.undecided, falling.iterations) == (True, False, 4 + 6)


def test_with_too_few_inferences_even_then_nothing_is_found() -> None:
    rule = warm_up_rule(StopRule(warmup_ns=500 * MILLISECOND), requests=1)
    outcome = warmed(cycle([1000 * MILLISECOND, 2000 * MILLISECOND, 500 * MILLISECOND]), rule)
    assert (outcome.steady, outcome.undecided) == (False, True)
    assert outcome.reason.startswith("too few inferences to tell (2 and 2): the ")
    assert outcome.iterations <= 6, "bounded: a slow model is not warmed up for minutes"


def test_what_is_seen_not_to_be_steady_is_a_finding() -> None:
    outcome = warmed(cooling(10, 1, 300), WarmUpRule(400 * MILLISECOND, 1200 * MILLISECOND))
    assert (outcome.steady, outcome.undecided) == (False, False)


def test_every_request_warms_up_even_without_a_duration() -> None:
    assert warmed(repeat(MILLISECOND), warm_up_rule(StopRule(), requests=3)).iterations == 12


def test_the_cap_is_ten_windows_unless_given() -> None:
    assert warm_up_rule(StopRule(warmup_ns=500), requests=1).max_ns == 5000
    assert warm_up_rule(StopRule(warmup_ns=500, max_warmup_ns=700), requests=1).max_ns == 700


def test_progress_and_iterations_count_what_was_run_before() -> None:
    reports: list[tuple[int, int, int]] = []
    outcome = warm_up(ScriptedLoad(repeat(MILLISECOND)), WINDOW, lambda *report: reports.append(report), iterations=7)
    assert outcome.iterations == 407
    assert reports[-1] == (400 * MILLISECOND, 400 * MILLISECOND, 407)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        # From scipy.stats.mannwhitneyu(first, second, method="asymptotic").
        ([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12], 0.005074868097940253),
        ([1, 2, 3], [4, 5], 0.14891467317876572),
        ([1, 1, 2, 2, 3], [2, 2, 3, 3, 3, 4], 0.08404320025728729),
        ([5, 1, 4], [2, 3, 6], 1.0),
        ([1, 1], [1, 1, 1], 1.0),
        ([], [1], 1.0),
    ],
)
def test_mann_whitney_agrees_with_scipy(first: list[int], second: list[int], expected: float) -> None:
    assert mann_whitney_p(first, second) == pytest.approx(expected, rel=1e-9)
    assert mann_whitney_p(second, first) == pytest.approx(expected, rel=1e-9)
