"""What happened to one run, numbered, for any number of watchers, each from where it wants."""

import asyncio
import time
from collections.abc import AsyncIterator

from enginebench_proto.v1.run_pb2 import (
    RUN_STATE_FINISHED,
    Outcome,
    PhaseStarted,
    Progress,
    RunEvent,
    RunState,
    StateChanged,
    Unquiet,
)

MAX_EVENTS = 2_000
"""More are thinned: of the older half, progress is dropped, so numbers have gaps there and memory has a bound."""
_THINNED = ("progress", "unquiet")


class EventLog:
    """The events of one run. It is complete once the finished state was published."""

    def __init__(self) -> None:
        self._events: list[RunEvent] = []
        self._next_sequence = 0
        self._accepted_ns = time.monotonic_ns()
        self._changed = asyncio.Event()
        self._complete = False
        self._recovered = False

    @classmethod
    def of_recovered(cls, outcome: Outcome) -> "EventLog":
        """The log of a run that an earlier agent finished: its other events are lost."""
        log = cls()
        log.state(RUN_STATE_FINISHED, outcome)
        log._recovered = True
        return log

    def state(self, state: RunState, outcome: Outcome | None = None, runs_before: int | None = None) -> None:
        """Publish a change of state, or of the place in the queue; the finished one is the last event."""
        self._complete = state == RUN_STATE_FINISHED
        self._publish(RunEvent(state=StateChanged(state=state, outcome=outcome, runs_before=runs_before)))

    def phase(self, phase: PhaseStarted) -> None:
        """Publish that a phase began."""
        self._publish(RunEvent(phase=phase))

    def unquiet(self, unquiet: Unquiet) -> None:
        """Publish that the run waits for quiet, and who is at work."""
        self._publish(RunEvent(unquiet=unquiet))

    def progress(self, progress: Progress) -> None:
        """Publish how far the phase has come."""
        self._publish(RunEvent(progress=progress))

    def elapsed_ns(self) -> int:
        """Nanoseconds since the run was accepted, by a clock that nobody sets."""
        return time.monotonic_ns() - self._accepted_ns

    async def watch(self, from_sequence: int) -> AsyncIterator[RunEvent]:
        """The events from a sequence number on, past ones first, until the log is complete.

        A recovered log has its one event for every caller, under the number asked for: who comes back after a
        restart of the agent has already seen higher numbers than the new agent can know.
        """
        if self._recovered:
            last = self._events[-1]
            yield RunEvent(sequence=from_sequence, elapsed_ns=last.elapsed_ns, state=last.state)
            return
        cursor = from_sequence
        while True:
            changed, complete = self._changed, self._complete
            for event in [event for event in self._events if event.sequence >= cursor]:
                cursor = event.sequence + 1
                yield event
            if complete:
                return
            await changed.wait()

    def _publish(self, event: RunEvent) -> None:
        event.sequence = self._next_sequence
        event.elapsed_ns = self.elapsed_ns()
        self._next_sequence += 1
        self._events.append(event)
        if len(self._events) > MAX_EVENTS:
            self._thin()
        self._changed.set()
        self._changed = asyncio.Event()

    def _thin(self) -> None:
        half = len(self._events) // 2
        self._events[:half] = [event for event in self._events[:half] if event.WhichOneof("event") not in _THINNED]
