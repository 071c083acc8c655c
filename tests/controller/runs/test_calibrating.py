"""Which engines of a target are calibrated, and on how many cores."""

from dataclasses import replace

import pytest

import invented
from enginebench_controller.errors import InputError
from enginebench_controller.records import HostFacts
from enginebench_controller.runs.calibrating import CalibrationOrder, core_counts, places
from enginebench_controller.targets.session import refuse_emulated
from offered import engine, target

SEEN = target(engine("x"), engine("y", devices=("GPU", "CPU")), engine("z", devices=()))
NO_GPU = "engine 'x' has no device 'GPU' on target 'local'; it has: CPU"
NO_DEVICE = "engine 'z' found no device on target 'local'"


def test_counts_of_cores_are_powers_of_two_and_all():
    assert [core_counts(available) for available in (1, 2, 6, 8)] == [(1,), (1, 2), (1, 2, 4, 6), (1, 2, 4, 8)]


@pytest.mark.parametrize(
    ("order", "wanted", "sentences"),
    [
        (CalibrationOrder(), [("x", "CPU"), ("y", "CPU")], [NO_DEVICE]),
        (CalibrationOrder(device="GPU"), [("y", "GPU")], [NO_GPU, NO_DEVICE]),
        (CalibrationOrder(device="GPU", engines=("y",)), [("y", "GPU")], []),
        (CalibrationOrder(device="gpu", engines=("y",)), [("y", "GPU")], []),
    ],
)
def test_of_all_engines_those_without_the_device_are_left_out_and_told(order, wanted, sentences):
    told = []
    assert [(one.name, device) for one, device in places(order, SEEN, told.append)] == wanted
    assert told == sentences


@pytest.mark.parametrize(
    ("order", "sentences"),
    [
        (CalibrationOrder(device="GPU", engines=("y", "x")), [NO_GPU]),
        (CalibrationOrder(engines=("z",)), [NO_DEVICE]),
        (CalibrationOrder(device="NPU"), ["'x' has no device 'NPU'", "'y' has no device 'NPU'", NO_DEVICE]),
    ],
)
def test_a_device_that_an_engine_that_was_named_or_every_one_lacks_is_refused(order, sentences):
    with pytest.raises(InputError) as caught:
        places(order, SEEN, pytest.fail)
    told = str(caught.value).splitlines()
    assert len(told) == len(sentences)
    assert all(sentence in line for sentence, line in zip(sentences, told, strict=True))


def test_what_is_no_processor_is_refused():
    seen = invented.snapshot()
    refuse_emulated(seen, "no matter")
    with pytest.raises(InputError, match=r"is emulated \(by QEMU\): there is nothing to calibrate"):
        refuse_emulated(replace(seen, host=HostFacts(emulation="by QEMU")), "there is nothing to calibrate")
