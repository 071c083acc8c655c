"""A model beside its INT8 version: "int8:NAME" in a plan, and the plan that follows from a profile."""

from dataclasses import replace

import numpy as np
import pytest
from onnx import helper
from PIL import Image
from tiny_models import make_model, save, tiny_classifier, tiny_embedding

import invented_profiles
from enginebench_controller.errors import ModelError, UnknownModelError
from enginebench_controller.home import Home
from enginebench_controller.models.derive.quantize import CalibrationFolder, int8_version, quantize
from enginebench_controller.models.inputs import arrays
from enginebench_controller.models.inputs.arrays import ImageOptions
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.int8 import beside_int8
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import Configuration, EngineRef, InputTensor, Load

PLAN = make_plan({"models": ["net", "int8:net"]}, "this test")


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home")


@pytest.fixture
def net(home, tmp_path):
    return home.library.add(save(tiny_classifier(), tmp_path / "net.onnx"))


def bound(home, plan, digests=None):
    binder = Binder(home.library, home.inputs, plan, digests)
    binder.resolve(plan.models)
    return binder


def test_an_int8_version_is_made_where_there_is_none_and_that_is_told(home, net):
    binder = bound(home, PLAN)
    child = binder("int8:net", 1)
    assert child.version.parent_digest == net.digest
    assert child.assumptions[0].startswith("net-int8 (") and "was made now: int8 QDQ" in child.assumptions[0]
    assert not binder("net", 1).assumptions


def test_one_that_exists_is_taken_whatever_it_was_calibrated_on_and_that_is_told(home, net):
    older = quantize(home.library, net)
    newer = quantize(home.library, net, calibration_seed=3, samples=2)
    found = bound(home, PLAN)("int8:net", 1)
    assert found.version == newer != older
    assert "was there already: int8 QDQ" in found.assumptions[0] and "2 inputs of seed 3" in found.assumptions[0]


def test_one_whose_file_is_gone_is_made_anew(home, net):
    home.library.main_path(quantize(home.library, net)).unlink()
    found = bound(home, PLAN)("int8:net", 1)
    assert "was made now" in found.assumptions[0]
    assert home.library.main_path(found.version).is_file()


def test_a_rerun_has_the_very_version_of_before(home, net):
    older = quantize(home.library, net)
    quantize(home.library, net, calibration_seed=3, samples=2)
    again = bound(home, PLAN, {"net": net.digest, "int8:net": older.digest})
    assert again("int8:net", 1).version == older


def test_shapes_are_for_the_models_that_have_such_inputs(home, net):
    plan = make_plan({"models": ["int8:net"], "shapes": {"x": "1x3x4x4", "of_another": "1x1"}}, "this test")
    binder = Binder(home.library, home.inputs, plan)
    binder.resolve(plan.models)
    assert binder.versions[0].parent_digest == net.digest


def test_an_int8_version_is_calibrated_on_inputs_filled_as_the_plan_says(home, net):
    plan = make_plan({"models": ["int8:net"], "input_values": {"x": "0..1", "of_another": "3"}}, "this test")
    binder = Binder(home.library, home.inputs, plan)
    binder.resolve(plan.models)
    assert str(binder.versions[0].derivation).endswith("8 inputs of seed 0 with x=0.0..1.0")


@pytest.fixture
def pixels(tmp_path):
    folder = tmp_path / "pixels"
    folder.mkdir()
    for number in range(2):
        pixels = np.random.default_rng(number).uniform(0, 255, (3, 4, 4)).astype("f")
        np.save(folder / f"{number}.npy", pixels)
    return folder


def on_files(folder, **fields):
    return make_plan({"models": ["net", "int8:net"], "input_folder": str(folder)} | fields, "this test")


def test_an_int8_version_is_calibrated_on_the_very_inputs_of_the_run(home, net, pixels):
    found = bound(home, on_files(pixels))("int8:net", 1)
    assert "was made now" in found.assumptions[0] and "2 inputs of pixels (" in found.assumptions[0]
    again = bound(home, on_files(pixels))("int8:net", 1)
    assert again.version == found.version and "others" not in again.assumptions[0]


