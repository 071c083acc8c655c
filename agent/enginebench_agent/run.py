"""One run as the agent knows it."""

import asyncio
from dataclasses import dataclass, field

from enginebench_agent.event_log import EventLog
from enginebench_proto.v1.run_pb2 import (
    RUN_STATE_FINISHED,
    RUN_STATE_QUEUED,
    RUN_STATE_RUNNING,
    Outcome,
    RunResult,
    RunSpec,
    RunState,
    RunSummary,
)


@dataclass(eq=False)
class Run:
    """State and history of one run.

    `work` is the queueing, waiting and measuring, the only part that is ever cancelled; it ends with the spooled
    result. `keeper` sees it through, and spools a failure where it did not get so far. `unspooled` is the result
    where the disk refused it.
    """

    spec: RunSpec
    log: EventLog = field(default_factory=EventLog)
    state: RunState = RUN_STATE_QUEUED
    outcome: Outcome | None = None
    runs_before: int | None = None
    started_at_unix_ns: int | None = None
    phase: str = ""
    work: asyncio.Task[RunResult] | None = None
    keeper: asyncio.Task[None] | None = None
    unspooled: RunResult | None = None

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

    def begin(self, started_at_unix_ns: int) -> None:
        """Publish that the run left the queue."""
        self.state, self.started_at_unix_ns = RUN_STATE_RUNNING, started_at_unix_ns
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
            result.started_at_unix_ns = self.started_at_unix_ns
        return result

    def summary(self) -> RunSummary:
        """Id, state, outcome and place in the queue."""
        return RunSummary(run_id=self.spec.run_id, state=self.state, outcome=self.outcome, runs_before=self.runs_before)

    async def cancel(self) -> None:
        """End the run if it goes on; its child is gone and its outcome is spooled afterwards."""
        if self.work is not None and self.keeper is not None:
            self.work.cancel()
            await asyncio.shield(self.keeper)
