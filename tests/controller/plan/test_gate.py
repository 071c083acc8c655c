"""What stands behind --base and --head, and what has to be installed for it."""

import re
from pathlib import Path

import pytest

from enginebench_controller.errors import InputError
from enginebench_controller.plan.gate import (
    GateOrder,
    chosen_engine,
    common_plan,
    gate_plan,
    needed,
    parse_sides,
    rung_fields,
)
from enginebench_controller.runs.environments import _reason
from offered import engine, missing, target


@pytest.fixture
def project(tmp_path):
    folder = tmp_path / "my plugin"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[project]\nname = 'mine'\n")
    (folder / "mine.py").write_text("1\n")
    return folder


def test_versions_environments_and_options_of_an_engine() -> None:
    base, head = parse_sides("m.onnx", "ort==1.20.1", "ort@new:level=basic,list=a,b", None)
    assert (base.engine, base.version, base.environment, base.options) == ("ort", "1.20.1", None, {})
    assert (head.engine, head.version, head.environment) == ("ort", None, "new")
    assert head.options == {"level": "basic", "list": "a,b"}


def test_an_engine_with_a_point_in_its_name_is_a_side() -> None:
    base, head = parse_sides("m.onnx", "iree-3.1==1.0", "iree-3.1@new:session.threads=2", None)
    assert (base.engine, base.version) == ("iree-3.1", "1.0")
    assert (head.engine, head.environment, head.options) == ("iree-3.1", "new", {"session.threads": "2"})
    assert rung_fields(head, "iree-3.1@new")["options"] == {"iree-3.1.session.threads": "2"}
    both = parse_sides(None, "v1.0.onnx", "v1.1.onnx", "iree-3.1")
    assert [(side.model, side.engine) for side in both] == [("v1.0.onnx", "iree-3.1"), ("v1.1.onnx", "iree-3.1")]


def test_what_both_have_in_common_is_said_once() -> None:
    base, head = parse_sides("m.onnx", "==1.20.1", ":level=basic", "ort")
    assert (base.engine, base.version, head.engine, head.options) == ("ort", "1.20.1", "ort", {"level": "basic"})
    assert parse_sides("m.onnx", "ort@old", ":level=all", "ort")[1].engine == "ort"
    first, second = parse_sides(None, "a.onnx", "zoo:resnet50", "ort@old:level=all")
    assert (first.model, second.model) == ("a.onnx", "zoo:resnet50")
    assert first.environment == second.environment == "old"
    assert first.options == second.options == {"level": "all"}


@pytest.mark.parametrize(
    ("model", "base", "head", "engine", "said"),
    [
        ("m.onnx", "./b.onnx", "ort", None, "--base './b.onnx' is not of the form"),
        ("m.onnx", "ort", "==1", None, "--head '==1' names no engine: write E==1, or add --engine E"),
        ("m.onnx", "old.onnx", "new.onnx", None, "--base 'old.onnx' is not of the form"),
        ("m.onnx", "ort", "new.PT2", "ort", "two models are compared without MODEL"),
        (None, "ort==1", "ort==2", None, "no model was named: enginebench gate MODEL --base ort==1 --head ort==2"),
        ("m.onnx", "ort", "plugin:/no/such/folder", None, "there is no folder /no/such/folder"),
        ("m.onnx", "ort", "", None, "--head '' is not of the form"),
        ("m.onnx", "ort", "ov", "torch", "--engine torch is used by neither side, as --base ort and --head ov name"),
    ],
)
def test_what_is_no_side_gets_a_sentence(model, base, head, engine, said) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        parse_sides(model, base, head, engine)


