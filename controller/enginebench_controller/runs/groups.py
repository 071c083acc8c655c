"""Carrying cases out: all targets at once, one case or one interleaved group a device at a time.

A case is as many runs as its measurement has processes, one after the other. Their results come together in a file of
raw samples and become one measurement; that is stored, and then the runs are acknowledged.
"""

import asyncio
import contextlib
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from enginebench_controller import wire
from enginebench_controller.errors import (
    AgentError,
    BusyError,
    EnginebenchError,
    RunUnknownError,
    UnreachableError,
    UnreadableFileError,
)
from enginebench_controller.plan.expand import Case, Interleave
from enginebench_controller.records import OUT_OF_TIME, Block, Failure, FailureKind, Measurement, Process
from enginebench_controller.runs import outcome, remote_run
from enginebench_controller.runs.outcome import merge
from enginebench_controller.runs.remote_run import RECONNECT_SECONDS, Bench
from enginebench_controller.runs.sample_file import SampleFile
from enginebench_controller.runs.undertaking import ATTEMPTS, Keep, Undertaking
from enginebench_controller.stats.comparison import Side
from enginebench_proto.v1 import run_pb2

T = TypeVar("T")


@dataclass(frozen=True)
class SoFar:
    """What a member of a group has come to: its processes, its blocks, and the median latency of each, in nanoseconds,
    by (process, block).
    """

    case: Case
    outcome_id: str
    processes: tuple[Process, ...]
    blocks: tuple[Block, ...]
    medians: Mapping[tuple[int, int], float]


class Enough(Protocol):
    """Asked before each further round of processes of an interleaved group, and before the first: whether to leave it
    at those that there are. What ends so is complete.
    """

    def __call__(self, so_far: Sequence[SoFar]) -> bool:
        """Whether there are enough rounds."""

    def seconds_left(self) -> float:
        """For how long a round may go on that was begun; what it lacks then is not waited for."""

    def ended(self) -> None:
        """Told when the last round is over, before anything waits for the store."""


CANCELLED = Failure(FailureKind.CANCELLED, "the benchmark was cancelled before this was finished")


@dataclass(frozen=True)
class Group:
    """Cases that are carried out together: a single one, or several in turns."""

    name: str
    members: tuple[Undertaking, ...]
    interleave: Interleave | None
    enough: Enough | None = None

    @property
    def is_interleaved(self) -> bool:
        """Whether there are turns to take."""
        return self.interleave is not None and len(self.members) > 1

    @property
    def case(self) -> Case:
        """One of the cases: all of them have its target and its resources."""
        return self.members[0].case


Elsewhere = Callable[[Bench, Group, Sequence[SampleFile]], Awaitable[None]]
"""What carries every process of a group's members out as `measure` does, on machines that are its own to keep apart."""


async def execute(
    bench: Bench,
    undertakings: Sequence[Undertaking],
    benchmark_id: str,
    keep: Keep,
    interleave: Interleave | None = None,
    enough: Enough | None = None,
    elsewhere: Elsewhere | None = None,
) -> None:
    """Carry out all cases, those of a target in this order, and hand each outcome to `keep`.

    A failed case stops no other. When cancelled, running children are ended and all that has not come to an end is kept
    as cancelled; when cancelled again, what has no outcome then is left to be resumed. An error of ours ends them, too,
    and what has no outcome then is as it was: nobody has given it up. Cases that take turns are in memory at the same
    time, and `enough` may end their rounds early. With `elsewhere`, that does what `measure` does, of all groups at
    once.
    """
    groups = tuple(groups_of(undertakings, benchmark_id, interleave, enough))
    lanes: dict[object, list[Group]] = defaultdict(list)
    for number, group in enumerate(groups):
        lanes[group.case.target if elsewhere is None else number].append(group)
    try:
        async with asyncio.TaskGroup() as tasks:
            for lane in lanes.values():
                tasks.create_task(_one_by_one(bench, lane, benchmark_id, keep, elsewhere))
    except asyncio.CancelledError:  # of a group that ends by an error this is none
        if not any(map(_waits_for_the_store, groups)):  # else that was cancelled, too: the plan has all
            async with asyncio.TaskGroup() as tasks:
                for group in groups:
                    tasks.create_task(_settle_cancelled(bench, group, benchmark_id, keep))
        remote_run.say_who_was_not_told(bench)
        raise


