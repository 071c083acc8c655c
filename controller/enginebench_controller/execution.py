"""Carrying jobs out: all targets at once, one job a device at a time; outcomes are stored, then acknowledged."""

import asyncio
import contextlib
import time
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from enginebench_controller import outcome
from enginebench_controller.client import AgentClient, RunUnknownError
from enginebench_controller.errors import AgentError, UnreachableError
from enginebench_controller.expand import Job
from enginebench_controller.records import Failure, FailureKind, Measurement, ModelVersion, Status
from enginebench_proto.v1 import run_pb2

T = TypeVar("T")

RECONNECT_SECONDS = 25.0
"""A target that does not answer for this long is lost for the rest of the benchmark."""
RETRY_SECONDS = 0.5
CANCEL_SECONDS = 5.0


class Reporter(Protocol):
    """Who wants to know how a benchmark is coming along. All calls come from one thread."""

    def uploading(self, job: Job, sent_bytes: int, total_bytes: int) -> None:
        """`sent_bytes` of a model file of `total_bytes` have reached the target."""

    def running(self, job: Job, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """The job is in this phase; the times are 0 where unknown."""

    def finished(self, job: Job, status: Status, failure: Failure | None) -> None:
        """The job has ended."""


@dataclass
class Bench:
    """What jobs are carried out with: the connections, where model files lie, and what has happened so far."""

    clients: Mapping[str, AgentClient]
    file_paths: Callable[[ModelVersion], Sequence[Path]]
    reporter: Reporter
    timeout_ns: int
    lost_targets: dict[str, str] = field(default_factory=dict)
    _locks: defaultdict[tuple[str, str], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    def lock(self, target: str, thing: str) -> asyncio.Lock:
        """The lock that guards a device's resource or a file on one target."""
        return self._locks[target, thing]


Keep = Callable[[Measurement], Awaitable[None]]
"""Stores a measurement durably; returns only when it is."""


async def execute(bench: Bench, jobs: Sequence[Job], benchmark_id: str, keep: Keep) -> None:
    """Carry out all jobs and hand each outcome to `keep`. A failed job stops no other.

    When cancelled, running children are ended and their typed outcome is kept too.
    """
    async with asyncio.TaskGroup() as group:
        for job in jobs:
            group.create_task(_measure(bench, job, benchmark_id, keep))


async def run_once(bench: Bench, job: Job, run_id: str, kind: run_pb2.RunKind) -> tuple[run_pb2.RunResult, list[Any]]:
    """One run from upload to result, without acknowledging it.

    Raises `UnreachableError` when the target is gone for good, `AgentError` when it refuses.
    """
    client = bench.clients[job.target]
    await _upload(bench, client, job)
    spec = outcome.run_spec(job, run_id, kind, bench.timeout_ns)
    await _persist(lambda: client.start(spec))
    try:
        await _follow(bench, client, job, run_id)
    except asyncio.CancelledError:
        with contextlib.suppress(AgentError, UnreachableError, TimeoutError):
            await asyncio.wait_for(client.cancel(run_id), CANCEL_SECONDS)
        raise
    return await _persist(lambda: client.result(run_id))


async def _measure(bench: Bench, job: Job, benchmark_id: str, keep: Keep) -> None:
    run_id = uuid.uuid4().hex
    try:
        async with contextlib.AsyncExitStack() as device:
            for resource in sorted(job.resources):
                await device.enter_async_context(bench.lock(job.target, resource))
            measurement = await _outcome(bench, job, benchmark_id, run_id)
    except asyncio.CancelledError:
        cancelled = Failure(FailureKind.CANCELLED, "the benchmark was cancelled before this was finished")
        await keep(outcome.failed(job, benchmark_id, run_id, cancelled, Status.CANCELLED))
        await _acknowledge(bench, job, run_id)
        raise
    await keep(measurement)
    bench.reporter.finished(job, measurement.status, measurement.failure)
    await _acknowledge(bench, job, run_id)


async def _acknowledge(bench: Bench, job: Job, run_id: str) -> None:
    """Let the agent forget a run whose outcome is stored. One that misses this keeps a result nobody asks for again."""
    if job.target not in bench.lost_targets:
        with contextlib.suppress(UnreachableError, AgentError):
            await bench.clients[job.target].acknowledge(run_id)


async def _outcome(bench: Bench, job: Job, benchmark_id: str, run_id: str) -> Measurement:
    if job.target in bench.lost_targets:
        return outcome.failed(job, benchmark_id, run_id, outcome.agent_lost(job, bench.lost_targets[job.target]))
    try:
        result, samples = await run_once(bench, job, run_id, run_pb2.RUN_KIND_MEASURE)
    except UnreachableError:
        why = f"it did not answer for {RECONNECT_SECONDS:.0f} s"
        bench.lost_targets[job.target] = why
        return outcome.failed(job, benchmark_id, run_id, outcome.agent_lost(job, why))
    except RunUnknownError as error:
        restarted = f"it does not know the run any more, so it was restarted ({error})"
        return outcome.failed(job, benchmark_id, run_id, outcome.agent_lost(job, restarted))
    except AgentError as error:
        return outcome.failed(job, benchmark_id, run_id, Failure(FailureKind.REFUSED, str(error)))
    return outcome.measured(job, benchmark_id, result, samples)


async def _upload(bench: Bench, client: AgentClient, job: Job) -> None:
    for file, path in zip(job.model.files, bench.file_paths(job.model), strict=True):
        async with bench.lock(job.target, file.sha256):
            sent = 0

            def on_sent(size_bytes: int, total_bytes: int = file.size_bytes) -> None:
                nonlocal sent
                sent += size_bytes
                bench.reporter.uploading(job, sent, total_bytes)

            await _persist(lambda: client.upload(file, path, on_sent))  # noqa: B023  # awaited within the iteration


async def _follow(bench: Bench, client: AgentClient, job: Job, run_id: str) -> None:
    """Report a run's events until it is finished, across broken connections."""
    sequence = 0
    phase = "queued"
    finished = False

    async def rest() -> None:
        nonlocal sequence, phase, finished
        async for event in client.watch(run_id, sequence):
            sequence = event.sequence + 1
            if event.HasField("phase"):
                phase = event.phase.name
            bench.reporter.running(job, phase, event.progress.elapsed_ns, event.progress.expected_ns)
            finished = event.state.state == run_pb2.RUN_STATE_FINISHED

    while not finished:
        await _persist(rest)


async def _persist(call: Callable[[], Awaitable[T]]) -> T:
    """Repeat a call that is safe to repeat until the target answers, at most for `RECONNECT_SECONDS`."""
    deadline = time.monotonic() + RECONNECT_SECONDS
    while True:
        try:
            return await call()
        except UnreachableError:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(RETRY_SECONDS)
