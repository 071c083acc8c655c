"""Reservations: for whom alone runs begin, by which clock they are counted, and what a restart leaves of them."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from agent_process import eventually
from scripted_runs import Bench, finished

from enginebench_agent.door.permissions import Peer
from enginebench_agent.errors import ForbiddenError, InvalidRequestError, ReservedError
from enginebench_agent.runs import reservations
from enginebench_agent.runs.reservations import Claim, Reservations, uptime_ns
from enginebench_proto.agreed.roles import Role
from enginebench_proto.v1 import run_pb2

SECOND = 1_000_000_000
ANN, BOB, ADMIN = Peer("ann", Role.RUN), Peer("bob", Role.RUN), Peer("root", Role.ADMIN)
HOUR_SECONDS = 3_600


class Uptime:
    """The clock of a machine's uptime, in the hands of a test."""

    def __init__(self) -> None:
        self.now_ns = 1_000 * SECOND

    def __call__(self) -> int:
        return self.now_ns

    def pass_seconds(self, seconds: float) -> None:
        self.now_ns += round(seconds * SECOND)


@pytest.fixture
def uptime() -> Uptime:
    return Uptime()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reservation.json"


def opened(path: Path, uptime: Uptime) -> Reservations:
    """What an agent that starts now makes of the file."""
    return Reservations(path, HOUR_SECONDS, uptime)


def left_seconds(one: Reservations) -> float | None:
    told = one.told()
    return None if told is None else told.left_ns / SECOND


def as_after_a_boot(path: Path) -> None:
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"boot_id": "of another uptime"}))


async def test_it_counts_on_while_no_agent_runs(path: Path, uptime: Uptime) -> None:
    await opened(path, uptime).reserve(ANN, 100 * SECOND, "why")
    uptime.pass_seconds(30)
    again = opened(path, uptime)
    assert left_seconds(again) == 70
    assert again.keeps_out(Claim("bob")) and not again.keeps_out(Claim("ann"))
    uptime.pass_seconds(70)
    assert left_seconds(opened(path, uptime)) is None


@pytest.mark.parametrize("up_seconds", [5, 50_000], ids=["just started", "long since started"])
async def test_the_time_that_a_machine_was_off_does_not_count(path: Path, uptime: Uptime, up_seconds: int) -> None:
    first = opened(path, uptime)
    await first.reserve(ANN, 100 * SECOND, "why")
    uptime.pass_seconds(30)
    await first.settle()
    as_after_a_boot(path)
    uptime.now_ns = up_seconds * SECOND
    after = opened(path, uptime)
    assert left_seconds(after) == 70
    await after.settle()
    uptime.pass_seconds(10)
    assert left_seconds(opened(path, uptime)) == 60, "from then on it is of this uptime"


