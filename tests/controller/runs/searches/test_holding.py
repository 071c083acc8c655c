"""Who carries a search out holds it; what nobody holds and has no answer was interrupted."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import invented
from enginebench_controller.errors import BusyError, EnginebenchError, InputError, ReservedError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.plan.plan import Plan, SearchStep, plan_toml, run_command
from enginebench_controller.records import Failure, FailureKind, Search, SearchKind
from enginebench_controller.runs.benchmarking import order_again
from enginebench_controller.runs.searches.holding import (
    held,
    interrupted,
    new_search,
    resumable,
    to_go_on_with,
)
from enginebench_controller.runs.searches.steps import check_agents

_HOLDS = """
import sys
from pathlib import Path
from enginebench_controller.home import Home
from enginebench_controller.runs.searches.holding import held

with held(Home(Path(sys.argv[1])), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def search(home: Home) -> Search:
    made = new_search(SearchKind.BISECT, "bisect of net", {"worse": "5%"})
    home.store.add_search(made)
    return made


def test_of_a_search_that_was_refused_nothing_is_left_and_one_that_broke_off_is_known_again(
    home: Home, search: Search
) -> None:
    for one in ("never stored", search.id):
        with pytest.raises(InputError, match="too short"), held(home, one):
            raise InputError("the budget is too short")
    assert [one.stem for one in (home.path / "searches").iterdir()] == [search.id]
    assert interrupted(home) == (search,)


def test_a_search_that_a_living_command_carries_out_is_left_alone_and_goes_on_when_that_is_killed(
    home: Home, search: Search
) -> None:
    command = [sys.executable, "-c", _HOLDS, str(home.path), search.id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=dict(os.environ)) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert interrupted(home) == ()
        with pytest.raises(InputError, match="under way in another command"), held(home, search.id):
            pass
        with pytest.raises(InputError, match="under way in another command"):
            to_go_on_with(home, search.id)
        other.kill()
        other.wait()
    assert interrupted(home) == (search,)
    assert to_go_on_with(home, search.id[:6]) == search
    with held(home, search.id):
        pass


def test_an_answered_search_is_not_gone_on_with(home: Home, search: Search) -> None:
    home.store.answer_search(search.id, {"culprit": None})
    assert interrupted(home) == ()
    with pytest.raises(InputError, match=f"has its answer: `enginebench show {search.id}`"):
        to_go_on_with(home, search.id)


def test_what_repeats_a_step_alone_is_no_step() -> None:
    plan = Plan(models=("net.onnx",), search=SearchStep(id="5ea4c0000001", step=2, title="is 1.7 worse?"))
    benchmark = replace(invented.benchmark(), plan=plan.document())
    assert order_again(benchmark).plan.search is None
    assert "search" not in plan_toml(plan)
    assert run_command(plan) == "enginebench run net.onnx"


@pytest.mark.parametrize("why", [UnreachableError, BusyError, ReservedError])
def test_a_target_that_is_gone_or_somebody_elses_leaves_a_search_to_go_on_with_once_it_has_begun(
    home: Home, search: Search, why: type[EnginebenchError]
) -> None:
    with pytest.raises(why, match=r"^not now$"), resumable(home, search):
        raise why("not now")
    plan = Plan(models=("net.onnx",), search=SearchStep(id=search.id, step=0, title="the ends"))
    home.store.add_benchmark(replace(invented.benchmark(), plan=plan.document()))
    with (
        pytest.raises(UnreachableError, match=f"^not now\n.*`enginebench resume {search.id}`"),
        resumable(home, search),
    ):
        raise why("not now")


async def test_an_agent_that_failed_itself_ends_the_command_and_is_no_answer(home: Home, search: Search) -> None:
    plan = Plan(models=("net.onnx",), search=SearchStep(id=search.id, step=0, title="the ends"))
    benchmark = replace(invented.benchmark(), plan=plan.document())
    home.store.add_benchmark(benchmark)
    failed = invented.failed("m0000001", benchmark.id)
    home.store.add_measurement(failed)
    await check_agents(home, benchmark.id)  # that an engine crashed is something of it
    full = Failure(FailureKind.SHORTAGE, "the agent's disk is full: make room in its data folder")
    home.store.add_measurement(replace(failed, id="m0000002", failure=full))
    with pytest.raises(UnreachableError) as told, resumable(home, search):
        await check_agents(home, benchmark.id)
    assert str(told.value) == (
        f"target {failed.target!r} could not measure {failed.engine.name}: {full.message}\n"
        f"the search {search.id} has no answer yet and keeps what was measured: "
        f"`enginebench resume {search.id}` goes on with it"
    )
