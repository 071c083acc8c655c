"""What becomes of cases whose agent, or whose command, ends before they do, and what no cancellation interrupts."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from enginebench_controller.errors import (
    AgentError,
    BusyError,
    DiskFullError,
    EnginebenchError,
    InputError,
    ReservedError,
    RunUnknownError,
    UnreachableError,
)
from enginebench_controller.plan.expand import Case, Interleave
from enginebench_controller.records import (
    BlockSamples,
    FailureKind,
    Measurement,
)
from enginebench_controller.runs import remote_run
from enginebench_controller.runs.groups import execute, first_error_alone, uninterrupted
from enginebench_controller.runs.remote_run import Bench, Unreported
from enginebench_controller.runs.undertaking import Undertaking
from enginebench_controller.targets.local_agent import remark
from enginebench_proto.v1 import measurement_pb2, run_pb2
from offered import CASE

CRASHED = run_pb2.RunResult(
    outcome=run_pb2.OUTCOME_FAILED, failure=run_pb2.Failure(kind=run_pb2.FAILURE_KIND_CRASHED, message="it crashed")
)
CANCELLED = run_pb2.RunResult(
    outcome=run_pb2.OUTCOME_CANCELLED, failure=run_pb2.Failure(kind=run_pb2.FAILURE_KIND_CANCELLED, message="cancelled")
)
MEASURED = run_pb2.RunResult(
    outcome=run_pb2.OUTCOME_OK, measurement=measurement_pb2.Measurement(iterations=1, batch=1, steady_state_ns=1)
)


class Agent:
    """One whose runs end at once, with the results in this order and the last for all others; without any they never
    end. It keeps what it was told to forget.
    """

    def __init__(self, *results: run_pb2.RunResult) -> None:
        self._results = list(results)
        self.began = asyncio.Event()
        self.forgotten: list[str] = []

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        yield

    async def engines(self, *_: object) -> tuple[list[object], list[object]]:
        return [], []

    async def start(self, *_: object) -> None:
        self.began.set()

    async def watch(self, *_: object) -> AsyncIterator[run_pb2.RunEvent]:
        if not self._results:
            await asyncio.Event().wait()
        yield run_pb2.RunEvent(state=run_pb2.StateChanged(state=run_pb2.RUN_STATE_FINISHED))

    async def result(self, _: str) -> AsyncIterator[run_pb2.ResultPart]:
        first, *others = self._results
        self._results = others or [first]
        yield run_pb2.ResultPart(result=first)

    async def cancel(self, _: str) -> None:
        """Nothing goes on any more."""

    async def acknowledge(self, run_id: str) -> None:
        self.forgotten.append(run_id)


class Kept:
    """A store that keeps how measurements failed, by their ids; for the one called `never` it has no room."""

    def __init__(self, never: str = "") -> None:
        self.failures: dict[str, FailureKind | None] = {}
        self._never = never

    async def __call__(self, measurement: Measurement, samples: Iterable[BlockSamples]) -> None:
        if measurement.id == self._never:
            raise InputError("make room there")
        self.failures[measurement.id] = measurement.failure and measurement.failure.kind


def bench_of(folder: Path, **agents: Any) -> Bench:
    return Bench(agents, lambda _: (), folder, Unreported(), 10**9)


async def test_what_an_agent_that_was_stopped_has_cancelled_is_begun_anew(tmp_path: Path) -> None:
    agent, kept = Agent(CANCELLED, CRASHED), Kept()
    await execute(bench_of(tmp_path, edge=agent), [Undertaking(replace(CASE, outcome_id="m1"))], "b1", kept)
    assert kept.failures == {"m1": FailureKind.CRASHED}
    assert agent.forgotten == ["m1-0-0", "m1-0-1"]


def undertakings(**targets: str) -> list[Undertaking]:
    """Cases by the ids of their outcomes, each with its target."""
    return [Undertaking(replace(CASE, outcome_id=name, target=target)) for name, target in targets.items()]


async def test_what_an_error_here_ends_is_given_up_by_nobody(tmp_path: Path) -> None:
    quick, endless, kept = Agent(CRASHED), Agent(), Kept(never="m2")
    cases = undertakings(m1="edge", m2="edge", m3="edge", m4="board", m5="board")
    with pytest.raises(ExceptionGroup):
        await execute(bench_of(tmp_path, edge=quick, board=endless), cases, "b1", kept)
    assert kept.failures == {"m1": FailureKind.CRASHED}
    assert [one.settled for one in cases] == [True, False, False, False, False]
    assert (quick.forgotten, endless.forgotten) == (["m1-0-0"], []), "targets keep what they have of the rest"


async def test_all_that_has_not_ended_when_somebody_cancels_is_kept_as_cancelled(tmp_path: Path) -> None:
    endless, other, kept = Agent(), Agent(), Kept()
    cases = undertakings(m1="edge", m2="edge", m3="board")
    running = asyncio.create_task(execute(bench_of(tmp_path, edge=endless, board=other), cases, "b1", kept))
    await asyncio.wait_for(asyncio.gather(endless.began.wait(), other.began.wait()), 10)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert kept.failures == dict.fromkeys(("m1", "m2", "m3"), FailureKind.CANCELLED)
    assert (endless.forgotten, other.forgotten) == (["m1-0-0"], ["m3-0-0"])


class CutOff(Agent):
    """One whose runs never end, and that hears nothing any more once the first has begun."""

    async def cancel(self, _: str) -> None:
        await asyncio.Event().wait()

    async def acknowledge(self, _: str) -> None:
        await asyncio.Event().wait()


async def test_who_cancels_waits_once_for_a_target_that_is_silent_and_is_told_what_it_still_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "CANCEL_SECONDS", 0.5)
    agent, other, kept, told = CutOff(), Agent(), Kept(), list[str]()
    context = copy_context()
    context.run(remark.set, told.append)
    bench, cases = bench_of(tmp_path, edge=agent, board=other), undertakings(m1="edge", m2="edge", m3="board")
    running = asyncio.create_task(execute(bench, cases, "b1", kept), context=context)
    await asyncio.wait_for(asyncio.gather(agent.began.wait(), other.began.wait()), 10)
    running.cancel()
    begun = time.monotonic()
    await asyncio.wait([running], timeout=10)
    assert running.cancelled() and time.monotonic() - begun < 0.9
    assert kept.failures == dict.fromkeys(("m1", "m2", "m3"), FailureKind.CANCELLED)
    assert told == ["edge could not be told: `enginebench resume` clears it"]
    assert other.forgotten == ["m3-0-0"]


class Busy:
    """A store that others have until it is `free`."""

    def __init__(self) -> None:
        self.asked, self.free = asyncio.Event(), asyncio.Event()

    async def __call__(self, *_: object) -> None:
        self.asked.set()
        await self.free.wait()


class Endless:
    """What lets the rounds of a group go on."""

    def __call__(self, _: object) -> bool:
        return False

    def seconds_left(self) -> float:
        return 60.0

    def ended(self) -> None:
        """It need not know."""


@pytest.mark.parametrize("enough", [None, Endless()], ids=["a run", "a gate"])
async def test_who_cancels_twice_waits_for_no_store_and_all_without_an_outcome_is_there_to_be_resumed(
    tmp_path: Path, enough: Endless | None
) -> None:
    agent, endless, busy = Agent(MEASURED), Agent(), Busy()
    cases = undertakings(m1="edge", m2="edge", m3="board")
    bench = bench_of(tmp_path, edge=agent, board=endless)
    running = asyncio.create_task(execute(bench, cases, "b1", busy, enough=enough))
    await asyncio.wait_for(asyncio.gather(busy.asked.wait(), endless.began.wait()), 10)
    running.cancel()
    await asyncio.sleep(0.05)
    assert not running.done(), "what was measured is to be stored"
    for task in asyncio.all_tasks() - {asyncio.current_task()}:  # as asyncio.run does at the second Ctrl-C
        task.cancel()
    await asyncio.wait([running], timeout=5)
    has_ended = running.done()
    busy.free.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert has_ended
    assert not any(one.settled for one in cases)
    assert agent.forgotten == endless.forgotten == []


async def test_the_rounds_have_ended_before_anything_waits_for_the_store(tmp_path: Path) -> None:
    told: list[str] = []

    class Telling(Endless):
        def ended(self) -> None:
            told.append("ended")

    async def keep(*_: object) -> None:
        told.append("stored")

    await execute(bench_of(tmp_path, edge=Agent(CRASHED)), undertakings(m1="edge"), "b1", keep, enough=Telling())
    assert told == ["ended", "stored"]


OF_A_RUN = {UnreachableError: FailureKind.AGENT_LOST, DiskFullError: FailureKind.SHORTAGE}


@pytest.mark.parametrize("why", [UnreachableError, BusyError, DiskFullError, ReservedError])
@pytest.mark.parametrize("call", ["start", "watch"])
async def test_a_target_that_is_gone_or_somebody_elses_fails_cases_and_of_a_search_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: type[EnginebenchError], call: str
) -> None:
    monkeypatch.setattr(remote_run, "RECONNECT_SECONDS", 0.05)

    class Gone(Agent):
        async def start(self, *_: object) -> None:
            if call == "start":
                raise why("not now")

        async def watch(self, *_: object) -> AsyncIterator[run_pb2.RunEvent]:
            raise why("not now")
            yield

        async def host(self) -> None:
            raise UnreachableError("not now")

    agent, kept = Gone(), Kept()
    cases = undertakings(m1="edge", m2="edge")
    with pytest.raises(why, match="not now"), first_error_alone():
        step = replace(bench_of(tmp_path, edge=agent), is_step=True)
        await execute(step, cases, "b1", kept, Interleave(1, of_device=True))
    assert (kept.failures, [one.settled for one in cases], agent.forgotten) == ({}, [False, False], [])

    await execute(bench_of(tmp_path, edge=agent), undertakings(m1="edge", m2="edge"), "b1", kept)
    assert set(kept.failures.values()) == {OF_A_RUN.get(why, FailureKind.REFUSED)}


async def test_a_step_goes_on_without_a_model_that_never_fits_on_the_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def upload(_: Bench, case: Case) -> None:
        if case.outcome_id == "m1":
            raise AgentError("more than all model files may take: raise max_cache_bytes in its agent.toml")

    monkeypatch.setattr(remote_run, "upload", upload)
    kept, step = Kept(), replace(bench_of(tmp_path, edge=Agent(CRASHED)), is_step=True)
    await execute(step, undertakings(m1="edge", m2="edge"), "b1", kept, Interleave(1, of_device=True))
    assert kept.failures == {"m1": FailureKind.REFUSED, "m2": FailureKind.CRASHED}


async def test_a_case_in_which_its_target_restarts_each_time_is_lost_and_of_a_search_out(tmp_path: Path) -> None:
    class Restarting(Agent):
        async def watch(self, *_: object) -> AsyncIterator[run_pb2.RunEvent]:
            raise RunUnknownError("it knows of no such run")
            yield

    for is_step, kind in ((False, FailureKind.AGENT_LOST), (True, FailureKind.CRASHED)):
        kept = Kept()
        bench = replace(bench_of(tmp_path, edge=Restarting()), is_step=is_step)
        await execute(bench, undertakings(m1="edge"), "b1", kept)
        assert kept.failures == {"m1": kind}


async def test_who_brings_the_target_down_is_told_from_those_that_take_turns_with_it(tmp_path: Path) -> None:
    class Falling(Agent):
        def __init__(self) -> None:
            super().__init__(MEASURED)
            self.under_way: set[str] = set()

        async def start(self, spec: run_pb2.RunSpec, *_: object) -> None:
            self.under_way.add(spec.run_id)

        async def watch(self, run_id: str, *_: object) -> AsyncIterator[run_pb2.RunEvent]:
            has_fallen = len(self.under_way) > 1 or run_id.partition("-")[0] == "m2"
            await asyncio.sleep(0)
            self.under_way.discard(run_id)
            if has_fallen:
                raise RunUnknownError("it knows of no such run")
            async for event in super().watch(run_id):
                yield event

    kept = Kept()
    bench = replace(bench_of(tmp_path, edge=Falling()), is_step=True)
    await execute(bench, undertakings(m1="edge", m2="edge"), "b1", kept, Interleave(1, of_device=True))
    crashed = [name for name, kind in kept.failures.items() if kind is FailureKind.CRASHED]
    assert (len(kept.failures), crashed) == (2, ["m2"])


async def test_who_is_silent_when_the_time_of_a_search_is_over_has_not_taken_too_long(tmp_path: Path) -> None:
    class Brief(Endless):
        def seconds_left(self) -> float:
            return 0.05

    class Silent(Agent):
        async def host(self) -> None:
            raise UnreachableError("it does not answer")

    class Busy(Agent):
        async def host(self) -> None:
            return

    kept = Kept()
    with pytest.raises(UnreachableError, match="does not answer"), first_error_alone():
        step = replace(bench_of(tmp_path, edge=Silent()), is_step=True)
        await execute(step, undertakings(m1="edge"), "b1", kept, enough=Brief())
    assert kept.failures == {}
    step = replace(bench_of(tmp_path, edge=Busy()), is_step=True)
    await execute(step, undertakings(m1="edge"), "b1", kept, enough=Brief())
    assert kept.failures == {"m1": FailureKind.TIMED_OUT}


async def test_what_was_measured_is_stored_however_often_somebody_cancels_meanwhile() -> None:
    stored, may_store = [], asyncio.Event()

    async def store() -> None:
        await may_store.wait()
        await asyncio.sleep(0)
        stored.append("measured")

    async def carry_out() -> None:
        try:
            await uninterrupted(store())
        except asyncio.CancelledError:
            stored.append("then cancelled")
            raise

    work = asyncio.create_task(carry_out())
    for _ in range(3):
        await asyncio.sleep(0.01)
        work.cancel()
    await asyncio.sleep(0.01)
    assert not work.done() and stored == []
    may_store.set()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert stored == ["measured", "then cancelled"]


async def test_an_error_of_work_that_was_cancelled_is_told_all_the_same() -> None:
    async def store() -> None:
        await asyncio.sleep(0.02)
        raise OSError("disk full")

    work = asyncio.create_task(uninterrupted(store()))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(OSError, match="disk full"):
        await work
