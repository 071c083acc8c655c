"""Runs that take turns: who goes when, what happens to the others when one ends, and who may join."""

import asyncio
import os
import select
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from agent_process import eventually
from scripted_runs import Bench, finished

from enginebench_agent.errors import InvalidRequestError
from enginebench_agent.runs import turns
from enginebench_agent.runs.queue import Lease
from enginebench_agent.runs.reservations import Claim, Reservations
from enginebench_agent.runs.run import Run
from enginebench_agent.runs.turns import Groups, Member
from enginebench_agent.worker.pipe import GO
from enginebench_proto.v1.run_pb2 import (
    FAILURE_KIND_CRASHED,
    OUTCOME_CANCELLED,
    OUTCOME_OK,
    Interleaving,
)


class Player:
    """A member without a child: it needs `needed` blocks of `seconds` each, and logs them by its name."""

    def __init__(self, name: str, member: Member, log: list[str], needed: int, seconds: float = 0.001) -> None:
        self.name, self.member = name, member
        self._log, self._needed, self._seconds = log, needed, seconds
        self.blocks = 0

    async def play(self, *, dies_after: int | None = None) -> None:
        """Start when allowed, take turns until told to stop, leave."""
        try:
            await self.member.may_start()
            self.member.has_looked()
            self._log.append(f"start {self.name}")
            with self.member.pipe() as reading:
                if await self._turn(reading) == GO:
                    self._log.append(f"warm {self.name}")
                while await self._turn(reading) == GO:
                    self._log.append(f"begin {self.name}")
                    await asyncio.sleep(self._seconds)
                    self._log.append(f"end {self.name}")
                    self.blocks += 1
                    if self.blocks == dies_after:
                        return
        finally:
            self.member.leave()

    async def _turn(self, reading: int) -> bytes:
        self.member.want(unfinished=self.blocks < self._needed)
        while True:
            await asyncio.sleep(0)
            if _readable(reading):
                return os.read(reading, 1)


def _readable(descriptor: int) -> bool:
    return bool(select.select([descriptor], [], [], 0)[0])


class Table:
    """A device, and players of one group at it."""

    def __init__(self, members: int, seed: int = 1) -> None:
        self.lease = Lease(Reservations(Path("nowhere"), 1))
        self.groups = Groups(self.lease)
        self.interleaving = Interleaving(group="g", members=members, seed=seed)
        self.log: list[str] = []

    def player(self, name: str, needed: int, seconds: float = 0.001) -> Player:
        self.groups.check(self.interleaving, Claim())
        return Player(name, self.groups.join(self.interleaving, Claim()), self.log, needed, seconds)

    def order(self) -> list[str]:
        """Whose blocks followed each other."""
        return [line.removeprefix("begin ") for line in self.log if line.startswith("begin")]


async def _all(*playing: Awaitable[object]) -> None:
    async with asyncio.timeout(10):
        await asyncio.gather(*playing)


async def test_each_round_has_every_member_once_and_blocks_never_overlap() -> None:
    table = Table(members=3)
    players = [table.player(name, needed=20, seconds=seconds) for name, seconds in (("a", 0.0), ("b", 0.002), ("c", 0))]
    await _all(*(player.play() for player in players))
    order = table.order()
    rounds = [order[begin : begin + 3] for begin in range(0, len(order), 3)]
    assert all(sorted(names) == ["a", "b", "c"] for names in rounds)
    assert len({tuple(names) for names in rounds}) > 3, "the order is drawn anew for each round"
    blocks = [line.split() for line in table.log if not line.startswith(("start", "warm"))]
    assert all(
        (begin[0], end[0]) == ("begin", "end") and begin[1] == end[1]
        for begin, end in zip(blocks[::2], blocks[1::2], strict=True)
    )


async def test_all_end_with_as_many_blocks_as_the_neediest() -> None:
    table = Table(members=2)
    players = [table.player("a", needed=3), table.player("b", needed=9)]
    await _all(*(player.play() for player in players))
    assert [player.blocks for player in players] == [9, 9]


@pytest.mark.parametrize("seed", [1, 2])
async def test_the_order_is_that_of_the_seed(seed: int) -> None:
    first = await _order_of_seed(seed)
    assert await _order_of_seed(seed) == first
    assert await _order_of_seed(seed + 10) != first


async def _order_of_seed(seed: int) -> list[str]:
    table = Table(members=2, seed=seed)
    await _all(*(table.player(name, needed=12).play() for name in "ab"))
    return table.order()


