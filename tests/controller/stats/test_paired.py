"""Pairs of processes: what one bad block or process moves, how often the interval holds, and what looking costs."""

from math import exp, inf, log, sqrt

import numpy as np
import pytest
from scipy import stats

from enginebench_controller.stats.paired import (
    LOOKED_AT,
    detectable,
    estimate,
    interval,
    log_ratio,
    sequential_interval,
    spread,
)

TRIALS = 1000


def errors(found, true):
    """The share of intervals that do not contain the true value."""
    return np.mean([not one.low <= true <= one.high for one in found])


def allowed(nominal, trials=TRIALS):
    """How many of so many trials err by chance at most, at a rate that is as nominal."""
    return stats.binom.ppf(0.999, trials, nominal) / trials


def normal(generator, pairs, sd=0.02):
    return generator.normal(0, sd, pairs)


def with_bad_processes(generator, pairs, sd=0.02):
    """One process in twenty is slower by 10 to 40 % for as long as it lives, on either side."""
    bad = (generator.random((2, pairs)) < 0.025) * generator.uniform(0.1, 0.4, (2, pairs))
    return normal(generator, pairs, sd) + bad[0] - bad[1]


def with_busy_spells(generator, pairs, sd=0.02):
    """A third of the time, three pairs in succession, a neighbour is busy and all scatters five times as much."""
    busy = np.empty(pairs, dtype=bool)
    now = generator.random() < 0.3
    for place in range(pairs):
        busy[place] = now
        now = generator.random() >= 1 / 3 if now else generator.random() < 1 / 7
    return normal(generator, pairs, sd) * np.where(busy, 5, 1)


def test_the_log_ratio_of_a_pair_is_the_median_over_its_blocks():
    assert log_ratio([100, 200, 300], [110, 260, 330]) == pytest.approx(log(1.1))
    assert log_ratio([110], [100]) == -log_ratio([100], [110])


def test_bad_blocks_do_not_move_the_log_ratio():
    usual = [100.0] * 11
    disturbed = [*[103.0] * 7, 900.0, 800.0, 700.0, 600.0]

    assert log_ratio(usual, disturbed) == pytest.approx(log(1.03))
    assert np.mean(np.log(disturbed)) > log(200)


def test_without_blocks_or_with_a_median_of_0_there_is_no_log_ratio():
    assert log_ratio([], []) is None
    assert log_ratio([1, 0], [1, 1]) is None
    assert log_ratio([1, 1], [1, 0]) is None
    with pytest.raises(ValueError, match="as many on both sides, not 2 and 1"):
        log_ratio([1, 1], [1])


@pytest.mark.parametrize("pairs", [2, 3, 5])
def test_of_few_pairs_the_interval_is_students(pairs):
    values = np.random.default_rng(pairs).normal(0.02, 0.01, pairs)
    expected = stats.ttest_1samp(values, 0)

    found = interval(values)

    ends = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high))
    assert found.middle == pytest.approx(values.mean())
    assert estimate(values).p_value == pytest.approx(expected.pvalue)


def test_of_many_pairs_the_estimate_is_yuens_trimmed_mean():
    """A fifth of all but one of 21 values is four at each end, and 13 are left."""
    values = np.random.default_rng(3).standard_t(3, 21)
    moved = stats.mstats.winsorize(values, (0.2, 0.2))
    error = sqrt(20 * moved.var(ddof=1) / (13 * 12))

    found = interval(values)

    assert found.middle == pytest.approx(stats.trim_mean(values, 0.2))
    assert found.half == pytest.approx(stats.t.ppf(0.975, 12) * error)
    assert estimate(values).p_value == pytest.approx(2 * stats.t.sf(abs(found.middle) / error, 12))


def test_one_bad_pair_of_six_does_not_move_the_estimate():
    good = [0.028, 0.029, 0.030, 0.031, 0.032]

    found = interval([*good, 0.5])

    assert abs(found.middle - 0.03) < 0.002
    assert found.low > 0.025
    assert np.mean([*good, 0.5]) > 0.1


