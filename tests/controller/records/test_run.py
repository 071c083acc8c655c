"""What blocks add up to."""

import pytest

from enginebench_controller.records import Block, Evidence
from enginebench_controller.records.run import energy_j


def block(index, iterations, energy_uj):
    return Block(0, index, 0, 50_000_000, iterations, Evidence(energy_uj=energy_uj))


def test_joules_an_inference_are_those_of_all_blocks_over_all_inferences():
    assert energy_j([block(0, 10, 3_000_000), block(1, 20, 3_000_000)]) == pytest.approx(0.2)


@pytest.mark.parametrize(
    "blocks",
    [
        [],
        [block(0, 10, None)],
        [block(0, 10, 3_000_000), block(1, 10, None)],
        [block(0, 0, 3_000_000)],
        [block(0, 10, 0)],
    ],
)
def test_without_a_meter_throughout_energy_is_unknown(blocks):
    assert energy_j(blocks) is None


def test_a_block_without_inferences_needs_no_reading():
    assert energy_j([block(0, 10, 1_000_000), block(1, 0, None)]) == pytest.approx(0.1)
