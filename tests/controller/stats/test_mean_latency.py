"""The interval of a mean comes from processes, or from the blocks of one, as that of the throughput does."""

import numpy as np

from enginebench_controller.records import IntervalMethod
from enginebench_controller.records.run import BlockLatency
from enginebench_controller.stats import intervals
from enginebench_controller.stats.summary import mean_interval


def block(process, index, samples, total_ns):
    return BlockLatency(process, index, samples, total_ns, median_ns=total_ns / max(samples, 1))


def test_several_processes_are_observations_by_their_own_means():
    blocks = [block(0, 0, 1, 100), block(0, 1, 3, 500), block(1, 0, 4, 680), block(2, 0, 2, 320)]

    assert mean_interval(blocks) == intervals.over_processes([150, 170, 160])
    assert mean_interval(blocks).method is IntervalMethod.PROCESSES_T


def test_one_process_is_told_by_its_blocks_and_too_few_tell_nothing():
    generator = np.random.default_rng(7)
    totals = generator.normal(1000, 10, 40).astype(int)
    blocks = [block(0, index, 10, int(total)) for index, total in enumerate(totals)]

    found = mean_interval(blocks)

    assert found.method is IntervalMethod.BLOCKS_T
    assert found.low < totals.sum() / 400 < found.high
    assert mean_interval(blocks[:5]) is None
    assert mean_interval([]) is None


def test_blocks_that_were_measured_again_count_for_nothing():
    blocks = [block(0, 0, 2, 200), block(1, 0, 2, 240), block(1, 1, 2, 9_000)]

    found = mean_interval(blocks, excluded={(1, 1)})

    assert found == intervals.over_processes([100, 120])