def test_one_that_was_calibrated_on_these_inputs_is_taken_before_a_newer_one(home, net, pixels):
    older = quantize(home.library, net, given=CalibrationFolder(pixels))
    newer = quantize(home.library, net)
    assert bound(home, on_files(pixels))("int8:net", 1).version == older
    assert bound(home, PLAN)("int8:net", 1).version == newer


def test_one_that_was_calibrated_on_others_is_told_with_the_command_for_a_better_one(home, net, pixels):
    quantize(home.library, net)
    (told, *_) = bound(home, on_files(pixels, image={"scale": 1}))("int8:net", 1).assumptions
    command = f"enginebench models quantize net --inputs {pixels} --image-scale 1"
    assert told.endswith(f"others, as far as is known: `{command}` makes one that is calibrated on them")


def test_one_on_fewer_samples_of_the_folder_is_on_no_others(home, net, pixels):
    few = quantize(home.library, net, given=CalibrationFolder(pixels, count=1))
    quantize(home.library, net)
    found = bound(home, on_files(pixels))("int8:net", 1)
    assert found.version == few and "others" not in found.assumptions[0]


def test_without_one_on_the_inputs_of_the_run_it_is_the_newest(home, net, pixels):
    quantize(home.library, net, given=CalibrationFolder(pixels))
    newest = quantize(home.library, net)
    np.save(pixels / "more.npy", np.ones((3, 4, 4), "f"))
    found = bound(home, on_files(pixels))("int8:net", 1)
    assert found.version == newest and "the inputs of this run are others" in found.assumptions[0]


def test_another_folder_that_is_called_alike_has_other_inputs(home, net, pixels, tmp_path):
    """With as many files of the same names and sizes, as folders of a hundred pictures have."""
    other = tmp_path / "elsewhere" / pixels.name
    other.mkdir(parents=True)
    for path in pixels.iterdir():
        np.save(other / path.name, 255 * np.load(path))
    made = quantize(home.library, net, given=CalibrationFolder(pixels))
    assert "are others" in bound(home, on_files(other))("int8:net", 1).assumptions[0]
    quantize(home.library, net, given=CalibrationFolder(other))
    found = bound(home, on_files(pixels))("int8:net", 1)
    assert found.version == made and "others" not in found.assumptions[0]


def test_a_folder_that_was_moved_has_the_same_inputs(home, net, pixels):
    quantize(home.library, net, given=CalibrationFolder(pixels))
    moved = pixels.rename(pixels.with_name("moved"))
    assert "others" not in bound(home, on_files(moved))("int8:net", 1).assumptions[0]


