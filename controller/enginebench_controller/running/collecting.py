"""Collecting from one target what it still holds of a command that was interrupted: each result is stored once."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.errors import UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.records import Failure, FailureKind
from enginebench_controller.running import remote_run
from enginebench_controller.running.benchmarking import keeper
from enginebench_controller.running.client import AgentClient, RunUnknownError
from enginebench_controller.running.execution import Enough, Group, Keep, groups_of, measure, settle, whole_rounds
from enginebench_controller.running.pending import Pending
from enginebench_controller.running.profiling import Passes
from enginebench_controller.running.remote_run import Bench, Reporter
from enginebench_controller.running.sample_file import SampleFile
from enginebench_controller.running.undertaking import Undertaking
from enginebench_proto.v1 import run_pb2

INTERRUPTED = Failure(FailureKind.CANCELLED, "the command that carried this out ended before anything came of it")

States = Mapping[str, run_pb2.RunState]
"""The runs that a target knows, by id."""


@dataclass(frozen=True)
class Wish:
    """What to take up: from these targets only, or from all. `finish` also carries out what never ran; without
    `wait`, what still goes on at a target is left for another time. A local agent may run models that are `trusted`
    although their format can execute code. `enough_of` gives, for the id of a benchmark, what ends its rounds early.
    """

    targets: tuple[str, ...] = ()
    finish: bool = False
    wait: bool = True
    trusted: bool = False
    enough_of: Callable[[str], Enough | None] = lambda _: None

    def includes(self, target: str) -> bool:
        """Whether it is about this target."""
        return not self.targets or target in self.targets


async def known_runs(client: AgentClient, jobs: Iterable[Undertaking]) -> States:
    """The runs of these jobs that a target knows; the jobs know them too then. Raises as the client does."""
    states = {run.run_id: run.state for run in await client.runs()}
    for one in jobs:
        one.recognize(states)
    return {run_id: states[run_id] for one in jobs for run_id in one.run_ids if run_id in states}


async def collect(
    home: Home, client: AgentClient, pending: Pending, jobs: Sequence[Undertaking], wish: Wish, reporter: Reporter
) -> int:
    """Settle the jobs of this target, of those in a plan, that are not settled, and let it forget all their runs.

    Returns how many runs it still had of jobs that were settled before: they are dropped, whatever became of them.
    Raises `UnreachableError` where the target has to be asked again another time, `AgentError` when it refuses.
    """
    bench = Bench(
        {client.name: client}, home.library.file_paths, home.path, reporter, pending.timeout_ns, pending.wait_quiet_ns
    )
    mine = [one for one in jobs if one.job.target == client.name]
    states = await known_runs(client, mine)
    late = [run_id for one in mine if one.settled for run_id in one.run_ids if run_id in states]
    for run_id in late:
        await remote_run.drop(client, run_id)
    if pending.passes:
        await _collect_passes(Passes(home, bench, pending.passes), bench, mine, states, wish)
    else:
        await _collect_measurements(home, bench, pending, jobs, states, wish)
    if bench.remembered[client.name]:
        raise UnreachableError(f"target {client.name!r} could not be told to forget its runs: resume once more")
    return len(late)


async def _collect_measurements(
    home: Home, bench: Bench, pending: Pending, jobs: Sequence[Undertaking], states: States, wish: Wish
) -> None:
    enough = wish.enough_of(pending.id)
    for group in groups_of(
        jobs, pending.id, pending.interleave, enough
    ):  # of all jobs, so that they have their names again
        if group.job.target in bench.clients and not _is_left(group.members, states, wish):
            await _take_up(bench, group, pending.id, keeper(home), wish)


async def _take_up(bench: Bench, group: Group, benchmark_id: str, keep: Keep, wish: Wish) -> None:
    with contextlib.ExitStack() as files:
        samples = [files.enter_context(SampleFile(bench.folder)) for _ in group.members]
        for member, file in zip(group.members, samples, strict=True):
            if not member.settled:
                await _take_results(bench, member, file)
        if group.enough is not None:
            whole_rounds(group, samples)
        if wish.finish:
            await measure(bench, group, samples)
        for member in group.members:
            if member.goes_on and not member.results:
                member.failure = INTERRUPTED
        await settle(bench, group, benchmark_id, samples, keep)


async def _take_results(bench: Bench, member: Undertaking, samples: SampleFile) -> None:
    for process in member.processes:
        if (result := await _held(bench, member, process, samples)) is not None:
            member.results[process] = result


async def _collect_passes(
    passes: Passes, bench: Bench, jobs: Sequence[Undertaking], states: States, wish: Wish
) -> None:
    for one in jobs:
        if one.settled or _is_left([one], states, wish):
            continue
        result = await _held(bench, one, 0) if one.processes else None
        if result is None and wish.finish:
            await passes.carry_out(one)
        else:
            await passes.take_up(one, result, INTERRUPTED)


async def _held(
    bench: Bench, one: Undertaking, process: int, samples: SampleFile | None = None
) -> run_pb2.RunResult | None:
    """The result of the latest attempt at a process, once it is there; None where it came to nothing by itself.

    An agent that ends, as the local one does with its command, cancels its runs: nobody asked for that.
    """
    run_id, place = one.run_id(process), len(one.results)
    try:
        await remote_run.follow(bench, one.job, run_id, process)
        result = await remote_run.fetch(bench, one.job, run_id, place, samples)
    except RunUnknownError:
        result = run_pb2.RunResult(outcome=run_pb2.OUTCOME_CANCELLED)
    if result.outcome != run_pb2.OUTCOME_CANCELLED:
        return result
    if samples is not None:
        samples.begin(place)  # nothing of it counts
    return None


def _is_left(jobs: Sequence[Undertaking], states: States, wish: Wish) -> bool:
    """Whether something goes on that is not to be waited for."""
    running = (run_id for one in jobs for run_id in one.run_ids if run_id in states)
    return not wish.wait and any(states[run_id] != run_pb2.RUN_STATE_FINISHED for run_id in running)
