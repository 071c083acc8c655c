"""A search whose target goes away, or is another when it comes back: it is not answered by that, and goes on later."""

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_server import AgentProcess
from enginebench_controller.home import Home
from enginebench_controller.records import Search
from enginebench_controller.runs import remote_run
from enginebench_controller.runs.searches import recommend_ground
from enginebench_controller.store.store import Store
from enginebench_proto.v1 import agent_pb2
from integration.bench import Bench, wait_until
from integration.skewed_agent import SkewedAgent
from integration.test_bisect import SLEEPING, THREE
from integration.test_recommend import ONE
from integration.test_resume import kill_when, spooled

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A silence is borne for a second, and less is timed in each process."""
    monkeypatch.setattr(remote_run, "RECONNECT_SECONDS", 1.0)
    monkeypatch.setattr(recommend_ground, "LOOK_S", 0.1)
    monkeypatch.setattr(recommend_ground, "CONFIRM_S", 0.2)


@pytest.fixture
def two(bench: Bench, start_agent: Callable[..., AgentProcess]) -> Iterator[dict[str, AgentProcess]]:
    """The agents of the two targets that the home knows."""
    agents = {name: start_agent(name) for name in ("nuc", "board")}
    for name, agent in agents.items():
        bench.cli("targets", "add", name, agent.address)
    yield agents
    for agent in agents.values():
        if agent.process.poll() is None:
            os.kill(agent.pid, signal.SIGCONT)  # else it would not end


def second_step_of(store: Store, target: str, agent: AgentProcess) -> bool:
    """Whether the second step on this target has processes that ended."""
    if not (store.path.exists() and store.searches()):
        return False
    begun = [one for one in store.steps_of(store.searches()[0].id) if one.plan["targets"] == [target]]
    return len(begun) > 1 and spooled(agent, "-1-0.blocks")


@contextmanager
def meanwhile(condition: Callable[[], bool], act: Callable[[], object]) -> Iterator[None]:
    """Act as soon as the condition holds while the block is carried out."""

    def wait() -> None:
        wait_until(condition)
        act()

    other = threading.Thread(target=wait)
    other.start()
    try:
        yield
    finally:
        other.join()


def measured(store: Store, search: Search) -> set[str]:
    """The measurements of all steps so far that have numbers."""
    found = [one for step in store.steps_of(search.id) for one in store.measurements(step.id)]
    return {one.id for one in found if one.status.has_numbers}


@pytest.mark.fault(2)
def test_a_target_that_is_silent_for_too_long_gives_no_answer_and_what_it_did_meanwhile_counts(
    bench: Bench, model: Path, two: dict[str, AgentProcess]
) -> None:
    store, agent = Home(bench.home).store, two["nuc"]
    with meanwhile(lambda: second_step_of(store, "nuc", agent), lambda: os.kill(agent.pid, signal.SIGSTOP)):
        said = bench.cli("recommend", model, *ONE, "--target", "nuc", "--json", expect=3)
    (search,) = store.searches()
    assert said.stdout == "" and search.answer is None
    assert re.search(r"error: target 'nuc' at \S+ does not answer", said.stderr), said.stderr
    assert f"`enginebench resume {search.id}` goes on with it" in said.stderr
    assert "unconfirmed, as the search was broken off: fake, " in said.stderr
    before, steps = measured(store, search), store.steps_of(search.id)
    os.kill(agent.pid, signal.SIGCONT)

    found = json.loads(bench.cli("resume", search.id, "--json").stdout)
    assert (found["outcome"], found["search"]["id"]) == ("found", search.id)
    assert before and before < measured(store, search)
    assert found["steps"][: len(steps)] == [one.id for one in steps], "the step under way was finished"
    assert {one.status.value for one in store.measurements(steps[-1].id)} == {"ok"}
    assert list((agent.data_dir / "spool").iterdir()) == list((bench.home / "pending").iterdir()) == []


def test_of_two_targets_one_that_is_killed_ends_both_searches_and_each_keeps_what_it_has(
    bench: Bench, model: Path, two: dict[str, AgentProcess]
) -> None:
    store, board = Home(bench.home).store, two["board"]
    asked = ("recommend", model, *ONE, "--target", "nuc,board", "--budget", "90s")
    with meanwhile(lambda: second_step_of(store, "board", board), board.kill):
        said = bench.cli(*asked, expect=3)
    (search,) = store.searches()
    assert search.answer is None and f"`enginebench resume {search.id}`" in said.stderr
    before = measured(store, search)
    assert {"nuc", "board"} == {one.plan["targets"][0] for one in store.steps_of(search.id)}

    for words in (("resume", search.id), ("resume",)):
        again = bench.cli(*words, expect=3)
        assert "target 'board' at " in again.stderr and f"`enginebench resume {search.id}`" in again.stderr
        assert (measured(store, search), store.search(search.id).answer) == (before, None)
    board.restart()
    found = json.loads(bench.cli("resume", search.id, "--json", timeout=200).stdout)
    assert {one["target"]: one["outcome"] for one in found["targets"]} == {"nuc": "found", "board": "found"}
    assert before <= measured(store, search)


def test_a_target_that_is_lost_in_the_first_step_leaves_a_search_that_begins_there(
    bench: Bench, model: Path, two: dict[str, AgentProcess]
) -> None:
    store, agent = Home(bench.home).store, two["nuc"]
    with meanwhile(lambda: spooled(agent, "-0-0.blocks"), agent.kill):
        said = bench.cli("recommend", model, *ONE, "--target", "nuc", expect=3)
    (search,) = store.searches()
    assert search.answer is None and f"`enginebench resume {search.id}`" in said.stderr
    assert "nothing was measured yet" in bench.cli("show", search.id, expect=2).stderr
    agent.restart()
    assert json.loads(bench.cli("resume", search.id, "--json").stdout)["outcome"] == "found"


@pytest.mark.parametrize(
    ("kind", "asked"), [("bisect", ("--options", THREE, *SLEEPING)), ("recommend", ONE)], ids=["bisect", "recommend"]
)
def test_an_agent_that_cannot_write_gives_no_answer_and_the_search_goes_on_once_it_can(
    bench: Bench, model: Path, start_agent: Callable[..., AgentProcess], kind: str, asked: tuple[str, ...]
) -> None:
    store, agent = Home(bench.home).store, start_agent("nuc")
    bench.cli("targets", "add", "nuc", agent.address)
    spool = agent.data_dir / "spool"
    away = spool.rename(agent.data_dir / "away")
    said = bench.cli(kind, model, *asked, "--target", "nuc", expect=3)
    (search,) = store.searches()
    for again in (said, bench.cli("resume", search.id, expect=3)):
        assert "error: target 'nuc' could not measure fake: the agent cannot write to its data folder" in again.stderr
        assert f"`enginebench resume {search.id}` goes on with it" in again.stderr
    assert store.search(search.id).answer is None
    assert len(store.steps_of(search.id)) == 2, "each command tried once"

    away.rename(spool)
    bench.cli("resume", search.id, timeout=280)
    found = bench.json("show", search.id)
    assert found.get("finding", found.get("outcome")) in ("culprit", "found")


def _other_kernel(answer: bytes) -> bytes:
    response = agent_pb2.GetHostResponse.FromString(answer)
    response.host.kernel = "9.9.9"
    return response.SerializeToString()


@pytest.mark.parametrize("command", ["recommend", "bisect"])
def test_a_search_does_not_go_on_with_another_machine_of_that_name(
    bench: Bench, model: Path, two: dict[str, AgentProcess], command: str
) -> None:
    store, agent = Home(bench.home).store, two["nuc"]
    asked = ONE if command == "recommend" else ("--options", THREE, *SLEEPING)
    kill_when(lambda: second_step_of(store, "nuc", agent), bench, command, model, *asked, "--target", "nuc")
    (search,) = store.searches()
    steps, before = store.steps_of(search.id), measured(store, search)
    with SkewedAgent(agent.address, changes={"GetHost": _other_kernel}) as other:
        bench.cli("targets", "remove", "nuc")
        bench.cli("targets", "add", "nuc", other.address)
        for words in (("resume", search.id), ("resume",)):
            refused = bench.cli(*words, expect=3).stderr
            assert re.search(r"target 'nuc' is not what it was .* \(its kernel was \S+ and is 9\.9\.9\)", refused)
            assert f"search anew with `enginebench {command}`" in refused
            assert (store.steps_of(search.id), measured(store, search)) == (steps, before)
    bench.cli("targets", "remove", "nuc")
    bench.cli("targets", "add", "nuc", agent.address)
    if command == "recommend":
        assert json.loads(bench.cli("resume", search.id, "--json").stdout)["outcome"] == "found"
        assert before < measured(store, search), "nothing of the step under way was given up"
