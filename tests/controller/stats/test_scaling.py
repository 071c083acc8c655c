"""Scaling is told against the smallest point that has a value, per work done, and gaps stay gaps."""

import pytest

from enginebench_controller.stats.scaling import Axis, Quantity, ScalingPoint, scale


def speed_ups(scaling):
    return [one.speed_up and round(one.speed_up, 6) for one in scaling.points]


@pytest.mark.parametrize(
    ("figure", "values"),
    [
        (Quantity.TIME_PER_BATCH, (8.0, 5.0, 4.0)),
        (Quantity.TIME_PER_ITEM, (2.0, 1.25, 1.0)),
        (Quantity.ITEMS_PER_S, (5, 8, 10)),
    ],
)
def test_cores_are_told_the_same_by_times_and_rates(figure, values):
    scaling = scale(
        [ScalingPoint(1, values[0]), ScalingPoint(2, values[1]), ScalingPoint(4, values[2])], Axis.CORES, figure
    )

    assert speed_ups(scaling) == [1, 1.6, 2]
    assert [one.efficiency for one in scaling.points] == pytest.approx([1, 0.8, 0.5])
    assert scaling.without_gain(4) == values[0]


@pytest.mark.parametrize(
    ("figure", "values", "ideal", "without_gain"),
    [
        (Quantity.TIME_PER_BATCH, (8.0, 10.0), 8.0, 16.0),
        (Quantity.TIME_PER_ITEM, (8.0, 5.0), 4.0, 8.0),
        (Quantity.ITEMS_PER_S, (125.0, 200.0), 250.0, 125.0),
    ],
)
def test_batches_gain_where_an_item_takes_less_time(figure, values, ideal, without_gain):
    scaling = scale([ScalingPoint(1, values[0]), ScalingPoint(2, values[1])], Axis.BATCH, figure)

    assert speed_ups(scaling) == [1, 1.6]
    assert scaling.points[1].efficiency == pytest.approx(0.8)
    assert (scaling.ideal(2), scaling.without_gain(2)) == (ideal, without_gain)


def test_a_failed_point_is_a_gap_and_the_smallest_with_a_value_is_the_base():
    scaling = scale(
        [ScalingPoint(8, 2.0), ScalingPoint(1, None), ScalingPoint(4, None), ScalingPoint(2, 6.0)],
        Axis.CORES,
        Quantity.TIME_PER_ITEM,
    )

    assert [one.size for one in scaling.points] == [1, 2, 4, 8]
    assert scaling.base.size == 2
    assert speed_ups(scaling) == [None, 1, None, 3]
    assert scaling.points[3].efficiency == pytest.approx(0.75)


def test_best_and_worst_follow_what_is_better_and_ties_go_to_the_smaller_size():
    times = scale(
        [ScalingPoint(1, 3.0), ScalingPoint(2, 1.0), ScalingPoint(4, 1.0)], Axis.CORES, Quantity.TIME_PER_ITEM
    )
    rates = scale([ScalingPoint(1, 3.0), ScalingPoint(2, 1.0), ScalingPoint(4, 1.0)], Axis.CORES, Quantity.ITEMS_PER_S)

    assert (times.best.size, times.worst.size) == (2, 1)
    assert (rates.best.size, rates.worst.size) == (1, 2)


def test_one_point_is_neither_best_nor_worst_and_none_scale_to_nothing():
    alone = scale([ScalingPoint(1, 3.0), ScalingPoint(2, None)], Axis.CORES, Quantity.TIME_PER_ITEM)
    nothing = scale([ScalingPoint(1, None)], Axis.BATCH, Quantity.ITEMS_PER_S)

    assert (alone.best, alone.worst, alone.base.size) == (None, None, 1)
    assert (nothing.base, nothing.ideal(2), nothing.points[0].speed_up) == (None, None, None)


def test_the_range_of_a_speed_up_is_what_both_intervals_allow():
    points = [ScalingPoint(1, 10.0, 8.0, 12.0), ScalingPoint(2, 5.0, 4.0, 6.0), ScalingPoint(4, 5.0)]
    times = scale(points, Axis.CORES, Quantity.TIME_PER_ITEM).points
    rates = scale(points, Axis.CORES, Quantity.ITEMS_PER_S).points

    assert (times[1].speed_up_low, times[1].speed_up_high) == pytest.approx((8 / 6, 12 / 4))
    assert (rates[1].speed_up_low, rates[1].speed_up_high) == pytest.approx((4 / 12, 6 / 8))
    assert (times[0].speed_up_low, times[2].speed_up_low) == (None, None)


def test_a_time_of_nothing_has_no_speed_up():
    scaling = scale([ScalingPoint(1, 0.0), ScalingPoint(2, 0.0)], Axis.CORES, Quantity.TIME_PER_ITEM)

    assert speed_ups(scaling) == [None, None]
    assert scaling.points[1].efficiency is None