async def test_a_wall_clock_that_is_set_changes_nothing(
    path: Path, uptime: Uptime, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = opened(path, uptime)
    await one.reserve(ANN, 100 * SECOND, "")
    for year_seconds in (0.0, 4_000_000_000.0):
        monkeypatch.setattr(time, "time", lambda now=year_seconds: now)
        monkeypatch.setattr(time, "time_ns", lambda now=year_seconds: round(now * SECOND))
        assert left_seconds(one) == left_seconds(opened(path, uptime)) == 100


def test_the_clock_that_is_taken_counts_true_seconds_and_the_time_that_a_machine_sleeps() -> None:
    before, begun = uptime_ns(), time.monotonic_ns()
    time.sleep(0.05)
    passed, lasted = uptime_ns() - before, time.monotonic_ns() - begun
    assert 0 < passed <= lasted + SECOND // 10
    assert abs(uptime_ns() / SECOND - float(Path("/proc/uptime").read_text().split()[0])) < 1


async def test_the_time_left_is_written_now_and_then_and_no_more_often(
    path: Path, uptime: Uptime, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written() -> int:
        return path.stat().st_mtime_ns

    one = opened(path, uptime)
    await one.reserve(ANN, 100 * SECOND, "")
    async with kept(one):
        await asyncio.sleep(0.1)
        before = written()
        await asyncio.sleep(0.2)
        assert written() == before, "an SD card wears"
    assert reservations.SAVE_SECONDS >= 60
    monkeypatch.setattr(reservations, "SAVE_SECONDS", 0.05)
    async with kept(one):
        uptime.pass_seconds(40)
        await eventually(lambda: json.loads(path.read_text())["left_ns"] == 60 * SECOND)


async def test_what_is_over_leaves_no_file(path: Path, uptime: Uptime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reservations, "SAVE_SECONDS", 0.05)
    one = opened(path, uptime)
    await one.reserve(ANN, 100 * SECOND, "")
    assert path.stat().st_mode & 0o777 == 0o600
    async with kept(one):
        uptime.pass_seconds(100)
        await eventually(lambda: not path.exists())
    assert one.told(ANN) is None


async def test_again_by_the_same_name_sets_the_time_anew_and_by_another_is_refused(path: Path, uptime: Uptime) -> None:
    one = opened(path, uptime)
    assert not (await one.reserve(ANN, 100 * SECOND, "why")).HasField("replaced")
    uptime.pass_seconds(40)
    answer = await one.reserve(ANN, 50 * SECOND, "still")
    assert (answer.replaced.left_ns, answer.replaced.reason) == (60 * SECOND, "why")
    assert (answer.reservation.left_ns, answer.reservation.yours) == (50 * SECOND, True)
    with pytest.raises(ReservedError, match=r"reserved by 'ann' for 50 s \(still\)"):
        await one.reserve(BOB, SECOND, "")
    assert left_seconds(opened(path, uptime)) == 50


@pytest.mark.parametrize(
    ("seconds", "reason", "sentence"),
    [
        (0, "", "for 60 min at most"),
        (HOUR_SECONDS + 1, "", "max_reservation_seconds in its agent.toml"),
        (1, "x" * 201, "200 characters at most"),
        (1, "two\nlines", "one line"),
    ],
)
async def test_what_cannot_be_reserved_is_refused(
    path: Path, uptime: Uptime, seconds: int, reason: str, sentence: str
) -> None:
    with pytest.raises(InvalidRequestError, match=sentence):
        await opened(path, uptime).reserve(ANN, seconds * SECOND, reason)
    assert not path.exists()


async def test_the_holder_and_an_admin_release_and_nobody_else(path: Path, uptime: Uptime) -> None:
    one = opened(path, uptime)
    for releasing in (ANN, ADMIN):
        await one.reserve(ANN, 100 * SECOND, "")
        with pytest.raises(ForbiddenError, match="reserved by 'ann' for 2 min: only the holder"):
            await one.release(BOB, "ann")
        assert not (await one.release(releasing, "bob")).HasField("released"), "that of another name is left alone"
        assert (await one.release(releasing, "ann")).released.holder == "ann"
        assert left_seconds(one) is None and not path.exists()
        assert not (await one.release(releasing, "ann")).HasField("released")


@pytest.mark.parametrize("content", ["", "[]", '{"schema_version": 1}', '{"schema_version": 2}'])
def test_a_damaged_file_is_set_aside(path: Path, uptime: Uptime, content: str) -> None:
    path.write_text(content)
    assert left_seconds(opened(path, uptime)) is None
    assert path.with_name("reservation.json.damaged").read_text() == content


# Scripted children, a real lease and queue.

WAITS = "while not os.path.exists({!r}): time.sleep(0.01)\nresult()"


@asynccontextmanager
async def kept(one: Reservations) -> AsyncIterator[None]:
    keeping = asyncio.create_task(one.keep())
    yield
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


@pytest.mark.slow
async def test_others_wait_and_the_holder_does_not(tmp_path: Path) -> None:
    bench, order = Bench(tmp_path), tmp_path / "order"
    writes = f"open({str(order)!r}, 'a').write({{!r}})\nresult()"
    await bench.reservations.reserve(ANN, 10 * SECOND, "why")
    others = bench.start(writes.format("b"), "others", caller="bob")
    await asyncio.sleep(0.2)
    own = bench.start(writes.format("a"), "own", caller="ann")
    assert own.runs_before == 0, "who waits for the end of a reservation is before nobody"
    await finished(own)
    assert not others.is_finished and order.read_text() == "a"
    (told,) = [event.kept_out_by async for event in _first(others, 2) if event.HasField("kept_out_by")]
    assert (told.holder, told.reason, told.yours) == ("ann", "why", False)
    assert 0 < told.left_ns <= 10 * SECOND
    await bench.reservations.release(ANN, "ann")
    await finished(others)
    assert others.outcome == run_pb2.OUTCOME_OK and order.read_text() == "ab"


async def _first(run: object, count: int) -> AsyncIterator[run_pb2.RunEvent]:
    async for event in run.log.watch(0):  # type: ignore[attr-defined]  # a Run
        yield event
        if event.sequence == count - 1:
            return


@pytest.mark.slow
async def test_a_run_begins_when_the_time_is_over(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with kept(bench.reservations):
        await bench.reservations.reserve(ANN, SECOND, "")
        begun = time.monotonic()
        run = bench.start("result()", caller="bob")
        await finished(run)
    assert run.outcome == run_pb2.OUTCOME_OK
    assert time.monotonic() - begun > 0.9


@pytest.mark.slow
async def test_who_would_wait_longer_than_his_run_may_last_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.reservations.reserve(ANN, 30 * SECOND, "")
    with pytest.raises(ReservedError, match=r"by 'ann' for 30 s, longer than this run may last, .* \(20 s\)"):
        bench.start("result()", "refused", caller="bob", limit_seconds=20)
    waits = bench.start("result()", "waits", caller="bob", limit_seconds=60)
    await bench.reservations.reserve(ANN, 600 * SECOND, "longer")
    await finished(waits)
    failure = (await bench.parts("waits"))[0].result.failure
    assert failure.kind == run_pb2.FAILURE_KIND_CANCELLED, "the configuration is possible"
    assert failure.message.startswith("this target is reserved by 'ann' for 10 min (longer), longer than")


@pytest.mark.slow
async def test_what_has_begun_goes_on_and_what_waits_for_a_device_waits_longer(tmp_path: Path) -> None:
    bench, gate = Bench(tmp_path), tmp_path / "gate"
    goes_on = bench.start(WAITS.format(str(gate)), "goes-on", caller="bob")
    queued = bench.start("result()", "queued", caller="bob")
    await eventually(lambda: goes_on.state == run_pb2.RUN_STATE_RUNNING)
    await bench.reservations.reserve(ANN, 10 * SECOND, "")
    gate.touch()
    await finished(goes_on)
    assert goes_on.outcome == run_pb2.OUTCOME_OK
    await asyncio.sleep(0.3)
    assert queued.state == run_pb2.RUN_STATE_QUEUED
    await bench.reservations.release(ANN, "ann")
    await finished(queued)


@pytest.mark.slow
async def test_a_group_waits_as_a_whole_and_takes_no_stranger_in(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.reservations.reserve(ANN, 10 * SECOND, "")
    group = run_pb2.Interleaving(group="g", members=2, seed=1)
    first = bench.start("result()", "m1", interleaving=group, caller="bob")
    with pytest.raises(InvalidRequestError, match="somebody else's"):
        bench.start("result()", "stranger", interleaving=group, caller="eve")
    second = bench.start("result()", "m2", interleaving=group, caller="bob")
    await asyncio.sleep(0.3)
    assert [run.state for run in (first, second)] == [run_pb2.RUN_STATE_QUEUED] * 2
    await bench.reservations.release(ANN, "ann")
    await finished(first, second)
    assert [run.outcome for run in (first, second)] == [run_pb2.OUTCOME_OK] * 2


@pytest.mark.slow
async def test_a_run_that_waits_can_be_cancelled(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.reservations.reserve(ANN, 10 * SECOND, "")
    run = bench.start("result()", caller="bob")
    await asyncio.sleep(0)
    await run.cancel()
    assert run.outcome == run_pb2.OUTCOME_CANCELLED
