"""Waiting until others leave the processors alone, for as long as somebody is willing to."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from enginebench_agent import bystanders
from enginebench_agent.bystanders import TICK_NS, Look
from enginebench_agent.worker.evidence import FEWEST_TICKS, OTHER_CPU_SHARE, STEAL_SHARE
from enginebench_proto.v1.measurement_pb2 import Bystanders, MachineUse
from enginebench_proto.v1.run_pb2 import Unquiet

SHORTEST_LOOK_SECONDS = 0.25
"""Processor time is counted in ticks of 10 ms: 5 % of two cores are two of them."""

LOOK_SECONDS = 0.5
"""Between two looks while it waits."""

OLDEST_LOOK_SECONDS = 2.0
"""What happened before says little of what the machine does now."""

VAIN_SECONDS = 120.0
"""After waiting in vain no run waits again within this time, unless it may wait for longer or the machine was quiet in
between: one that never is would cost every process of a benchmark the whole wait, and bring nothing."""

Tell = Callable[[Unquiet], None]


class Quiet:
    """The agent's eyes on who else uses the machine; one for all its runs. `root` stands for the file system's root."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._last: Look | None = None
        self._vain_ns = 0
        self._vain_until = 0.0

    async def look(self) -> Look | None:
        """What was used until now, in a thread: a machine may have thousands of processes."""
        self._last = await asyncio.to_thread(bystanders.look, self._root)
        return self._last

    async def wait(self, cores: int, at_most_ns: int, tell: Tell) -> Bystanders:
        """Wait until others use no more than disturbs a block on so many cores; returns who was seen last.

        `tell` hears of each look that finds somebody. Not at all where nobody may wait, or the machine does not tell.
        """
        found = Bystanders()
        if at_most_ns <= 0:
            return found
        clock = asyncio.get_running_loop().time
        begun = clock()
        was_in_vain = begun < self._vain_until and at_most_ns <= self._vain_ns
        used = await self._use(SHORTEST_LOOK_SECONDS)
        while used is not None:
            found.before.CopyFrom(used)
            if is_quiet(used, cores):
                self._vain_ns = 0
                return found
            if was_in_vain or found.waited_ns >= at_most_ns:
                break
            tell(Unquiet(seen=used, waited_ns=found.waited_ns, at_most_ns=at_most_ns))
            # A wait shorter than a look has one look all the same: less says nothing.
            await asyncio.sleep(max(SHORTEST_LOOK_SECONDS, min(LOOK_SECONDS, (at_most_ns - found.waited_ns) / 1e9)))
            found.waited_ns = min(round((clock() - begun) * 1e9), at_most_ns)
            used = await self._use(0)
        if found.waited_ns >= at_most_ns:
            self._vain_ns, self._vain_until = at_most_ns, clock() + VAIN_SECONDS
        return found

    async def use_since(self, first: Look | None) -> MachineUse | None:
        """What others used since a look; None where the machine does not tell."""
        second = await self.look()
        return await asyncio.to_thread(bystanders.used_between, first, second, self._root)

    async def _use(self, shortest_seconds: float) -> MachineUse | None:
        """What others used lately: since the last look, unless that is too long ago, or too short."""
        first, second = self._last, await self.look()
        if second is None:
            return None
        if shortest_seconds and (first is None or not _is_apart(first, second)):
            await asyncio.sleep(shortest_seconds)
            first, second = second, await self.look()
        return await asyncio.to_thread(bystanders.used_between, first, second, self._root)


class Watch:
    """What is seen of others around one process: before it, which is `known`, and while it is timed."""

    def __init__(self, quiet: Quiet, known: Bystanders) -> None:
        self._quiet = quiet
        self._known = known
        self._first: Look | None = None

    async def begin(self) -> None:
        """Look, before the first block; a later call counts in place of an earlier one."""
        self._first = await self._quiet.look()

    async def end(self) -> Bystanders:
        """Look again, after the last block; returns all that was seen."""
        found = Bystanders()
        found.CopyFrom(self._known)
        if (used := await self._quiet.use_since(self._first)) is not None:
            found.meanwhile.CopyFrom(used)
        return found


def is_quiet(used: MachineUse, cores: int) -> bool:
    """Whether a block on so many cores, as long as this look, would not be disturbed by what others use."""
    budget_ns = cores * used.duration_ns
    others = (used.other_cpu_time_ns, OTHER_CPU_SHARE), (used.steal_ns, STEAL_SHARE)
    return not any(ns >= FEWEST_TICKS * TICK_NS and ns > share * budget_ns for ns, share in others)


def _is_apart(first: Look, second: Look) -> bool:
    return SHORTEST_LOOK_SECONDS <= (second.at_ns - first.at_ns) / 1e9 <= OLDEST_LOOK_SECONDS
