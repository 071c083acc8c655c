"""A comparison finds what is there, seldom what is not, and says when it cannot tell."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from enginebench_controller.records import BlockSamples
from enginebench_controller.stats.comparison import (
    Comparison,
    ComparisonMethod,
    Side,
    Verdict,
    compare,
    corrected,
    holm,
)

MS = 1_000_000
TRIALS = 2000


def side(medians):
    """A side from an array of block medians of shape (processes, blocks)."""
    blocks = {(process, block): float(value) for (process, block), value in np.ndenumerate(medians)}
    return Side(blocks, {process: float(np.median(one)) for process, one in enumerate(medians)})


def drawn(generator, processes, blocks, *, process_effect=0.03, block_effect=0.01):
    """Medians of processes that differ as wholes, and of blocks that differ within them."""
    effects = generator.normal(0, process_effect, (processes, 1)) + generator.normal(0, block_effect, (1, blocks))
    return 4 * MS * np.exp(effects + generator.normal(0, block_effect, (processes, blocks)))


def false_positives(trials):
    """The share of p-values below 5 %, and of verdicts that name a difference."""
    significant = np.mean([one.p_value < 0.05 for one in trials])
    different = np.mean([one.verdict in (Verdict.FASTER, Verdict.SLOWER) for one in trials])
    return significant, different


BOUND = stats.binom.ppf(0.999, TRIALS, 0.05) / TRIALS
"""How often equal things may seem unlike by chance at a nominal 5 %."""


@pytest.mark.parametrize("paired", [True, False])
@pytest.mark.parametrize("swapped", [True, False])
def test_a_median_of_0_has_no_ratio_and_a_note_says_why(paired, swapped):
    usual = side(np.full((3, 6), 4.0 * MS))
    sides = (usual, side(np.zeros((3, 6))))
    found = compare(*(sides[::-1] if swapped else sides), paired=paired)

    assert (found.ratio, found.low, found.high, found.p_value) == (None,) * 4
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "a median latency of 0 ns has no ratio" in found.note


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "paired"), [(2, True), (3, True), (5, True), (2, False), (3, False), (6, False)])
def test_equal_things_with_unlike_processes_seldom_seem_to_differ(processes, paired):
    generator = np.random.default_rng([processes, paired])

    def trial():
        a, b = (side(drawn(generator, processes, 10)) for _ in range(2))
        return compare(a, b, paired=paired)

    significant, different = false_positives([trial() for _ in range(TRIALS)])

    assert different <= significant <= BOUND


def test_equal_blocks_of_one_process_each_seldom_seem_to_differ():
    generator = np.random.default_rng(1)

    def trial():
        a, b = (side(drawn(generator, 1, 20, process_effect=0)) for _ in range(2))
        return compare(a, b, paired=True)

    significant, _ = false_positives([trial() for _ in range(TRIALS)])

    assert 0.02 <= significant <= BOUND


@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_contains_the_true_ratio(paired):
    generator = np.random.default_rng([7, paired])

    def trial():
        a, b = drawn(generator, 3, 10), 1.2 * drawn(generator, 3, 10)
        return compare(side(a), side(b), paired=paired)

    trials = [trial() for _ in range(1000)]

    assert np.mean([one.low <= 1.2 <= one.high for one in trials]) >= 0.93


@pytest.mark.parametrize(
    ("processes", "paired", "method"),
    [
        (3, True, ComparisonMethod.PAIRED_PROCESSES),
        (1, True, ComparisonMethod.PAIRED_BLOCKS),
        (3, False, ComparisonMethod.PROCESSES),
    ],
)
@pytest.mark.parametrize(("factor", "verdict"), [(1.2, Verdict.SLOWER), (0.8, Verdict.FASTER), (1.0, Verdict.SAME)])
def test_what_is_there_is_found(processes, paired, method, factor, verdict):
    generator = np.random.default_rng(11)
    a, b = (drawn(generator, processes, 12, process_effect=0.0005, block_effect=0.001) for _ in range(2))

    found = compare(side(a), side(factor * b), paired=paired)

    assert (found.verdict, found.method) == (verdict, method)
    assert found.low < factor < found.high
    assert found.ratio == pytest.approx(factor, rel=0.01)


def test_a_difference_too_small_to_matter_is_the_same():
    generator = np.random.default_rng(12)
    a, b = (drawn(generator, 1, 40, process_effect=0, block_effect=0.0005) for _ in range(2))

    found = compare(side(a), side(1.003 * b), paired=True)

    assert found.p_value < 0.001
    assert found.verdict is Verdict.SAME
    assert compare(side(a), side(1.003 * b), paired=True, practical=0.001).verdict is Verdict.SLOWER


def test_a_difference_that_may_or_may_not_matter_is_inconclusive():
    a = np.array([[1.0] * 8] * 3) * MS
    b = a * np.array([[1.0], [1.03], [1.06]])

    assert compare(side(a), side(b), paired=True).verdict is Verdict.INCONCLUSIVE


def test_what_disturbs_both_at_once_disturbs_no_paired_comparison():
    generator = np.random.default_rng(13)
    machine = np.exp(generator.normal(0, 0.3, (1, 20)))
    a, b = (drawn(generator, 3, 20, process_effect=0.001, block_effect=0.001) * machine for _ in range(2))

    assert compare(side(a), side(1.05 * b), paired=True).verdict is Verdict.SLOWER


def test_wilcoxons_p_value_is_scipys():
    generator = np.random.default_rng(14)
    for pairs in (6, 9, 25, 60):
        a, b = (drawn(generator, 1, pairs, process_effect=0.01) for _ in range(2))

        found = compare(side(a), side(b), paired=True)

        assert found.p_value == pytest.approx(stats.wilcoxon(np.log(b[0] / a[0]), method="exact").pvalue)
        assert (found.p_value < 0.05) == (not found.low <= 1 <= found.high)


def test_many_pairs_are_approximated_closely():
    generator = np.random.default_rng(15)
    a, b = (drawn(generator, 1, 150, process_effect=0.002) for _ in range(2))

    expected = stats.wilcoxon(np.log(b[0] / a[0]), method="approx", correction=True).pvalue

    assert compare(side(a), side(b), paired=True).p_value == pytest.approx(expected)


def test_welchs_p_value_is_scipys():
    generator = np.random.default_rng(16)
    a, b = drawn(generator, 3, 1), drawn(generator, 5, 1, process_effect=0.1)

    found = compare(side(a), side(b), paired=False)

    expected = stats.ttest_ind(np.log(b[:, 0]), np.log(a[:, 0]), equal_var=False)
    assert found.p_value == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((np.exp(interval.low), np.exp(interval.high)))


def test_one_process_each_not_interleaved_tells_nothing():
    found = compare(side(np.full((1, 20), 4.0)), side(np.full((1, 20), 8.0)), paired=False)

    assert (found.verdict, found.p_value, found.method) == (Verdict.INCONCLUSIVE, None, None)
    assert found.note == (
        "one process each tells nothing of the differences between processes; measure with two or more"
    )


@pytest.mark.parametrize(("blocks", "words"), [(1, "one pair of blocks is"), (5, "5 pairs of blocks are")])
def test_less_than_six_pairs_of_blocks_are_too_few(blocks, words):
    found = compare(side(np.full((1, blocks), 4.0)), side(np.full((1, blocks), 8.0)), paired=True)

    assert (found.verdict, found.note) == (Verdict.INCONCLUSIVE, f"{words} too few to tell; 6 are needed")


def test_one_process_each_interleaved_says_what_it_leaves_out():
    found = compare(side(np.full((1, 8), 4.0)), side(np.full((1, 8), 8.0)), paired=True)

    assert (found.verdict, found.ratio) == (Verdict.SLOWER, pytest.approx(2))
    assert found.note == "one process each: what differs from process to process is not in the interval"


@pytest.mark.parametrize(("processes", "paired"), [(1, True), (3, True), (3, False)])
def test_a_thing_is_the_same_as_itself(processes, paired):
    itself = side(np.full((processes, 8), 4.0))

    found = compare(itself, itself, paired=paired)

    assert (found.ratio, found.p_value, found.verdict) == (1, 1, Verdict.SAME)


def test_sides_come_from_raw_samples_without_excluded_blocks():
    samples = [
        BlockSamples(0, 0, np.array([1, 2, 3])),
        BlockSamples(0, 1, np.array([1000])),
        BlockSamples(2, 0, np.array([7, 9])),
    ]

    found = Side.of(samples, excluded={(0, 1)})

    assert found.blocks == {(0, 0): 2, (2, 0): 8}
    assert found.processes == {0: 2, 2: 8}


def test_only_blocks_that_both_have_are_compared():
    a, b = side(np.full((2, 8), 4.0)), side(np.full((3, 8), 4.0))
    without = Side({key: value for key, value in b.blocks.items() if key[1] % 2}, b.processes)

    assert compare(a, without, paired=True).ratio == 1
    assert compare(a, Side({}, {}), paired=True).note == "a pair without blocks in common cannot be compared"


def test_holms_p_values_are_those_of_his_procedure():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert holm([0.9, 0.8]) == (1, 1)
    assert holm([]) == ()


def test_a_difference_among_many_comparisons_must_withstand_their_number():
    def found(p_value, verdict):
        return Comparison(1.1, 1.02, 1.2, p_value, verdict, ComparisonMethod.PROCESSES)

    untold = Comparison(None, None, None, None, Verdict.INCONCLUSIVE, None, "no data")
    together = corrected([found(0.04, Verdict.SLOWER), untold, found(0.001, Verdict.FASTER), found(0.5, Verdict.SAME)])

    assert [one.p_value for one in together] == [pytest.approx(0.08), None, pytest.approx(0.003), 0.5]
    assert [str(one.verdict) for one in together] == ["inconclusive", "inconclusive", "faster", "same"]


@pytest.mark.slow
@pytest.mark.parametrize("effect", [0.0, 0.05])
def test_who_stopped_when_it_looked_clear_is_believed_less(effect):
    """Equal things, looked at after each pair until they differ: a plain interval says so too often."""
    generator = np.random.default_rng(5)
    planned, trials, found = 20, 100, {True: 0, False: 0}
    for _ in range(trials):
        medians = 4 * MS * np.exp(generator.normal(0, 0.03, (2, planned, 4)))
        for is_known in found:
            for pairs in range(3, planned + 1):
                first, second = (side(one[:pairs]) for one in medians * np.exp([[[0]], [[effect]]]))
                first = replace(first, planned=planned if is_known else None)
                told = compare(first, second, paired=True, practical=0.0)
                if told.verdict in (Verdict.FASTER, Verdict.SLOWER):
                    assert told.p_value < 0.05
                    found[is_known] += 1
                    break
    share = {is_known: count / trials for is_known, count in found.items()}
    assert share[True] <= stats.binom.ppf(0.999, trials, 0.05) / trials if not effect else share[True] > 0.9
    assert share[False] > 0.15, "the plain interval is no test of what ended early"


def test_two_pairs_of_many_that_were_planned_are_too_few_and_no_number():
    first, second = side(np.full((2, 4), 4.0 * MS)), side(np.array([[4.1] * 4, [4.3] * 4]) * MS)
    found = compare(replace(first, planned=50), second, paired=True)
    assert (found.high, found.verdict) == (
        None,
        Verdict.INCONCLUSIVE,
    ) and "2 pairs of processes are too few" in found.note
