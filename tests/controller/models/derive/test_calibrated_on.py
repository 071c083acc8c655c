"""Which INT8 version goes with the inputs of a run: one on these, before one that may be, before the newest."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tiny_models import save, tiny_classifier

from enginebench_controller.models.derive.quantize import (
    _RULE,
    CalibratedOn,
    CalibrationFolder,
    int8_version,
    quantize,
)
from enginebench_controller.models.inputs.input_set import fingerprint
from enginebench_controller.models.library import ModelLibrary
from enginebench_controller.records import InputTensor, ModelVersion
from enginebench_controller.records.model import Calibration

Told = Callable[[Calibration], Calibration | None]


@pytest.fixture
def net(library: ModelLibrary, tmp_path: Path) -> ModelVersion:
    return library.add(save(tiny_classifier(), tmp_path / "net.onnx"))


@pytest.fixture
def pixels(tmp_path: Path) -> CalibrationFolder:
    return folder_of(tmp_path / "pixels", seed=0)


def folder_of(folder: Path, *, seed: int) -> CalibrationFolder:
    folder.mkdir(parents=True)
    for number in range(2):
        values = np.random.default_rng((seed, number)).uniform(0, 255, (3, 4, 4)).astype("f")
        np.save(folder / f"{number}.npy", values)
    return CalibrationFolder(folder)


def retold(library: ModelLibrary, version: ModelVersion, told: Told) -> ModelVersion:
    """The version with another record of its calibration, as of a checkout of before."""
    assert version.derivation and version.derivation.calibration
    changed = replace(version.derivation, calibration=told(version.derivation.calibration))
    return library.renewed(replace(version, derivation=changed))


def words_alone(_: Calibration) -> None:
    """What records had before there was a `Calibration`."""


def by_the_rule_of_before(made: Calibration) -> Calibration:
    return replace(made, files="0123456789abcdef")


def without_files(made: Calibration) -> Calibration:
    return replace(made, files="")


def found(library: ModelLibrary, net: ModelVersion, given: CalibrationFolder) -> tuple[ModelVersion, CalibratedOn]:
    chosen = int8_version(library, net, given=given)
    assert chosen.was_there
    return chosen.version, chosen.calibrated_on


@pytest.mark.parametrize("told", [words_alone, by_the_rule_of_before, without_files])
def test_one_of_which_it_is_not_known_goes_before_a_newer_one_on_others(
    library: ModelLibrary, net: ModelVersion, pixels: CalibrationFolder, told: Told
) -> None:
    older = retold(library, quantize(library, net, given=pixels), told)
    quantize(library, net)

    assert found(library, net, pixels) == (older, CalibratedOn.UNKNOWN)


def test_one_that_is_known_to_be_on_these_goes_before_one_that_may_be(
    library: ModelLibrary, net: ModelVersion, pixels: CalibrationFolder
) -> None:
    few = quantize(library, net, given=replace(pixels, count=1))
    retold(library, quantize(library, net, given=pixels), words_alone)

    assert found(library, net, pixels) == (few, CalibratedOn.THESE)


def test_one_that_may_be_on_these_and_is_called_otherwise_is_not_preferred(
    library: ModelLibrary, net: ModelVersion, pixels: CalibrationFolder, tmp_path: Path
) -> None:
    unknown = retold(library, quantize(library, net, given=folder_of(tmp_path / "cats", seed=1)), words_alone)
    assert found(library, net, pixels) == (unknown, CalibratedOn.UNKNOWN)
    newest = quantize(library, net)

    assert found(library, net, pixels) == (newest, CalibratedOn.OTHERS)


@pytest.mark.parametrize("told", [words_alone, by_the_rule_of_before])
def test_seeded_inputs_are_others_whatever_the_record_says_of_them(
    library: ModelLibrary, net: ModelVersion, pixels: CalibrationFolder, told: Told
) -> None:
    retold(library, quantize(library, net, said={"x": "0..1"}), told)

    assert found(library, net, pixels)[1] is CalibratedOn.OTHERS


def test_files_that_are_told_without_the_rule_are_these_where_they_are_equal(
    library: ModelLibrary, net: ModelVersion, pixels: CalibrationFolder
) -> None:
    made = retold(
        library, quantize(library, net, given=pixels), lambda one: replace(one, files=one.files.partition(":")[2])
    )

    assert found(library, net, pixels) == (made, CalibratedOn.THESE)


def test_what_is_not_known_is_known_once_it_is_asked_for_again(
    library: ModelLibrary, net: ModelVersion, pixels: CalibrationFolder
) -> None:
    made = retold(library, quantize(library, net, given=pixels), by_the_rule_of_before)
    again = quantize(library, net, given=pixels)

    assert again.digest == made.digest and found(library, net, pixels) == (again, CalibratedOn.THESE)


def test_other_files_of_a_folder_that_is_called_alike_are_others(
    library: ModelLibrary, net: ModelVersion, pixels: CalibrationFolder, tmp_path: Path
) -> None:
    elsewhere = folder_of(tmp_path / "elsewhere" / "pixels", seed=1)
    quantize(library, net, given=elsewhere)

    assert found(library, net, pixels)[1] is CalibratedOn.OTHERS


def test_the_rule_that_files_are_told_by_has_a_number_of_its_own(tmp_path: Path) -> None:
    """Where `fingerprint` tells these files otherwise, `_RULE` needs the next number, or all older records lie."""
    for number in range(70):
        (tmp_path / f"{number:02}.npy").write_bytes(bytes([number]) * 200_000)
    files = fingerprint(tmp_path, [InputTensor("x", "float32", (1, 3, 4, 4))])

    assert (_RULE, files) == ("2:", "c9b2e0684253b18a")
