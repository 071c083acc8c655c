"""A target that breaks off is waited for as long as it stays away, however long it had answered before."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from enginebench_controller.errors import UnreachableError
from enginebench_controller.runs import remote_run
from enginebench_controller.runs.remote_run import Bench, acknowledge, follow, look_again, remind, upload
from enginebench_proto.v1 import measurement_pb2, run_pb2

PATIENCE_SECONDS = 0.2
JOB: Any = SimpleNamespace(target="nuc")


class Watched:
    """An agent whose event stream breaks off after each of these seconds, and ends the run after the last."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = list(seconds)
        self.calls = 0

    async def watch(self, run_id: str, sequence: int) -> AsyncIterator[run_pb2.RunEvent]:
        self.calls += 1
        await asyncio.sleep(self._seconds.pop(0))
        if self._seconds:
            raise UnreachableError("target 'nuc' does not answer")
        yield run_pb2.RunEvent(sequence=sequence, state=run_pb2.StateChanged(state=run_pb2.RUN_STATE_FINISHED))


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_run, "RECONNECT_SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(remote_run, "RETRY_SECONDS", 0.01)


async def followed(agent: Watched) -> None:
    reporter: Any = SimpleNamespace(running=lambda *_: None)
    clients: Any = {"nuc": agent}
    await follow(Bench(clients, lambda _: (), Path(), reporter, 0), JOB, "run")


@pytest.mark.slow
async def test_a_watch_that_breaks_after_a_long_time_is_taken_up_again() -> None:
    agent = Watched(2 * PATIENCE_SECONDS, 0, 2 * PATIENCE_SECONDS, 0, 0)
    await followed(agent)
    assert agent.calls == 5


async def test_a_target_that_tells_something_each_time_is_not_given_up_however_often_it_breaks_off() -> None:
    breaks = 8

    class Chatty:
        async def watch(self, run_id: str, sequence: int) -> AsyncIterator[run_pb2.RunEvent]:
            await asyncio.sleep(PATIENCE_SECONDS / 4)
            over = sequence == breaks
            state = run_pb2.RUN_STATE_FINISHED if over else run_pb2.RUN_STATE_RUNNING
            yield run_pb2.RunEvent(sequence=sequence, state=run_pb2.StateChanged(state=state))
            if not over:
                raise UnreachableError("target 'nuc' does not answer")

    agent: Any = Chatty()
    begun = time.monotonic()
    await followed(agent)
    assert time.monotonic() - begun > PATIENCE_SECONDS, "all in all it was away for longer than one silence may be"


async def test_jobs_of_two_devices_find_a_lost_target_again_together() -> None:
    class Back:
        async def host(self) -> None:
            await asyncio.sleep(0.01)

    clients: Any = {"nuc": Back()}
    reporter: Any = SimpleNamespace()
    bench = Bench(clients, lambda _: (), Path(), reporter, 0, lost_targets={"nuc": "it was away"})
    await asyncio.gather(look_again(bench, "nuc"), look_again(bench, "nuc"))
    assert not bench.lost_targets


class OverASlowLine:
    """Answers each call after so long, those that it was told to drop too; the first so many answers never come."""

    def __init__(self, seconds: float, unheard: int = 0) -> None:
        self._seconds, self._unheard = seconds, unheard
        self.dropped: list[str] = []

    async def host(self) -> None:
        self._unheard -= 1
        await asyncio.sleep(self._seconds if self._unheard < 0 else 60)

    async def cancel(self, _: str) -> None:
        await asyncio.sleep(self._seconds)

    async def acknowledge(self, run_id: str) -> None:
        await asyncio.sleep(self._seconds)
        self.dropped.append(run_id)


def losing(agent: object) -> Bench:
    """A bench that has lost this agent, and two runs there."""
    clients: Any = {"nuc": agent}
    bench = Bench(clients, lambda _: (), Path(), SimpleNamespace(), 0, lost_targets={"nuc": "it was away"})  # type: ignore[arg-type]
    bench.remembered["nuc"] |= {"one", "another"}
    return bench


async def test_a_target_is_found_again_once_it_answers_however_long_dropping_its_runs_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_run, "LOOK_SECONDS", 0.4)
    agent = OverASlowLine(0.2)
    bench = losing(agent)
    await look_again(bench, "nuc")
    assert not bench.lost_targets
    assert sorted(agent.dropped) == ["another", "one"] and not bench.remembered["nuc"]


