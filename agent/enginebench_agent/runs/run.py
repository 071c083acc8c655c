"""One run as the agent knows it: its state, and what happened to it, numbered, for watchers that begin anywhere."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from enginebench_agent.runs.reservations import Claim
from enginebench_proto.v1.reservation_pb2 import Reservation
from enginebench_proto.v1.run_pb2 import (
    RUN_STATE_FINISHED,
    RUN_STATE_QUEUED,
    RUN_STATE_RUNNING,
    Outcome,
    PhaseStarted,
    Progress,
    RunEvent,
    RunResult,
    RunSpec,
    RunState,
    RunSummary,
    StateChanged,
    Unquiet,
)

MAX_EVENTS = 2_000
"""More are thinned: of the older half, progress is dropped, so numbers have gaps there and memory has a bound."""
CLOCK_SET_NS = 1_000_000_000
"""By which the wall clock and the one that nobody sets may differ over a run before it was set."""
_THINNED = ("progress", "unquiet", "kept_out_by")


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

    def kept_out(self, reservation: Reservation) -> None:
        """Publish that the run waits for the end of somebody else's reservation."""
        self._publish(RunEvent(kept_out_by=reservation))

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


@dataclass(eq=False)
class Run:
    """State and history of one run.

    `work` is the queueing, waiting and measuring, the only part that is ever cancelled; it ends with the spooled
    result. `keeper` sees it through, and spools a failure where it did not get so far. `unspooled` is the result
    where the disk refused it. `refusal` is why it was ended before it began, where nobody cancelled it.
    """

    spec: RunSpec
    log: EventLog = field(default_factory=EventLog)
    state: RunState = RUN_STATE_QUEUED
    outcome: Outcome | None = None
    runs_before: int | None = None
    started_at_unix_ns: int | None = None
    started_at_boot_ns: int = 0
    """The same by the clock that nobody sets."""
    phase: str = ""
    work: asyncio.Task[RunResult] | None = None
    keeper: asyncio.Task[None] | None = None
    unspooled: RunResult | None = None
    claim: Claim = field(default_factory=Claim)
    refusal: str = ""

    @classmethod
    def recovered(cls, result: RunResult) -> "Run":
        """A run that an earlier agent finished."""
        log = EventLog.of_recovered(result.outcome)
        return cls(result.spec, log, RUN_STATE_FINISHED, result.outcome)

    @property
    def is_finished(self) -> bool:
        """Whether the outcome may be told."""
        return self.state == RUN_STATE_FINISHED

    def queue(self, runs_before: int) -> None:
        """Publish that the run waits, and for how many others."""
        self.runs_before = runs_before
        self.log.state(RUN_STATE_QUEUED, runs_before=runs_before)

    def move_up(self, runs_before: int) -> None:
        """Publish the new place of a run that waits; harmless for any other, or where nothing changed."""
        if self.state == RUN_STATE_QUEUED and runs_before != self.runs_before:
            self.queue(runs_before)

    def keep_out(self, reservation: Reservation) -> None:
        """Publish that the run waits for the end of somebody else's reservation; it has no place in the queue then."""
        self.runs_before = None
        self.log.kept_out(reservation)

    def begin(self, started_at_unix_ns: int) -> None:
        """Publish that the run left the queue."""
        self.state, self.started_at_unix_ns = RUN_STATE_RUNNING, started_at_unix_ns
        self.started_at_boot_ns = _boot_ns()
        self.runs_before = None
        self.log.state(RUN_STATE_RUNNING)

    def finish(self, outcome: Outcome) -> None:
        """Publish the outcome. Only after the result is in the spool."""
        self.state, self.outcome, self.runs_before = RUN_STATE_FINISHED, outcome, None
        self.log.state(RUN_STATE_FINISHED, outcome)

    def complete(self, result: RunResult) -> RunResult:
        """Fill in what the agent knows of the run and the child does not."""
        result.run_id = self.spec.run_id
        result.spec.CopyFrom(self.spec)
        if self.started_at_unix_ns is not None:
            self.started_at_unix_ns = self._true_start(self.started_at_unix_ns)
            result.started_at_unix_ns = self.started_at_unix_ns
        return result

    def _true_start(self, told_ns: int) -> int:
        """When it began by the clock as it is set now: a board without a battery wakes up in 1970."""
        now_ns = time.time_ns() - (_boot_ns() - self.started_at_boot_ns)
        return now_ns if abs(now_ns - told_ns) > CLOCK_SET_NS else told_ns

    def summary(self) -> RunSummary:
        """Id, state, outcome and place in the queue."""
        return RunSummary(run_id=self.spec.run_id, state=self.state, outcome=self.outcome, runs_before=self.runs_before)

    def refuse(self, reason: str) -> None:
        """End the run, which waits, for a reason that is a sentence."""
        if self.work is not None and not self.refusal:
            self.refusal = reason
            self.work.cancel()

    async def cancel(self) -> None:
        """End the run if it goes on; its child is gone and its outcome is spooled afterwards."""
        if self.work is not None and self.keeper is not None:
            self.work.cancel()
            await asyncio.shield(self.keeper)


def _boot_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
