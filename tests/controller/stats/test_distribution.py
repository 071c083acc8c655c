"""A distribution says the same as the samples themselves, in memory that stays flat."""

import numpy as np
import pytest

from enginebench_controller.stats.distribution import MAX_EXACT_VALUES, RESOLUTION, Distribution


def drawn(count, seed=0, scale=1e6):
    return (scale * np.random.default_rng(seed).lognormal(0, 0.4, count)).astype(np.int64)


def chunks(samples, count=7):
    return np.array_split(samples, count)


def test_every_statistic_is_that_of_the_samples():
    samples = drawn(10_001)
    found = Distribution.of(chunks(samples))

    assert (found.size, found.total) == (samples.size, samples.sum())
    assert (found.minimum, found.maximum) == (samples.min(), samples.max())
    assert found.mean == pytest.approx(samples.mean())
    assert found.sd == pytest.approx(samples.std(ddof=1))
    assert found.median == np.median(samples)
    assert found.mad == np.median(np.abs(samples - np.median(samples)))
    assert found.resolution == 0


@pytest.mark.parametrize("count", [1, 2, 5, 100, 1001])
def test_quantiles_are_numpys(count):
    samples = np.random.default_rng(count).integers(0, 20, count)  # with many ties
    found = Distribution.of([samples])

    for share in (0, 0.1, 0.25, 0.5, 0.9, 0.999, 1):
        assert found.quantile(share) == pytest.approx(np.quantile(samples, share))


def test_samples_below_and_above_a_bound_are_counted_without_those_equal_to_it():
    found = Distribution.of([np.array([5, 1, 3, 3, 9])])

    assert (found.count_below(3), found.count_above(3)) == (1, 2)
    assert (found.count_below(0), found.count_above(9)) == (0, 0)
    assert (found.count_below(9.5), found.count_above(0.5)) == (5, 5)


def test_parts_merge_into_the_whole():
    samples = drawn(1000)
    parts = [Distribution.of([part]) for part in chunks(samples)]

    merged, whole = Distribution.merged(parts), Distribution.of([samples])

    assert np.array_equal(merged.values, whole.values)
    assert np.array_equal(merged.counts, whole.counts)
    assert (merged.total, merged.minimum, merged.maximum) == (whole.total, whole.minimum, whole.maximum)


def test_too_many_distinct_values_are_rounded_and_the_distribution_says_so():
    samples = drawn(2_000_000, scale=1e9)
    found = Distribution.of(chunks(samples))

    assert found.resolution == RESOLUTION
    assert found.values.size < MAX_EXACT_VALUES
    assert (found.size, found.total) == (samples.size, samples.sum())
    assert (found.minimum, found.maximum) == (samples.min(), samples.max())
    for share in (0.01, 0.5, 0.999):
        assert found.quantile(share) == pytest.approx(np.quantile(samples, share), rel=RESOLUTION / 2)
    assert found.sd == pytest.approx(samples.std(ddof=1), rel=RESOLUTION)


@pytest.mark.slow
def test_memory_does_not_grow_with_ten_times_the_samples():
    few, many = (Distribution.of(drawn(400_000, seed, 1e9) for seed in range(count)) for count in (1, 10))

    assert many.size == 10 * few.size
    assert many.values.size < 1.5 * few.values.size


def test_one_sample_has_no_spread():
    found = Distribution.of([np.array([7])])

    assert (found.median, found.sd, found.mad) == (7, None, 0)


@pytest.mark.parametrize("samples", [[], [[1, 2]], [5, -1]])
def test_what_is_no_list_of_latencies_is_refused(samples):
    with pytest.raises(ValueError, match="latenc"):
        Distribution.of([np.asarray(samples, dtype=np.int64)])


def test_a_share_beyond_one_has_no_quantile():
    with pytest.raises(ValueError, match="between 0 and 1"):
        Distribution.of([np.array([7])]).quantile(1.01)