async def test_members_start_at_once_and_warm_up_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STARTING_AT_ONCE", 2)
    table = Table(members=3)
    members = [table.player(name, needed=1).member for name in "abc"]
    first, second, third = members
    with first.pipe() as of_first, second.pipe() as of_second, third.pipe() as of_third:
        await asyncio.wait_for(first.may_start(), 1)
        await asyncio.sleep(0.01)
        assert not second.is_launched, "the first looks what the machine does without them"
        first.has_looked()
        await asyncio.wait_for(second.may_start(), 1)
        await asyncio.sleep(0.01)
        assert not third.is_launched
        second.want(unfinished=True)
        await asyncio.wait_for(third.may_start(), 1)
        first.want(unfinished=True)
        await asyncio.sleep(0.01)
        assert not any(map(_readable, (of_first, of_second, of_third))), "somebody is still starting"
        third.want(unfinished=True)
        for reading, member in ((of_first, first), (of_second, second), (of_third, third)):
            await asyncio.sleep(0.01)
            assert [_readable(one) for one in (of_first, of_second, of_third)].count(True) == 1
            assert os.read(reading, 1) == GO
            member.want(unfinished=True)
    for member in members:
        member.leave()


async def test_who_joins_while_the_first_starts_is_started_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STARTING_AT_ONCE", 2)
    table = Table(members=2)
    first = table.player("first", needed=1).member
    await asyncio.wait_for(first.may_start(), 1)
    first.has_looked()
    await asyncio.sleep(0.01)
    late = table.player("late", needed=1).member
    await asyncio.wait_for(late.may_start(), 1)
    assert not first.is_settled
    for member in (first, late):
        member.leave()


async def test_a_member_that_is_gone_before_its_first_turn_leaves_the_group_to_those_who_join_later() -> None:
    table = Table(members=2)
    early = table.player("early", needed=3)
    await asyncio.wait_for(early.member.may_start(), 1)
    early.member.leave()
    await asyncio.sleep(0.01)
    await _all(table.player("late", needed=3).play())
    assert table.order() == ["late"] * 3


async def test_a_member_that_dies_in_the_middle_does_not_stop_the_others() -> None:
    table = Table(members=3)
    players = [table.player(name, needed=10) for name in "abc"]
    await _all(players[0].play(dies_after=4), players[1].play(), players[2].play())
    assert [player.blocks for player in players] == [4, 10, 10]


async def test_a_member_that_fails_before_the_others_are_started_turns_nobody_away() -> None:
    table = Table(members=3)
    table.player("a", needed=1).member.leave()
    await asyncio.sleep(0.01)
    players = [table.player(name, needed=5) for name in "bc"]
    await _all(*(player.play() for player in players))
    assert [player.blocks for player in players] == [5, 5]


async def test_members_that_never_come_are_not_waited_for_longer_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "GATHER_SECONDS", 0.2)
    table = Table(members=3)
    players = [table.player(name, needed=5) for name in "ab"]
    began = time.monotonic()
    await _all(*(player.play() for player in players))
    assert time.monotonic() - began >= 0.2
    assert [player.blocks for player in players] == [5, 5]


async def test_the_device_is_the_groups_until_its_last_member_has_left() -> None:
    table = Table(members=2)
    players = [table.player(name, needed=3) for name in "ab"]
    await players[0].member.may_start()
    stranger = asyncio.create_task(_hold(table.lease, table.log))
    await _all(*(player.play() for player in players), stranger)
    assert table.log[-1] == "stranger"
    await _all(*(table.player(name, needed=1).play() for name in "cd"))  # the name is free again


async def _hold(lease: Lease, log: list[str]) -> None:
    async with lease.hold():
        log.append("stranger")


async def test_members_that_gave_up_leave_the_device_at_once() -> None:
    table = Table(members=3)
    members = [table.player(name, needed=1).member for name in "ab"]
    await members[0].may_start()
    for member in members:
        member.leave(cancelled=True)
    await asyncio.wait_for(_hold(table.lease, table.log), 1)


async def test_a_child_that_is_gone_but_has_not_left_is_waited_for_in_peace() -> None:
    table = Table(members=2)
    gone, other = (table.player(name, needed=5) for name in "ab")
    await gone.member.may_start()
    with gone.member.pipe():
        gone.member.want(unfinished=True)
    playing = asyncio.create_task(other.play())
    await asyncio.sleep(0.02)
    assert not playing.done()
    gone.member.leave()
    await _all(playing)
    assert other.blocks == 5


@pytest.mark.parametrize(("change", "sentence"), [({"members": 3}, "other members"), ({"seed": 9}, "another seed")])
async def test_who_does_not_fit_a_group_is_refused(change: dict[str, int], sentence: str) -> None:
    table = Table(members=2)
    member = table.player("a", needed=1).member
    newcomer = Interleaving()
    newcomer.CopyFrom(table.interleaving)
    for field, value in change.items():
        setattr(newcomer, field, value)
    with pytest.raises(InvalidRequestError, match=sentence):
        table.groups.check(newcomer, Claim())
    member.leave(cancelled=True)


