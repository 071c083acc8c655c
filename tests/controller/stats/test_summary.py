"""Summaries say what is true of the samples, and no more than they allow."""

import numpy as np
import pytest

from enginebench_controller.records import Block, BlockSamples, IntervalMethod
from enginebench_controller.stats.summary import process_medians, process_spread, summarize, throughput


def blocks(*latencies, process=0):
    """The blocks of one process."""
    return [BlockSamples(process, index, np.asarray(one, dtype=np.int64)) for index, one in enumerate(latencies)]


def noisy_blocks(count, size, process=0, centre=1e6):
    generator = np.random.default_rng([process, count, size])
    return blocks(*(generator.normal(centre, centre / 100, size) for _ in range(count)), process=process)


def test_a_summary_of_known_samples():
    summary = summarize(blocks([4, 1], [3, 2]))

    assert (summary.samples, summary.min_ns, summary.max_ns) == (4, 1, 4)
    assert (summary.mean_ns, summary.median_ns, summary.mad_ns) == (2.5, 2.5, 1)
    assert summary.sd_ns == pytest.approx(np.sqrt(5 / 3))
    assert summary.cv == pytest.approx(np.sqrt(5 / 3) / 2.5)


def test_percentiles_are_interpolated_between_order_statistics():
    summary = summarize(blocks(range(10_001)))

    assert summary.median_ns == 5000
    assert [summary.percentile_ns(percent) for percent in (50, 90, 95, 99, 99.9)] == pytest.approx(
        [5000, 9000, 9500, 9900, 9990]
    )
    assert summarize(blocks(range(1000))).percentile_ns(99) == pytest.approx(989.01)


@pytest.mark.parametrize(
    ("count", "known"), [(10, ()), (63, (50,)), (64, (50, 90)), (130, (50, 90, 95)), (662, (50, 90, 95, 99))]
)
def test_a_percentile_without_enough_samples_says_how_many_it_needs(count, known):
    summary = summarize(blocks(range(count)))

    assert tuple(one.percent for one in summary.percentiles if one.value_ns is not None) == known
    assert [one.samples_needed for one in summary.percentiles] == [11, 64, 130, 662, 6636]


def test_the_median_is_shown_of_however_few_samples():
    assert summarize(blocks([7])).median_ns == 7


def test_one_sample_has_no_spread_and_no_interval():
    summary = summarize(blocks([7]))

    assert (summary.sd_ns, summary.cv, summary.median_interval) == (None, None, None)


def test_outliers_lie_outside_tukeys_fences():
    # Quartiles 25 and 75: the fences are at -50 and 150.
    assert summarize(blocks([0, 25, 50, 75, 150])).outliers == 0
    assert summarize(blocks([0, 25, 50, 75, 151])).outliers == 1
    assert summarize(blocks([25, 1000, 1025], [1050, 1075])).outliers == 1


def test_excluded_blocks_count_nowhere_but_are_counted():
    samples = blocks([1, 2, 3], [1000, 1000], [4, 5])

    summary = summarize(samples, excluded={(0, 1)})

    assert (summary.samples, summary.excluded, summary.max_ns) == (5, 2, 5)
    assert summary.median_ns == 3


def test_excluded_blocks_do_not_move_the_interval():
    clean = noisy_blocks(20, 50)
    stalled = [*clean, *(BlockSamples(0, index, np.full(50, 9_000_000)) for index in range(20, 30))]

    kept = summarize(stalled, excluded={(0, index) for index in range(20, 30)})

    assert kept.median_interval == summarize(clean).median_interval


def test_one_process_has_an_interval_over_its_blocks():
    summary = summarize(noisy_blocks(40, 50))

    interval = summary.median_interval
    assert (interval.method, interval.level) == (IntervalMethod.BLOCKS, 0.95)
    assert interval.low < summary.median_ns < interval.high
    # A normal sample's median has a standard error of 1.25 · SD / √n.
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * 1.25 * 1e4 / np.sqrt(2000), rel=0.5)


def test_five_blocks_are_too_few_for_an_interval():
    assert summarize(noisy_blocks(5, 50)).median_interval is None
    assert summarize(noisy_blocks(6, 50)).median_interval is not None