async def run_once(bench: Bench, case: Case, run_id: str, kind: run_pb2.RunKind) -> run_pb2.RunResult:
    """One run from upload to result, without acknowledging it.

    Raises `UnreachableError` when the target is gone for good, `AgentError` when it refuses, and of these
    `RunUnknownError` when it was restarted meanwhile; `UnreadableFileError` where what it lacks is not here any more.
    """
    await remote_run.upload(bench, case)
    try:
        await remote_run.start(bench, case, outcome.run_spec(case, run_id, kind, bench.timeout_ns))
        await remote_run.follow(bench, case, run_id)
        return await remote_run.fetch(bench, case, run_id)
    except asyncio.CancelledError:
        await remote_run.cancel(bench, case, run_id)
        await remote_run.acknowledge(bench, case, run_id)
        raise


def groups_of(
    undertakings: Sequence[Undertaking],
    benchmark_id: str,
    interleave: Interleave | None,
    enough: Enough | None = None,
) -> Iterator[Group]:
    """The cases that are carried out together, in the order of their first ones."""
    together: dict[object, list[Undertaking]] = defaultdict(list)
    for number, one in enumerate(undertakings):
        together[number if interleave is None else _turns_of(one.case, interleave) or number].append(one)
    for number, members in enumerate(together.values()):
        yield Group(f"{benchmark_id}-{number}", tuple(members), interleave, enough)


def _turns_of(case: Case, interleave: Interleave) -> object:
    """With whom a case takes turns; falsy for nobody."""
    if interleave.of_device:
        return case.target, case.resources
    return case.turns and (case.target, case.resources, case.turns)


async def measure(bench: Bench, group: Group, samples: Sequence[SampleFile]) -> None:
    """Carry out every process that a member lacks, as far as it comes.

    A process whose run the agent does not know any more, as it was stopped or killed, is begun anew. Where rounds may
    end early, they do when a member has failed, when there are enough of them, or when their time is over, which begins
    when the target has the files: over a slow line that may take longer.

    Raises `UnreachableError` and `BusyError` for a step of a search; else these are failures of the members.
    """
    file_of = {member.outcome_id: file for member, file in zip(group.members, samples, strict=True)}
    if group.enough is not None:
        await _send_ahead(bench, group)
    for process in range(max(member.case.configuration.stop.processes for member in group.members)):
        if group.enough is not None and await asyncio.to_thread(_is_enough, group, samples):
            leave_it_at_these(group, samples)
            return
        try:
            async with asyncio.timeout(None if group.enough is None else group.enough.seconds_left()):
                for _ in range(ATTEMPTS):
                    if lacking := [member for member in _launched(group, process) if member.lacks(process)]:
                        await _attempt_all(bench, group, lacking, process, file_of)
        except TimeoutError:
            if bench.is_step:  # who is silent has not taken too long, and is not called lost before the time is over
                await bench.clients[group.case.target].host()
            leave_it_at_these(group, samples)
            for member in group.members:
                if member.goes_on and not member.results:
                    member.failure = OUT_OF_TIME
            return
        lacking = [member for member in group.members if member.lacks(process)]
        if bench.is_step and len(lacking) > 1:  # which of them brings the target down shows where each runs alone
            for member in lacking:
                await _attempt_all(bench, group, [member], process, file_of)
        for member in (member for member in lacking if member.lacks(process)):
            lost = outcome.agent_lost(member.case, outcome.RESTARTED.format(ATTEMPTS))
            # A candidate of a search that brings its target down each time is out, or no search there would ever end.
            member.failure = replace(lost, kind=FailureKind.CRASHED) if bench.is_step else lost


def whole_rounds(group: Group, samples: Sequence[SampleFile]) -> int:
    """Forget the processes that not all members have that go on: they are no pairs. Returns how many are left of each.

    A member that is in the store had as many as the others when it came there; one that failed may never have begun.
    """
    rounds = min((len(member.results) for member in group.members if member.goes_on and not member.settled), default=0)
    for member, file in zip(group.members, samples, strict=True):
        if member.goes_on and not member.settled:
            member.results = {one: member.results[one] for one in list(member.results)[:rounds]}
            file.begin(rounds)
    return rounds


def leave_it_at_these(group: Group, samples: Sequence[SampleFile]) -> None:
    """Let the whole rounds that there are be all that was asked for; without one, members are as they were."""
    if rounds := whole_rounds(group, samples):
        for member in group.members:
            if member.goes_on and not member.settled:
                member.cut(rounds)


async def _send_ahead(bench: Bench, group: Group) -> None:
    """Bring the members' files to the target. What is in the way is met again, and told, where a process begins."""
    with contextlib.suppress(AgentError, UnreachableError, UnreadableFileError):
        for member in group.members:
            if member.goes_on and member.case.target not in bench.lost_targets:
                await remote_run.upload(bench, member.case)


