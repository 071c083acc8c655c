"""A target that stops for too long is lost; what comes late of it is never stored beside what took its place."""

import asyncio
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent_server import AgentProcess
from enginebench_controller.home import Home
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.plan import make_plan
from enginebench_controller.records import Measurement
from enginebench_controller.runs import groups, remote_run
from enginebench_controller.runs.benchmarking import BenchmarkOrder, run_benchmark, run_in_session
from enginebench_controller.runs.groups import SoFar
from enginebench_controller.runs.profiling import ProfileOrder, run_profiles
from enginebench_controller.runs.resuming import ResumeOrder, look, resume
from enginebench_controller.targets import client
from enginebench_controller.targets.session import open_session
from integration.test_resume import is_run

BOUND_SECONDS = 1.0


class Told:
    """A reporter that keeps how cases ended, and calls back."""

    def __init__(self, on_finished: Callable[[], None] = lambda: None) -> None:
        self._on_finished = on_finished
        self.kinds: list[str | None] = []

    def uploading(self, *_: Any) -> None:
        """Nobody asks."""

    def running(self, *_: Any) -> None:
        """Nobody asks."""

    def finished(self, case: Any, outcome_id: str, status: Any, failure: Any) -> None:
        self.kinds.append(failure.kind.value if failure else None)
        self._on_finished()


@pytest.fixture
def agent(start_agent: Callable[..., AgentProcess], monkeypatch: pytest.MonkeyPatch) -> AgentProcess:
    """An agent whose silence, once it is noticed, is borne for a second."""
    monkeypatch.setattr(remote_run, "RECONNECT_SECONDS", BOUND_SECONDS)
    return start_agent()


async def carried_out(home: Home, agent: AgentProcess, model: Path, told: Told, batches: list[int]) -> None:
    """A benchmark of a second a cell, whose agent is stopped in the middle of the first one."""
    measuring = {"processes": 1, "duration": "1s", "warmup": "50ms", "max_duration": "1m", "interval": "0%"}
    measuring |= {"retry_noisy": False, "wait_quiet": "0s"}
    options = {"fake.wait": "sleep"}
    chosen = {"models": [str(model)], "engines": ["fake"], "targets": [agent.address], "batch": batches}
    order = BenchmarkOrder(make_plan(chosen | measuring | {"options": options}, "test"))
    task = asyncio.create_task(run_benchmark(home, order, lambda *_: told))
    while not any((agent.data_dir / "spool").glob("*.blocks")):
        assert not task.done(), task.exception()
        await asyncio.sleep(0.01)
    os.kill(agent.pid, signal.SIGSTOP)
    await task


def stored(home: Home) -> tuple[Measurement, ...]:
    (entry,) = home.store.benchmarks()
    return home.store.measurements(entry.benchmark.id)


async def spooled(agent: AgentProcess) -> None:
    async with asyncio.timeout(30):
        while not any(path.suffix == "" for path in (agent.data_dir / "spool").iterdir()):
            await asyncio.sleep(0.02)


@pytest.mark.fault(2)
async def test_a_result_that_comes_after_its_target_was_lost_is_never_stored_and_that_is_told(
    tmp_path: Path, model: Path, agent: AgentProcess
) -> None:
    home, told = Home(tmp_path / "home"), Told()
    await carried_out(home, agent, model, told, [1])
    assert told.kinds == ["agent_lost"]
    before = stored(home)
    os.kill(agent.pid, signal.SIGCONT)
    await spooled(agent)

    (waiting,) = await look(home, ResumeOrder())
    (taken,) = await resume(home, ResumeOrder(), lambda *_: told)

    assert (waiting.missing, waiting.finished_runs, taken.reasons) == (0, 1, ())
    whose = f"tiny on fake 1.0 ({agent.address}, FAKE:0, batch 1, "
    for found, fate in ((waiting, "is dropped by the next resume"), (taken, "was dropped")):
        (remark,) = found.remarks
        assert remark.startswith(whose)
        assert f"{fate}, as nothing that is stored is replaced: `enginebench rerun {before[0].benchmark_id}`" in remark
    assert (taken.collected, taken.interrupted, taken.dropped_runs) == ((), (), 1)
    assert [(one.id, one.failure) for one in stored(home)] == [(one.id, one.failure) for one in before]
    assert list((agent.data_dir / "spool").iterdir()) == []
    assert await resume(home, ResumeOrder(), lambda *_: told) == ()


