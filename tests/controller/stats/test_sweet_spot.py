"""The sweet spot: the most throughput within a latency threshold."""

import itertools

import pytest

from enginebench_controller.stats.scaling import OperatingPoint, best_point, sweet_spot

QUICK, MIDDLE, SLOW = OperatingPoint("q", 2e6, 50.0), OperatingPoint("m", 5e6, 80.0), OperatingPoint("s", 9e6, 90.0)
FAILED = OperatingPoint("f", None, None)


def test_the_point_of_most_throughput_among_those_quick_enough_wins():
    assert sweet_spot([SLOW, QUICK, MIDDLE], 6e6) == MIDDLE
    assert sweet_spot([SLOW, QUICK, MIDDLE], 1e9) == SLOW


def test_the_threshold_itself_is_quick_enough():
    assert sweet_spot([QUICK, MIDDLE], 5e6) == MIDDLE
    assert sweet_spot([QUICK, MIDDLE], 4_999_999.9) == QUICK


def test_there_may_be_none():
    assert sweet_spot([MIDDLE, SLOW], 4e6) is None
    assert sweet_spot([], 4e6) is None


@pytest.mark.parametrize("threshold_ns", [None, 0, 0.0, -1])
def test_no_threshold_and_0_ask_for_none(threshold_ns):
    assert sweet_spot([QUICK, MIDDLE, SLOW], threshold_ns) is None


def test_failed_runs_never_win_nor_hinder():
    assert sweet_spot([FAILED, QUICK], 5e6) == QUICK
    assert sweet_spot([FAILED, OperatingPoint("n", None, 999.0), OperatingPoint("x", 1e6, None)], 5e6) is None


def test_ties_are_decided_by_latency_and_then_by_id_whatever_the_order():
    twins = [OperatingPoint("b", 3e6, 70.0), OperatingPoint("a", 3e6, 70.0), OperatingPoint("0", 4e6, 70.0)]
    found = {sweet_spot(order, 5e6).id for order in itertools.permutations(twins)}
    assert found == {"a"}


def test_the_best_point_needs_no_threshold():
    assert best_point([FAILED, QUICK, SLOW]) == SLOW
    assert best_point([FAILED]) is None