def test_a_file_of_a_format_that_a_plugin_brings_is_a_model_where_it_lies(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert parse_sides("m.onnx", "ort", "net.own", None)[1].engine == "net.own"
    Path("net.own").touch()
    with pytest.raises(InputError, match="two models are compared without MODEL"):
        parse_sides("m.onnx", "ort", "net.own", None)
    for one in ("ort", "own.engine"):
        Path(one).mkdir()
        assert parse_sides("m.onnx", one, one, None)[0].engine == one, "a checkout of an engine is no model"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"batch": [1, 4]}, "a gate is of one configuration: give --batch one value"),
        ({"precision": ["f32", "bf16"]}, "a gate is of one configuration: give --precision one value"),
        ({"devices": ["all"]}, "a gate is of one configuration: give --device one value"),
        ({"streams": [1, 2]}, "a gate is of one configuration: give --streams one value"),
        ({"requests": [2, 4]}, "a gate is of one configuration: give --requests one value"),
        ({"hint": ["none", "latency"]}, "a gate is of one configuration: give --hint one value"),
        ({"load": ["sync", "async"]}, "a gate is of one configuration: give --load one value"),
        ({"load": ["open-loop"], "rate": [10]}, "a gate takes turns, which an open loop cannot"),
        ({"targets": ["nuc", "pi"]}, "a gate is of one target: give one --target"),
        ({"requests": [4]}, "sync sends one at a time, so leave them out"),
        ({"streams": [2]}, "2 streams need `--load async`"),
        ({"hint": ["throughput"]}, "the hint throughput needs `--load async`"),
    ],
)
def test_a_gate_is_of_one_configuration_on_one_target(fields, said) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        gate_plan({"models": ["m"], **fields})
    alone = {"batch": [4], "precision": ["bf16"], "devices": ["GPU"], "targets": ["nuc"]}
    assert gate_plan({"models": ["m"], **alone}).batch == (4,)


def test_the_terms_of_a_gate_tell_whether_it_is_strict() -> None:
    for strict in (False, True):
        order = GateOrder("ort", "ov", "m.onnx", strict=strict)
        assert common_plan(order, parse_sides("m.onnx", "ort", "ov", None)).document()["gate"]["strict"] is strict


def test_a_version_that_is_there_needs_nothing_and_prefers_the_default_environment() -> None:
    side, _ = parse_sides("m", "ort==1.0", "ort", None)
    here = target(engine("ort", "other"), engine("ort"))
    assert needed(side, here) is None
    assert chosen_engine(side, here) == "ort@default"
    assert chosen_engine(side, target(engine("ort", "built", version="1.0+cpu"))) == "ort@built"


@pytest.mark.parametrize(
    ("asked", "there", "is_it"),
    [
        ("1.20", "1.20.0", True),
        ("1.20.0", "1.20", True),
        ("1.20", "1.20.1", False),
        ("1.20.*", "1.20.1", True),
        ("1.2.*", "1.20.1", False),
        ("2.1+cpu", "2.1+cpu", True),
        ("2.1+cpu", "2.1+cu118", False),
        ("10", "1", False),
    ],
)
def test_a_version_is_there_however_pip_writes_it(asked, there, is_it) -> None:
    side, _ = parse_sides("m", f"ort=={asked}", "ort", None)
    assert (needed(side, target(engine("ort", version=there))) is None) is is_it


def test_a_version_that_is_not_there_is_installed_into_an_environment_of_its_name() -> None:
    side, _ = parse_sides("m", "ort==2.0", "ort", None)
    wanted = needed(side, target(engine("ort")))
    assert wanted.command == "enginebench-agent environment add ort-2.0 --engine ort==2.0"
    there = target(engine("ort"), missing("ort", environment="ort-2.0"))
    assert needed(side, there) is None, "it is there, and why it is of no use is for the engine's choice to say"
    with pytest.raises(InputError, match="was installed on local and cannot be used: it is not installed"):
        chosen_engine(side, there)


