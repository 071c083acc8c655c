"""On how many cores a target is calibrated."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.errors import InputError
from enginebench_controller.records import HostFacts
from enginebench_controller.runs.calibrating import core_counts
from enginebench_controller.targets.session import refuse_emulated


def test_counts_of_cores_are_powers_of_two_and_all():
    assert [core_counts(available) for available in (1, 2, 6, 8)] == [(1,), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8)]


def test_what_is_no_processor_is_refused():
    seen = invented.snapshot()
    refuse_emulated(seen, "no matter")
    with pytest.raises(InputError, match=r"is emulated \(by QEMU\): there is nothing to calibrate"):
        refuse_emulated(replace(seen, host=HostFacts(emulation="by QEMU")), "there is nothing to calibrate")
