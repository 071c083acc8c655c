"""What becomes of passes whose store or whose target is not there for a while."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from tiny_models import save, tiny_classifier

import invented
from enginebench_controller.errors import AgentError, BusyError, DiskFullError
from enginebench_controller.home import Home
from enginebench_controller.records import (
    Failure,
    FailureKind,
    HostFacts,
    PassOrder,
    Profile,
)
from enginebench_controller.records.model import families
from enginebench_controller.runs.groups import run_once
from enginebench_controller.runs.profiling import Passes, _carry_out
from enginebench_controller.runs.remote_run import Bench, Unreported
from enginebench_controller.runs.undertaking import Pending, Undertaking, claimed, plans, written
from enginebench_controller.store import connection
from enginebench_proto.v1 import run_pb2
from offered import CASE

ORDER = PassOrder("p1", None, 5, {"models": ["net"]}, {"edge": HostFacts()})
FAILED = Failure(FailureKind.CRASHED, "it crashed")


def bench_of(home: Home, client: Any = None) -> Bench:
    return Bench({"edge": client}, lambda _: (), home.path, Unreported(), 10**9)


async def test_a_pass_waits_for_a_backup_that_takes_longer_than_others_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "DEFAULT_TIMEOUT_S", 0.1)
    home = Home(tmp_path)
    passes = Passes(home, bench_of(home), ORDER)
    with FileLock(tmp_path / "results.duckdb.lock"):
        coming = asyncio.create_task(passes.take_up(Undertaking(CASE), None, FAILED))
        await asyncio.sleep(0.5)
    assert home.store.profile((await coming).id).failure == FAILED


class Telling:
    """An agent whose run has ended, and whose result never comes whole; it keeps what it was told to forget."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.forgotten: list[str] = []

    async def start(self, *_: object) -> None:
        """It is over at once."""

    async def watch(self, *_: object) -> AsyncIterator[run_pb2.RunEvent]:
        yield run_pb2.RunEvent(state=run_pb2.StateChanged(state=run_pb2.RUN_STATE_FINISHED))

    async def result(self, _: str) -> AsyncIterator[run_pb2.ResultPart]:
        self.asked.set()
        await asyncio.Event().wait()
        yield run_pb2.ResultPart()

    async def cancel(self, _: str) -> None:
        """Nothing goes on any more."""

    async def acknowledge(self, run_id: str) -> None:
        self.forgotten.append(run_id)


async def test_a_pass_interrupted_while_its_result_comes_is_forgotten_by_its_target(tmp_path: Path) -> None:
    agent = Telling()
    running = asyncio.create_task(run_once(bench_of(Home(tmp_path), agent), CASE, "m1-0-0", run_pb2.RUN_KIND_PROFILE))
    await agent.asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert agent.forgotten == ["m1-0-0"]


async def test_a_pass_that_waits_to_be_stored_is_left_to_be_resumed_where_that_is_broken_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(passes: Passes, one: Undertaking) -> Profile:
        return passes._unprofiled(one, FAILED)

    monkeypatch.setattr(connection, "DEFAULT_TIMEOUT_S", 0.1)
    monkeypatch.setattr(Passes, "_run", fails)
    home = Home(tmp_path)
    cases = (replace(CASE, outcome_id="m1"), replace(CASE, outcome_id="m2"))
    with FileLock(tmp_path / "results.duckdb.lock"), written(tmp_path, Pending("p1", "net", 1, cases)) as claim:
        others = asyncio.all_tasks()
        running = asyncio.create_task(_carry_out(Passes(home, bench_of(home), ORDER), bench_of(home), claim))
        await asyncio.sleep(0.3)
        for one in asyncio.all_tasks() - others:
            one.cancel()  # as the second Ctrl-C does
        with pytest.raises(asyncio.CancelledError):
            await running
    (path,) = plans(tmp_path)
    with claimed(path) as left:
        assert left is not None and left.pending.outcome_ids == ("m1",)


async def test_the_versions_that_a_profiled_one_was_made_from_are_stored_with_it(tmp_path: Path) -> None:
    home, file = Home(tmp_path), tmp_path / "net.onnx"
    original = home.library.add(save(tiny_classifier(1), file))
    made = home.library.add(save(tiny_classifier(2), file), parent=original.digest, derivation=invented.INT8)

    await Passes(home, bench_of(home), ORDER).take_up(Undertaking(replace(CASE, model=made)), None, FAILED)

    assert families(home.store.models()) == dict.fromkeys((original.digest, made.digest), original.digest)


@pytest.mark.parametrize(
    ("why", "kind"),
    [(DiskFullError, FailureKind.SHORTAGE), (BusyError, FailureKind.REFUSED), (AgentError, FailureKind.REFUSED)],
)
async def test_a_pass_for_which_its_target_has_no_room_now_is_no_refused_one(
    tmp_path: Path, why: type[AgentError], kind: FailureKind
) -> None:
    class Full(Telling):
        async def start(self, *_: object) -> None:
            raise why("make room there")

    home = Home(tmp_path)
    found = await Passes(home, bench_of(home, Full()), ORDER)._run(Undertaking(CASE))
    assert found.failure == Failure(kind, "make room there")
