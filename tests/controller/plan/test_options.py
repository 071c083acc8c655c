"""The options of a plan: each field has one, and a command that is printed means the plan it was printed for."""

import shlex

import pytest
import typer
from typer.testing import CliRunner

from enginebench_controller.cli.plan_options import plan_options
from enginebench_controller.errors import InputError
from enginebench_controller.plan.options import OPTIONS, OptionForm, fields_of, option_of
from enginebench_controller.plan.plan import Plan, make_plan, run_command

SAID = {
    "engine": ("openvino,torch@old",),
    "target": ("board",),
    "executor": ("dask://head:8786",),
    "device": ("GPU.0",),
    "batch": ("1,4",),
    "cores": ("2",),
    "streams": ("1,2",),
    "precision": ("bf16",),
    "load": ("open-loop",),
    "requests": ("3",),
    "rate": ("50,0.5",),
    "arrivals": ("constant",),
    "hint": ("latency",),
    "processes": ("7",),
    "duration": ("2s",),
    "iterations": ("12",),
    "max-duration": ("9s",),
    "interval": ("0.5%",),
    "warmup": ("10ms",),
    "block": ("50ms",),
    "wait-quiet": ("0s",),
    "order-seed": ("5",),
    "shape": ("a=1x3", "b=2"),
    "batch-axis": ("a=1",),
    "option": ("onnxruntime.x=1", "torch.y=a=b"),
    "seed": ("3",),
    "inputs": ("2",),
    "input": ("sr=16000",),
    "image-resize": ("crop",),
    "image-layout": ("nhwc",),
    "image-scale": ("0.5",),
    "image-mean": ("1,2,3",),
    "image-std": ("4",),
    "timeout": ("1m",),
    "name": ("a name",),
}


def plan_of(words):
    """The plan that a command with all options makes of some words."""
    made = []
    app = typer.Typer()

    @app.command()
    @plan_options()
    def command(models: list[str], fields: dict[str, object]) -> None:
        made.append(make_plan({"models": models, **fields}, "run"))

    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return made[0]


def typed(*names):
    return ["m.onnx", *(word for name in names for value in SAID[name] for word in (f"--{name}", value))]


@pytest.mark.parametrize("name", SAID)
def test_a_printed_command_means_the_plan_it_is_of(name):
    plan = plan_of(typed(name))
    assert plan != plan_of(["m.onnx"])
    command = shlex.split(run_command(plan))
    assert command[:2] == ["enginebench", "run"]
    assert plan_of(command[2:]) == plan


@pytest.mark.parametrize("word", ["--keep-noisy", "--interleave", "--no-interleave"])
def test_a_switch_is_printed_as_it_was_said(word):
    assert run_command(plan_of(["m.onnx", word])) == f"enginebench run m.onnx {word}"


def test_all_options_together_are_one_plan():
    plan = plan_of(typed(*SAID.keys() - {"executor"}))  # which is there instead of targets
    assert plan_of(shlex.split(run_command(plan))[2:]) == plan


def test_a_folder_of_inputs_is_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = plan_of(["m.onnx", "--inputs", "pictures"])
    assert plan.input_folder == str(tmp_path / "pictures")
    assert run_command(plan) == f"enginebench run m.onnx --inputs {tmp_path / 'pictures'}"


@pytest.mark.parametrize("text", ["4\uff14", "٤", "1.000", "007", "1,024"])
def test_what_is_meant_for_a_number_of_inputs_is_no_folder_unless_there_is_one(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^--inputs: "):
        make_plan({"models": ["m"], **fields_of({"inputs": text})}, "run")
    (tmp_path / text).mkdir()
    assert fields_of({"inputs": text}) == {"input_folder": str(tmp_path / text)}


def test_what_was_not_typed_is_left_to_the_plan():
    assert run_command(plan_of(["m.onnx"])) == "enginebench run m.onnx"
    assert run_command(plan_of(["0a" * 32, "0a" * 31])) == f"enginebench run {'0a' * 6} {'0a' * 31}"


def test_every_option_is_tried_here_and_every_field_of_a_plan_has_one():
    switches = {one.name for one in OPTIONS.values() if one.form is OptionForm.SWITCH}
    assert set(SAID) | switches == set(OPTIONS)
    of_a_document = {"schema_version", "models", "input_folder", "ladder", "rungs", "gate", "search"}
    assert {one.field.partition(".")[0] for one in OPTIONS.values()} | of_a_document == set(Plan.model_fields)


@pytest.mark.parametrize(
    ("field", "within", "option"),
    [
        ("engines", (), "--engine"),
        ("max_duration", (), "--max-duration"),
        ("options", ("torch.x",), "--option torch.x"),
        ("image", ("scale",), "--image-scale"),
        ("models", (), "MODEL"),
        ("input_folder", (), "--inputs"),
    ],
)
def test_a_mistake_is_told_by_what_was_typed(field, within, option):
    assert option_of(field, *within) == option


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"image": {"scale": "much"}}, r"^--image-scale: "),
        ({"duration": "long"}, r"^--duration: "),
        ({"batch_axis": {"a": "x"}}, r"^--batch-axis a: "),
    ],
)
def test_the_sentence_names_the_option(fields, sentence):
    with pytest.raises(InputError, match=sentence):
        make_plan({"models": ["m"], **fields}, "run")
