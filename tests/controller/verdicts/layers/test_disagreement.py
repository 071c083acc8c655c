"""Why layers and latency are apart is told only as far as it is known: counters, others, or time outside of layers."""

from dataclasses import replace

import pytest

from controller.verdicts.chains import chain, layer
from enginebench_controller.records import Bystanders, MachineUse
from enginebench_controller.verdicts.layers.profiles import compare_profiles

OUTSIDE = "there is time outside of layers, of which verdicts and ratios of layers know nothing"


def side(identity, ms, *, latency_ms, profiled_ms):
    """A profile of two equal layers of `ms` together."""
    found = chain(identity, [layer(order, ms * 500_000) for order in range(2)], unprofiled_ns=latency_ms * 1_000_000)
    return replace(found, profiled_latency_ns=None if profiled_ms is None else profiled_ms * 1_000_000)


FIRST = side("a", 20, latency_ms=20, profiled_ms=20)


def said(first, second):
    """Why they are apart, which is said after the two ratios."""
    (sentence,) = compare_profiles([first, second]).pairs[0].remarks
    return sentence.partition(": ")[2]


@pytest.mark.parametrize("profiled_ms", [80, 81, None, 160], ids=["free", "cheap", "unknown", "between layers"])
def test_counters_that_are_in_no_layers_time_are_no_reason(profiled_ms):
    assert said(FIRST, side("b", 40, latency_ms=80, profiled_ms=profiled_ms)) == OUTSIDE


def test_counters_that_are_much_of_a_mean_layer_are_told_with_their_cost():
    told = said(FIRST, side("b", 80, latency_ms=40, profiled_ms=80))
    assert "include what counters cost, 0.0 µs and 20000.0 µs a layer, which is most of a short one's time" in told


def test_layers_that_add_up_to_more_at_little_cost_are_not_laid_on_counters():
    told = said(side("a", 20, latency_ms=21, profiled_ms=21), side("b", 80, latency_ms=40, profiled_ms=42))
    assert told == "the layers of a side add up to more than its latency, as where they overlap"


def test_of_a_side_that_was_held_up_nothing_is_said_of_counters():
    second = side("b", 80, latency_ms=40, profiled_ms=80)
    beside = replace(second, bystanders=Bystanders(meanwhile=MachineUse(10**8, 8, 4 * 10**8)))
    times = tuple(round(share * 40_000_000) for share in (0.5, 0.8, 1.2, 1.5)) * 5
    uneven = replace(second, layers=tuple(replace(one, time_ns=times) for one in second.layers))
    for held_up in (beside, uneven):
        assert "counters cost" not in said(FIRST, held_up) and "held up a side" in said(FIRST, held_up)
