"""What a shell offers while a command is typed: what is here, harmless, and never an error."""

import os
import subprocess
import sys

import pytest

import invented
import invented_profiles
import offered
from enginebench_controller.cli import completion
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
    [("enginebench sh", "show"), ("enginebench show du", "duel"), ("enginebench run --engine openv", "openvino")],
)
def test_a_shell_is_answered(store, line, wanted):
    asked = {"_ENGINEBENCH_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": line}
    command = [sys.executable, "-m", "enginebench_controller"]
    done = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=False)
    assert f'"{wanted}"' in done.stdout and done.stderr == ""