async def test_a_target_whose_line_breaks_once_more_while_it_drops_runs_has_answered_all_the_same() -> None:
    class Breaking(OverASlowLine):
        async def cancel(self, _: str) -> None:
            raise UnreachableError("target 'nuc' does not answer")

    bench = losing(Breaking(0))
    await look_again(bench, "nuc")
    assert not bench.lost_targets and bench.remembered["nuc"] == {"one", "another"}


async def test_who_was_asked_in_vain_is_given_less_time_the_next_time_and_that_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_run, "LOOK_SECONDS", 0.4)
    monkeypatch.setattr(remote_run, "NEXT_LOOK_SECONDS", 0.1)
    bench, took = losing(OverASlowLine(0, unheard=2)), []
    for limit in ("0.4", "0.1"):
        begun = time.monotonic()
        await look_again(bench, "nuc")
        took.append(time.monotonic() - begun)
        assert bench.lost_targets == {"nuc": f"it was lost before, and did not answer again within {limit} s"}
    assert took[1] < 0.3 < took[0]
    await look_again(bench, "nuc")
    assert not bench.lost_targets and not bench.silent_targets


async def test_a_target_that_was_too_busy_to_forget_a_run_is_told_again_unless_it_is_lost() -> None:
    class Busy:
        answers = False

        async def acknowledge(self, run_id: str) -> None:
            if not self.answers:
                raise UnreachableError("target 'nuc' does not answer")

    agent = Busy()
    clients: Any = {"nuc": agent}
    bench = Bench(clients, lambda _: (), Path(), SimpleNamespace(), 0)  # type: ignore[arg-type]
    await acknowledge(bench, JOB, "run")
    agent.answers = True
    bench.lost_targets["nuc"] = "it was away"
    await remind(bench)
    assert bench.remembered == {"nuc": {"run"}}
    bench.lost_targets.clear()
    await remind(bench)
    assert bench.remembered == {"nuc": set()}


async def test_a_target_that_stays_away_is_given_up() -> None:
    begun = time.monotonic()
    with pytest.raises(UnreachableError):
        await followed(Watched(*([0] * 1000)))
    assert time.monotonic() - begun > PATIENCE_SECONDS


async def test_who_stays_away_is_asked_less_and_less_often_and_not_in_step_with_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(remote_run, "RECONNECT_SECONDS", 25.0)
    monkeypatch.setattr(remote_run, "RETRY_SECONDS", 0.5)
    now_s = 0.0
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    monkeypatch.setattr(remote_run, "time", SimpleNamespace(monotonic=lambda: now_s))
    walks = []
    for _ in range(2):
        now_s = 0.0
        pauses.clear()
        with pytest.raises(UnreachableError):
            await followed(Watched(*([0] * 1000)))
        walks.append([one for one in pauses if one])
    assert walks[0] != walks[1]
    for walk in walks:
        assert 0.25 <= walk[0] <= 0.5
        assert 2.0 <= walk[-1] <= 4.0
        assert len(walk) < 30


async def test_the_place_in_the_targets_queue_is_reported_while_it_changes() -> None:
    queued, running, finished = run_pb2.RUN_STATE_QUEUED, run_pb2.RUN_STATE_RUNNING, run_pb2.RUN_STATE_FINISHED
    states = [(queued, 2), (queued, 1), (queued, 0), (running, 0), (finished, 0)]
    told: list[str] = []

    class Queued:
        async def watch(self, run_id: str, sequence: int) -> AsyncIterator[run_pb2.RunEvent]:
            for number, (state, before) in enumerate(states):
                changed = run_pb2.StateChanged(state=state, runs_before=before)
                yield run_pb2.RunEvent(sequence=number, state=changed)

    reporter: Any = SimpleNamespace(running=lambda case, process, phase, *_: told.append(phase))
    clients: Any = {"nuc": Queued()}
    await follow(Bench(clients, lambda _: (), Path(), reporter, 0), JOB, "run")
    assert told[:3] == ["queued, 2 before it", "queued, 1 before it", "queued"]


