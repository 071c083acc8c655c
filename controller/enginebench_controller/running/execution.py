"""Carrying jobs out: all targets at once, one job or one interleaved group a device at a time.

A job is as many runs as its measurement has processes, one after the other. Their results come together in a file of
raw samples and become one measurement; that is stored, and then the runs are acknowledged.
"""

import asyncio
import contextlib
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from enginebench_controller.errors import AgentError, UnreachableError
from enginebench_controller.planning.expand import Job
from enginebench_controller.records import BlockSamples, Failure, FailureKind, Measurement, Status
from enginebench_controller.running import outcome, remote_run
from enginebench_controller.running.client import RunUnknownError
from enginebench_controller.running.merging import merge
from enginebench_controller.running.remote_run import RECONNECT_SECONDS, Bench
from enginebench_controller.running.sample_file import SampleFile
from enginebench_proto.v1 import run_pb2

Keep = Callable[[Measurement, Iterable[BlockSamples]], Awaitable[None]]
"""Stores a measurement with its raw samples durably; returns only when it is."""


@dataclass(frozen=True)
class Interleave:
    """That the jobs of a device are to be alive together and to take turns, in an order drawn with this seed."""

    seed: int


@dataclass
class Undertaking:
    """A job under way: the results of its processes so far, or why it gets no further."""

    job: Job
    measurement_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    results: list[run_pb2.RunResult] = field(default_factory=list)
    failure: Failure | None = None

    @property
    def goes_on(self) -> bool:
        """Whether nothing has failed yet."""
        return self.failure is None and not any(result.HasField("failure") for result in self.results)

    @property
    def run_ids(self) -> list[str]:
        """The runs that a target may know of."""
        return [self.run_id(process) for process in range(self.job.configuration.stop.processes)]

    def run_id(self, process: int) -> str:
        """The run of one process."""
        return f"{self.measurement_id}-{process}"


@dataclass(frozen=True)
class Group:
    """Jobs of one device that are carried out together: a single one, or all of them in turns."""

    name: str
    members: tuple[Undertaking, ...]
    interleave: Interleave | None

    @property
    def is_interleaved(self) -> bool:
        """Whether there are turns to take."""
        return self.interleave is not None and len(self.members) > 1


async def execute(
    bench: Bench, jobs: Sequence[Job], benchmark_id: str, keep: Keep, interleave: Interleave | None = None
) -> None:
    """Carry out all jobs, those of a device in this order, and hand each outcome to `keep`.

    A failed job stops no other. When cancelled, running children are ended and their typed outcome is kept too. With
    `interleave` all jobs of a device are in memory there at the same time.
    """
    async with asyncio.TaskGroup() as tasks:
        for group in _groups(jobs, benchmark_id, interleave):
            tasks.create_task(_carry_out(bench, group, benchmark_id, keep))


async def run_once(bench: Bench, job: Job, run_id: str, kind: run_pb2.RunKind) -> run_pb2.RunResult:
    """One run from upload to result, without acknowledging it.

    Raises `UnreachableError` when the target is gone for good, `AgentError` when it refuses.
    """
    await remote_run.upload(bench, job)
    try:
        await remote_run.start(bench, job, outcome.run_spec(job, run_id, kind, bench.timeout_ns))
        await remote_run.follow(bench, job, run_id)
    except asyncio.CancelledError:
        await remote_run.cancel(bench, job, run_id)
        raise
    return await remote_run.fetch(bench, job, run_id)


def _groups(jobs: Sequence[Job], benchmark_id: str, interleave: Interleave | None) -> Iterator[Group]:
    together: dict[object, list[Job]] = defaultdict(list)
    for number, job in enumerate(jobs):
        together[number if interleave is None else (job.target, job.resources)].append(job)
    for number, members in enumerate(together.values()):
        yield Group(f"{benchmark_id}-{number}", tuple(map(Undertaking, members)), interleave)


async def _carry_out(bench: Bench, group: Group, benchmark_id: str, keep: Keep) -> None:
    with contextlib.ExitStack() as files:
        try:
            async with _device(bench, group.members[0].job):
                samples = [files.enter_context(SampleFile(bench.folder)) for _ in group.members]
                await _measure(bench, group, samples)
                # Still under the lock: statistics and storing would disturb the next job of the same machine.
                await _uninterrupted(_settle(bench, group, benchmark_id, samples, keep))
        except asyncio.CancelledError:
            await _settle_cancelled(bench, group, benchmark_id, keep)
            raise


@contextlib.asynccontextmanager
async def _device(bench: Bench, job: Job) -> AsyncIterator[None]:
    async with contextlib.AsyncExitStack() as held:
        for resource in sorted(job.resources):
            await held.enter_async_context(bench.lock(job.target, resource))
        yield


