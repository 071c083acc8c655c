"""The policy: where zeros go, and which layers are spared."""

import pytest

from enginebench_controller.records.model import PrunableWeight
from enginebench_controller.verdicts.pruning.policy import Policy, share_out


def weight(name, size=1000, scale=1.0, *, grouped=False):
    """A weight whose magnitudes are spread evenly from 0 to `scale`."""
    return PrunableWeight(name, size, tuple(scale * percent / 100 for percent in range(100)), grouped)


def share(weights, gain=lambda *_: None, **policy):
    """Behind a first layer, which stays dense and is too small to count."""
    return share_out([weight("first", size=0), *weights], Policy(**{"least": 0.0} | policy), gain)


def test_alike_layers_get_the_same_and_together_the_goal():
    assert share([weight("a"), weight("b")], goal=0.8) == pytest.approx({"a": 0.8, "b": 0.8}, abs=0.01)


def test_small_magnitudes_go_first():
    found = share([weight("small", scale=1.0), weight("large", scale=2.0)], goal=0.6)
    assert found["small"] == pytest.approx(2 * found["large"], abs=0.02)
    assert found["small"] + found["large"] == pytest.approx(1.2, abs=0.02)


def test_no_layer_is_beyond_the_cap_and_the_others_make_up_for_it():
    found = share([weight("tiny", scale=0.01), weight("b")], goal=0.7, cap=0.9)
    assert found == pytest.approx({"tiny": 0.9, "b": 0.5}, abs=0.011)


def test_the_goal_is_never_exceeded():
    weights = [weight("a", 777, 0.3), weight("b", 31, 2.0), weight("c", 5000, 1.0)]
    found = share(weights, goal=0.66)
    total = sum(one.size for one in weights)
    assert 0.64 * total < sum(one.size * found.get(one.name, 0) for one in weights) <= 0.66 * total


def test_the_first_and_grouped_layers_stay_dense_but_count_for_the_goal():
    weights = [weight("first"), weight("depthwise", grouped=True), weight("c"), weight("d")]
    found = share_out(weights, Policy(goal=0.4), lambda *_: None)
    assert found == pytest.approx({"c": 0.8, "d": 0.8}, abs=0.01)


def test_a_layer_that_would_get_little_stays_dense_and_others_take_its_zeros():
    found = share([weight("a", scale=1.0), weight("stiff", scale=4.0)], goal=0.4, least=0.4)
    assert found == pytest.approx({"a": 0.8}, abs=0.01)


def test_a_layer_that_sparsity_makes_much_slower_stays_dense():
    slow = share([weight("a"), weight("b")], lambda name, _: 0.5 if name == "a" else 2.0, goal=0.4)
    assert slow == pytest.approx({"b": 0.8}, abs=0.01)
    assert set(share([weight("a"), weight("b")], lambda *_: 0.7, goal=0.4)) == {"a", "b"}


@pytest.mark.parametrize("weights", [[], [weight("only")]])
def test_nothing_to_prune_gets_nothing(weights):
    assert share_out(weights, Policy(), lambda *_: None) == {}
