"""Who may use which part of the machine, and when: leases of its resources, and the runs before each run that waits."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

from enginebench_agent.runs.run import Run


class Leases:
    """One lock a resource, such as "cpu" or "cuda:0", granted in the order of asking."""

    def __init__(self) -> None:
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @contextlib.asynccontextmanager
    async def hold(self, resources: Iterable[str]) -> AsyncIterator[None]:
        """Wait for all the resources and keep them for the block.

        They are taken in sorted order, so that two runs can never wait for each other.
        """
        async with contextlib.AsyncExitStack() as stack:
            for resource in sorted(set(resources)):
                await stack.enter_async_context(self._locks[resource])
            yield


@dataclass(frozen=True)
class _Place:
    """One run, or the members of a group, which are served together."""

    resources: frozenset[str]
    runs: list[Run] = field(default_factory=list)


class Queue:
    """Runs that wait or run. It only tells: who goes next is decided by the leases, first come, first served."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}

    def enter(self, run: Run, resources: Iterable[str]) -> None:
        """A run was accepted; it and its watchers are told how many are before it."""
        place = self._places.setdefault(_name(run), _Place(frozenset(resources)))
        run.queue(self._runs_before(place))
        place.runs.append(run)

    def leave(self, run: Run) -> None:
        """A run has ended; those behind it move up."""
        place = self._places[_name(run)]
        place.runs.remove(run)
        if not place.runs:
            del self._places[_name(run)]
        for behind in self._places.values():
            for waiting in behind.runs:
                waiting.move_up(self._runs_before(behind))

    def _runs_before(self, place: _Place) -> int:
        before = 0
        for other in self._places.values():
            if other is place:
                break
            before += len(other.runs) if other.resources & place.resources else 0
        return before


def _name(run: Run) -> str:
    grouped = run.spec.HasField("interleaving")
    return f"group {run.spec.interleaving.group}" if grouped else f"run {run.spec.run_id}"