@pytest.mark.fault(2)
async def test_a_target_that_comes_back_carries_out_the_rest_and_drops_what_was_given_up(
    tmp_path: Path, model: Path, agent: AgentProcess
) -> None:
    home = Home(tmp_path / "home")
    told = Told(lambda: os.kill(agent.pid, signal.SIGCONT))
    await carried_out(home, agent, model, told, [1, 2])

    assert sorted(map(str, told.kinds)) == ["None", "agent_lost"]
    assert sorted(one.status.value for one in stored(home)) == ["failed", "ok"]
    assert list((agent.data_dir / "spool").iterdir()) == []
    assert list((home.path / "pending").iterdir()) == []


@pytest.mark.fault(15)
async def test_a_pass_interrupted_while_its_target_is_away_is_taken_up_and_those_behind_it_are_not(
    tmp_path: Path, model: Path, agent: AgentProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "CANCEL_SECONDS", BOUND_SECONDS)
    monkeypatch.setattr(client, "CALL_SECONDS", BOUND_SECONDS)
    home, told = Home(tmp_path / "home"), Told()
    chosen = {"models": [str(model)], "engines": ["fake"], "targets": [agent.address], "batch": [1, 2]}
    slow = {"iterations": 20, "options": {"fake.wait": "sleep", "fake.latency_us": "50000"}, "wait_quiet": "0s"}
    order = ProfileOrder(make_plan(chosen | slow, "test"))
    task = asyncio.create_task(run_profiles(home, order, lambda *_: told))
    while not any(map(is_run, agent.children())):
        assert not task.done(), task.exception()
        await asyncio.sleep(0.01)
    os.kill(agent.pid, signal.SIGSTOP)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    os.kill(agent.pid, signal.SIGCONT)

    (taken,) = await resume(home, ResumeOrder(), lambda *_: told)

    assert len(taken.collected + taken.interrupted) == 1 and taken.left == ()
    assert list((agent.data_dir / "spool").iterdir()) == []
    assert list((home.path / "pending").iterdir()) == []


class TwoRounds:
    """Ends a group after two processes of each."""

    def __call__(self, so_far: Sequence[SoFar]) -> bool:
        return all(len(one.processes) >= 2 for one in so_far)

    def seconds_left(self) -> float:
        return 60.0

    def ended(self) -> None:
        """It need not know."""


@pytest.mark.fault(2)
@pytest.mark.parametrize("finish", [False, True])
async def test_whoever_died_between_two_of_a_group_is_taken_up_with_both(
    tmp_path: Path,
    model: Path,
    start_agent: Callable[..., AgentProcess],
    monkeypatch: pytest.MonkeyPatch,
    *,
    finish: bool,
) -> None:
    home, agent = Home(tmp_path / "home"), start_agent()
    chosen = {"models": [str(model)], "engines": ["fake"], "targets": [agent.address], "interleave": "device"}
    measuring = {"processes": 5, "duration": "100ms", "warmup": "20ms", "max_duration": "1m", "interval": "0%"}
    measuring |= {"retry_noisy": False, "wait_quiet": "0s"}
    plan = make_plan(chosen | measuring | {"options": {"fake.wait": "sleep"}, "batch": [1, 2]}, "test")
    binder = Binder(home.library, home.inputs, plan)
    binder.resolve(plan.models)

    async def dies(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as dying:
        dying.setattr(groups, "forget", dies)
        async with open_session(home, plan.targets) as session:
            with pytest.raises(ExceptionGroup):
                await run_in_session(home, BenchmarkOrder(plan), session, binder, lambda *_: Told(), TwoRounds())
    assert len(stored(home)) == 1

    order = ResumeOrder(finish=finish, enough_of=lambda _: TwoRounds())
    (taken,) = await resume(home, order, lambda *_: Told())

    assert len(taken.collected) == 1 and not taken.interrupted
    assert [(one.status.value, len(one.processes)) for one in stored(home)] == [("ok", 2)] * 2
    assert list((agent.data_dir / "spool").iterdir()) == []
    assert list((home.path / "pending").iterdir()) == []
