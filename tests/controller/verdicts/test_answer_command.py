"""The command that would tell what an answer cannot: it can be typed, and measures once more what is in doubt."""

import shlex
import tomllib
from dataclasses import replace
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

import invented
from controller.verdicts.rivals import ASKED, answered, member
from enginebench_controller.cli import make_app
from enginebench_controller.plan.configurations import BoundModel
from enginebench_controller.plan.expand import expand
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import (
    ArrivalProcess,
    Arrivals,
    Derivation,
    DerivationKind,
    Device,
    Hint,
    InputTensor,
    Load,
)
from enginebench_controller.verdicts.answers import answers_of
from offered import engine, target

NET = invented.model(name="net")
IR = replace(invented.model("cd" * 32, "ir"), format="openvino_ir", parent_digest=NET.digest)
IR = replace(IR, derivation=Derivation(DerivationKind.CONVERTED))
PLAIN = engine("ort")
ABLE = engine("openvino", formats=("onnx", "openvino_ir"), hints=("none", "latency"), multiple_streams=True)
ABLE = replace(ABLE, devices=(Device("CPU", "invented CPU", ("f32", "bf16"), ("CPU",)),))


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))


def expanded(plan, *engines):
    """The cases of a plan on a target with these engines. Raises `PlanError` as its command would."""
    models = {"net.onnx": NET, "ir.xml": IR}
    return expand(plan, [target(*engines)], lambda name, _batch: BoundModel(models[name], ())).cases


def in_doubt(plan, *engines, but=lambda _case: False):
    """The answers on all cases of a plan, of which nothing can be told but that some are ten times as slow."""
    members = [
        member(
            f"m{place}",
            40.0 if but(case) else 4.0 + place / 100,
            spread=0.3,
            engine=case.engine,
            model_digest=case.model.digest,
            model_name=case.model.name,
            configuration=case.configuration,
        )
        for place, case in enumerate(expanded(plan, *engines))
    ]
    document = plan.document() | {"digests": {"net.onnx": NET.digest, "ir.xml": IR.digest}}
    return answered(*members, models=(NET, IR), plan=document)


def typed(command):
    """The plan that a command stands for, as the program reads it."""
    printed = CliRunner().invoke(make_app(), [*shlex.split(command)[1:], "--print-plan"], catch_exceptions=False)
    assert printed.exit_code == 0
    return make_plan(tomllib.loads(printed.stdout), "run")


def told_apart(cases):
    """What tells the cases of one answer apart."""
    asked = [(one.engine.name, one.model.name, one.configuration) for one in cases]
    return {(name, model, one.streams, one.precision, one.hint) for name, model, one in asked}


def asked_again(fields):
    """The plan of the command that would tell more of a model that takes x and n."""
    inputs = (InputTensor("x", "float32", (1, 8)), InputTensor("n", "int64", ()))
    asked = replace(ASKED, inputs=inputs)
    document = make_plan(fields, "run").document() | {"digests": {fields["models"][0]: NET.digest}}
    members = [member(name, ms, spread=0.2, configuration=asked) for name, ms in (("openvino", 4.0), ("ort", 4.1))]
    (answer,) = answered(*members, plan=document)
    return typed(answer.command)


def test_the_command_is_one_that_can_be_typed():
    fields = {"models": ["a b.onnx"], "shapes": {"x": "1x8"}, "input_values": {"n": "0..5"}, "seed": 3, "processes": 2}
    fields |= {"image": {"mean": [0.5, 0.25]}, "input_folder": "/some where", "interval": "2%", "duration": "4s"}
    plan = asked_again(fields)
    assert (plan.models, plan.shapes, plan.input_values) == (("a b.onnx",), {"x": "1x8"}, {"n": "0..5"})
    assert (plan.image.mean, plan.input_folder) == ((0.5, 0.25), "/some where")


@pytest.mark.parametrize("imported", [False, True])
def test_what_was_imported_has_no_command_as_typed_here_it_would_measure_another_machine(imported):
    members = [member(name, ms, spread=0.2) for name, ms in (("openvino", 4.0), ("ort", 4.1))]
    plan = make_plan({"models": ["net.onnx"]}, "run").document()
    benchmark = replace(invented.benchmark(imported=imported), plan=plan)
    kept = SimpleNamespace(block_latencies=lambda _ids: {one.id: blocks for one, blocks in members})
    (answer,) = answers_of(kept, benchmark, [one for one, _ in members], ())
    assert "cannot tell" in answer.sentence
    assert [answer.command is None, answer.advice is None] == [imported, imported]


def test_what_was_said_of_inputs_of_another_model_is_left_out():
    said = {"shapes": {"mel": "1x80", "x": "1x8"}, "batch_axis": {"x": 0, "mel": 1}, "input_values": {"n": 3, "len": 5}}
    plan = asked_again({"models": ["net.onnx", "other.onnx"]} | said)
    assert plan.models == ("net.onnx",)
    assert (plan.shapes, plan.batch_axis, plan.input_values) == ({"x": "1x8"}, {"x": 0}, {"n": "3"})


@pytest.mark.parametrize(
    "fields",
    [
        {"hint": ["none", "latency"]},
        {"precision": ["f32", "bf16"]},
        {"load": ["async"], "streams": [1, 4]},
        {"models": ["net.onnx", "ir.xml"]},
    ],
)
def test_where_one_of_all_engines_lacks_what_another_has_all_are_asked_again(fields):
    plan = make_plan({"models": ["net.onnx"]} | fields, "run")
    (answer,) = in_doubt(plan, PLAIN, ABLE)
    again = expanded(typed(answer.command), PLAIN, ABLE)
    assert told_apart(again) == told_apart(expanded(plan, PLAIN, ABLE))
    assert len(again) == 3


def test_engines_that_can_do_all_that_is_in_doubt_are_named():
    plan = make_plan({"models": ["net.onnx"], "hint": ["none", "latency"]}, "run")
    engines = [replace(ABLE, name=name) for name in ("a", "b", "far")]
    slow = {("b", Hint.LATENCY), ("far", Hint.NONE), ("far", Hint.LATENCY)}
    (answer,) = in_doubt(plan, *engines, but=lambda case: (case.engine.name, case.configuration.hint) in slow)
    again = typed(answer.command)
    assert (again.engines, set(again.hint)) == (("a", "b"), {Hint.NONE, Hint.LATENCY})


def test_arrivals_are_said_again_with_the_load_that_has_them_and_with_no_other():
    fields = {"load": ["sync", "open-loop"], "rate": [50], "arrivals": "constant"}
    answers = in_doubt(make_plan({"models": ["net.onnx"]} | fields, "run"), PLAIN, ABLE)
    again = [one.configuration for answer in answers for one in expanded(typed(answer.command), PLAIN, ABLE)]
    constant = Arrivals(50, ArrivalProcess.CONSTANT)
    assert {(one.load, one.arrivals) for one in again} == {(Load.SYNC, None), (Load.OPEN_LOOP, constant)}