def test_images_that_are_prepared_otherwise_are_others(home, net, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    for number in range(2):
        pixels = np.random.default_rng(number).integers(0, 256, (4, 4, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    made = quantize(home.library, net, given=CalibrationFolder(folder, ImageOptions(scale=1), count=1))
    quantize(home.library, net)
    for scale, are_others in ((1, False), (2, True)):
        found = bound(home, on_files(folder, image={"scale": scale}))("int8:net", 1)
        assert (found.version == made) is not are_others and ("others" in found.assumptions[0]) is are_others


@pytest.fixture
def open_net(home, tmp_path):
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"]), helper.make_node("GlobalAveragePool", ["c"], ["y"])]
    weights = {"w": np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype("f")}
    model = make_model(nodes, [("x", ["batch", 3, "rows", "columns"])], [("y", ["batch", 4, 1, 1])], weights)
    return home.library.add(save(model, tmp_path / "net.onnx"))


def test_one_that_was_made_before_calibrations_were_told_is_known_once_it_is_asked_for_again(home, net, pixels):
    made = quantize(home.library, net, given=CalibrationFolder(pixels))
    home.library.renewed(replace(made, derivation=replace(made.derivation, calibration=None)))
    (told, *_) = bound(home, on_files(pixels))("int8:net", 1).assumptions
    assert "was there already" in told
    assert "whether it was calibrated on the inputs of this run is not known: `enginebench models quantize" in told
    again = quantize(home.library, net, given=CalibrationFolder(pixels))
    assert again.digest == made.digest and again.derivation.calibration == made.derivation.calibration
    assert "others" not in bound(home, on_files(pixels))("int8:net", 1).assumptions[0]


def test_a_shape_that_repeats_the_batch_is_told_and_made_with_one(home, open_net, pixels):
    plan = on_files(pixels, shapes={"x": "4x3x4x4"}, batch=[4])
    other = quantize(home.library, open_net, shapes={"x": (1, 3, 8, 8)})
    (told, *_) = bound(home, plan)("int8:net", 4).assumptions
    assert f"`enginebench models quantize net --shape x=1x3x4x4 --inputs {pixels}` makes one" in told
    home.library.remove(other)
    made = bound(home, plan)("int8:net", 4)
    assert "was made now" in made.assumptions[0]
    again = bound(home, plan)("int8:net", 4)
    assert again.version == made.version and "others" not in again.assumptions[0]


def test_nothing_is_said_of_inputs_that_no_version_can_be_calibrated_on(home, net, pixels):
    quantize(home.library, net)
    np.save(pixels / "odd.npy", np.ones((5, 5), "f"))
    assert not int8_version(home.library, net, given=CalibrationFolder(pixels)).is_on_others


def test_what_int8_stands_for_is_found_without_reading_the_inputs(home, net, pixels, monkeypatch):
    made = quantize(home.library, net, given=CalibrationFolder(pixels))
    monkeypatch.setattr(arrays.ArrayFile, "read", lambda self: pytest.fail(f"{self.label} was read"))
    (version,) = bound(home, on_files(pixels, models=["int8:net"])).versions
    assert version == made


def test_a_model_that_cannot_be_quantized_ends_all_before_half_of_it_runs(home, tmp_path):
    home.library.add(save(tiny_embedding(), tmp_path / "net.onnx"))
    with pytest.raises(UnknownModelError, match="there is no INT8 version: net cannot be quantized: it has no layer"):
        bound(home, PLAN)


def test_no_model_can_be_called_so(home, tmp_path):
    with pytest.raises(ModelError, match="int8:… stands for the INT8 version of another one"):
        home.library.add(save(tiny_classifier(), tmp_path / "net.onnx"), name="int8:net")


def test_the_plan_has_both_versions_in_the_configuration_of_the_profile():
    asked = Configuration("FAKE:1", batch=4, cores=2, streams=2, precision="bf16", load=Load.ASYNC, requests=3)
    asked = replace(asked, inputs=(InputTensor("ids", "int64", (4, 8)),))
    profile = invented_profiles.profile("p", target="board", engine=EngineRef("fast", "old", "1"), configuration=asked)
    said = {"seed": 7, "shapes": {"ids": "1x8", "mel": "1x80"}, "duration": "9s"}
    said |= {"options": {"fast.pin": "true", "slow.pin": "true"}}
    plan = beside_int8(replace(profile, plan=said), "net")

    assert plan.models == ("net", "int8:net")
    assert (plan.engines, plan.targets, plan.devices) == (("fast@old",), ("board",), ("FAKE:1",))
    assert (plan.batch, plan.cores, plan.streams, plan.precision) == ((4,), (2,), (2,), ("bf16",))
    assert (plan.load, plan.requests) == ((Load.ASYNC,), (3,))
    assert (plan.seed, plan.shapes, plan.options) == (7, {"ids": "1x8"}, {"fast.pin": "true"})
    assert plan.interleave is True and plan.duration == "6s", "in turns, and for as long as it takes"


def test_this_machine_needs_no_name():
    profile = invented_profiles.profile("p")
    assert profile.target == "local" and beside_int8(profile, "net").targets == ()
