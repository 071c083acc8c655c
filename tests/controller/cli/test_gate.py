"""How a gate ends: with its verdict, whatever becomes of its reports, and as strict as it was begun."""

import json

import pytest
from typer.testing import CliRunner

import invented
from controller.verdicts.pairs import arms, keep_gate
from enginebench_controller.cli import gates, make_app
from enginebench_controller.cli.commands import gate
from enginebench_controller.home import Home
from enginebench_controller.plan.plan import ROLES, GateTerms
from enginebench_controller.verdicts.gate.results import GateResult, judge

SIDES = ("gate", "--base", "a.onnx", "--head", "b.onnx", "--engine", "fake")


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("ENGINEBENCH_HOME", str(tmp_path / "home"))
    return Home(tmp_path / "home")


def measuring(monkeypatch, ratio, folder):
    """A gate whose reports have no folder any more, once it is over."""

    def run(_, order, *__):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        terms = GateTerms(strict=order.strict)
        roles = dict.fromkeys(ROLES, invented.measured("m0000001"))
        return GateResult(invented.benchmark(), terms, judge(terms, arms(ratio)), roles)

    monkeypatch.setattr(gate, "run_gate", run)


@pytest.mark.parametrize(("ratio", "outcome"), [(1.05, "worse"), (1.0, "pass")])
def test_a_report_that_cannot_be_written_loses_no_verdict(monkeypatch, tmp_path, ratio, outcome):
    gone, there = tmp_path / "reports", tmp_path / "gate.xml"
    gone.mkdir()
    measuring(monkeypatch, ratio, gone)
    words = [*SIDES, "--markdown", str(gone / "gate.md"), "--junit", str(there), "--json"]
    done = CliRunner().invoke(make_app(words), words)
    assert json.loads(done.stdout)["outcome"] == outcome
    assert there.exists(), "the other one is written"
    sentence = f"cannot write {gone / 'gate.md'}"
    if outcome == "worse":
        assert done.exit_code == 4
        assert sentence in done.stderr
    else:
        assert sentence in str(done.exception)


def test_one_file_for_two_reports_is_refused_before_anything_is_measured(monkeypatch, tmp_path):
    monkeypatch.setattr(gate, "run_gate", lambda *_: pytest.fail("it was measured"))
    monkeypatch.chdir(tmp_path)
    words = [*SIDES, "--markdown", "report", "--junit", str(tmp_path / "report"), "--force"]
    done = CliRunner().invoke(make_app(words), words)
    assert "--markdown and --junit are both report: give each a file of its own" in str(done.exception)


@pytest.mark.parametrize(("strict", "code"), [({}, 0), ({"strict": False}, 0), ({"strict": True}, 5)])
def test_what_is_taken_up_is_as_strict_as_it_was_begun(home, capsys, strict, code):
    keep_gate(home.store, "b0000001", "ab" * 32, tolerate="0.1%", promised={"latency": 0.001}, **strict)
    benchmark = home.store.benchmark("b0000001")
    assert gates.tell_taken_up(home, benchmark, as_json=False) == code
    assert capsys.readouterr().out.startswith("cannot tell: ")