def _launched(group: Group, process: int) -> Sequence[Undertaking]:
    """The members in the order in which to start this process of each: whoever comes first waits longest."""
    if not group.is_interleaved or group.interleave is None:
        return group.members
    order = random.Random(group.interleave.seed + process)  # noqa: S311  # an order, not a secret
    return order.sample(group.members, len(group.members))


def _is_enough(group: Group, samples: Sequence[SampleFile]) -> bool:
    """Whether no further round is to be. One that lacks a member tells nothing of it."""
    assert group.enough is not None  # noqa: S101  # asked by who calls
    if not all(member.goes_on for member in group.members):
        return True
    return group.enough([_so_far(member, file) for member, file in zip(group.members, samples, strict=True)])


def _so_far(member: Undertaking, samples: SampleFile) -> SoFar:
    results = member.results.values()
    return SoFar(
        case=member.case,
        outcome_id=member.outcome_id,
        processes=tuple(wire.from_process(index, result) for index, result in enumerate(results)),
        blocks=samples.blocks,
        medians=Side.of(samples).blocks,
    )


async def settle(bench: Bench, group: Group, benchmark_id: str, samples: Sequence[SampleFile], keep: Keep) -> None:
    """Store the outcome of every member that has none in the store, tell of it, and let the target forget the runs.

    A cancellation takes effect only afterwards: what was measured is to be stored.
    """
    await uninterrupted(_settle(bench, group, benchmark_id, samples, keep))


async def _one_by_one(
    bench: Bench, groups: Sequence[Group], benchmark_id: str, keep: Keep, elsewhere: Elsewhere | None
) -> None:
    """Carry out the groups of a target in their order."""
    async with contextlib.nullcontext() if elsewhere else bench.clients[groups[0].case.target].kept():
        for group in groups:
            await _carry_out(bench, group, benchmark_id, keep, elsewhere)


async def _carry_out(
    bench: Bench, group: Group, benchmark_id: str, keep: Keep, elsewhere: Elsewhere | None = None
) -> None:
    with contextlib.ExitStack() as files:
        samples: list[SampleFile] = []
        try:
            samples += [files.enter_context(SampleFile(bench.folder)) for _ in group.members]
            await (elsewhere or measure)(bench, group, samples)
            if group.enough is not None:
                group.enough.ended()
            # Before the next one begins: statistics and storing would disturb it where both are one machine.
            await settle(bench, group, benchmark_id, samples, keep)
            if bench.send_on is not None:
                await bench.send_on(benchmark_id, [member.outcome_id for member in group.members])
        except asyncio.CancelledError:
            is_ended = any(member.ended for member in group.members)
            if group.enough is not None and samples and not is_ended and whole_rounds(group, samples):
                leave_it_at_these(group, samples)  # such rounds may end at any time
                await settle(bench, group, benchmark_id, samples, keep)
            raise


async def _attempt_all(
    bench: Bench, group: Group, members: list[Undertaking], process: int, file_of: dict[str, SampleFile]
) -> None:
    await remote_run.look_again(bench, group.case.target)
    try:
        with first_error_alone():
            async with asyncio.TaskGroup() as tasks:
                for member in await _start(bench, group, members, process):
                    tasks.create_task(_finish(bench, member, process, file_of[member.outcome_id]))
    except BaseException:
        begun = [member for member in members if member.attempts(process)]
        await asyncio.gather(*(remote_run.cancel(bench, m.case, m.run_id(process)) for m in begun))
        raise


async def _start(bench: Bench, group: Group, members: list[Undertaking], process: int) -> list[Undertaking]:
    """Start this process of the members; returns those that the target accepted.

    Everything is uploaded, and every engine known, before the first of an interleaved group is started, for then the
    target waits for all of them; and a refusal makes the others start anew, without the one that never comes.
    """
    if group.is_interleaved and members:
        engines = {member.case.engine.name for member in members}
        await _attempt(bench, members[0], partial(remote_run.meet, bench, group.case.target, engines))
    for member in members:
        await _attempt(bench, member, partial(remote_run.upload, bench, member.case))
    members = [member for member in members if member.goes_on]
    while members:
        attempt = max(member.attempts(process) for member in members)
        # The name says which attempt it is, so that a group that starts anew is another one.
        turns = _turns(group, f"{group.name}-{process}-{attempt}", members, process)
        for member in members:
            await _attempt(bench, member, partial(_begin, bench, member, process, turns))
        accepted = [member for member in members if member.goes_on]
        if len(accepted) == len(members) or not group.is_interleaved:
            return accepted
        for member in accepted:
            await _attempt(bench, member, partial(_withdraw, bench, member, process))
        members = [member for member in accepted if member.goes_on]
    return []


