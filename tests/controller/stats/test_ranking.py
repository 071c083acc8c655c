"""A ranking says nothing that the pairs it is made of deny."""

from math import log

import numpy as np
import pytest

from enginebench_controller.stats.comparison import Side, compare
from enginebench_controller.stats.ranking import Standing, rank

PROCESSES, BLOCKS = 6, 6


def side(block_ms, process_ms):
    """A side whose blocks, which pairs are made of, may tell otherwise than its processes as a whole."""
    luck = np.random.default_rng(3).lognormal(0, 0.002, (PROCESSES, BLOCKS))
    blocks = {place: block_ms * 1e6 * float(value) for place, value in np.ndenumerate(luck)}
    return Side(blocks, {process: process_ms * 1e6 * float(luck[process, 0]) for process in range(PROCESSES)})


def test_nobody_is_fastest_whom_another_is_known_to_beat():
    """The second takes 10 % less than the first in turns; against one that ran alone, its disturbed whole looks bad."""
    found = rank([side(4.4, 4.0), side(4.0, 6.0), side(9.0, 9.0)], ["turns", "turns", None])
    assert [one.place for one in found.ranks] == [1, 0, 2]
    assert [one.standing for one in found.ranks][:2] == [Standing.FASTEST, Standing.SLOWER]
    assert found.ranks[1].low > 1


def test_of_many_members_with_two_processes_each_nothing_can_be_told():
    """All pairs of 30, at one degree of freedom: the interval is wider than a float has room for."""
    luck = np.random.default_rng(11)
    sides = [Side({}, {process: 4e6 * float(luck.lognormal(0, 0.3)) for process in range(2)}) for _ in range(30)]
    ranking = rank(sides, [None] * 30)
    assert {one.standing for one in ranking.ranks[1:]} == {Standing.UNSURE}
    assert all(np.isfinite((one.low, one.high)).all() and one.low < 1e-3 < 1e3 < one.high for one in ranking.ranks[1:])


def test_what_somebody_shrugs_off_is_the_same():
    sides = [side(4.0, 4.0), side(4.28, 4.28)]
    assert rank(sides, ["turns"] * 2).ranks[1].standing is Standing.SLOWER
    shrugged = rank(sides, ["turns"] * 2, practical=0.1)
    assert shrugged.ranks[1].standing is Standing.SAME
    assert shrugged.processes is None
    assert shrugged.bound == pytest.approx(0.07, abs=0.01)


def test_more_processes_are_advised_where_only_being_the_same_can_still_be_told():
    luck = [0.97, 1.0, 1.04]
    sides = [Side({}, {place: latency * one for place, one in enumerate(luck)}) for latency in (4e6, 4.28e6)]
    counts = [rank(sides, [None, None], practical).processes for practical in (0.01, 0.1)]
    assert counts[0] < counts[1]


def test_an_interval_is_the_one_that_the_two_have_when_nobody_else_is_ranked():
    """Of one process each, ranks of blocks make an interval whose middle is not its centre."""
    luck = np.random.default_rng(5)
    first = Side({(0, block): 4e6 * float(luck.lognormal(0, 0.3)) for block in range(9)}, {0: 4e6})
    second = Side({key: value * float(luck.gamma(2, 0.6)) for key, value in first.blocks.items()}, {0: 5e6})
    alone = compare(first, second, paired=True)
    assert abs(log(alone.low * alone.high) / 2 - log(alone.ratio)) > 0.01
    one, other = rank([first, second], ["turns", "turns"]).ranks
    slower = (other.ratio, other.low, other.high)
    told = (alone.ratio, alone.low, alone.high)
    assert slower == pytest.approx(told if one.place == 0 else [1 / each for each in (told[0], told[2], told[1])])
