"""`enginebench gate` from the command line, on an engine whose latency is known; wrong input gets a sentence."""

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import torch

from agent_server import AgentProcess, only
from enginebench_controller.errors import StoreBusyError
from enginebench_controller.home import Home
from enginebench_controller.plan.gate import GateOrder, with_rungs
from enginebench_controller.plan.plan import Plan
from enginebench_controller.runs.gate import GateWatcher, gate
from enginebench_controller.store.connection import StoreFile
from integration.bench import Bench, started, tiny_model, wait_until
from integration.test_resume import kill_when, spooled

SLOW = "fake:latency_us=3000,wait=sleep"
SLOWER = "fake:latency_us=30000,wait=sleep"
"""Ten times as slow: two or three process pairs tell it, however busy the machine is."""
ALIKE = ("--tolerate", "99%")
"""What is so tolerant needs no more pairs to pass."""
QUICK = ("--no-layers", "--budget", "30s")


@pytest.fixture
def here(tmp_path: Path) -> Bench:
    """A home whose own agent has the fake engine only."""
    return Bench.of_engines(tmp_path / "home", "fake")


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Budgets may be as short as one process pair."""
    monkeypatch.setattr(sys.modules[GateOrder.__module__], "SHORTEST_BUDGET_S", 2.5)
    monkeypatch.setattr(sys.modules[GateWatcher.__module__], "FEWEST_PAIRS", 1)


def test_what_is_slower_is_worse_with_the_layers_and_what_it_was_stays_in_the_store(
    here: Bench, model: Path, tmp_path: Path
) -> None:
    files = ("--markdown", tmp_path / "gate.md", "--junit", tmp_path / "gate.xml")
    arguments = (model, "--base", SLOW, "--head", SLOWER, "--budget", "45s", *files)
    found = here.json("gate", *arguments, expect=4)

    assert (found["outcome"], found["better"], found["self_test"]) == ("worse", False, False)
    assert found["sentence"].startswith("worse: head takes ")
    latency = next(one for one in found["metrics"] if one["metric"] == "latency")
    assert 1 < latency["ratio_low"] < latency["ratio"], "few pairs of a busy machine leave a wide interval"
    assert 2 < latency["ratio"] < 12
    assert found["pairs"] < found["budget_ns"] / 1e9 / found["pair_seconds"], "it ends when the verdict stands"
    energy = next(one for one in found["metrics"] if one["metric"] == "energy")
    assert energy["base"] is None or energy["base"] > 0
    assert found["layers"]["layers"] or found["layers"]["note"]
    assert (tmp_path / "gate.md").read_text().startswith("## enginebench gate: worse\n\n**worse: head takes ")
    suites = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("2", "1")

    shown = here.json("show", found["benchmark"]["id"])
    assert shown["gate"] == found
    statuses = {one["status"] for one in shown["measurements"]}
    assert statuses == {"ok"}, "what ended early because the verdict stood is complete"
    assert {one["interleaving_group"] for one in shown["measurements"]} == {found["benchmark"]["id"] + "-0"}
    again = here.json("rerun", found["benchmark"]["id"], expect=4)
    assert again["outcome"] == "worse"
    assert again["promised_difference"] is not None or found["pairs"] < 5, "earlier pairs say what can be told"


def test_the_same_thing_twice_is_a_self_test_that_passes(here: Bench, model: Path) -> None:
    arguments = (model, "--engine", "fake", "--base", ":wait=sleep", "--head", ":wait=sleep", *ALIKE)
    found = here.json("gate", *arguments, *QUICK)
    assert (found["outcome"], found["self_test"]) == ("pass", True)
    assert any("self-test" in one for one in found["remarks"])


@pytest.mark.usefixtures("short")
def test_what_cannot_be_told_is_5_only_if_strict_and_never_a_pass(here: Bench, model: Path) -> None:
    arguments = (model, "--base", SLOW, "--head", SLOW, "--no-layers", "--budget", "2.5s")
    found = here.json("gate", *arguments, "--strict", expect=5)
    assert (found["outcome"], found["pairs"]) == ("cannot_tell", 1)
    assert here.json("rerun", found["benchmark"]["id"], expect=5)["outcome"] == "cannot_tell", "it is strict again"
    told = here.cli("gate", *arguments)
    assert told.stdout.startswith("cannot tell: ")


@pytest.mark.usefixtures("short")
def test_a_pair_that_takes_far_longer_than_the_budget_is_broken_off(
    here: Bench, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[GateWatcher.__module__], "GRACE_S", 1.0)
    crawling = "fake:latency_us=3000000,wait=sleep"
    begun = time.monotonic()
    found = gate(Home(here.home), GateOrder(crawling, crawling, model=str(model), budget="2.5s", explain=False))
    assert time.monotonic() - begun < 30, "a pair takes 3 x 6 inferences of 3 s, and what they need to start"
    assert found.outcome == "cannot_tell"
    assert found.failures == ("the budget ended before there was one process of each: give a longer one",)


@pytest.mark.usefixtures("short")
def test_a_gate_under_way_waits_wherever_others_have_the_results(
    here: Bench, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy_for = set[str]()

    def busy_once(use: Callable) -> Callable:
        def using(store: StoreFile) -> object:
            asked = sys._getframe(1).f_code.co_name
            if asked not in busy_for:
                busy_for.add(asked)
                raise StoreBusyError("others have the results")
            return use(store)

        return using

    def then_busy(*arguments: Any) -> Plan:
        for name in ("_reading", "_writing"):
            monkeypatch.setattr(StoreFile, name, busy_once(getattr(StoreFile, name)))
        return with_rungs(*arguments)

    monkeypatch.setattr(sys.modules[GateWatcher.__module__], "with_rungs", then_busy)
    found = gate(Home(here.home), GateOrder(SLOW, SLOW, model=str(model), budget="2.5s", explain=False))
    assert (found.outcome, found.failures) == ("cannot_tell", ())
    assert {"models", "add_benchmark", "save_model", "add_measurements", "measurements"} <= busy_for


@pytest.mark.usefixtures("short")
def test_outputs_that_are_wrong_are_told_loudly_and_end_with_1(here: Bench, model: Path) -> None:
    arguments = (model, "--base", SLOW, "--head", f"{SLOW},wrong=scaled", "--no-layers", "--budget", "2.5s")
    told = here.cli("gate", *arguments, expect=1)
    assert told.stdout.startswith("cannot tell: the outputs of head are not those of base: ")
    assert "≠ the outputs of head are not those of base: " in told.stdout


def test_a_head_that_fails_stops_the_gate_and_is_no_pass(here: Bench, model: Path) -> None:
    arguments = (model, "--base", SLOW, "--head", "fake:fault=compile_error", "--budget", "60s")
    found = here.json("gate", *arguments, expect=1)
    assert found["outcome"] == "cannot_tell"
    assert any(one.startswith("head: ") for one in found["problems"])


def test_a_head_that_the_target_refuses_is_told_and_what_base_took_is_kept(
    here: Bench, model: Path, tmp_path: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    forbidden = tmp_path / "net.pt"
    torch.jit.save(torch.jit.trace(torch.nn.Linear(8, 4).eval(), torch.zeros(1, 8)), forbidden)
    target = start_agent(config=f"allow_executable_formats = false\n{only('torch')}")
    where = ("--engine", "torch", "--shape", "x=1x8", "--cores", "1", "--target", target.address)
    found = here.json("gate", "--base", model, "--head", forbidden, *where, "--budget", "40s", expect=1)
    assert found["outcome"] == "cannot_tell"
    assert any("allow_executable_formats" in one for one in found["problems"])
    (entry,) = Home(here.home).store.benchmarks()
    measured = here.json("show", entry.benchmark.id)["measurements"]
    assert sorted(one["status"] for one in measured) == ["failed", "ok", "ok"]
    assert here.json("resume")["plans"] == []


def test_ctrl_c_leaves_what_was_measured(here: Bench, model: Path) -> None:
    arguments = ("gate", model, "--base", SLOW, "--head", SLOW, "--budget", "10m", "--tolerate", "0.9%")
    with started(here, *arguments) as running:
        wait_until(lambda: spooled(here.home / "agent", "-1-0.blocks"))
        running.send_signal(signal.SIGINT)
        _, told = running.communicate(timeout=30)
    (entry,) = Home(here.home).store.benchmarks()
    assert f"`enginebench show {entry.benchmark.id}` says what the pairs so far tell" in told
    shown = here.json("show", entry.benchmark.id)
    assert shown["gate"]["pairs"] >= 1
    assert {one["status"] for one in shown["measurements"]} == {"ok"}
    assert here.json("resume")["plans"] == []


def test_a_killed_gate_is_resumed_and_ends_when_its_verdict_stands(
    bench: Bench, model: Path, start_agent: Callable[..., AgentProcess]
) -> None:
    agent = start_agent()
    arguments = ("gate", model, "--base", SLOW, "--head", SLOWER, "--target", agent.address, "--budget", "30s")
    kill_when(lambda: spooled(agent, "-1-0.blocks"), bench, *arguments)
    resumed = bench.cli("resume", "--finish", expect=4)
    (entry,) = Home(bench.home).store.benchmarks()
    shown = bench.json("show", entry.benchmark.id)
    assert len(shown["measurements"]) == 3
    assert shown["gate"]["outcome"] == "worse"
    assert 1 < shown["gate"]["pairs"] < 12
    assert shown["gate"]["sentence"] in resumed.stdout


def test_the_library_has_the_same_without_a_command_line(here: Bench, model: Path) -> None:
    begun = time.monotonic()
    order = GateOrder(SLOW, SLOWER, model=str(model), budget="30s", explain=False)
    found = gate(Home(here.home), order)
    assert found.outcome.value == "worse"
    assert time.monotonic() - begun < 90


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--base", "fake", "--head", "fake", "--budget", "29s"), "--budget 29s is too short: "),
        (("--base", "fake", "--head", "fake", "--budget", "10s"), "give 30s or more"),
        (("--base", "fake", "--head", "fake", "--budget", "2h"), "longer than an hour"),
        (("--base", "fake", "--head", "fake", "--metric", "speed"), "--metric: 'speed' is not one of latency"),
        (("--base", "fake", "--head", "fake", "--tolerate", "-1%"), "--tolerate: "),
        (("--base", "fake", "--head", "fake", "--markdown", "none/gate.md"), "there is no folder none"),
        (("--base", "fake", "--head", "fake", "--junit", "/", "--force"), "/ is a folder; name a file"),
        (("--base", "fake", "--head", "fake", "--markdown", "a", "--junit", "a"), "are both a: give each a file of"),
        (("--base", "fake", "--head", "fake", "--engine", "torch"), "--engine torch is used by neither side"),
        (("--base", "fake", "--head", "fake", "--tolerate", "fast"), "'fast' is not a percentage"),
        (("--base", "fake", "--head", "fake:nosuch=1"), "fake has no option 'nosuch'"),
        (("--base", "fake", "--head", "nosuch"), "has no engine 'nosuch'"),
        (("--base", "fake", "--head", "fake@nowhere"), "has engine 'fake' only in: default"),
        (("--base", "fake", "--head", "nosuch==1.0"), "nosuch 1.0 cannot be installed: 'nosuch==1.0' is not an engine"),
        (("--head", "fake"), "--base is missing"),
    ],
)
def test_bad_input_gets_a_sentence_before_anything_is_measured(
    here: Bench, model: Path, shared_agent: AgentProcess, arguments: tuple[str, ...], sentence: str
) -> None:
    where = () if "installed" in sentence else ("--target", shared_agent.address)
    told = here.cli("gate", model, *arguments, *where, expect=2)
    assert sentence in told.stderr
    assert len(told.stderr.strip().splitlines()) <= 3, told.stderr


def test_models_that_take_other_inputs_are_not_compared(
    bench: Bench, model: Path, shared_agent: AgentProcess, tmp_path: Path
) -> None:
    other = tiny_model(tmp_path / "other.onnx", features=9)
    sides = ("--base", model, "--head", other, "--engine", "fake")
    told = bench.cli("gate", *sides, "--target", shared_agent.address, expect=2)
    assert "take other inputs, so they cannot be compared: x float32 1x8 in " in told.stderr


def test_versions_are_installed_on_this_machine_only(bench: Bench, model: Path, shared_agent: AgentProcess) -> None:
    sides = ("--base", "fake==0.0.1", "--head", "fake")
    told = bench.cli("gate", model, *sides, "--target", shared_agent.address, expect=2)
    assert "there, run: enginebench-agent environment add fake-0.0.1 --engine fake==0.0.1" in told.stderr
