"""How a gate ends: with its verdict, whatever becomes of its reports, and as strict as it was begun."""

import contextlib
import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

import invented
from agent_server import nobody
from controller.verdicts.pairs import arms, keep_gate
from enginebench_controller.cli import gates, make_app
from enginebench_controller.cli.commands import gate
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Interleave
from enginebench_controller.plan.plan import ROLES, GateTerms
from enginebench_controller.records import Failure, FailureKind, Status, Target
from enginebench_controller.runs import resuming
from enginebench_controller.runs.undertaking import Pending, written
from enginebench_controller.verdicts.gate.results import GateResult, judge
from enginebench_proto.v1 import host_pb2
from offered import CASE

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


class Idle:
    """The agent of a target that knows of no run any more."""

    name = "edge"

    async def host(self):
        return host_pb2.HostFacts()

    async def runs(self):
        return []


@contextlib.asynccontextmanager
async def opened(*_, **__):
    yield Idle()


def interrupted(home, failed=(), **changed):
    """A gate whose command is gone: of these roles a failure is in the store, of the others nothing."""
    home.store.add_target(Target("edge", nobody(), 1))
    plan = {"schema_version": 1, "gate": {"budget": "40s"}, "members": {role: f"m-{role}" for role in ROLES}}
    home.store.add_benchmark(replace(invented.benchmark("b1"), plan=plan | changed), [invented.snapshot("edge")])
    for role in failed:
        full = Failure(FailureKind.SHORTAGE, "the disk is full")
        home.store.add_measurement(replace(invented.measured(f"m-{role}", "b1"), **NOTHING, failure=full))
    cases = tuple(replace(CASE, outcome_id=f"m-{role}") for role in ROLES)
    with written(home.path, Pending("b1", "gate", 10**9, cases, Interleave(1, of_device=True))):
        pass


NOTHING = {"status": Status.FAILED, "latency": None, "throughput_items_per_s": None}


@pytest.mark.parametrize("words", [("resume",), ("resume", "--finish")], ids=" ".join)
@pytest.mark.parametrize(
    ("failed", "missing", "wrong"),
    [(("base", "head"), 1, 3), (("base", "head", "control"), 0, 3)],
    ids=["one is missing", "all are there"],
)
def test_a_gate_without_numbers_is_told_by_whoever_takes_it_up_and_is_no_success(
    home, monkeypatch, words, failed, missing, wrong
):
    monkeypatch.setattr(resuming, "open_client", opened)
    interrupted(home, failed)
    done = CliRunner().invoke(make_app(), [*words, "--json"], standalone_mode=False)
    found = json.loads(done.stdout)
    assert done.return_value == 1, done.output
    assert (len(found["plans"][0]["interrupted"]), found["plans"][0]["left"]) == (missing, [])
    assert (found["outcome"]["sound"], len(found["outcome"]["without_numbers"])) == (False, wrong)
    told = " ".join(done.stderr.split())
    assert "cannot tell: " in told and "the disk is full" in told
    assert "`enginebench rerun b1` measures it again" in told


def test_a_gate_of_which_nothing_came_before_it_was_killed_is_told_too(home, monkeypatch):
    monkeypatch.setattr(resuming, "open_client", opened)
    interrupted(home)
    done = CliRunner().invoke(make_app(), ["resume"], standalone_mode=False)
    assert done.return_value == 1, done.output
    assert "cannot tell: the command that carried this out ended before anything came of it" in " ".join(
        done.stdout.split()
    )


def test_the_gate_of_a_search_is_no_verdict_of_its_own(home, monkeypatch):
    monkeypatch.setattr(resuming, "open_client", opened)
    interrupted(home, ROLES, search={"id": "s1", "step": 0, "title": "ends"})
    done = CliRunner().invoke(make_app(), ["resume"], standalone_mode=False)
    assert done.return_value == 0, done.output
    assert "cannot tell" not in done.output
