"""Turns of runs that are alive together: one lease for the group, one block at a time, a random order each round.

A member's first turn is for what is timed before any block: compilation, first inference and warm-up. Until then it has
only started and imported its engine, which several do at once.

Equal processes that run one after the other can differ by half; two live ones that alternate agree within 2 %. So the
members of a group share what the machine does meanwhile, and block by block they can be compared as pairs.
"""

import asyncio
import contextlib
import os
import random
from collections.abc import Callable, Iterator
from typing import Protocol

from enginebench_agent.errors import InvalidRequestError
from enginebench_agent.runs.queue import Lease
from enginebench_agent.runs.reservations import Claim
from enginebench_agent.worker.pipe import GO, STOP
from enginebench_proto.v1.run_pb2 import Interleaving

STARTING_AT_ONCE = len(os.sched_getaffinity(0)) + 1
"""How many members are started at once: one more than there are processors, as each waits for the disk now and then."""

GATHER_SECONDS = 60.0
"""How long the first member of a group waits for the others to be started; then those that are there go on alone."""


class Resting(Protocol):
    """Who can be stopped while others have their turn."""

    async def rest(self) -> None:
        """Stand still until `go_on`; returns once it does. Harmless when it is gone."""

    def go_on(self) -> None:
        """Its turn has come."""


class Member:
    """One run's place in its group. `changed` is called whenever somebody may be waiting for what happened.

    The `claim` is that of the group: who it is granted to is let in with all members.
    """

    def __init__(self, changed: Callable[[], None], left: Callable[[bool], None], claim: Claim) -> None:
        self._changed = changed
        self._left = left
        self.claim = claim
        self._launched = asyncio.Event()
        self._pipe: int | None = None
        self._child: Resting | None = None
        self._wants: bool | None = None
        self.has_ended = False
        self.is_first = False
        """Whether it was launched before all others, and finds the machine as it is without them."""
        self._has_looked = False

    @property
    def is_launched(self) -> bool:
        """Whether its child may be, or was, started."""
        return self._launched.is_set()

    @property
    def is_alone(self) -> bool:
        """Whether no other may be started yet, as it looks what the machine does without them."""
        return self.is_first and not (self._has_looked or self.is_settled)

    @property
    def is_settled(self) -> bool:
        """Whether it does nothing at present: it waits for a turn, or has ended."""
        return self.has_ended or self._wants is not None

    @property
    def is_unfinished(self) -> bool:
        """Whether it waits for a turn and needs it."""
        return not self.has_ended and self._wants is True

    async def may_start(self) -> None:
        """Wait until the group has its lease, and no more are starting than may at once."""
        await self._launched.wait()

    def has_looked(self) -> None:
        """It knows what the machine did before it, so that others may be started."""
        self._has_looked = True
        self._changed()

    @contextlib.contextmanager
    def pipe(self) -> Iterator[int]:
        """The descriptor a child reads its turns from, open as long as the child may live."""
        reading, self._pipe = os.pipe()
        try:
            yield reading
        finally:
            os.close(self._pipe)
            os.close(reading)
            # The child is gone; until it leaves, nobody can give it a turn.
            self._pipe = self._wants = self._child = None

    def attend(self, child: Resting) -> None:
        """This is the child of the pipe."""
        self._child = child

    def want(self, *, unfinished: bool) -> None:
        """The child waits for its turn. `unfinished`: it would take one even if nobody else did."""
        self._wants = unfinished
        self._changed()

    def launch(self) -> None:
        """Let the child be started."""
        self._launched.set()

    async def rest(self) -> None:
        """Stop the child that waits, so that it takes nothing from whoever has a turn. Harmless when it is gone."""
        if self._child is not None:
            await self._child.rest()

    def give(self, turn: bytes) -> None:
        """Answer the child that waits: `GO` or `STOP`. Harmless when it is gone."""
        if self._pipe is not None:
            self._wants = None
            if self._child is not None:
                self._child.go_on()
            os.write(self._pipe, turn)  # cannot fail: the reading end is open here too, and one byte has room

    def leave(self, *, cancelled: bool = False) -> None:
        """The run has ended, however. Harmless when repeated."""
        if not self.has_ended:
            self.has_ended = True
            self._left(cancelled)
            self._changed()