def _turns(group: Group, name: str, members: Sequence[Undertaking], process: int) -> run_pb2.Interleaving | None:
    if group.interleave is None or len(members) < 2:
        return None
    return run_pb2.Interleaving(group=name, members=len(members), seed=group.interleave.seed + process)


async def _begin(bench: Bench, member: Undertaking, process: int, turns: run_pb2.Interleaving | None) -> None:
    run_id = member.begin(process)
    spec = outcome.run_spec(member.case, run_id, run_pb2.RUN_KIND_MEASURE, bench.timeout_ns, process, turns)
    try:
        await remote_run.start(bench, member.case, spec)
    except AgentError:
        member.was_refused(process)
        raise


async def _withdraw(bench: Bench, member: Undertaking, process: int) -> None:
    client, run_id = bench.clients[member.case.target], member.run_id(process)
    await client.cancel(run_id)
    await client.acknowledge(run_id)


async def _finish(bench: Bench, member: Undertaking, process: int, samples: SampleFile) -> None:
    async def to_the_result() -> None:
        run_id = member.run_id(process)
        await remote_run.follow(bench, member.case, run_id, process)
        place = len(member.results)
        member.results[process] = await remote_run.fetch(bench, member.case, run_id, place, samples)

    await _attempt(bench, member, to_the_result)


async def _attempt(bench: Bench, member: Undertaking, step: Callable[[], Awaitable[None]]) -> None:
    """Take one step of a case; what the target does wrong, or a file that is gone here, becomes its typed failure.

    Where it was restarted and has nothing of the run, the process is simply not there, and may be begun anew. Raises as
    `measure` does.
    """
    case = member.case
    try:
        if case.target not in bench.lost_targets:
            await step()
    except UnreachableError:
        if bench.is_step:
            raise
        bench.lost_targets[case.target] = f"it did not answer for {RECONNECT_SECONDS:.0f} s"
    except RunUnknownError:
        pass
    except (AgentError, UnreadableFileError) as error:
        if bench.is_step and isinstance(error, BusyError):
            raise
        member.failure = outcome.not_taken(error)
    if case.target in bench.lost_targets and member.failure is None:
        member.failure = outcome.agent_lost(case, bench.lost_targets[case.target])


async def _settle(bench: Bench, group: Group, benchmark_id: str, samples: Sequence[SampleFile], keep: Keep) -> None:
    for member in group.members:
        member.ended = True
    for member, file in zip(group.members, samples, strict=True):
        if not member.settled:
            measurement = await asyncio.to_thread(_outcome, member, group, benchmark_id, file)
            await keep(measurement, file if measurement.latency is not None else ())
            member.settle()
            bench.reporter.finished(member.case, measurement.id, measurement.status, measurement.failure)
            await forget(bench, member)


def _outcome(member: Undertaking, group: Group, benchmark_id: str, samples: SampleFile) -> Measurement:
    if member.failure is not None:
        return outcome.without_numbers(member.case, benchmark_id, member.outcome_id, member.failure)
    name = group.name if group.is_interleaved else None
    return merge(member.case, benchmark_id, member.outcome_id, list(member.results.values()), samples, name)


def _waits_for_the_store(group: Group) -> bool:
    return any(member.ended and not member.settled for member in group.members)


async def _settle_cancelled(bench: Bench, group: Group, benchmark_id: str, keep: Keep) -> None:
    bench.telling_s.setdefault(group.case.target, 0.0)
    for member in group.members:
        if not member.settled:
            await keep(outcome.without_numbers(member.case, benchmark_id, member.outcome_id, CANCELLED), ())
            member.settle()
            await forget(bench, member)


async def forget(bench: Bench, member: Undertaking) -> None:
    """Let the target forget all runs of a case, whose outcome is stored."""
    await asyncio.gather(*(remote_run.acknowledge(bench, member.case, run_id) for run_id in member.run_ids))


async def uninterrupted(work: Awaitable[T]) -> T:
    """Finish this even when cancelled meanwhile, and again and again: the cancellation takes effect afterwards."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        while not task.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([task])  # awaited itself, it would be cancelled with us
        task.result()
        raise


@contextlib.contextmanager
def first_error_alone() -> Iterator[None]:
    """Raise the first error of ours alone where a group of tasks ended with nothing else."""
    try:
        yield
    except BaseExceptionGroup as group:
        # Not `except*`: before Python 3.11.4 that wraps what is raised within it once more.
        errors, others = group.split(EnginebenchError)
        if errors is None or others is not None:
            raise
        raise _first(errors) from None


def _first(error: BaseException) -> BaseException:
    return _first(error.exceptions[0]) if isinstance(error, BaseExceptionGroup) else error
