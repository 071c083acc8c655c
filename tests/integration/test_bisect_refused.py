"""A bisect that comes to nothing before it has begun: it is told before anything is installed, and nothing is left."""

import signal
from functools import partial
from pathlib import Path

import pytest
from benchmarks.planted_wheels import layered_model, make_wheels
from filelock import FileLock

import invented
from controller.verdicts import pairs
from enginebench_controller.home import Home
from integration.bench import Bench, started, tiny_model

VALUES = ("--options", "fake.latency_us=3000,30000", "--budget", "30s")


@pytest.fixture
def here(tmp_path: Path) -> Bench:
    """A home whose own agent has the fake engine only."""
    return Bench.of_engines(tmp_path / "home", "fake")


def is_untouched(here: Bench) -> bool:
    """Whether there is neither a search to go on with, nor an environment."""
    return Home(here.home).store.searches() == () and not list((here.home / "agent").glob("environments/*"))


def test_one_that_is_stopped_while_it_waits_for_the_machine_is_no_search(here: Bench, model: Path) -> None:
    with FileLock(here.home / "local-agent.lock"), started(here, "bisect", model, *VALUES) as running:
        assert running.stderr is not None
        told = ""
        while "waiting for it to finish" not in told:
            told = running.stderr.readline()
            assert told, "it has ended"
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) == 130
        assert "resume" not in running.stderr.read()
    assert is_untouched(here)
    assert "was interrupted" not in here.cli("list").stderr


def test_a_budget_that_earlier_gates_call_too_short_is_refused_before_anything_is_installed(
    here: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wheels(tmp_path / "wheels", {2: 1.5}, count=3)
    ends = ("--engine", "planted", "--good", "1.0", "--bad", "1.2", "--wheels", tmp_path / "wheels")
    monkeypatch.setattr(pairs, "arms", partial(pairs.arms, pair_s=20))
    pairs.keep_gate(Home(here.home).store, "b0000001", invented.model().digest)
    told = here.cli("bisect", layered_model(tmp_path / "layered.onnx"), *ends, "--budget", "30s", expect=2).stderr
    assert "--budget 30s is too short to tell anything: it takes 2 process pairs, and one takes 20.0 s here" in told
    assert "installing" not in told and "goes on with" not in told
    assert is_untouched(here)


def test_a_model_that_the_zoo_has_not_is_told_before_the_first_gate(here: Bench) -> None:
    told = here.cli("bisect", "--models", "zoo:squeezenet,zoo:nope", "--engine", "fake", expect=2).stderr
    assert "the zoo has no model 'nope'" in told
    assert "gate 1" not in told and "goes on with" not in told
    assert is_untouched(here)


def test_a_name_that_no_engine_has_installs_no_package_of_that_name(here: Bench, model: Path) -> None:
    ends = ("--engine", "six", "--good", "1.15.0", "--bad", "1.16.0")
    told = here.cli("bisect", model, *ends, expect=2).stderr
    assert "--engine six is no engine of ours (" in told
    assert is_untouched(here)


def test_a_version_that_is_listed_and_not_there_is_told_before_anything_is_installed(
    here: Bench, model: Path, tmp_path: Path
) -> None:
    make_wheels(tmp_path / "wheels", {}, count=3)
    listed = ("--engine", "planted", "--versions", "1.0,1.1.5,1.2", "--wheels", tmp_path / "wheels")
    told = here.cli("bisect", model, *listed, expect=2).stderr
    assert "--versions 1.1.5 is no version of planted in " in told and "the nearest are 1.1 and 1.2" in told
    assert is_untouched(here)


@pytest.mark.parametrize(
    ("bad", "said"),
    [("cut", "cut.onnx"), ("other", "the two models take other inputs")],
    ids=["cut off", "of other inputs"],
)
def test_an_end_that_cannot_be_compared_is_told_before_there_is_something_to_go_on_with(
    here: Bench, model: Path, tmp_path: Path, bad: str, said: str
) -> None:
    head = tiny_model(tmp_path / f"{bad}.onnx", features=9)
    if bad == "cut":
        head.write_bytes(head.read_bytes()[:-100])
    told = here.cli("bisect", "--models", f"{model},{head}", "--engine", "fake", "--budget", "30s", expect=2).stderr
    assert said in told
    assert "goes on with" not in told
    assert is_untouched(here)
