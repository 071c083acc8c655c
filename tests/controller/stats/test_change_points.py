"""Change points: what is one, what is none, and how often chance looks like one."""

import numpy as np
import pytest

from enginebench_controller.stats.change_points import FEWEST_POINTS, change_points, is_other_level, may_be_other_level


def series(levels, noise=0.01, seed=0):
    """So many points at each level, in ms."""
    random = np.random.default_rng(seed)
    return [4.0 * level * np.exp(random.normal(0, noise)) for level, count in levels for _ in range(count)]


@pytest.mark.parametrize("factor", [1.05, 0.95, 1.5])
def test_a_change_of_level_is_found_where_it_is(factor):
    (place,) = change_points(series([(1.0, 12), (factor, 8)]))
    assert abs(place - 12) <= 1


def test_several_changes_are_found_and_told_apart():
    places = change_points(series([(1.0, 12), (1.1, 12), (1.0, 12)]))
    assert [round(place / 12) for place in places] == [1, 2]


def test_one_wild_point_is_no_change():
    values = series([(1.0, 20)])
    values[12] *= 5
    assert change_points(values) == ()


def test_what_always_is_the_same_does_not_change():
    assert change_points([4.0] * 30) == ()


def test_fewer_points_than_are_needed_tell_nothing():
    assert change_points(series([(1.0, 5), (3.0, FEWEST_POINTS - 6)])) == ()
    assert change_points(series([(1.0, 5), (3.0, 5)])) == (5,)


def test_chance_alone_looks_like_a_change_in_at_most_one_of_twenty():
    wrong = sum(bool(change_points(series([(1.0, 24)], seed=seed))) for seed in range(100))
    assert wrong <= 5


def test_the_same_history_says_the_same_again():
    values = series([(1.0, 12), (1.03, 8)], noise=0.02)
    assert change_points(values) == change_points(values)


@pytest.mark.parametrize(
    ("levels", "place"),
    [
        ([(1.0, 8), (1.5, 8), (0.6, 1)], 8),
        ([(1.0, 8), (1.1, 8), (0.6, 2)], 8),
        ([(1.0, 4), (1.6, 1), (1.0, 4), (1.1, 8)], 9),
        ([(1.0, 3), (1.6, 2), (1.0, 3), (1.1, 8)], 8),
        ([(1.0, 5), (1.6, 2), (1.0, 5), (1.3, 10)], 12),
        ([(1.0, 3), (1.6, 1), (1.0, 3), (1.1, 20)], 7),
        ([(0.6, 1), (1.0, 8), (1.1, 8), (1.6, 1)], 9),
        ([(1.0, 10), (1.1, 4)], 10),
    ],
)
def test_odd_days_on_either_side_hide_no_change(levels, place):
    found = [change_points(series(levels, seed=seed)) for seed in range(20)]
    assert sum(any(abs(one - place) <= 1 for one in places) for places in found) >= 19


def test_odd_days_alone_are_no_change():
    levels = [(1.0, 9), (1.6, 1), (1.0, 9), (1.4, 1), (1.0, 8), (0.6, 1), (1.0, 3)]
    assert sum(bool(change_points(series(levels, seed=seed))) for seed in range(40)) <= 2


def test_so_many_odd_days_that_half_of_all_differences_are_theirs_hide_no_change():
    before = [(1.0, 4), (0.6, 1), (1.0, 2), (1.2, 1), (1.0, 4)]
    after = [(1.1, 2), (0.6, 1), (1.1, 2), (1.6, 1), (1.1, 2), (0.7, 1), (1.1, 1)]
    found = [change_points(series([*before, *after], seed=seed)) for seed in range(20)]
    assert sum(any(abs(one - 12) <= 1 for one in places) for places in found) >= 15


def uneven(before, after, scatters, seed, a_day=0.0):
    """So many points at each level, with as much noise as is told for each; the second grows by a share a day."""
    random = np.random.default_rng(seed)
    (points, level), (more, second) = before, after
    days = second * (1 + a_day) ** np.arange(1, more + 1)
    return [
        *(level * np.exp(random.normal(0, scatters[0], points))),
        *(days * np.exp(random.normal(0, scatters[1], more))),
    ]


@pytest.mark.parametrize(
    ("before", "after", "scatters", "a_day"),
    [
        ((12, 1.0), (8, 1.5), (0.005, 0.1), 0.0),
        ((12, 1.0), (6, 1.5), (0.005, 0.08), 0.0),
        ((12, 1.0), (5, 2.0), (0.005, 0.2), 0.0),
        ((16, 1.0), (8, 1.0), (0.005, 0.005), 0.05),
        ((30, 1.0), (12, 1.0), (0.005, 0.005), 0.04),
    ],
)
def test_a_level_that_scatters_more_than_the_one_before_or_drifts_is_found(before, after, scatters, a_day):
    found = [change_points(uneven(before, after, scatters, seed, a_day)) for seed in range(20)]
    assert sum(any(abs(one - before[0]) <= 2 for one in places) for places in found) >= 18


@pytest.mark.parametrize(
    ("levels", "place"),
    [
        ([(1.0, 5), (1.5, 2), (2.2, 1), (1.5, 2)], 5),
        ([(1.0, 8), (1.5, 1), (2.2, 1), (1.5, 1), (3.0, 1), (1.5, 1)], 8),
    ],
)
def test_where_few_points_are_left_beside_the_odd_ones_the_ranks_of_all_tell(levels, place):
    found = [change_points(series(levels, seed=seed)) for seed in range(20)]
    assert sum(any(abs(one - place) <= 2 for one in places) for places in found) >= 18


@pytest.mark.parametrize(("before", "after"), [(3, 6), (3, 7), (4, 4), (4, 5), (8, 8), (3, 30)])
def test_stretches_are_long_enough_to_be_told_apart_where_the_clearest_are(before, after):
    assert may_be_other_level(before, after) is is_other_level(range(before), range(100, 100 + after))