def test_a_plugin_project_has_an_environment_for_each_state_of_it(project) -> None:
    side, _ = parse_sides("m", f"plugin:{project}", "ort", None)
    first = needed(side, target(engine("ort")))
    assert first.name.startswith("my-plugin-")
    assert first.arguments == ("--package", str(project))
    there = target(engine("ort"), engine("mine", first.name))
    assert needed(side, there) is None
    assert chosen_engine(side, there) == f"mine@{first.name}"
    (project / "__pycache__").mkdir()
    (project / "__pycache__" / "mine.pyc").write_text("other")
    assert needed(side, target()).name == first.name, "what Python leaves there is no part of it"
    (project / "mine.py").write_text("2\n")
    assert needed(side, there).name != first.name


def test_several_engines_of_a_plugin_need_a_name(project) -> None:
    side, named = parse_sides("m", f"plugin:{project}", f"plugin:{project}", None)[0], None
    place = needed(side, target()).name
    both = target(engine("one", place), engine("two", place))
    with pytest.raises(InputError, match=r"brings several engines \(one, two\)"):
        chosen_engine(side, both)
    named, other = parse_sides("m", f"plugin:{project}", ":b=2", "two:a=1")
    assert chosen_engine(named, both) == f"two@{place}"
    assert (named.engine, named.options, other.options) == ("two", {"a": "1"}, {"a": "1", "b": "2"})


@pytest.mark.parametrize("common", ["ort==1.2", "ort@env", "plugin:{}"])
def test_of_a_plugin_project_nothing_else_says_which_engine_it_is(project, common) -> None:
    plugin, common = f"plugin:{project}", common.format(project)
    with pytest.raises(InputError, match=re.escape(f"--base {plugin} and --engine {common} both say which ")):
        parse_sides("m", plugin, plugin, common)


def test_the_engine_of_a_side_owns_its_options() -> None:
    side, _ = parse_sides("m", "ort@old:level=basic", "ort", None)
    assert rung_fields(side, "ort@old") == {"engines": ["ort@old"], "options": {"ort.level": "basic"}}


def test_pips_reason_is_one_line() -> None:
    said = (
        "making a virtual environment\ninstalling enginebench\nenginebench-agent: pip could not install it; nothing "
        "was kept. The end of its output:\nERROR: Could not find a version that satisfies the requirement ort==9 (from "
        "versions: 1.1, 1.2, 1.3, 1.4, 1.5, 1.6)\nERROR: No matching distribution found for ort==9\n"
    )
    assert _reason(said) == "No matching distribution found for ort==9; the newest are 1.2, 1.3, 1.4, 1.5, 1.6"
    assert _reason("x\nenginebench-agent: 'ort' is not an engine of ours (a, b)\n") == (
        "'ort' is not an engine of ours (a, b)"
    )
    assert _reason("") == "it said nothing"


def test_an_engine_that_nobody_named_is_none_and_one_with_its_version_is_known_by_its_name():
    for named in ("", None, "onnxruntime"):
        sides = parse_sides("net.onnx", "onnxruntime@old", "onnxruntime@new", named)
        assert [one.engine for one in sides] == ["onnxruntime", "onnxruntime"]
    for unused in ("torch==2", "onnxruntime==1.2", "onnxruntime:providers=x"):
        with pytest.raises(InputError, match=f"--engine {unused} is used by neither side"):
            parse_sides("net.onnx", "onnxruntime@old", "onnxruntime@new", unused)


def test_sides_that_name_no_engine_have_all_that_is_said_of_the_common_one() -> None:
    for common, there in (("ort@env", (None, "env")), ("ort==1.2", ("1.2", None))):
        sides = parse_sides("net.onnx", ":a=1", ":a=2", common)
        assert [(one.engine, one.version, one.environment) for one in sides] == [("ort", *there)] * 2
        assert [one.options for one in sides] == [{"a": "1"}, {"a": "2"}]
    (base, _) = parse_sides("net.onnx", ":a=1", "@other", "ort:a=0,b=3")
    assert base.options == {"a": "1", "b": "3"}
    with pytest.raises(InputError, match=re.escape("--head ==1.1 and --engine ort==9 both say which ort")):
        parse_sides("net.onnx", ":a=1", "==1.1", "ort==9")
