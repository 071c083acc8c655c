"""A preview says what a plan comes to, and in the planner's words why it cannot be, without changing anything."""

import numpy as np
import pytest
from PIL import Image

from controller.tiny_models import save, tiny_classifier
from enginebench_controller.home import Home
from enginebench_controller.models.zoo import ZOO
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.plan.preview import preview
from offered import engine, target


@pytest.fixture
def library(tmp_path):
    return Home(tmp_path / "home").library


@pytest.fixture
def digest(library, tmp_path):
    return library.add(save(tiny_classifier(), tmp_path / "tiny.onnx")).digest


def plan(model, **fields):
    return make_plan({"models": [model], **fields}, "test")


def test_a_plan_is_expanded_over_what_targets_said(library, digest):
    found = preview(library, plan(digest, batch=[1, 4], cores=[1, 2]), [target(engine("a"), engine("b"))])

    assert found.refusals == ()
    assert len(found.expansion.cases) == 8
    assert {case.model.name for case in found.expansion.cases} == {"tiny"}


def test_all_reasons_are_told_as_the_planner_says_them(library, digest):
    asked = plan(digest, engines=["a"], cores=[3], precision=["bf16"], load=["open-loop"])
    found = preview(library, asked, [target(engine("a"))])

    assert found.expansion is None
    assert found.refusals[0] == "the load open-loop needs a rate: write --rate 50 for 50 inferences a second"
    found = preview(library, plan(digest, engines=["a"], cores=[3, 4]), [target(engine("a"))])
    assert found.refusals == (
        "a on local CPU: 3 cores are asked for, and the target has 2",
        "a on local CPU: 4 cores are asked for, and the target has 2",
    )


def test_what_is_wrong_with_a_single_model_or_a_stop_rule_is_one_reason(library, digest):
    (gone,) = preview(library, plan("f" * 64), [target(engine("a"))]).refusals
    assert "the library holds no version ffffffffffff" in gone
    (short,) = preview(library, plan(digest, duration="9s", max_duration="1s"), [target(engine("a"))]).refusals
    assert "shorter than duration" in short
    (nobody,) = preview(library, plan(digest), [target(engine("a", formats=["openvino_ir"]))]).refusals[:1]
    assert nobody == "no engine on these targets reads these models"


def test_inputs_of_a_folder_are_looked_at_by_name_and_header(library, digest, tmp_path):
    def said(folder, model=digest, **image):
        asked = plan(model, batch=[1, 2], input_folder=str(folder), image=image)
        return preview(library, asked, [target(engine("a"))])

    (folder := tmp_path / "photos").mkdir()
    (none,) = said(folder).refusals
    assert none == f"{folder} holds no inputs: put .npy, .npz, .png or .jpg files there"
    np.save(folder / "a.npy", np.zeros((3, 4, 4)))
    (wide,) = said(folder).refusals
    assert "has elements of type float64, and input 'x' takes float32" in wide
    np.save(folder / "a.npy", np.zeros((3, 4, 4), np.float32))  # written in place: the folder is as old as before
    assert said(folder).expansion
    np.save(folder / "a.npy", np.zeros((3, 4, 5), np.float32))
    assert said(folder).refusals, "and what fitted is no longer what it was"
    np.save(folder / "a.npy", np.zeros((3, 4, 4), np.float32))
    Image.new("RGB", (8, 8)).save(folder / "b.png")
    (flat,) = said(folder, std=[0.0]).refusals
    assert "cannot be 0" in flat
    (few,) = said(folder, mean=[0.1, 0.2]).refusals
    assert few == "2 numbers are given as mean of 3 channels: give one each"
    assert said(folder, mean=[0.1, 0.2, 0.3]).expansion
    for model in (digest, "zoo:resnet50"):
        (lost,) = said(tmp_path / "lost", model).refusals
        assert lost == f"cannot read the folder of inputs {tmp_path / 'lost'}: No such file or directory"


def test_a_folder_that_can_have_no_name_is_refused(library, digest):
    (told,) = preview(library, plan(digest, input_folder="photos\0"), [target(engine("a"))]).refusals
    assert "embedded null byte" in told


def test_a_folder_that_no_input_needs_is_told(library, digest, tmp_path):
    asked = plan(digest, input_folder=str(tmp_path), input_values={"x": "ones"})
    (told,) = preview(library, asked, [target(engine("a"))]).refusals
    assert told == f"every input has its --input, so nothing is taken from {tmp_path}: leave one of them out"


def test_a_model_of_the_zoo_is_not_built_for_a_look(library, tmp_path):
    found = preview(library, plan("zoo:resnet50", batch=[1, 64]), [target(engine("a"))])

    assert {case.model.digest for case in found.expansion.cases} == {ZOO["resnet50"].digest}
    assert not (tmp_path / "home").exists()


def test_sparsities_multiply_the_passes_where_an_engine_can_impose_them(library, digest):
    able, unable = engine("a", options=["imposed_sparsity"]), engine("b")
    found = preview(library, plan(digest), [target(able, unable)], (0.0, 0.9))

    assert [case.configuration.options["imposed_sparsity"] for case in found.expansion.cases] == ["0", "0.9"]
    assert found.expansion.notes == ("b is left out: it cannot impose sparsity",)
    (refusal,) = preview(library, plan(digest, engines=["b"]), [target(able, unable)], (0.9,)).refusals
    assert "b cannot impose sparsity" in refusal