class Group:
    """Runs that take turns. When all have started, each is warmed up in a turn of its own, so that none
    disturbs another's compilation and first inference, and then the rounds begin. Whoever waits rests.
    """

    def __init__(self, interleaving: Interleaving, claim: Claim, lease: Lease) -> None:
        self.interleaving = interleaving
        self.claim = claim
        self._lease = lease
        self._members: list[Member] = []
        self._change = asyncio.Event()
        self._closed = False
        self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._close)
        self._task = asyncio.create_task(self._conduct())

    @property
    def is_closed(self) -> bool:
        """Whether no more members can join."""
        return self._closed

    @property
    def is_over(self) -> bool:
        """Whether all members have ended, and none is to come."""
        return self._closed and not self._live()

    def join(self) -> Member:
        """Become a member. Only while the group is not closed."""
        member = Member(self._change.set, self._on_leaving, self.claim)
        self._members.append(member)
        if len(self._members) == self.interleaving.members:
            self._close()
        self._change.set()
        return member

    def _close(self) -> None:
        self._closed = True
        self._timer.cancel()
        self._change.set()

    def _on_leaving(self, cancelled: bool) -> None:
        # Members that failed early are no reason to turn the late ones away; somebody who gave up sends no more.
        if cancelled and not self._live():
            self._close()

    async def _conduct(self) -> None:
        async with self._lease.hold(self.claim):
            await self._warm_all()
            await self._take_rounds()
            for member in self._live():  # what they do afterwards is timed too
                member.give(STOP)
                await self._until(lambda member=member: member.has_ended)  # type: ignore[misc]
            await self._until(lambda: not self._live())

    async def _warm_all(self) -> None:
        """Give each its first turn, until all have joined and are warm, or have ended."""
        warm: set[Member] = set()
        while True:
            await self._until(lambda: self._closed or bool(set(self._live()) - warm))
            await self._start_all()
            cold = [member for member in self._live() if member not in warm]
            if cold:
                warm.add(cold[0])
                await self._have_turn(cold[0])
            elif self._closed:  # else whoever was here has ended before its turn, and others are still to join
                return

    async def _start_all(self) -> None:
        """Start whoever has joined, and whoever joins meanwhile; returns when all of them wait for a turn."""
        async with asyncio.TaskGroup() as settling:
            while self._waiting() or self._starting():
                if self._may_launch():
                    member = self._waiting()[0]
                    member.is_first = not any(one.is_launched for one in self._members)
                    member.launch()
                    settling.create_task(self._settle(member))
                else:
                    await self._until(lambda: self._may_launch() or not self._starting())

    async def _take_rounds(self) -> None:
        order = random.Random(self.interleaving.seed)  # noqa: S311  # no secret
        while any(member.is_unfinished for member in self._live()):
            live = self._live()
            for member in order.sample(live, len(live)):
                await self._have_turn(member)

    async def _have_turn(self, member: Member) -> None:
        member.give(GO)
        await self._settle(member)

    async def _settle(self, member: Member) -> None:
        await self._until(lambda: member.is_settled)
        await member.rest()

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._change.clear()
            await self._change.wait()

    def _live(self) -> list[Member]:
        return [member for member in self._members if not member.has_ended]

    def _waiting(self) -> list[Member]:
        return [member for member in self._live() if not member.is_launched]

    def _may_launch(self) -> bool:
        is_kept = any(member.is_alone for member in self._members)
        return bool(self._waiting()) and self._starting() < STARTING_AT_ONCE and not is_kept

    def _starting(self) -> int:
        return sum(member.is_launched and not member.is_settled for member in self._live())


class Groups:
    """The groups of an agent, by the names their members share."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._groups: dict[str, Group] = {}

    def check(self, interleaving: Interleaving, claim: Claim) -> None:
        """Raises `InvalidRequestError` where the group's members differ from this one, or need no other."""
        if (group := self._find(interleaving.group)) is None:
            return
        name = interleaving.group
        if group.claim.name != claim.name:
            raise InvalidRequestError(f"the runs of group {name!r} are somebody else's: take another name for yours.")
        if group.interleaving != interleaving:
            raise InvalidRequestError(f"the runs of group {name!r} were started with other members or another seed.")
        if group.is_closed:
            raise InvalidRequestError(
                f"the group {name!r} is complete, or has waited {GATHER_SECONDS:g} s for its members and begun; "
                "start this run in a group of another name."
            )

    def join(self, interleaving: Interleaving, claim: Claim) -> Member:
        """Become a member of a group, or the first of a new one. `check` must have passed."""
        if (group := self._find(interleaving.group)) is None:
            group = self._groups[interleaving.group] = Group(interleaving, claim, self._lease)
        return group.join()

    def _find(self, name: str) -> Group | None:
        self._groups = {key: group for key, group in self._groups.items() if not group.is_over}
        return self._groups.get(name)
