"""On how many cores a target is calibrated."""

from enginebench_controller.runs.calibrating import core_counts


def test_counts_of_cores_are_powers_of_two_and_all():
    assert [core_counts(available) for available in (1, 2, 6, 8)] == [(1,), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8)]
