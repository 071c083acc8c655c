"""A ranking says nothing that the pairs it is made of deny."""

import numpy as np

from enginebench_controller.stats.comparison import Side
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
