"""What a shell offers while a command is typed: what is here, harmless, and never an error."""

import inspect
import os
import re
import subprocess
import sys
from typing import get_args

import pytest
from typer.models import ArgumentInfo, OptionInfo

import invented
import invented_profiles
import offered
from enginebench_controller.cli import completion, make_app
from enginebench_controller.records import Target
from enginebench_controller.store.store import Store


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def store(home):
    store = Store(home / "results.duckdb")
    store.add_benchmark(invented.benchmark("b0000001", "duel"))
    store.add_benchmark(invented.benchmark("b0000002", "$(touch owned) `id` *"))
    store.add_profile(invented_profiles.profile("p0000001", name="pass"))
    store.add_target(Target("nuc", "127.0.0.1:1", invented.CREATED_NS))
    engines = [offered.engine("openvino"), offered.engine("onnxruntime", "old"), offered.engine("fake", hidden=True)]
    store.save_snapshot(offered.target(*engines))
    return store


def test_ids_and_names_that_go_on_what_is_typed(store):
    assert set(completion.benchmarks("")) == {"b0000001", "b0000002", "duel"}
    assert completion.benchmarks("du") == ["duel"]
    assert completion.profiles("p") == ["p0000001", "pass"]
    assert set(completion.results("")) == {"b0000001", "b0000002", "duel", "p0000001", "pass"}


def test_engines_and_targets_are_offered_as_the_last_of_a_list(store):
    assert completion.engines("o") == ["openvino", "onnxruntime", "openvino@default", "onnxruntime@old"]
    assert completion.engines("torch,onnxruntime@") == ["torch,onnxruntime@old"]
    assert "fake" not in completion.engines("")
    assert completion.targets("local,n") == ["local,nuc"]


def test_models_of_the_zoo_are_offered_before_any_is_built(home):
    assert "zoo:resnet50" in completion.models("zoo:")


@pytest.mark.parametrize("offer", [completion.benchmarks, completion.engines, completion.targets, completion.models])
def test_whatever_is_wrong_nothing_is_said_and_nothing_made(offer, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "absent"))
    offer("x")
    assert not (tmp_path / "absent").exists()
    (tmp_path / "damaged" / "models" / ("ab" * 32)).mkdir(parents=True)
    (tmp_path / "damaged" / "results.duckdb").write_bytes(b"no database")
    (tmp_path / "file").write_text("in the way")
    for home in ("damaged", "file", "file/below", "\x01"):
        monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / home))
        assert offer("x") == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("enginebench sh", "show"),
        ("enginebench show du", "duel"),
        ("enginebench run --engine openv", "openvino"),
        ("enginebench run net.onnx --engine ", "openvino"),
        ("enginebench --verbose profiles show pa", "pass"),
        ("enginebench run --eng", "--engine"),
        ("enginebench targets ch", "check"),
    ],
)
def test_a_shell_is_answered(store, line, wanted):
    done = asked(_TYPER_COMPLETE_ARGS=line)
    assert f'"{wanted}"' in done.stdout and done.stderr == ""


def asked(shell="zsh", program=("-m", "enginebench_controller"), **said):
    variables = os.environ | {"_ENGINEBENCH_COMPLETE": f"complete_{shell}", **said}
    return subprocess.run([sys.executable, *program], env=variables, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("words", "place"), [("enginebench show du", 2), ("enginebench compare duel du", 3)])
def test_bash_is_answered(store, words, place):
    done = asked("bash", COMP_WORDS=words, COMP_CWORD=str(place))
    assert done.stdout.split() == ["duel"] and done.stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "whole"),
    [
        ("run zoo:", "zoo:resnet50"),
        ("run zoo:resnet5", "zoo:resnet50"),
        ("run net.onnx --engine onnxruntime@", "onnxruntime@old"),
        ("run net.onnx --engine onnxruntime@o", "onnxruntime@old"),
        ("run net.onnx --engine=", "--engine=onnxruntime"),
        ("run net.onnx --engine=openv", "--engine=openvino"),
        ("run net.onnx --engine=onnxruntime@o", "--engine=onnxruntime@old"),
        ("compare duel du", "duel"),
    ],
)
def test_bash_which_breaks_words_at_some_marks_is_offered_what_it_replaces(store, line, whole):
    words = re.findall(r"[:=@]+|[^\s:=@]+", f"enginebench {line}")
    done = asked("bash", COMP_WORDS="\n".join(words), COMP_CWORD=str(len(words) - 1))
    assert re.split("[:=]|(?=@)", whole)[-1] in done.stdout.split() and done.stderr == ""


@pytest.mark.slow
def test_behind_a_word_that_ends_with_a_mark_another_one_begins(store):
    done = asked("bash", COMP_WORDS="enginebench\ncompare\nzoo\n:\n", COMP_CWORD="4")
    assert "duel" in done.stdout.split()


@pytest.mark.slow
def test_an_id_is_offered_without_loading_what_its_command_works_with(store):
    program = "import sys; from enginebench_controller.__main__ import main\ntry: main()\n"
    program += "finally: print([one for one in sys.modules if one.startswith('enginebench_controller.cli.commands')])"
    done = asked(_TYPER_COMPLETE_ARGS="enginebench compare du", program=("-c", program))
    assert '"duel"' in done.stdout and done.stdout.rstrip().endswith("[]")


def commands(app, before=()):
    """The functions of all commands by their names."""
    found = {" ".join((*before, one.name)): one.callback for one in app.registered_commands}
    for group in app.registered_groups:
        found |= commands(group.typer_instance, (*before, group.name))
    return found


def test_what_is_offered_quickly_is_what_the_commands_say():
    arguments, options = {}, {}
    for name, function in commands(make_app()).items():
        for one in inspect.signature(function, eval_str=True).parameters.values():
            for said in get_args(one.annotation):
                if isinstance(said, ArgumentInfo) and said.autocompletion:
                    arguments[name] = said.autocompletion
                if isinstance(said, OptionInfo) and said.autocompletion:
                    options[f"--{one.name}"] = said.autocompletion
    arguments.pop("open", None)  # of the pages, which the controller does not know
    assert arguments == dict(completion.ARGUMENTS)
    assert options == dict(completion.OPTIONS)
