"""A percentile is shown only with enough samples behind it."""

import pytest
from scipy.stats import binom

from enginebench_controller.stats.summary import PERCENTS, samples_needed


@pytest.mark.parametrize(("percent", "needed"), [(50, 11), (90, 64), (95, 130), (99, 662), (99.9, 6636)])
def test_the_counts_are_those_of_loadgens_early_stopping(percent, needed):
    assert samples_needed(percent) == needed


@pytest.mark.parametrize("percent", PERCENTS)
def test_one_sample_fewer_would_leave_the_tail_to_chance(percent):
    needed, above = samples_needed(percent), (100 - percent) / 100

    assert binom.cdf(1, needed, above) <= 0.01 < binom.cdf(1, needed - 1, above)


@pytest.mark.parametrize("percent", [0, 49.9, 100])
def test_what_is_no_upper_percentile_is_refused(percent):
    with pytest.raises(ValueError, match="percentiles"):
        samples_needed(percent)