async def test_a_complete_group_takes_nobody_in() -> None:
    table = Table(members=2)
    members = [table.player(name, needed=1).member for name in "ab"]
    with pytest.raises(InvalidRequestError, match="'g' is complete"):
        table.groups.check(table.interleaving, Claim())
    for member in members:
        member.leave()


# Real children, real pipes.

BLOCKS = """
log = open({log!r}, "ab", buffering=0)
index = 0
turn(unfinished=True)
while turn(unfinished=index < {needed}) == b"g":
    log.write(b"begin {name}\\n")
    time.sleep({seconds})
    log.write(b"end {name}\\n")
    block(index, 1)
    index += 1
    {then}
result(index, index)
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def start(bench: Bench, tmp_path: Path) -> Callable[..., Run]:
    def begin(name: str, needed: int, seconds: float = 0.005, then: str = "pass", members: int = 2) -> Run:
        script = BLOCKS.format(log=str(tmp_path / "log"), name=name, needed=needed, seconds=seconds, then=then)
        return bench.start(script, name, interleaving=Interleaving(group="g", members=members, seed=3))

    return begin


async def test_children_of_unequal_speed_alternate_block_by_block(
    bench: Bench, start: Callable[..., Run], tmp_path: Path
) -> None:
    await finished(start("quick", 4, 0.0), start("slow", 6, 0.03))
    lines = (tmp_path / "log").read_text().split("\n")[:-1]
    assert all(begin == end.replace("end", "begin") for begin, end in zip(lines[::2], lines[1::2], strict=True))
    pairs = [set(lines[begin : begin + 4 : 2]) for begin in range(0, len(lines), 4)]
    assert pairs == [{"begin quick", "begin slow"}] * 6
    for name in ("quick", "slow"):
        parts = await bench.parts(name)
        assert (parts[0].result.outcome, parts[0].result.measurement.blocks) == (OUTCOME_OK, 6)


async def test_a_child_starts_while_the_one_before_it_still_prepares(bench: Bench, tmp_path: Path) -> None:
    def script(own: Path, other: Path) -> str:
        meet = f"""
open({str(own)!r}, "w").close()
deadline = time.monotonic() + 10
while not os.path.exists({str(other)!r}):
    if time.monotonic() > deadline: sys.exit("nobody came")
    time.sleep(0.01)
"""
        return meet + BLOCKS.format(log=str(tmp_path / "log"), name="a", needed=1, seconds=0, then="pass")

    first, second, group = tmp_path / "first", tmp_path / "second", Interleaving(group="g", members=2)
    runs = [
        bench.start(script(first, second), "run-1", interleaving=group),
        bench.start(script(second, first), "run-2", interleaving=group),
    ]
    await finished(*runs)
    for name in ("run-1", "run-2"):
        assert (await bench.parts(name))[0].result.outcome == OUTCOME_OK


async def test_a_child_that_crashes_leaves_the_turns_to_the_other(bench: Bench, start: Callable[..., Run]) -> None:
    crash = "index == 2 and os.kill(os.getpid(), signal.SIGSEGV)"
    await finished(start("sound", 5), start("broken", 5, then=crash))
    assert (await bench.parts("broken"))[0].result.failure.kind == FAILURE_KIND_CRASHED
    assert (await bench.parts("sound"))[0].result.measurement.blocks == 5


async def test_cancelling_one_member_lets_the_other_finish(
    bench: Bench, start: Callable[..., Run], tmp_path: Path
) -> None:
    given_up, other = start("given-up", 10_000), start("other", 12)
    await eventually((tmp_path / "log").exists)
    await given_up.cancel()
    await finished(other)
    assert (await bench.parts("given-up"))[0].result.outcome == OUTCOME_CANCELLED
    assert (await bench.parts("other"))[0].result.measurement.blocks == 12


async def test_a_queued_member_that_is_cancelled_is_not_waited_for(bench: Bench, start: Callable[..., Run]) -> None:
    first, second = start("first", 3), start("second", 3)
    await second.cancel()
    await finished(first)
    assert (await bench.parts("first"))[0].result.measurement.blocks == 3


async def test_no_descriptor_of_a_group_stays_open(bench: Bench, start: Callable[..., Run]) -> None:
    before = _open_descriptors()
    await finished(start("a", 2), start("b", 2))
    await eventually(lambda: _open_descriptors() <= before)


def _open_descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
