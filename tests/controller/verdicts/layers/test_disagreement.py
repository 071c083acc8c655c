"""Why layers and latency are apart is told only as far as it is known, and of the side that it is of."""

from dataclasses import replace

import pytest

from controller.verdicts.chains import chain, layer
from enginebench_controller.records import Bystanders, MachineUse
from enginebench_controller.verdicts.layers.profiles import compare_profiles

OUTSIDE = "there is time outside of the layers of B, of which verdicts and ratios of layers know nothing"
MEANS = "which counts in the means of its layers, and not in its latency, a median"


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
    assert "what counters cost, 20000.0 µs a layer of B, which may be most of a short one's time" in told


def test_counters_are_told_of_no_side_whose_layers_they_are_not_in():
    told = said(side("a", 20, latency_ms=20, profiled_ms=40), side("b", 80, latency_ms=40, profiled_ms=80))
    assert "20000.0 µs a layer of B, which" in told and "of A" not in told


def test_layers_that_add_up_to_more_at_little_cost_are_not_laid_on_counters():
    told = said(side("a", 20, latency_ms=21, profiled_ms=21), side("b", 80, latency_ms=40, profiled_ms=42))
    assert told == "the layers of B add up to more than its latency, as where they overlap"


def test_of_a_side_that_was_held_up_nothing_is_said_of_counters():
    second = side("b", 80, latency_ms=40, profiled_ms=80)
    beside = replace(second, bystanders=Bystanders(meanwhile=MachineUse(10**8, 8, 4 * 10**8)))
    times = tuple(round(share * 40_000_000) for share in (0.5, 0.8, 1.2, 1.5)) * 5
    uneven = replace(second, layers=tuple(replace(one, time_ns=times) for one in second.layers))
    for held_up in (beside, uneven):
        assert "counters cost" not in said(FIRST, held_up) and "held up a side" in said(FIRST, held_up)


def with_times(profile, *times_ms):
    """The profile with these times of both its layers, inference by inference."""
    times = tuple(round(one * 1_000_000) for one in times_ms)
    return replace(profile, layers=tuple(replace(one, time_ns=times) for one in profile.layers))


@pytest.mark.parametrize("usual_ms", [10, 12], ids=["time outside", "none outside"])
def test_of_one_inference_that_was_held_up_neither_counters_nor_time_outside_are_the_reason(usual_ms):
    second = with_times(side("b", 24, latency_ms=24, profiled_ms=24), *[usual_ms] * 19, 300)
    assert said(FIRST, second) == f"some inferences of B took longer than most, {MEANS}"
    assert said(second, FIRST) == f"some inferences of A took longer than most, {MEANS}"


def test_of_a_few_inferences_that_took_less_than_most_it_is_said():
    first = with_times(side("a", 20, latency_ms=20, profiled_ms=20), *[10] * 16, *[0.1] * 4)
    assert said(first, side("b", 30, latency_ms=21, profiled_ms=30)).startswith(
        f"some inferences of A took less than most, {MEANS}, and verdicts and ratios of layers include"
    )


def test_only_what_pushes_the_ratio_the_way_it_went_is_a_reason():
    """The layers of A add up to more than its latency, too, which would have made those of B the shorter ones."""
    first = side("a", 30, latency_ms=20, profiled_ms=20)
    assert said(first, side("b", 150, latency_ms=40, profiled_ms=40)) == (
        "the layers of B add up to more than its latency, as where they overlap"
    )


def test_where_nothing_made_much_of_it_only_the_sums_are_told():
    told = said(side("a", 92, latency_ms=100, profiled_ms=100), side("b", 220, latency_ms=180, profiled_ms=198))
    assert told == "layers add up to 0.92 times A's latency and 1.22 times B's latency"


def test_a_side_of_several_is_told_by_its_letter():
    outside = side("b", 40, latency_ms=80, profiled_ms=80)
    pairs = compare_profiles([FIRST, replace(FIRST, id="c"), outside]).pairs
    assert pairs[1].remarks[0].partition(": ")[2] == OUTSIDE.replace("of B", "of C")


@pytest.mark.parametrize("latency_ms", [40, 15], ids=["by how much", "which is faster"])
def test_where_a_side_was_faster_with_counters_neither_is_believed(latency_ms):
    told = said(FIRST, side("b", 80, latency_ms=latency_ms, profiled_ms=10))
    assert "counters make nothing faster" in told and told.endswith(": believe neither, and profile again")


def test_where_they_call_another_side_faster_and_one_was_held_up_neither_is_believed():
    second = side("b", 40, latency_ms=15, profiled_ms=20)
    assert said(FIRST, second).endswith("; believe the latency")
    beside = replace(second, bystanders=Bystanders(meanwhile=MachineUse(10**8, 8, 4 * 10**8)))
    uneven = with_times(second, *(10, 16, 24, 30) * 5)
    for held_up in (beside, uneven):
        told = said(FIRST, held_up)
        assert "held up a side" in told and "believe the latency" not in told
        assert told.endswith(": believe neither, and profile again when the machine is quiet")
