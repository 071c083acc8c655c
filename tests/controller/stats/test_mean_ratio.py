"""Ratios of means: their intervals agree with the test, and cover what they should."""

import numpy as np
import pytest
from scipy import stats

from enginebench_controller.stats.layers import Mean, compare_means, half_width, mean_of, sum_of


def test_the_test_is_welchs():
    random = np.random.default_rng(1)
    a, b = random.normal(100, 5, 11), random.normal(104, 9, 8)
    found = compare_means(mean_of(a), mean_of(b))
    assert found.p_value == pytest.approx(stats.ttest_ind(a, b, equal_var=False).pvalue)
    assert found.difference == pytest.approx(b.mean() - a.mean())
    assert half_width(mean_of(a)) == pytest.approx(stats.t.ppf(0.975, 10) * a.std(ddof=1) / np.sqrt(11))


@pytest.mark.parametrize("shift", [0.5, 2.0, 3.0, 4.0, 6.0, 9.0])
@pytest.mark.parametrize("comparisons", [1, 50])
def test_the_ratios_interval_excludes_1_exactly_when_the_test_tells_the_means_apart(shift, comparisons):
    random = np.random.default_rng(2)
    found = compare_means(mean_of(random.normal(50, 3, 10)), mean_of(random.normal(50 + shift, 3, 10)), comparisons)
    assert found.low < found.ratio < found.high
    assert (found.low > 1) == (found.p_value < 0.05)


def test_the_interval_covers_the_true_ratio_as_often_as_it_says():
    random = np.random.default_rng(3)
    found = [
        compare_means(mean_of(random.normal(100, 10, 20)), mean_of(random.normal(120, 25, 20))) for _ in range(1_000)
    ]
    assert sum(one.low <= 1.2 <= one.high for one in found) / len(found) == pytest.approx(0.95, abs=0.02)


def test_values_that_follow_their_neighbours_count_for_fewer():
    random = np.random.default_rng(4)
    steps = np.repeat(random.normal(100, 5, 10), 8)
    assert mean_of(steps).error > 1.5 * mean_of(random.permutation(steps)).error


def test_a_mean_that_may_well_be_zero_bounds_no_ratio():
    found = compare_means(Mean(1.0, 2.0, 5), Mean(3.0, 0.1, 5))
    assert (found.ratio, found.low, found.high) == (3.0, None, None)
    assert compare_means(Mean(0.0, 0.0, 5), Mean(0.0, 0.0, 5)).p_value == 1
    assert compare_means(Mean(0.0, 0.0, 5), Mean(2.0, 0.0, 5)).p_value == 0


def test_one_value_has_no_known_error_and_sums_add_their_errors():
    assert mean_of(np.array([1.0])) is None
    found = sum_of([Mean(1.0, 3.0, 4), Mean(2.0, 4.0, 4)])
    assert (found.value, found.error) == (3.0, 5.0)
