"""What a profile amounts to: only layers with times count, and each figure says how sure it is or is None."""

from dataclasses import replace

import numpy as np
import pytest

import invented_profiles
from enginebench_controller.records import IntervalMethod, LayerState
from enginebench_controller.stats import layers

RAN, REORDER, *SILENT = invented_profiles.layers()


def timed(*times_ns, **fields):
    return replace(RAN, time_ns=times_ns, **fields)


def test_a_mean_is_over_the_inferences_and_missing_is_not_zero():
    assert layers.mean_ns(RAN) == 6
    assert [layers.mean_ns(layer) for layer in SILENT] == [None] * 3
    assert layers.mean_ns(timed()) is None
    assert layers.mean_ns(timed(0, 0)) == 0


def test_the_interval_of_a_mean_is_students_over_the_inferences():
    interval = layers.interval(timed(5, 6, 7))
    half = 4.302653 * 1 / np.sqrt(3)  # t with 2 degrees of freedom; the standard deviation is 1
    assert (interval.low, interval.high) == pytest.approx((6 - half, 6 + half))
    assert (interval.level, interval.method) == (0.95, IntervalMethod.ITERATIONS_T)
    assert layers.interval(timed(5)) is None
    assert layers.interval(SILENT[0]) is None


def test_the_interval_covers_the_true_mean_as_often_as_it_says_also_where_inferences_follow_their_neighbours():
    random = np.random.default_rng(1)
    for correlation in (0.0, 0.5):
        covered = sum(holds(random, correlation) for _ in range(400)) / 400
        assert 0.89 < covered < 0.99, correlation


def holds(random, correlation):
    noise = random.standard_normal(40)
    for i in range(1, 40):
        noise[i] = correlation * noise[i - 1] + np.sqrt(1 - correlation**2) * noise[i]
    interval = layers.interval(timed(*(1_000_000 + 50_000 * noise).astype(int).tolist()))
    return interval.low <= 1_000_000 <= interval.high


def test_sums_and_ratios_hold_only_what_is_known():
    whole = invented_profiles.profile(unprofiled_latency_ns=10)
    assert layers.total_ns(whole.layers) == pytest.approx(6 + 10 / 3)
    assert layers.layers_to_latency(whole) == pytest.approx(9 / 10), "the sums are 8, 9 and 11"
    assert layers.profiled_to_unprofiled(whole) == 2.0
    assert layers.share(RAN, 12) == 0.5

    nothing = invented_profiles.profile(layers=tuple(SILENT))
    assert layers.total_ns(nothing.layers) is None
    assert layers.layers_to_latency(nothing) is None
    assert layers.profiled_to_unprofiled(nothing) is None
    assert layers.share(SILENT[0], 12) is None


def test_the_sum_in_words_tells_of_means_that_a_few_slow_inferences_moved():
    def profiled(*times_ns):
        return invented_profiles.profile(unprofiled_latency_ns=10, layers=(timed(*times_ns),))

    assert layers.layers_to_latency_words(profiled(8, 8, 8)) == "0.80"
    assert layers.layers_to_latency_words(profiled(8, 8, 44)) == "0.80 by medians, 2.00 by means"
    assert layers.layers_to_latency_words(profiled(0, 0, 0)) == "0.00"
    assert layers.layers_to_latency_words(invented_profiles.profile(layers=tuple(SILENT))) is None


def test_types_are_summed_over_timed_layers_with_their_precisions():
    profiled = (timed(10, precision="f32"), timed(20, precision="u8"), timed(30, type="Pool", precision=""), *SILENT)
    first, second = layers.by_type(profiled)

    assert (first.type, first.time_ns, first.share, first.layers) == ("Conv", 30, 0.5, 2)
    assert first.precisions == {"f32": 1, "u8": 1}
    assert (second.type, second.precisions) == ("Pool", {"": 1})


def test_the_slowest_come_first_and_those_without_a_time_last_not_before_a_time_of_zero():
    profiled = (SILENT[0], timed(0, order=9), timed(7, order=8), timed(7, order=3))
    assert [layer.order for layer in layers.slowest_first(profiled)] == [3, 8, 9, SILENT[0].order]
    assert SILENT[0].state is LayerState.NOT_EXECUTED
