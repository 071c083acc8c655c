"""What is taken up of plans whose targets cannot be asked: some come back, others were removed."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import invented
from agent_server import nobody
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import Configuration, EngineRef, HostFacts, ModelVersion, PassOrder, Target
from enginebench_controller.runs.remote_run import Unreported
from enginebench_controller.runs.resuming import ResumeOrder, TakenUp, look, resume
from enginebench_controller.runs.undertaking import Pending, plans, under_way, written
from enginebench_controller.targets import client

CASE = Case(
    "edge",
    EngineRef("fake", "default", "1.0"),
    ModelVersion("a" * 64, "net", "onnx", (), 1),
    Configuration("CPU", batch=1, cores=1),
    ("fake:0",),
)
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

    assert (waiting.missing, waiting.reasons) == (2, ())
    assert (sorted(after.interrupted), after.left, after.reasons) == (["m1", "m2"], (), ())
    assert home.store.stored_ids(["m1", "m2"]) == {"m1", "m2"}
    assert plans(home.path) == ()


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
