"""Whose turn on the machine it is: the lease of it, and the runs before each run that waits."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field

from enginebench_agent.runs.reservations import Claim, Reservations
from enginebench_agent.runs.run import Run
from enginebench_proto.v1.run_pb2 import RUN_STATE_QUEUED


class Lease:
    """The whole machine for one run, or one group of them, granted in the order of asking to who is not kept out.

    The whole of it also for a run on an accelerator: the processor feeds that, and a run on all of its cores beside it
    takes many times as long, of which neither would know.
    """

    def __init__(self, reservations: Reservations) -> None:
        self.reservations = reservations
        self._lock = asyncio.Lock()

    @contextlib.asynccontextmanager
    async def hold(self, claim: Claim | None = None) -> AsyncIterator[None]:
        """Wait for the machine and keep it for the block; without a claim it is the agent's own work.

        Whom a reservation keeps out waits in nobody's way.
        """
        while True:
            if claim is not None:
                await self.reservations.until_let_in(claim)
            async with self._lock:
                if claim is None or self.reservations.grant(claim):  # else it was reserved meanwhile
                    yield
                    return


@dataclass(frozen=True)
class _Place:
    """One run, or the members of a group, which are served together."""

    claim: Claim
    runs: list[Run] = field(default_factory=list)


class Queue:
    """Runs that wait or run. It only tells: who goes next is decided by the lease, first come, first served.

    Whom a reservation keeps out is before nobody whom it does not.
    """

    def __init__(self, keeps_out: Callable[[Claim], bool]) -> None:
        self._keeps_out = keeps_out
        self._places: dict[str, _Place] = {}

    def enter(self, run: Run) -> None:
        """A run was accepted; it and its watchers are told how many are before it."""
        place = self._places.setdefault(_name(run), _Place(run.claim))
        run.queue(self._runs_before(place))
        place.runs.append(run)

    def leave(self, run: Run) -> None:
        """A run has ended; those behind it move up."""
        place = self._places[_name(run)]
        place.runs.remove(run)
        if not place.runs:
            del self._places[_name(run)]
        self.tell()

    def tell(self) -> None:
        """Tell those who wait their places, where these have changed; whom a reservation keeps out has none."""
        for place in self._places.values():
            if not self._keeps_out(place.claim):
                for run in place.runs:
                    run.move_up(self._runs_before(place))

    def waiting(self) -> Iterator[Run]:
        """The runs that have not begun."""
        runs = [run for place in self._places.values() for run in place.runs]
        return (run for run in runs if run.state == RUN_STATE_QUEUED)

    def _runs_before(self, place: _Place) -> int:
        before = 0
        for other in self._places.values():
            if other is place:
                break
            before += 0 if self._keeps_out(other.claim) else len(other.runs)
        return before


def _name(run: Run) -> str:
    grouped = run.spec.HasField("interleaving")
    return f"group {run.spec.interleaving.group}" if grouped else f"run {run.spec.run_id}"
