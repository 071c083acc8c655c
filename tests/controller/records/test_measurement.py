"""What counts in a measurement's own figures: not what stood still, nor what was measured again."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.records import Block, Evidence, Interval, IntervalMethod

SECOND_NS = 1_000_000_000
STOOD_NS = 20 * SECOND_NS


def block(index, **changes):
    """A second in which four cores were busy, and ten inferences took half a joule each."""
    evidence = Evidence(cpu_time_ns=4 * SECOND_NS, energy_uj=5_000_000)
    return replace(Block(0, index, index * SECOND_NS, SECOND_NS, 10, evidence), **changes)


def stood_still(index):
    """The same after 20 s of standing still, on a machine that takes 30 W all the while."""
    evidence = Evidence(cpu_time_ns=4 * SECOND_NS, energy_uj=605_000_000)
    changes = {"duration_ns": SECOND_NS + STOOD_NS, "paused_ns": STOOD_NS, "disturbances": (invented.PAUSED,)}
    return block(index, evidence=evidence, **changes)


def disturbed(index):
    """The same while others had half of its cores, and used as much of the processor."""
    evidence = Evidence(cpu_time_ns=4 * SECOND_NS, energy_uj=10_000_000)
    return block(index, evidence=evidence, duration_ns=2 * SECOND_NS, disturbances=(invented.STEAL,))


def measured(*blocks, excluded):
    """What these blocks amount to, of which so many inferences are left out of its statistics."""
    whole = invented.measured("m1")
    totals = {
        "cpu_time_ns": sum(one.evidence.cpu_time_ns for one in blocks),
        "steady_state_ns": sum(one.duration_ns for one in blocks),
    }
    return replace(whole, blocks=blocks, latency=replace(whole.latency, excluded=excluded), **totals)


def test_of_what_is_left_out_for_standing_still_disturbed_blocks_stay_in():
    blocks = (disturbed(0), stood_still(1), block(2))
    assert measured(*blocks, excluded=0).excluded_blocks == set()
    assert measured(*blocks, excluded=10).excluded_blocks == {(0, 1)}
    assert measured(*blocks, excluded=20).excluded_blocks == {(0, 0), (0, 1)}


@pytest.mark.parametrize(
    ("odd", "excluded"),
    [(stood_still(9), 10), (disturbed(9), 10), (replace(stood_still(9), iterations=0), 0)],
    ids=["stood still", "measured again", "stood still all along"],
)
def test_what_is_left_out_counts_neither_in_joules_nor_in_cores(odd, excluded):
    found = measured(*map(block, range(9)), odd, excluded=excluded)
    assert found.energy_j_per_inference == pytest.approx(0.5)
    assert found.cpu_cores_used == pytest.approx(4)


def test_disturbed_blocks_that_count_are_in_joules_and_cores():
    found = measured(block(0), disturbed(1), excluded=0)
    assert found.energy_j_per_inference == pytest.approx(0.75)
    assert found.cpu_cores_used == pytest.approx(8 / 3)


def test_of_what_stood_still_throughout_no_sum_is_known():
    """Its median is, for want of others."""
    found = measured(stood_still(0), stood_still(1), excluded=0)
    assert (found.energy_j_per_inference, found.cpu_cores_used) == (None, None)


def test_without_its_blocks_the_cores_used_are_those_of_the_totals():
    found = replace(measured(block(0), disturbed(1), excluded=0), blocks=())
    assert found.cpu_cores_used == pytest.approx(8 / 3)


def test_half_of_an_interval_that_was_cut_off_at_zero_is_what_lies_above():
    assert Interval(2.0, 6.0, 0.95, IntervalMethod.PROCESSES_T).half_width(4.0) == 2.0
    assert Interval(0.0, 6.0, 0.95, IntervalMethod.PROCESSES_T).half_width(2.0) == 4.0
