"""What is known of candidates: rounds cancel out, likes tell of what was not measured, bad processes count for less."""

from itertools import product
from math import log

import numpy as np
import pytest

from enginebench_controller.stats.response import ProcessSeen, respond, spread_out

GRID = [
    {"engine": engine, "batch": batch, "cores": cores}
    for engine, batch, cores in product("ab", (1.0, 2.0, 4.0), (1.0, 2.0))
]


def true(one):
    return (0.5 if one["engine"] == "b" else 0.0) + 0.9 * log(one["batch"]) - 0.7 * log(one["cores"])


def test_what_was_not_measured_is_known_by_its_likes() -> None:
    left_out = GRID.index({"engine": "b", "batch": 4.0, "cores": 2.0})
    seen = [ProcessSeen(place, 0, true(one)) for place, one in enumerate(GRID) if place != left_out]
    found = respond(GRID, seen)
    assert found.middle[left_out] == pytest.approx(true(GRID[left_out]), abs=0.15)
    assert found.errors[left_out] > 2 * found.errors[0], "and it is less sure"


def test_a_round_in_which_the_machine_was_slower_shifts_nothing() -> None:
    rounds = [(number, log(1.4) if number == 2 else 0.0) for number in range(6)]
    seen = [ProcessSeen(place, number, true(GRID[place]) + slower) for number, slower in rounds for place in (0, 3, 7)]
    found = respond(GRID, seen)
    assert list(found.slow) == [2]
    assert found.slow[2] == pytest.approx(log(1.4), abs=0.05)
    for place in (0, 3, 7):
        assert found.middle[place] == pytest.approx(true(GRID[place]), abs=0.02)


def test_two_of_the_same_rounds_are_told_apart_closer_than_each_is_known() -> None:
    generator = np.random.default_rng(1)
    moods = generator.normal(0, 0.05, 8)
    seen = [
        ProcessSeen(place, number, true(GRID[place]) + mood + generator.normal(0, 0.01))
        for number, mood in enumerate(moods)
        for place in (0, 6)
    ]
    above, errors = respond(GRID, seen).against(0)
    assert above[6] == pytest.approx(0.5, abs=0.02)
    assert errors[6] < respond(GRID, seen).errors[6]


def test_one_bad_process_does_not_decide() -> None:
    seen = [ProcessSeen(0, number, 0.0 + 0.01 * (-1) ** number) for number in range(9)] + [ProcessSeen(0, 9, 0.5)]
    seen += [ProcessSeen(1, number, 0.02) for number in range(10)]
    assert respond(GRID, seen).middle[0] < 0.03


def test_a_spread_has_every_engine_and_both_ends_of_every_axis() -> None:
    chosen = [GRID[place] for place in spread_out(GRID, 5)]
    assert {one["engine"] for one in chosen} == {"a", "b"}
    assert {1.0, 4.0} <= {one["batch"] for one in chosen}
    assert {one["cores"] for one in chosen} == {1.0, 2.0}
    assert len({tuple(one.values()) for one in chosen}) == 5


def test_nothing_seen_is_nothing_known() -> None:
    with pytest.raises(ValueError, match="nothing was seen"):
        respond(GRID, [])