def test_samples_that_are_all_equal_have_an_interval_without_width():
    interval = summarize(blocks(*[[5] * 20] * 10)).median_interval

    assert (interval.low, interval.high) == (5, 5)


def test_an_interval_that_would_end_beyond_the_slowest_sample_is_not_given():
    quiet = noisy_blocks(8, 100)
    stalled = [*quiet[:-1], BlockSamples(0, 7, 2_000_000 + np.arange(100))]

    by_percent = {one.percent: one for one in summarize(stalled).percentiles}

    assert by_percent[50].interval is not None
    assert by_percent[95].value_ns is not None
    assert by_percent[95].interval is None


def test_several_processes_have_the_interval_of_their_medians():
    samples = [*blocks([99, 100, 101]), *blocks([101, 102, 103], process=1), *blocks([103, 104, 105], process=2)]

    summary = summarize(samples)

    # t with 2 degrees of freedom is 4.303; the medians 100, 102 and 104 have an SD of 2.
    half = 4.302653 * 2 / np.sqrt(3)
    assert summary.median_interval.method is IntervalMethod.PROCESSES_T
    assert (summary.median_interval.low, summary.median_interval.high) == pytest.approx((102 - half, 102 + half))
    assert summary.median_relative_half_width == pytest.approx(half / 102)


def test_a_percentile_has_an_interval_over_processes_only_if_each_has_enough_samples():
    enough, too_few = noisy_blocks(2, 65), noisy_blocks(1, 100, process=1)

    def interval(*processes):
        samples = [one for process in processes for one in process]
        return next(one.interval for one in summarize(samples).percentiles if one.percent == 95)

    assert interval(enough, noisy_blocks(2, 65, process=1)) is not None
    assert interval(enough, too_few) is None


def test_medians_and_spread_of_processes():
    medians = process_medians([*blocks([1, 100], [100]), *blocks([150, 150], [1, 1, 1], process=3)], {(3, 1)})

    assert medians == {0: 100, 3: 150}
    assert process_spread(medians) == pytest.approx(0.5)
    assert process_spread({0: 100}) is None


@pytest.mark.parametrize("samples", [[], blocks([5, -1]), blocks([[1, 2]])])
def test_what_is_no_list_of_latencies_is_refused(samples):
    with pytest.raises(ValueError, match="latenc"):
        summarize(samples)


def test_a_measurement_of_excluded_blocks_only_is_refused():
    with pytest.raises(ValueError, match="latenc"):
        summarize(blocks([1, 2]), excluded=[(0, 0)])


def timed(process, index, iterations, duration_ms):
    return Block(process, index, begin_ns=0, duration_ns=duration_ms * 1_000_000, iterations=iterations)


def test_throughput_counts_items_over_the_wall_clock():
    rate, interval = throughput([timed(0, 0, 30, 1000), timed(0, 1, 20, 1000)], batch=4)

    assert (rate, interval) == (100.0, None)


def test_throughput_of_one_process_varies_with_its_blocks():
    counts = (100, 102, 98, 101, 99, 100, 103, 97)
    rate, interval = throughput([timed(0, index, count, 1000) for index, count in enumerate(counts)], batch=1)

    # t with 7 degrees of freedom is 2.365.
    half = 2.364624 * np.std(counts, ddof=1) / np.sqrt(8)
    assert rate == 100
    assert interval.method is IntervalMethod.BLOCKS_T
    assert (interval.low, interval.high) == pytest.approx((100 - half, 100 + half))


def test_throughput_of_several_processes_varies_with_them():
    made = [timed(process, 0, count, 1000) for process, count in enumerate((90, 100, 110))]
    rate, interval = throughput([*made, timed(0, 1, 5, 1000)], batch=2, excluded={(0, 1)})

    half = 4.302653 * 20 / np.sqrt(3)
    assert rate == 200
    assert interval.method is IntervalMethod.PROCESSES_T
    assert (interval.low, interval.high) == pytest.approx((200 - half, 200 + half))


def test_no_time_has_no_throughput():
    with pytest.raises(ValueError, match="no throughput"):
        throughput([timed(0, 0, 1, 0)], 1)