def test_one_pair_has_no_interval():
    assert interval([0.1]) is None
    assert sequential_interval([0.1], 10) is None
    assert spread([]) is None


def test_pairs_that_do_not_differ_have_an_interval_without_width():
    found = sequential_interval([0.02] * 4, 20)

    assert (found.low, found.middle, found.high) == pytest.approx((0.02, 0.02, 0.02))


@pytest.mark.parametrize("noise", [normal, with_bad_processes, with_busy_spells])
@pytest.mark.parametrize("pairs", [3, 6, 12, 30])
def test_the_interval_of_a_fixed_number_of_pairs_holds(noise, pairs):
    generator = np.random.default_rng([pairs, len(noise.__name__)])

    found = [interval(0.03 + noise(generator, pairs)) for _ in range(TRIALS)]

    assert errors(found, 0.03) <= allowed(0.06)  # a trimmed mean of six normal values errs in 5.9 %


def looks(values, most):
    return (sequential_interval(values[:pairs], most) for pairs in range(2, most + 1))


@pytest.mark.parametrize("noise", [normal, with_bad_processes, with_busy_spells])
@pytest.mark.parametrize("most", [5, 25])
def test_looking_after_every_pair_costs_no_false_alarms(noise, most):
    generator = np.random.default_rng([most, len(noise.__name__)])
    trials = 500

    ever_off = [any(one.low > 0 or one.high < 0 for one in looks(noise(generator, most), most)) for _ in range(trials)]

    assert np.mean(ever_off) <= allowed(0.05, trials)


def test_looking_after_every_pair_at_the_usual_interval_would_cost_false_alarms():
    """That the test above can fail."""
    generator = np.random.default_rng(4)
    drawn = [normal(generator, 25) for _ in range(300)]

    ever_off = [any(interval(one[:pairs]).low > 0 for pairs in range(2, 26)) for one in drawn]

    assert np.mean(ever_off) > 0.07


def test_the_last_look_is_hardly_wider_than_a_single_one():
    values = np.random.default_rng(5).normal(0, 0.02, 40)

    assert 1.1 < sequential_interval(values, 40).half / interval(values).half < 1.25
    assert sequential_interval(values, 39) == sequential_interval(values, 40)  # more than planned are no harm
    assert sequential_interval(values[:6], 40).half > 3 * interval(values[:6]).half
    assert 2.24 < LOOKED_AT < 2.25


@pytest.mark.parametrize("most", [10, 100, 300, 500, 700, 900, 100_000])
def test_the_first_look_of_very_many_is_as_wide_as_can_be(most):
    found = sequential_interval([0.01, 0.02], most)

    assert found.low < 0 < found.high
    assert most < 900 or (found.low, found.high) == (-inf, inf)
    assert most == 10 or found.ratios == (pytest.approx(exp(0.015)), 0, inf)


def test_the_spread_is_the_standard_deviation_from_pair_to_pair():
    values = np.random.default_rng(6).normal(0, 0.02, 4000)

    assert spread(values) == pytest.approx(0.02 * 1.05, rel=0.05)  # a trimmed mean's error is larger by a twentieth
    assert spread(values[:5]) == pytest.approx(np.std(values[:5], ddof=1))


@pytest.mark.parametrize("least", [0.0, 0.01, 0.03])
def test_what_is_called_detectable_is_found_in_nine_of_ten_cases(least):
    generator = np.random.default_rng(7)
    true = detectable(0.02 * 1.05, 25, least)

    last = [sequential_interval(true + normal(generator, 25), 25) for _ in range(TRIALS)]

    found = np.mean([one.low > 0 and one.middle > least for one in last])
    assert stats.binom.ppf(0.001, TRIALS, 0.9) / TRIALS <= found <= 0.95


def test_nothing_is_detectable_with_one_pair():
    with pytest.raises(ValueError, match="2 are needed"):
        detectable(0.02, 1)


def test_ratios_are_those_of_the_logs():
    found = interval([log(1.02), log(1.04)])

    assert found.ratios == pytest.approx((sqrt(1.02 * 1.04), exp(found.low), exp(found.high)))
