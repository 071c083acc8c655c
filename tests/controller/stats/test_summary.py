"""Summaries say no more than the samples allow."""

import numpy as np
import pytest

from enginebench_controller.stats.summary import summarize, throughput_items_per_s


def ns(values):
    return np.asarray(values, dtype=np.int64)


def test_a_summary_of_known_samples():
    summary = summarize(ns([4, 1, 3, 2]))

    assert (summary.samples, summary.min_ns, summary.max_ns) == (4, 1, 4)
    assert (summary.mean_ns, summary.median_ns) == (2.5, 2.5)
    assert summary.sd_ns == pytest.approx(np.sqrt(5 / 3))


def test_percentiles_are_interpolated_between_order_statistics():
    summary = summarize(ns(range(101)))

    assert (summary.median_ns, summary.p90_ns, summary.p95_ns, summary.p99_ns) == (50, 90, 95, 99)
    assert summarize(ns(range(100))).p99_ns == pytest.approx(98.01)


@pytest.mark.parametrize(("count", "known"), [(9, ""), (10, "p90"), (19, "p90"), (20, "p90 p95"), (99, "p90 p95")])
def test_a_percentile_without_enough_samples_behind_it_is_unknown(count, known):
    summary = summarize(ns(range(1, count + 1)))

    percentiles = {"p90": summary.p90_ns, "p95": summary.p95_ns, "p99": summary.p99_ns}
    assert " ".join(name for name, value in percentiles.items() if value is not None) == known


def test_a_hundred_samples_have_every_percentile():
    summary = summarize(ns(range(100)))

    assert None not in (summary.p90_ns, summary.p95_ns, summary.p99_ns)


def test_one_sample_has_no_spread():
    summary = summarize(ns([7]))

    assert (summary.median_ns, summary.sd_ns) == (7, None)


@pytest.mark.parametrize("samples", [[], [[1, 2]], [5, -1]])
def test_what_is_no_list_of_latencies_is_refused(samples):
    with pytest.raises(ValueError, match="latenc"):
        summarize(ns(samples))


def test_throughput_counts_items_over_the_wall_clock():
    assert throughput_items_per_s(iterations=50, batch=4, steady_state_ns=2_000_000_000) == 100.0


def test_no_time_has_no_throughput():
    with pytest.raises(ValueError, match="no throughput"):
        throughput_items_per_s(1, 1, 0)
