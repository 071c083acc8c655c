"""What blocks add up to."""

import pytest

from enginebench_controller.records import Block, Evidence
from enginebench_controller.records.run import metered_energy


def block(index, iterations, energy_uj, source="RAPL", missing=""):
    told = {"energy_uj": missing} if missing else {}
    metered = None if energy_uj is None else source
    evidence = Evidence(energy_uj=energy_uj, energy_source=metered, missing=told)
    return Block(0, index, 0, 50_000_000, iterations, evidence)


def test_joules_an_inference_are_those_of_all_blocks_over_all_inferences():
    found = metered_energy([block(0, 10, 3_000_000), block(1, 20, 3_000_000)])
    assert found.j_per_inference == pytest.approx(0.2)
    assert (found.source, found.missing, found.is_coarse) == ("RAPL", "", False)


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ([], "no block counts"),
        ([block(0, 10, None)], "this machine has no energy meter that can be read"),
        ([block(0, 10, None, missing="permission denied")], "permission denied"),
        ([block(0, 10, 3_000_000), block(1, 10, None)], "the meter was read in 1 of 2 blocks only"),
        ([block(0, 0, 3_000_000)], "no block counts"),
        ([block(0, 10, 0)], "the meter (RAPL) counts nothing here"),
        (
            [block(0, 10, 1), block(1, 10, 1, "hwmon xe")],
            "not all processes were counted by one meter (RAPL, hwmon xe)",
        ),
    ],
)
def test_without_one_meter_throughout_energy_is_unknown_and_says_why(blocks, why):
    found = metered_energy(blocks)
    assert (found.j_per_inference, found.source, found.missing) == (None, None, why)


def test_a_reading_that_failed_now_and_then_leaves_the_others():
    found = metered_energy([*(block(index, 10, 1_000_000) for index in range(19)), block(19, 10, None)])
    assert found.j_per_inference == pytest.approx(0.1)


def test_a_block_without_inferences_needs_no_reading():
    found = metered_energy([block(0, 10, 1_000_000), block(1, 0, None)])
    assert found.j_per_inference == pytest.approx(0.1)


@pytest.mark.parametrize("moment", ["both ends of a block", "the end of a block"])
def test_a_meter_of_power_is_coarse(moment):
    found = metered_energy([block(0, 10, 1_000_000, f"hwmon ina3221 VDD_IN, power at {moment}")])
    assert found.j_per_inference == pytest.approx(0.1)
    assert found.is_coarse