async def test_whom_a_run_waits_for_is_reported() -> None:
    pip = measurement_pb2.ProcessUse(name="pip", pid=812, count=1, cpu_time_ns=3)
    seen = measurement_pb2.MachineUse(duration_ns=10, processors=2, other_cpu_time_ns=6, busiest=[pip])
    told: list[str] = []

    class Waiting:
        async def watch(self, run_id: str, sequence: int) -> AsyncIterator[run_pb2.RunEvent]:
            yield run_pb2.RunEvent(sequence=0, unquiet=run_pb2.Unquiet(seen=seen, at_most_ns=10_000_000_000))
            finished = run_pb2.StateChanged(state=run_pb2.RUN_STATE_FINISHED)
            yield run_pb2.RunEvent(sequence=1, state=finished)

    reporter: Any = SimpleNamespace(running=lambda case, process, phase, *_: told.append(phase))
    clients: Any = {"nuc": Waiting()}
    await follow(Bench(clients, lambda _: (), Path(), reporter, 0), JOB, "run")
    assert told[0] == "waiting for `pip` (pid 812), 30 % of the machine, up to 10 s"


class Refusing:
    """An agent that takes what is sent for a while, then breaks off; it keeps so many bytes more each time."""

    def __init__(self, kept_each_time: int) -> None:
        self._kept_each_time = kept_each_time
        self.kept = 0

    async def committed_bytes(self, file: Any) -> int | None:
        return None if self.kept >= file.size_bytes else self.kept

    async def upload(self, file: Any, path: Path, offset_bytes: int, on_sent: Any) -> None:
        await asyncio.sleep(PATIENCE_SECONDS / 4)
        on_sent(offset_bytes + 10, 10)
        self.kept += self._kept_each_time
        raise UnreachableError("target 'nuc' did not take what was sent")


async def test_how_far_an_upload_is_that_stalls_is_told_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_run, "TELL_AGAIN_SECONDS", 0.01)
    told: list[int] = []

    class Stalling(Refusing):
        async def upload(self, file: Any, path: Path, offset_bytes: int, on_sent: Any) -> None:
            on_sent(offset_bytes + 30, 30)
            await asyncio.sleep(0.2)
            self.kept = file.size_bytes

    reporter: Any = SimpleNamespace(uploading=lambda _case, sent_bytes, _total: told.append(sent_bytes))
    clients: Any = {"nuc": Stalling(0)}
    await upload(Bench(clients, lambda _: [Path("model.onnx")], Path(), reporter, 0), wanting("nuc"))
    assert len(told) > 3 and set(told) == {30}
    before = len(told)
    await asyncio.sleep(0.05)
    assert len(told) == before, "and no longer than it lasts"


async def test_so_many_uploads_are_under_way_together_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_run, "UPLOADS_AT_ONCE", 3)
    now = most = 0

    class Taking:
        has = False

        async def committed_bytes(self, file: Any) -> int | None:
            return None if self.has else 0

        async def upload(self, file: Any, path: Path, offset_bytes: int, on_sent: Any) -> None:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.01)
            now -= 1
            self.has = True

    clients: Any = {f"nuc{number}": Taking() for number in range(10)}
    bench = Bench(clients, lambda _: (Path(),), Path(), SimpleNamespace(), 0)  # type: ignore[arg-type]
    await asyncio.gather(*(upload(bench, wanting(name)) for name in clients))
    assert all(one.has for one in clients.values())
    assert most == 3


def wanting(target: str) -> Any:
    """A case on this target whose model is one small file."""
    model = SimpleNamespace(files=[SimpleNamespace(sha256="0" * 64, size_bytes=80)])
    no_inputs = SimpleNamespace(input_set=SimpleNamespace(items=()))
    return SimpleNamespace(target=target, model=model, configuration=no_inputs)


async def uploaded(agent: Refusing) -> list[int]:
    """How far into the file each attempt was reported to have come."""
    told: list[int] = []
    reporter: Any = SimpleNamespace(uploading=lambda _job, sent_bytes, _total_bytes: told.append(sent_bytes))
    clients: Any = {"nuc": agent}
    await upload(Bench(clients, lambda _: [Path("model.onnx")], Path(), reporter, 0), wanting("nuc"))
    return told


async def test_an_upload_goes_on_as_long_as_more_of_it_is_kept() -> None:
    assert await uploaded(Refusing(8)) == [10 + 8 * attempt for attempt in range(10)]


async def test_an_upload_of_which_nothing_is_kept_is_given_up_although_chunks_are_taken() -> None:
    begun = time.monotonic()
    with pytest.raises(UnreachableError, match="did not take"):
        await uploaded(Refusing(0))
    assert time.monotonic() - begun > PATIENCE_SECONDS