async def _measure(bench: Bench, group: Group, samples: Sequence[SampleFile]) -> None:
    """Carry out every process of every member, as far as it comes."""
    file_of = {member.measurement_id: file for member, file in zip(group.members, samples, strict=True)}
    for process in range(max(member.job.configuration.stop.processes for member in group.members)):
        going = [member for member in group.members if member.goes_on]
        try:
            async with asyncio.TaskGroup() as tasks:
                for member in await _start(bench, group, going, process):
                    tasks.create_task(_finish(bench, member, process, file_of[member.measurement_id]))
        except BaseException:
            await asyncio.gather(*(remote_run.cancel(bench, m.job, m.run_id(process)) for m in going))
            raise


async def _start(bench: Bench, group: Group, members: list[Undertaking], process: int) -> list[Undertaking]:
    """Start this process of the members; returns those that the target accepted.

    Everything is uploaded before the first of an interleaved group is started, for then the target waits for all of
    them; and a refusal makes the others start anew, without the one that never comes.
    """
    for member in members:
        await _attempt(bench, member, partial(remote_run.upload, bench, member.job))
    members = [member for member in members if member.goes_on]
    while members:
        for member in members:
            await _attempt(bench, member, partial(_begin, bench, group, member, process, len(members)))
        accepted = [member for member in members if member.goes_on]
        if len(accepted) == len(members) or not group.is_interleaved:
            return accepted
        for member in accepted:
            await _attempt(bench, member, partial(_withdraw, bench, member, process))
        members = [member for member in accepted if member.goes_on]
    return []


async def _begin(bench: Bench, group: Group, member: Undertaking, process: int, members: int) -> None:
    turns = None
    if group.interleave is not None and members > 1:
        # The name says how many there are, so that a group that starts anew is another one.
        name = f"{group.name}-{process}-{members}"
        turns = run_pb2.Interleaving(group=name, members=members, seed=group.interleave.seed + process)
    kind = run_pb2.RUN_KIND_MEASURE
    spec = outcome.run_spec(member.job, member.run_id(process), kind, bench.timeout_ns, process, turns)
    await remote_run.start(bench, member.job, spec)


async def _withdraw(bench: Bench, member: Undertaking, process: int) -> None:
    client, run_id = bench.clients[member.job.target], member.run_id(process)
    await client.cancel(run_id)
    await client.acknowledge(run_id)


async def _finish(bench: Bench, member: Undertaking, process: int, samples: SampleFile) -> None:
    async def to_the_result() -> None:
        run_id = member.run_id(process)
        await remote_run.follow(bench, member.job, run_id, process)
        member.results.append(await remote_run.fetch(bench, member.job, run_id, process, samples))

    await _attempt(bench, member, to_the_result)


async def _attempt(bench: Bench, member: Undertaking, step: Callable[[], Awaitable[None]]) -> None:
    """Take one step of a job; what the target does wrong becomes the job's typed failure."""
    job = member.job
    try:
        if job.target not in bench.lost_targets:
            await step()
    except UnreachableError:
        bench.lost_targets[job.target] = f"it did not answer for {RECONNECT_SECONDS:.0f} s"
    except RunUnknownError as error:
        restarted = f"it does not know the run any more, so it was restarted ({error})"
        member.failure = outcome.agent_lost(job, restarted)
    except AgentError as error:
        member.failure = Failure(FailureKind.REFUSED, str(error))
    if job.target in bench.lost_targets and member.failure is None:
        member.failure = outcome.agent_lost(job, bench.lost_targets[job.target])


async def _settle(bench: Bench, group: Group, benchmark_id: str, samples: Sequence[SampleFile], keep: Keep) -> None:
    """Store the outcome of every member, tell of it, and let the target forget the runs."""
    for member, file in zip(group.members, samples, strict=True):
        measurement = await asyncio.to_thread(_outcome, member, group, benchmark_id, file)
        await keep(measurement, file if measurement.latency is not None else ())
        bench.reporter.finished(member.job, measurement.id, measurement.status, measurement.failure)
        await _acknowledge(bench, member)


def _outcome(member: Undertaking, group: Group, benchmark_id: str, samples: SampleFile) -> Measurement:
    if member.failure is not None:
        return outcome.without_numbers(member.job, benchmark_id, member.measurement_id, member.failure)
    name = group.name if group.is_interleaved else None
    return merge(member.job, benchmark_id, member.measurement_id, member.results, samples, name)


async def _settle_cancelled(bench: Bench, group: Group, benchmark_id: str, keep: Keep) -> None:
    cancelled = Failure(FailureKind.CANCELLED, "the benchmark was cancelled before this was finished")
    for member in group.members:
        await keep(
            outcome.without_numbers(member.job, benchmark_id, member.measurement_id, cancelled, Status.CANCELLED), ()
        )
        await _acknowledge(bench, member)


async def _acknowledge(bench: Bench, member: Undertaking) -> None:
    await asyncio.gather(*(remote_run.acknowledge(bench, member.job, run_id) for run_id in member.run_ids))


async def _uninterrupted(work: Awaitable[None]) -> None:
    """Finish this even when cancelled meanwhile; what was measured is to be stored."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
