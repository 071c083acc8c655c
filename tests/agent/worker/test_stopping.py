"""A process stops when minima and target are met, or at the maximum; the interval keeps its promise."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from agent.worker.scripted_loads import (
    MILLISECOND,
    STATIONARY,
    Latencies,
    bimodal,
    constant,
    heavy_tailed,
    noisy,
    to_series,
)
from enginebench_agent.worker.stopping import (
    FEWEST_CLUSTERS,
    MOST_CLUSTERS,
    MedianPrecision,
    Stopping,
    StopRule,
    from_stop_rule,
)
from enginebench_proto.agreed import student_t
from enginebench_proto.v1 import configuration_pb2
from enginebench_proto.v1.measurement_pb2 import (
    STOP_REASON_DISTURBED,
    STOP_REASON_MAX_DURATION,
    STOP_REASON_TARGET_MET,
    STOP_REASON_UNSPECIFIED,
)

BLOCK_NS = 100 * MILLISECOND


def test_nothing_asked_is_met_by_one_inference() -> None:
    stopping = Stopping(StopRule())
    assert stopping.verdict() == STOP_REASON_UNSPECIFIED
    stopping.add(to_series(np.array([5.0])), 5, disturbed=False)
    assert stopping.verdict() == STOP_REASON_TARGET_MET


@pytest.mark.parametrize(("rule", "blocks"), [(StopRule(3 * BLOCK_NS, 1), 3), (StopRule(1, 450), 5)])
def test_both_minima_are_waited_for(rule: StopRule, blocks: int) -> None:
    assert measured(rule, constant, size=100)[0] == blocks


def test_the_maximum_ends_what_is_not_met_and_a_met_target_goes_first() -> None:
    too_many = StopRule(min_iterations=10_000, max_duration_ns=4 * BLOCK_NS)
    assert measured(too_many, constant) == (4, STOP_REASON_MAX_DURATION)
    just = StopRule(min_duration_ns=4 * BLOCK_NS, max_duration_ns=4 * BLOCK_NS)
    assert measured(just, constant) == (4, STOP_REASON_TARGET_MET)


def test_a_block_that_stood_still_meets_no_minimum_even_where_disturbed_ones_count() -> None:
    stopping = Stopping(StopRule(min_duration_ns=BLOCK_NS))
    block = to_series(np.array([float(MILLISECOND)]))
    stopping.add(block, BLOCK_NS, disturbed=True, paused=True)
    assert stopping.verdict() == STOP_REASON_UNSPECIFIED
    stopping.add(block, BLOCK_NS, disturbed=True)
    assert stopping.verdict() == STOP_REASON_TARGET_MET


def test_a_constant_latency_meets_any_target_with_the_sixth_block() -> None:
    assert measured(StopRule(target=0.001), constant) == (FEWEST_CLUSTERS, STOP_REASON_TARGET_MET)


def test_a_noisy_latency_takes_as_long_as_its_noise_and_the_target_demand() -> None:
    """Blocks that differ by 3 % SD: t·SD/√B ≤ 1 % needs B ≈ (1.96·3)² ≈ 36 blocks; 0.5 % needs four times as many."""
    wobbling = Wobbling(0.03)
    counts = [
        np.median([measured(StopRule(target=target), wobbling, seed=s)[0] for s in range(9)])
        for target in (0.01, 0.005)
    ]
    assert 20 < counts[0] < 60
    assert 2 < counts[1] / counts[0] < 6


def test_a_median_between_two_modes_is_never_precise() -> None:
    def half_and_half(generator: np.random.Generator, count: int) -> np.ndarray:
        return np.where(generator.random(count) < 0.5, 1, 2) * float(MILLISECOND)

    rule = StopRule(20 * BLOCK_NS, target=0.01, max_duration_ns=40 * BLOCK_NS)
    reasons = [measured(rule, half_and_half, seed=seed)[1] for seed in range(20)]
    # By chance the interval lies within one mode: 5 % of the time at each of a dozen looks.
    assert reasons.count(STOP_REASON_MAX_DURATION) >= 14


def test_disturbed_blocks_count_towards_the_maximum_only() -> None:
    stopping = Stopping(StopRule(min_duration_ns=BLOCK_NS, max_duration_ns=3 * BLOCK_NS, retry_noisy=True))
    for _ in range(2):
        stopping.add(to_series(np.ones(10)), BLOCK_NS, disturbed=True)
        assert stopping.verdict() == STOP_REASON_UNSPECIFIED
    stopping.add(to_series(np.ones(10)), BLOCK_NS, disturbed=True)
    assert stopping.verdict() == STOP_REASON_DISTURBED
    assert (stopping.iterations, stopping.elapsed_ns) == (30, 3 * BLOCK_NS)


def after(pattern: str, rule: StopRule) -> list[int]:
    """The verdict after each block, "x" being a disturbed one."""
    stopping, verdicts = Stopping(rule), []
    for one in pattern:
        stopping.add(to_series(np.ones(10)), BLOCK_NS, disturbed=one == "x")
        verdicts.append(stopping.verdict())
    return verdicts


def test_a_machine_that_is_never_quiet_is_not_waited_for_until_the_maximum() -> None:
    rule = StopRule(40 * BLOCK_NS, min_iterations=1, max_duration_ns=200 * BLOCK_NS, retry_noisy=True)
    verdicts = after("x" * 80, rule)
    assert verdicts[:-1] == [STOP_REASON_UNSPECIFIED] * 79
    assert verdicts[-1] == STOP_REASON_DISTURBED
    assert set(after("x" * 80, replace(rule, min_duration_ns=81 * BLOCK_NS, retry_noisy=False))) == {
        STOP_REASON_UNSPECIFIED
    }, "who keeps noisy blocks is not held up by them"


def test_spells_of_noise_are_waited_for() -> None:
    rule = StopRule(40 * BLOCK_NS, min_iterations=1, max_duration_ns=200 * BLOCK_NS, retry_noisy=True)
    assert after("xxx-" + "x-" * 39 + "-", rule)[-1] == STOP_REASON_TARGET_MET
    quick = replace(rule, min_duration_ns=BLOCK_NS)
    assert after("x" * 15 + "-", quick)[-1] == STOP_REASON_TARGET_MET, "a short measurement outlasts a short spell"


def test_the_maximum_of_a_machine_that_was_mostly_quiet_is_no_disturbance() -> None:
    rule = StopRule(3 * BLOCK_NS, min_iterations=100, max_duration_ns=4 * BLOCK_NS, retry_noisy=True)
    assert after("x---", rule)[-1] == STOP_REASON_MAX_DURATION


def test_disturbed_blocks_are_left_out_of_the_interval() -> None:
    stopping = Stopping(StopRule(target=0.01, retry_noisy=True))
    for index in range(2 * FEWEST_CLUSTERS):
        disturbed = index % 2 == 1
        stopping.add(to_series(np.full(100, 3000.0 if disturbed else 1000.0)), BLOCK_NS, disturbed=disturbed)
    assert stopping.verdict() == STOP_REASON_TARGET_MET


def test_disturbed_blocks_count_where_nobody_asked_to_retry() -> None:
    stopping = Stopping(StopRule(min_duration_ns=BLOCK_NS))
    stopping.add(to_series(np.ones(10)), BLOCK_NS, disturbed=True)
    assert stopping.verdict() == STOP_REASON_TARGET_MET


def test_what_is_expected_follows_the_minima_the_target_and_the_maximum() -> None:
    by_iterations = Stopping(StopRule(min_duration_ns=2 * BLOCK_NS, min_iterations=1000))
    by_iterations.add(to_series(np.ones(100)), BLOCK_NS, disturbed=False)
    assert by_iterations.expected_ns() == 10 * BLOCK_NS
    capped = Stopping(StopRule(min_iterations=1000, max_duration_ns=3 * BLOCK_NS))
    capped.add(to_series(np.ones(100)), BLOCK_NS, disturbed=False)
    assert capped.expected_ns() == 3 * BLOCK_NS
    assert capped.remaining_ns() == 2 * BLOCK_NS


def test_a_target_half_as_wide_is_expected_to_take_four_times_as_long() -> None:
    generator, wobbling = np.random.default_rng(3), Wobbling(0.05)
    wide, narrow = Stopping(StopRule(target=0.008)), Stopping(StopRule(target=0.004))
    for _ in range(20):
        block = to_series(wobbling(generator, 200))
        for each in (wide, narrow):
            each.add(block, BLOCK_NS, disturbed=False)
    assert narrow.expected_ns() / wide.expected_ns() == pytest.approx(4, rel=0.01)


def test_a_rule_is_read_from_the_wire() -> None:
    message = configuration_pb2.StopRule(
        min_duration_ns=1, min_iterations=2, max_duration_ns=3, target_relative_half_width=0.5, retry_noisy=True
    )
    assert from_stop_rule(message) == StopRule(1, 2, 3, 0.5, True)
    assert from_stop_rule(configuration_pb2.StopRule()).max_duration_ns is None


@pytest.mark.slow
@pytest.mark.parametrize("latencies", [noisy, heavy_tailed, bimodal])
@pytest.mark.parametrize(("blocks", "size"), [(6, 60), (25, 40), (25, 1)])
def test_the_interval_contains_the_true_median_as_often_as_promised(
    latencies: Latencies, blocks: int, size: int
) -> None:
    """At nominal 95 %, 1,000 runs cover in at least 93 %; all but a few have an interval."""
    generator = np.random.default_rng(11)
    truth = float(np.median(latencies(generator, 400_000)))
    given = []
    for _ in range(1000):
        precision = MedianPrecision()
        for _ in range(blocks):
            precision.add(to_series(latencies(generator, size)))
        if (bounds := precision.interval()) is not None:
            given.append(bounds)
    assert len(given) >= 970
    assert sum(low <= truth <= high for low, _, high in given) >= 0.93 * len(given)


@pytest.mark.slow
def test_the_interval_of_wandering_blocks_keeps_its_promise_when_the_rule_stops_by_it() -> None:
    """Blocks share what the machine does, and looking again and again must not stop a run by luck."""
    covered, runs = 0, 150
    for seed in range(runs):
        medians = []
        stopping, generator, wobbling = Stopping(StopRule(20 * BLOCK_NS, target=0.01)), *Wobbling(0.03).seeded(seed)
        while stopping.verdict() == STOP_REASON_UNSPECIFIED:
            block = wobbling(generator, 50)
            medians.append(block)
            stopping.add(to_series(block), BLOCK_NS, disturbed=False)
        covered += abs(np.median(np.concatenate(medians)) / MILLISECOND - 1) <= 0.01
    assert covered >= 0.92 * runs


@pytest.mark.slow
def test_memory_stays_flat_over_many_blocks_and_the_interval_narrows() -> None:
    generator = np.random.default_rng(2)
    precision = MedianPrecision()
    for _ in range(MOST_CLUSTERS + 1):
        precision.add(to_series(noisy(generator, 300)))
    early = precision.relative_half_width()
    tracemalloc.start()
    for _ in range(3 * MOST_CLUSTERS):
        precision.add(to_series(noisy(generator, 300)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert precision.clusters <= MOST_CLUSTERS
    assert peak < 16 * 1024 * 1024
    assert precision.relative_half_width() < 0.75 * early
    assert precision.interval()[1] == pytest.approx(MILLISECOND, rel=0.001)


@pytest.mark.parametrize("latencies", STATIONARY)
def test_thinned_blocks_have_the_median_of_all_samples(latencies: Latencies) -> None:
    generator = np.random.default_rng(4)
    blocks = [latencies(generator, size) for size in (10_000, 300, 20, 5_000, 7_000, 1_000, 2_000)]
    precision = MedianPrecision()
    for block in blocks:
        precision.add(to_series(block))
    assert precision.interval()[1] == pytest.approx(np.median(np.concatenate(blocks)), rel=0.005)


def test_too_few_blocks_have_no_interval() -> None:
    precision = MedianPrecision()
    for _ in range(FEWEST_CLUSTERS - 1):
        precision.add(to_series(np.ones(1000)))
    assert precision.interval() is None
    assert math.isinf(precision.relative_half_width())


@pytest.mark.parametrize(
    ("degrees", "value"), [(5, 2.570582), (7, 2.364624), (10, 2.228139), (19, 2.093024), (100, 1.983972)]
)
def test_student_t_as_in_the_tables(degrees: int, value: float) -> None:
    assert student_t.quantile(0.975, degrees) == pytest.approx(value, rel=2e-4)


class Wobbling:
    """Blocks whose levels differ by a share of standard deviation."""

    def __init__(self, spread: float) -> None:
        self._spread = spread

    def __call__(self, generator: np.random.Generator, count: int) -> np.ndarray:
        return generator.normal(1, self._spread) * noisy(generator, count)

    def seeded(self, seed: int) -> tuple[np.random.Generator, "Wobbling"]:
        return np.random.default_rng(seed), self


def measured(rule: StopRule, latencies: Latencies, size: int = 100, seed: int = 1) -> tuple[int, int]:
    """How many blocks of 100 ms a rule asks for, and why it stops."""
    stopping, generator, blocks = Stopping(rule), np.random.default_rng(seed), 0
    while (reason := stopping.verdict()) == STOP_REASON_UNSPECIFIED:
        stopping.add(to_series(latencies(generator, size)), BLOCK_NS, disturbed=False)
        blocks += 1
        assert blocks < 5000
    return blocks, reason
