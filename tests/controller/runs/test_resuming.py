"""What is taken up of plans whose targets cannot be asked, or are not what they were."""

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import invented
from agent_server import nobody
from enginebench_controller.cli import make_app
from enginebench_controller.home import Home
from enginebench_controller.records import HostFacts, PassOrder, Target
from enginebench_controller.runs import resuming
from enginebench_controller.runs.remote_run import Unreported
from enginebench_controller.runs.resuming import ResumeOrder, TakenUp, look, resume
from enginebench_controller.runs.undertaking import Pending, plans, under_way, written
from enginebench_controller.targets import client
from enginebench_proto.v1 import host_pb2, run_pb2
from offered import CASE

PENDING = Pending("b1", "net", 10**9, (replace(CASE, outcome_id="m1"), replace(CASE, outcome_id="m2")))
PASSES = PassOrder("p1", None, 5, {"models": ["net"]}, {"edge": HostFacts()})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """One whose only benchmark is that of the plan, and with nobody at its target."""
    monkeypatch.setattr(client, "FIRST_CONTACT_SECONDS", 0.0)
    home = Home(tmp_path)
    home.store.add_benchmark(invented.benchmark("b1"), [invented.snapshot("edge")])
    home.store.add_target(Target("edge", nobody(), 1))
    return home


def interrupted(home: Home, pending: Pending) -> None:
    with written(home.path, pending):
        pass


async def resumed(home: Home) -> Sequence[TakenUp]:
    return await resume(home, ResumeOrder(), lambda *_: Unreported())


@pytest.mark.parametrize("pending", [PENDING, replace(PENDING, id="p1", passes=PASSES)], ids=["run", "profile"])
async def test_what_waits_for_a_target_that_was_removed_is_given_up(home: Home, pending: Pending) -> None:
    interrupted(home, pending)
    (before,) = await resumed(home)
    assert len(before.left) == 2 and len(plans(home.path)) == 1
    assert "does not answer" in before.reasons[0] and "`enginebench targets remove edge`" in before.reasons[0]

    home.store.remove_target("edge")
    (waiting,) = await look(home, ResumeOrder())
    (after,) = await resumed(home)

    assert waiting.missing == 2
    assert waiting.reasons == (
        "target 'edge' was removed: the next resume gives up what it may still have, unless it is added again under "
        "this name before",
    )
    assert (sorted(after.interrupted), after.left) == (["m1", "m2"], ())
    assert after.reasons == ("target 'edge' was removed: what it may still have is given up",)
    assert home.store.stored_ids(["m1", "m2"]) == {"m1", "m2"}
    assert plans(home.path) == ()


@pytest.mark.parametrize("stored", [(), ("m1",), ("m1", "m2")], ids=["none", "one", "both"])
def test_who_removes_a_target_is_told_what_it_may_still_have(
    home: Home, stored: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ENGINEBENCH_HOME", str(home.path))
    interrupted(home, PENDING)
    home.store.add_target(Target("other", nobody(), 1))
    for name in stored:
        home.store.add_measurement(invented.measured(name, "b1"))

    other, edge = (CliRunner().invoke(make_app(), ["targets", "remove", name]).stderr for name in ("other", "edge"))

    assert other == "removed other\n"
    told = f"it may still have {2 - len(stored)} of the results of interrupted commands: the next `enginebench resume`"
    assert edge.startswith("removed edge\n")
    assert (told in " ".join(edge.split())) is (len(stored) < 2)


async def test_of_a_removed_target_that_has_brought_all_nothing_is_given_up(home: Home) -> None:
    interrupted(home, PENDING)
    for name in PENDING.outcome_ids:
        home.store.add_measurement(invented.measured(name, "b1"))
    home.store.remove_target("edge")
    (waiting,) = await look(home, ResumeOrder())
    (after,) = await resumed(home)
    assert (waiting.reasons, after.reasons, plans(home.path)) == ((), (), ())


async def test_of_a_benchmark_that_is_whole_nothing_is_under_way_though_a_target_has_yet_to_forget_it(
    home: Home,
) -> None:
    interrupted(home, PENDING)
    for name in PENDING.outcome_ids:
        assert under_way(home.path, home.store.stored_ids) == {"b1"}
        home.store.add_measurement(invented.measured(name, "b1"))
    assert under_way(home.path, home.store.stored_ids) == frozenset()
    (told,) = await resumed(home)
    assert told.left == () and len(told.reasons) == 1, "it is asked all the same"


class Agent:
    """One that has a result of the first process of `m1`; whatever else is begun there crashes at once."""

    name = "edge"

    def __init__(self, kernel: str) -> None:
        self._kernel = kernel
        self.begun: list[str] = []

    async def host(self) -> host_pb2.HostFacts:
        return host_pb2.HostFacts(cpu_model="Invented CPU", kernel=self._kernel)

    async def runs(self) -> list[run_pb2.RunSummary]:
        return [run_pb2.RunSummary(run_id="m1-0-0", state=run_pb2.RUN_STATE_FINISHED)]

    async def start(self, spec: run_pb2.RunSpec, _: int) -> None:
        self.begun.append(spec.run_id)

    async def watch(self, *_: object) -> AsyncIterator[run_pb2.RunEvent]:
        yield run_pb2.RunEvent(state=run_pb2.StateChanged(state=run_pb2.RUN_STATE_FINISHED))

    async def result(self, run_id: str) -> AsyncIterator[run_pb2.ResultPart]:
        crashed = run_pb2.Failure(kind=run_pb2.FAILURE_KIND_CRASHED) if run_id in self.begun else None
        outcome = run_pb2.OUTCOME_FAILED if crashed else run_pb2.OUTCOME_OK
        yield run_pb2.ResultPart(result=run_pb2.RunResult(outcome=outcome, failure=crashed))

    async def cancel(self, _: str) -> None:
        """Nothing goes on."""

    async def acknowledge(self, _: str) -> None:
        """It keeps nothing anyway."""


async def finished(home: Home, agent: Agent, monkeypatch: pytest.MonkeyPatch) -> TakenUp:
    @contextlib.asynccontextmanager
    async def opened(*_: object, **__: object) -> AsyncIterator[Agent]:
        yield agent

    monkeypatch.setattr(resuming, "open_client", opened)
    (told,) = await resume(home, ResumeOrder(finish=True), lambda *_: Unreported())
    assert plans(home.path) == ()
    return told


async def test_processes_are_added_to_those_of_before_on_a_machine_that_is_as_it_was(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(home, PENDING)
    told = await finished(home, agent := Agent(kernel=""), monkeypatch)
    assert (sorted(agent.begun), told.reasons) == (["m1-1-0", "m2-0-0"], ())


async def test_on_a_machine_that_is_another_only_what_never_began_is_carried_out(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(home, PENDING)
    told = await finished(home, agent := Agent(kernel="6.6"), monkeypatch)
    assert agent.begun == ["m2-0-0"]
    assert "is not what it was (its kernel was unknown and is 6.6)" in told.reasons[0]
    assert (sorted(told.collected), told.interrupted) == (["m1", "m2"], ())


async def test_of_a_machine_that_is_another_nothing_is_said_where_nothing_is_lacking(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in PENDING.outcome_ids:
        home.store.add_measurement(invented.measured(name, "b1"))
    interrupted(home, PENDING)
    told = await finished(home, agent := Agent(kernel="6.6"), monkeypatch)
    assert (agent.begun, told.reasons) == ([], ())
