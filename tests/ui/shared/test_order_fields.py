"""From a form to a plan, to a command line, and back."""

import pytest
import typer

from enginebench_controller.cli import make_app
from enginebench_controller.errors import InputError
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.plan.sparsity import parse_sparsities
from enginebench_proto.agreed.words import SUFFIXES
from enginebench_ui.pages.new_profile.shapes import ProfileFields, passes_words, shares
from enginebench_ui.shared.order_fields import (
    Thoroughness,
    address_of,
    axes_of,
    default_name,
    engine_key,
    file_name,
    listed,
    model_names,
    number,
    numbers,
    options,
    shapes,
    stated,
    targets,
    timing,
)
from offered import engine, target


def test_a_quick_look_is_one_short_process_and_the_usual_is_the_plans_own():
    assert make_plan({"models": ["m"], **timing(Thoroughness.QUICK, {})}, "t").stop_rule().processes == 1
    assert timing(Thoroughness.USUAL, {"processes": 9}) == {}
    assert timing(Thoroughness.OWN, {"processes": 9, "max_duration": ""}) == {"processes": 9}


def test_what_was_left_empty_says_nothing():
    assert stated({"a": "", "b": None, "c": [], "d": {}, "e": 0, "f": False}) == {"e": 0, "f": False}
    assert targets(["local"]) == targets([]) == {}
    assert targets(["local", "nuc"]) == {"targets": ["local", "nuc"]}


def test_lists_shapes_and_options_are_taken_apart():
    assert listed(" 1, 2;4 ,") == ["1", "2", "4"]
    assert shapes("x=1x3x8x8, y=4") == {"x": "1x3x8x8", "y": "4"}
    assert options("openvino.a=true\n torch.b = x=y ") == {"openvino.a": "true", "torch.b": "x=y"}
    with pytest.raises(InputError, match="not of the form ENGINE"):
        options("nonsense")
    with pytest.raises(InputError, match="nonsense"):
        shapes("nonsense")


def test_numbers_may_be_fractions_and_stand_with_spaces():
    assert number(" 1 / 255 ") == pytest.approx(0.003921568627)
    assert [number(text) for text in ("", "0.5", "much", "1/0", "1/255/2")] == ["", "0.5", "much", "1/0", "1/255/2"]
    for text in ("0.485 0.456 0.406", "0.485, 0.456,0.406", "0.485;0.456 ; 0.406"):
        assert numbers(text) == ["0.485", "0.456", "0.406"]
    assert numbers("51 / 255, 1/4 0.5") == [0.2, 0.25, "0.5"]
    assert numbers(" ") == []


def test_an_order_is_named_after_what_it_measures():
    assert default_name(["zoo:resnet50", "mine"], ["x", "y"]) == "resnet50, mine on x, y"
    assert default_name(["mine"], []) == "mine"


def test_the_axes_of_a_stored_plan_come_back():
    plan = make_plan({"models": ["m"], "batch": [1, 3], "load": ["async"]}, "t").document()
    assert axes_of(plan) == {
        "batch": [1, 3],
        "cores": [],
        "streams": [1],
        "precision": ["f32"],
        "load": ["async"],
        "hint": ["none"],
        "requests": [],
        "rate": [],
    }
    assert axes_of({"batch": "not a list"}) == {}


def test_an_address_begins_a_form_where_a_plan_was():
    plan = make_plan({"models": ["m"], "engines": ["x", "y@old"], "batch": [1, 3], "cores": [2], "streams": [2]}, "t")
    said = address_of(plan.document() | {"digests": {"m": "ab" * 32}})
    assert said[:2] == [("model", "ab" * 32), ("engine", "x,y@old")]
    assert [each for each in said if each[0].startswith(("batch", "cores", "several"))] == [
        ("batches_on", "true"),
        ("batches", "1"),
        ("batches", "3"),
        ("cores", "2"),
    ]
    assert ("streams", "2") in said and ("load", "sync") in said
    assert address_of({"models": ["m"], "engines": ["all"]}) == [("model", "m")]
    driven = make_plan({"models": ["m"], "load": ["async"], "requests": [4], "shapes": {"x": "1x8", "y": "8"}}, "t")
    said = address_of(driven.document() | {"options": {"e.o": "1"}})
    assert [each for each in said if each[0] in ("requests", "shape", "options")] == [
        *(("requests", "4"), ("shape", "x=1x8, y=8"), ("options", "e.o=1"))
    ]


