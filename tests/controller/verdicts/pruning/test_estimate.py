"""The estimate: Sparsify's formula by hand, and what is left out of it."""

from dataclasses import replace

import pytest
from passes import conv, layer, one_pass, relu, sweep

from enginebench_controller.verdicts.pruning.estimate import actual, estimate, interpolated, series_of, uniform

DENSE, HALF, MOST = (0.0, (10, 2, 20)), (0.5, (8, 2, 12)), (0.9, (4, 2, 5))


def test_the_formula_by_hand():
    series = series_of(sweep(DENSE, HALF, MOST))
    # conv0 to 0.7: 8 → 4 ms over 0.5 … 0.9, so 6 ms; conv2 stays dense. T = 32 · (32 − 4) / 32
    found = estimate(series, {0: 0.7})
    assert found.time_ns == pytest.approx(28e6)
    assert found.speedup == pytest.approx(32 / 28)
    assert [one.estimated_ns for one in found.parts] == pytest.approx([6e6, 2e6, 20e6])


def test_it_scales_with_the_latency_of_the_dense_pass_and_not_with_the_sum_of_its_layers():
    passes = sweep(DENSE, MOST)
    passes[0] = replace(passes[0], profiled_latency_ns=64_000_000)
    found = estimate(series_of(passes), uniform(passes[0].nodes, 0.9))
    assert (found.dense_ns, found.layers_ns) == (64e6, 32e6)
    assert found.time_ns == pytest.approx(64e6 * 11 / 32)


def test_a_layer_that_sparsity_makes_slower_counts_against_it():
    series = series_of(sweep(DENSE, (0.5, (13, 2, 20))))
    assert estimate(series, {0: 0.5}).time_ns == pytest.approx(35e6)


def test_beyond_the_last_step_nothing_more_is_gained():
    series = series_of(sweep(DENSE, MOST))
    assert estimate(series, {0: 0.99}).time_ns == estimate(series, {0: 0.9}).time_ns


def test_what_onnx_runtime_runs_gains_nothing_whatever_its_times_say():
    passes = [replace(one, layers=(replace(one.layers[0], type="ORT"), *one.layers[1:])) for one in sweep(DENSE, MOST)]
    found = estimate(series_of(passes), uniform(passes[0].nodes, 0.9))
    assert found.time_ns == pytest.approx((10 + 2 + 5) * 1e6)
    assert (found.parts[0].estimated_ns, found.parts[0].is_known) == (10e6, True)


def test_a_time_that_nobody_knows_is_no_saving_and_is_told():
    found = estimate(series_of(sweep(DENSE, (0.9, (None, 2, 5)))), {0: 0.9, 2: 0.9})
    assert found.time_ns == pytest.approx(17e6)
    assert found.unknown_share == pytest.approx(10 / 32)


def test_a_layer_without_a_dense_time_is_left_out():
    found = estimate(series_of(sweep((0.0, (None, 2, 20)), MOST)), {0: 0.9, 2: 0.9})
    assert found.time_ns == pytest.approx(7e6)
    assert found.parts[0].estimated_ns is None


def test_different_levels_are_not_compared():
    passes = sweep(DENSE, MOST)
    other = one_pass(passes[0].nodes, passes[0].layers, sparsity=0.5, level=1)
    with pytest.raises(ValueError, match="different optimization levels"):
        series_of([*passes, other])
    with pytest.raises(ValueError, match="different optimization levels"):
        series_of(passes, [one_pass(passes[0].nodes, passes[0].layers, level=1)])


def test_without_a_dense_pass_there_is_no_estimate():
    with pytest.raises(ValueError, match="no dense pass"):
        series_of(sweep(MOST))
    with pytest.raises(ValueError, match="no dense pass"):
        series_of([replace(sweep(DENSE)[0], layers=()), *sweep(MOST)])


def test_a_dense_pass_without_times_gives_none():
    passes = sweep((0.0, (None, None, None)))
    assert estimate(series_of(passes), {0: 0.5}) is None


def test_zeros_of_a_copy_are_counted_in_weights_and_not_in_biases():
    biased = {"parameters": 110, "output_shapes": ((1, 10, 4, 4),), "inputs": ("x", "w", "b")}
    dense = (conv(0, **biased | {"nonzero": 110}), relu(1), conv(2, **biased | {"nonzero": 100}))
    copy = (conv(0, **biased | {"nonzero": 20}), relu(1), conv(2, **biased | {"nonzero": 10}))
    assert actual(dense, copy) == {0: 0.9, 2: 0.9}


def test_zeros_the_dense_model_has_in_its_weights_count():
    assert actual([conv(0, nonzero=50)], [conv(0, nonzero=10)]) == {0: 0.9}
    assert actual([replace(conv(0), nonzero_parameters=None)], [conv(0)]) == {}


def test_a_group_of_two_products_gets_the_sparsity_of_their_weights_together():
    nodes = [conv(0, parameters=300), replace(conv(1, parameters=100), group=0)]
    passes = [one_pass(nodes, [layer("both", ms, 0)], sparsity=at) for at, ms in ((0.0, 10), (1.0, 0))]
    (part,) = estimate(series_of(passes), {0: 0.8, 1: 0.4}).parts
    assert (part.sparsity, part.estimated_ns) == (pytest.approx(0.7), pytest.approx(3e6))


@pytest.mark.parametrize(("place", "value"), [(-1, 1), (0, 1), (1, 3), (1.5, 4), (2, 5), (9, 5)])
def test_interpolation(place, value):
    assert interpolated([(2, 5), (0, 1)], place) == value


def test_nothing_to_interpolate_is_unknown():
    assert interpolated([], 0.5) is None
