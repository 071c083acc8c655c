"""Targets with labels from the command line: given, taken away, chosen by, and what is no label."""

from pathlib import Path

import pytest

from agent_server import AgentProcess
from integration.bench import QUICK, Bench, tiny_model


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = Bench(tmp_path / "home")
    bench.cli("targets", "add", "rock", "rock:50151", "--label", "site=lab1", "--label", "rack=7")
    bench.cli("targets", "add", "nuc", "nuc:50151", "--label", "site=lab2")
    return bench


def labels(bench: Bench, *words: str) -> dict[str, dict[str, str]]:
    return {one["name"]: one["labels"] for one in bench.json("targets", "list", *words)}


def test_labels_are_given_taken_away_and_found_by(bench: Bench) -> None:
    assert labels(bench) == {"nuc": {"site": "lab2"}, "rock": {"site": "lab1", "rack": "7"}}
    assert labels(bench, "--target", "label:site=lab1,rack=7") == {"rock": {"site": "lab1", "rack": "7"}}

    told = bench.cli("targets", "label", "label:site=lab1", "nuc", "site=lab3", "rack-").stderr
    assert "rock: site=lab3" in told
    assert labels(bench) == {"nuc": {"site": "lab3"}, "rock": {"site": "lab3"}}


def test_one_agent_under_two_names_is_told(bench: Bench) -> None:
    told = bench.cli("targets", "add", "cuckoo", "nuc:50151").stderr
    assert "nuc is at that address, too" in told
    assert "at that address" not in bench.cli("targets", "add", "pi", "pi:50151").stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("label", "rock"), "name targets, and labels for them"),
        (("label", "site=lab2"), "name targets, and labels for them"),
        (("label", "rocks", "site=lab2"), "there is no target 'rocks'"),
        (("label", "rock", "site="), "'site=' is no label"),
        (("add", "pi", "pi:1", "--label", "site"), "'site' is no label"),
        (("check", "label:site=lab9"), "no target has the label 'site=lab9'; did you mean 'site=lab"),
    ],
)
def test_what_is_no_label_is_one_sentence_and_changes_nothing(
    bench: Bench, words: tuple[str, ...], sentence: str
) -> None:
    before = labels(bench)
    done = bench.cli("targets", *words, expect=2)
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert labels(bench) == before


def test_a_benchmark_on_a_label_keeps_the_names_that_were_meant(tmp_path: Path) -> None:
    agent = AgentProcess(tmp_path / "agent")
    bench = Bench(tmp_path / "home")
    try:
        bench.cli("targets", "add", "here", agent.address, "--label", "site=lab1")
        bench.cli("targets", "add", "gone", "127.0.0.1:9", "--label", "site=lab1")
        model = tiny_model(tmp_path / "tiny.onnx")
        run = ("run", model, "--engine", "fake", *QUICK)
        found = bench.json(*run, "--target", "label:site=lab1", "--any", "1")
        assert [one["target"] for one in found["measurements"]] == ["here"]
        assert found["benchmark"]["plan"]["targets"] == ["here"]
        bench.cli("targets", "add", "twin", agent.address)
        told = bench.cli(*run, "--target", "here,twin").stderr
        assert f"here and twin are one agent, at {agent.address}" in told
        assert "are one agent" not in bench.cli(*run, "--target", "here").stderr
        assert "--any chooses among targets" in bench.cli(*run, "--any", "1", expect=2).stderr
        assert "there are too few" in bench.cli(*run, "--target", "label:site=lab1", "--any", "3", expect=2).stderr
    finally:
        agent.stop()