def test_an_address_says_how_requests_arrive_and_how_images_become_tensors():
    image = {"resize": "crop", "layout": "nhwc", "scale": 0.5, "mean": [0.1, 0.2, 0.3]}
    asked = {"models": ["m"], "load": ["open-loop"], "rate": [50], "arrivals": "constant", "input_folder": "/photos"}
    said = dict(address_of(make_plan(asked | {"image": image}, "t").document()))
    assert said["arrivals"] == "constant"
    assert {name: value for name, value in said.items() if name.startswith("image_")} == {
        "image_resize": "crop",
        "image_layout": "nhwc",
        "image_scale": "0.5",
        "image_mean": "0.1, 0.2, 0.3",
    }
    plain = dict(address_of(make_plan({"models": ["m"]}, "t").document()))
    assert not [name for name in plain if name == "arrivals" or name.startswith("image_")]


def test_an_address_says_how_often_requests_arrive_and_what_the_model_is_fed():
    fed = {"input_folder": "/data/photos", "inputs": 3, "seed": 7}
    plan = make_plan({"models": ["m"], "load": ["open-loop"], "rate": [50, 62.5], **fed}, "t")
    said = address_of(plan.document())
    assert [each for each in said if each[0] in ("rate", "folder", "inputs", "seed")] == [
        ("rate", "50.0, 62.5"),
        ("folder", "/data/photos"),
        ("inputs", "3"),
        ("seed", "7"),
    ]


@pytest.mark.parametrize("odd", [None, 5, "text", [3], {"a": {}}])
def test_a_plan_in_a_form_that_is_not_ours_begins_a_form_with_what_can_be_read(odd):
    plan = {"models": ["m"], "engines": ["x"], **dict.fromkeys(("digests", "targets", "shapes", "seed", "batch"), odd)}
    assert address_of(plan)[:2] == [("model", "m"), ("engine", "x")]
    assert address_of({"models": odd, "engines": odd})[0][0] == "model"


def test_an_engine_in_an_address_is_the_one_of_its_environment():
    elsewhere = target(engine("x"), engine("x", environment="old"), engine("y", environment="own"))
    assert [engine_key(one, [elsewhere]) for one in ("x@default", "x@old", "y@own", "z@own", "x")] == [
        *("x", "x@old", "y", "z@own", "x")
    ]


def test_a_profile_is_the_command_line_that_stands_for_the_same_plan():
    fields = {"engines": ["x@new"], "targets": ["nuc"], "batch": [1, 4], "cores": [2], "precision": ["f32"]}
    wish = ProfileFields("d" * 64, "-odd name", fields, (0.5, 0.9), 7, {"x": "1x8"})
    command, *arguments = wish.arguments()
    parsed = typer.main.get_command(make_app()).commands[command].make_context("profile", arguments).params

    assert (parsed["model"], parsed["name"], parsed["iterations"]) == ("d" * 64, "-odd name", 7)
    assert [parsed[name] for name in ("engine", "target", "batch", "cores")] == [["x@new"], ["nuc"], ["1,4"], ["2"]]
    assert (parsed["shape"], parse_sparsities(parsed["sparsity"])) == (["x=1x8"], (0.5, 0.9))
    plan = wish.plan()
    assert (plan.batch, plan.engines, plan.processes, plan.shapes) == ((1, 4), ("x@new",), 1, {"x": "1x8"})


def test_shares_of_zeros_are_numbers_or_percentages():
    assert shares([0.9, "50%", "0.9", "0"]) == (0.0, 0.5, 0.9)
    for wrong in ("1", "nan", "-0.1", "many"):
        with pytest.raises(InputError, match="no share of zeros"):
            shares([wrong])
    assert passes_words(1, ()) == "1 pass"
    assert passes_words(6, (0.0, 0.5, 0.9)) == "6 passes: 2 configurations × 3 shares of zeros"


@pytest.mark.parametrize(
    ("sent", "kept"), [("a.onnx", "a.onnx"), ("C:\\x\\a.onnx", "a.onnx"), ("../../etc/a.onnx", "a.onnx")]
)
def test_only_the_last_part_of_an_uploaded_name_is_kept(sent, kept):
    assert file_name(sent) == kept


@pytest.mark.parametrize("sent", ["", "..", "a/..", "/", "a\nb.onnx", "a\0.onnx", "x" * 300])
def test_a_name_that_no_file_of_ours_may_have_is_refused(sent):
    with pytest.raises(InputError, match="rename it"):
        file_name(sent)


def test_models_are_told_from_the_files_they_refer_to():
    assert model_names(["a.xml", "a.bin", "b.ONNX"], SUFFIXES) == ["a.xml", "b.ONNX"]
    with pytest.raises(InputError, match="none of these files is a model"):
        model_names(["a.bin"], SUFFIXES)
