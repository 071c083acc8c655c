"""Over a thousand simulated runs, the median's interval contains the true median as often as it promises.

Nominal coverage is 95 %; 93 % is what chance leaves of it over 1,000 runs.
"""

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import norm

from enginebench_controller.records import BlockSamples
from enginebench_controller.stats.summary import summarize

pytestmark = pytest.mark.slow

RUNS = 1000
BLOCKS = 40
SAMPLES = 50
TYPICAL_NS = 1e6


def constant_with_jitter(generator, shape):
    """A clock that ticks every 25 ns: many equal samples."""
    return TYPICAL_NS + 25 * np.round(generator.normal(0, 4, shape))


def bimodal(generator, shape):
    fast = generator.random(shape) < 0.7
    return TYPICAL_NS * np.where(fast, generator.normal(1, 0.02, shape), generator.normal(1.5, 0.02, shape))


def lognormal(generator, shape):
    return TYPICAL_NS * generator.lognormal(0, 0.8, shape)


def pareto(generator, shape):
    return TYPICAL_NS * (1 + generator.pareto(1.2, shape))


def with_stalls(generator, shape):
    """Now and then a dozen samples in a row are slow, a fifth of all of them."""
    runs, blocks, samples = shape
    begins = generator.random((runs, blocks * samples)) < 1 / 50
    stalled = lfilter(np.ones(12), [1], begins) > 0
    normal = generator.normal(1, 0.03, shape)
    return TYPICAL_NS * np.where(stalled.reshape(shape), generator.uniform(2, 20, shape), normal)


def with_stalled_blocks(generator, shape):
    """One block in seven is slow as a whole."""
    stalled = generator.random((*shape[:-1], 1)) < 1 / 7
    return TYPICAL_NS * np.where(stalled, generator.uniform(2, 20, shape), generator.normal(1, 0.03, shape))


def blocks_that_differ(generator, shape):
    return TYPICAL_NS * (generator.normal(1, 0.02, shape) + generator.normal(0, 0.02, (*shape[:-1], 1)))


def autocorrelated(generator, shape):
    """Each sample by 0.95 as the one before, across blocks."""
    runs, blocks, samples = shape
    noise = generator.normal(0, 0.01, (runs, 200 + blocks * samples))
    return TYPICAL_NS * (1 + lfilter([1], [1, -0.95], noise)[:, 200:].reshape(shape))


def drifting_blocks(generator, shape):
    """Each block by 0.5 as the one before: neighbours do not tell two things."""
    runs, blocks, _ = shape
    noise = generator.normal(0, 0.02, (runs, 50 + blocks))
    levels = lfilter([1], [1, -0.5], noise)[:, 50:, None]
    return TYPICAL_NS * (1 + levels + generator.normal(0, 0.01, shape))


MEDIAN_OF_BIMODAL = 1 + 0.02 * norm.ppf(0.5 / 0.7)
# Half of all samples lie below the median, of which stalled ones are none.
MEDIAN_WITH_STALLS = 1 + 0.03 * norm.ppf(0.5 / (1 - 1 / 50) ** 12)
MEDIAN_WITH_STALLED_BLOCKS = 1 + 0.03 * norm.ppf(0.5 / (1 - 1 / 7))

TRUTHS = [
    (constant_with_jitter, 1.0),
    (bimodal, MEDIAN_OF_BIMODAL),
    (lognormal, 1.0),
    (pareto, 2 ** (1 / 1.2)),
    (with_stalls, MEDIAN_WITH_STALLS),
    (with_stalled_blocks, MEDIAN_WITH_STALLED_BLOCKS),
    (blocks_that_differ, 1.0),
    (autocorrelated, 1.0),
    (drifting_blocks, 1.0),
]


def run(latencies, process=0):
    return [BlockSamples(process, index, block.astype(np.int64)) for index, block in enumerate(latencies)]


def coverage(runs, truth_ns):
    """The share of intervals of the median that contain the truth; all but a few runs must have one."""
    found = [summarize(samples).median_interval for samples in runs]
    given = [interval for interval in found if interval is not None]
    assert len(given) >= 0.97 * len(found)
    return np.mean([interval.low <= truth_ns <= interval.high for interval in given])


@pytest.mark.parametrize(("draw", "median"), TRUTHS, ids=lambda one: getattr(one, "__name__", ""))
def test_one_process(draw, median):
    latencies = draw(np.random.default_rng(3), (RUNS, BLOCKS, SAMPLES))

    assert coverage((run(one) for one in latencies), median * TYPICAL_NS) >= 0.93


@pytest.mark.parametrize("blocks", [6, 12])
def test_few_blocks(blocks):
    latencies = blocks_that_differ(np.random.default_rng(blocks), (RUNS, blocks, SAMPLES))

    assert coverage((run(one) for one in latencies), TYPICAL_NS) >= 0.93


def test_blocks_of_few_samples():
    latencies = lognormal(np.random.default_rng(5), (RUNS, BLOCKS, 2))

    assert coverage((run(one) for one in latencies), TYPICAL_NS) >= 0.93


@pytest.mark.parametrize("processes", [2, 3, 5])
def test_processes_that_differ(processes):
    """Each process is faster or slower as a whole, which blocks cannot tell."""
    generator = np.random.default_rng(processes)
    latencies = generator.normal(1, 0.02, (RUNS, processes, 8, 25)) + generator.normal(0, 0.05, (RUNS, processes, 1, 1))

    runs = [[block for k, one in enumerate(each) for block in run(TYPICAL_NS * one, k)] for each in latencies]

    assert coverage(runs, TYPICAL_NS) >= 0.93
    # What the blocks of a single one of them would promise.
    assert coverage([run(TYPICAL_NS * each[0]) for each in latencies], TYPICAL_NS) < 0.5


def test_intervals_are_no_wider_than_they_need_to_be():
    latencies = lognormal(np.random.default_rng(7), (RUNS, BLOCKS, SAMPLES))

    found = [summarize(run(one)).median_interval for one in latencies]
    widths = [interval.high - interval.low for interval in found]

    # The median of a lognormal sample has a standard error of √(π/2)·σ/√n of itself.
    assert np.mean(widths) < 1.1 * 2 * 1.96 * np.sqrt(np.pi / 2) * 0.8 / np.sqrt(BLOCKS * SAMPLES) * TYPICAL_NS
