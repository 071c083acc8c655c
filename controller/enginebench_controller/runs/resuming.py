"""Taking up what interrupted commands have left: each result that a target still holds is stored once."""

import contextlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from enginebench_controller import wire
from enginebench_controller.errors import (
    AgentError,
    InputError,
    RunUnknownError,
    UnreachableError,
)
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Expansion
from enginebench_controller.records import LOCAL_TARGET, Failure, FailureKind, Measurement, Profile
from enginebench_controller.runs import remote_run
from enginebench_controller.runs.busy_store import patiently
from enginebench_controller.runs.cluster.carrying import open_cluster
from enginebench_controller.runs.groups import (
    Elsewhere,
    Enough,
    Group,
    groups_of,
    leave_it_at_these,
    measure,
    settle,
    whole_rounds,
)
from enginebench_controller.runs.keeping import keeper
from enginebench_controller.runs.profiling import Passes
from enginebench_controller.runs.remote_run import Announce, Bench, Reporter
from enginebench_controller.runs.sample_file import SampleFile
from enginebench_controller.runs.undertaking import (
    Keep,
    Pending,
    PlanClaim,
    Undertaking,
    claimed,
    plans,
    unclaimed,
    undertakings_of,
)
from enginebench_controller.targets.client import AgentClient
from enginebench_controller.targets.session import check_targets, is_removed, open_client
from enginebench_controller.verdicts.host_words import changes_of
from enginebench_controller.verdicts.words import named
from enginebench_proto.v1 import run_pb2

INTERRUPTED = Failure(FailureKind.CANCELLED, "the command that carried this out ended before anything came of it")

States = Mapping[str, run_pb2.RunState]
"""The runs that a target knows, by id."""

CanAdd = Callable[[Group], bool]
"""Whether a group whose results were taken up may get more processes."""


@dataclass(frozen=True)
class ResumeOrder:
    """What to take up: from these targets only, or from all. `finish` also carries out what never ran; without
    `wait`, what still goes on at a target is left for another time. A local agent may run models that are `trusted`
    although their format can execute code. `enough_of` gives, for the id of a benchmark, what ends its rounds early,
    and `is_wanted` says of the id of a plan whether it is to be taken up at all. `is_step` where these are of a search.
    """

    targets: tuple[str, ...] = ()
    finish: bool = False
    wait: bool = True
    trusted: bool = False
    enough_of: Callable[[str], Enough | None] = lambda _: None
    is_wanted: Callable[[str], bool] = lambda _: True
    is_step: bool = False

    def includes(self, target: str) -> bool:
        """Whether it is about this target."""
        return not self.targets or target in self.targets


async def known_runs(client: AgentClient, cases: Iterable[Undertaking]) -> States:
    """The runs of these cases that a target knows; the cases know them too then. Raises as the client does."""
    states = {run.run_id: run.state for run in await client.runs()}
    for one in cases:
        one.recognize(states)
    return {run_id: states[run_id] for one in cases for run_id in one.run_ids if run_id in states}


async def collect(
    home: Home,
    client: AgentClient,
    pending: Pending,
    cases: Sequence[Undertaking],
    wish: ResumeOrder,
    reporter: Reporter,
    remark: Callable[[str], None],
) -> list[str]:
    """Settle the cases of this target, of those in a plan, that are not settled, and let it forget all their runs.

    Returns the runs that it still had of cases that were settled before: they are dropped, whatever became of them.
    Where it is not what it was any more, no process is added to those of before, and a `remark` says so.
    Raises `UnreachableError` where the target has to be asked again another time, `AgentError` when it refuses.
    """
    bench = Bench(
        {client.name: client},
        home.library.file_paths,
        home.path,
        reporter,
        pending.timeout_ns,
        pending.wait_quiet_ns,
        is_step=wish.is_step,
    )
    mine = [one for one in cases if one.case.target == client.name]
    states = await known_runs(client, mine)
    late = _late(mine, states)
    for run_id in late:
        await remote_run.drop(client, run_id)
    if pending.passes:
        await _collect_passes(Passes(home, bench, pending.passes), bench, mine, states, wish)
    else:
        can_add = await _can_add(home, client, pending.id, remark) if wish.finish else _always
        await _collect_measurements(home, bench, pending, cases, states, wish, can_add)
    if bench.remembered[client.name]:
        raise UnreachableError(f"target {client.name!r} could not be told to forget its runs: resume once more")
    return late


def _late(cases: Iterable[Undertaking], states: States) -> list[str]:
    """The runs that a target knows of cases that are settled."""
    return [run_id for one in cases if one.settled for run_id in one.run_ids if run_id in states]


def _too_late(
    home: Home, pending: Pending, cases: Iterable[Undertaking], late: Collection[str], fate: str
) -> list[str]:
    """What becomes of runs that came late of what is stored as lost with its target: somebody may wait for them."""
    ids = {one.outcome_id for one in cases if not set(late).isdisjoint(one.run_ids)}
    if not ids:
        return []
    is_of_passes = pending.passes is not None
    stored: Iterable[Measurement | Profile] = (
        home.store.whole_profiles(ids) if is_of_passes else home.store.measurements(pending.id, with_blocks=False)
    )
    lost = [one for one in stored if one.id in ids and one.failure and one.failure.kind is FailureKind.AGENT_LOST]
    if not lost:
        return []
    again = "profile it again" if is_of_passes else f"`enginebench rerun {pending.id}` measures it again"
    return [
        f"{named(lost)}: stored as failed, since the target was lost; what that has of it since then came too late and "
        f"{fate}, as nothing that is stored is replaced: {again}"
    ]


def _always(_: Group) -> bool:
    return True


async def _can_add(home: Home, client: AgentClient, benchmark_id: str, remark: Callable[[str], None]) -> CanAdd:
    """Whether a group may get more processes from this target. Of two machines, or states of one, they are no sample.

    Members of a gate may: each pair of them is of one state.
    """
    snapshots = home.store.benchmark_snapshots(benchmark_id)
    before = next((one.host for one in snapshots if one.target == client.name), None)
    changes = "" if before is None else changes_of(before, wire.from_host(await client.host()))

    def can_add(group: Group) -> bool:
        begun = any(member.settled or member.results for member in group.members)
        is_short = any(member.is_short for member in group.members)
        if not (changes and begun and is_short) or group.enough is not None:
            return True
        remark(
            f"target {client.name!r} is not what it was ({changes}), so what was begun there is left as it is: "
            f"`enginebench rerun {benchmark_id}` measures it whole"
        )
        return False

    return can_add


async def _collect_measurements(
    home: Home,
    bench: Bench,
    pending: Pending,
    cases: Sequence[Undertaking],
    states: States,
    wish: ResumeOrder,
    can_add: CanAdd,
) -> None:
    enough, keep = wish.enough_of(pending.id), keeper(home)
    refused: list[AgentError] = []
    for group in groups_of(
        cases, pending.id, pending.interleave, enough
    ):  # of all cases, so that they have their names again
        if group.case.target in bench.clients and not _is_left(group.members, states, wish):
            with _kept_for_the_end(refused):
                await _take_up_group(bench, group, pending.id, keep, wish, can_add=can_add)
    for error in refused:
        raise error


@contextlib.contextmanager
def _kept_for_the_end(refused: list[AgentError]) -> Iterator[None]:
    """What a target refuses of one case, such as a result that its agent may not read, keeps no other back."""
    try:
        yield
    except AgentError as error:
        refused.append(error)


async def _end_elsewhere(
    home: Home, pending: Pending, cases: Sequence[Undertaking], wish: ResumeOrder, reporter: Reporter
) -> None:
    """Settle what a cluster was to carry out: its tasks ended with their command, and nothing of them is kept there.

    Raises as `open_cluster` does where it is to be finished.
    """
    bench = Bench(
        {}, home.library.file_paths, home.path, reporter, pending.timeout_ns, wait_quiet_ns=pending.wait_quiet_ns
    )
    async with contextlib.AsyncExitStack() as stack:
        elsewhere = None
        if wish.finish and pending.executor:
            trusted = [one.case.model.digest for one in cases] if wish.trusted else []
            cluster = open_cluster(home, pending.executor, trusted_models=trusted)
            elsewhere = (await stack.enter_async_context(cluster)).measure
        for group in groups_of(cases, pending.id, pending.interleave):
            await _take_up_group(bench, group, pending.id, keeper(home), wish, elsewhere)


async def _end_unasked(
    home: Home, target: str, pending: Pending, cases: Sequence[Undertaking], reporter: Reporter
) -> None:
    """Settle what a target was to carry out that was removed: whatever it may have, nobody asks it any more."""
    bench = Bench({}, home.library.file_paths, home.path, reporter, pending.timeout_ns)
    if pending.passes:
        passes = Passes(home, bench, pending.passes)
        for one in cases:
            if one.case.target == target and not one.settled:
                await passes.take_up(one, None, INTERRUPTED)
        return
    keep = keeper(home)
    for group in groups_of(cases, pending.id, pending.interleave):
        if group.case.target == target:
            await _take_up_group(bench, group, pending.id, keep, ResumeOrder())


async def _take_up_group(
    bench: Bench,
    group: Group,
    benchmark_id: str,
    keep: Keep,
    wish: ResumeOrder,
    elsewhere: Elsewhere | None = None,
    can_add: CanAdd = _always,
) -> None:
    with contextlib.ExitStack() as files:
        samples = [files.enter_context(SampleFile(bench.folder)) for _ in group.members]
        for member, file in zip(group.members, samples, strict=True):
            if not member.settled:
                await _take_results(bench, member, file)
        were_enough = group.enough is not None and any(member.settled for member in group.members)
        if were_enough:
            leave_it_at_these(group, samples)
        elif group.enough is not None:
            whole_rounds(group, samples)
        if wish.finish and not were_enough and can_add(group):
            await (elsewhere or measure)(bench, group, samples)
        for member in group.members:
            if member.goes_on and not member.results:
                member.failure = INTERRUPTED
        await settle(bench, group, benchmark_id, samples, keep)


async def _take_results(bench: Bench, member: Undertaking, samples: SampleFile) -> None:
    for process in member.processes:
        if (result := await _held(bench, member, process, samples)) is not None:
            member.results[process] = result


async def _collect_passes(
    passes: Passes, bench: Bench, cases: Sequence[Undertaking], states: States, wish: ResumeOrder
) -> None:
    refused: list[AgentError] = []
    for one in cases:
        if one.settled or _is_left([one], states, wish):
            continue
        with _kept_for_the_end(refused):
            result = await _held(bench, one, 0) if one.processes else None
            if result is None and wish.finish:
                await passes.carry_out(one)
            else:
                await passes.take_up(one, result, INTERRUPTED)
    for error in refused:
        raise error


async def _held(
    bench: Bench, one: Undertaking, process: int, samples: SampleFile | None = None
) -> run_pb2.RunResult | None:
    """The result of the latest attempt at a process, once it is there; None where it came to nothing by itself."""
    run_id, place = one.run_id(process), len(one.results)
    try:
        await remote_run.follow(bench, one.case, run_id, process)
        return await remote_run.fetch(bench, one.case, run_id, place, samples)
    except RunUnknownError:
        if samples is not None:
            samples.begin(place)  # nothing of it counts
        return None


def _is_left(cases: Sequence[Undertaking], states: States, wish: ResumeOrder) -> bool:
    """Whether something goes on that is not to be waited for."""
    running = (run_id for one in cases for run_id in one.run_ids if run_id in states)
    return not wish.wait and any(states[run_id] != run_pb2.RUN_STATE_FINISHED for run_id in running)


@dataclass(frozen=True)
class TakenUp:
    """What came of one plan, as ids of measurements or profiles; `reasons` say why some of it is left, or unfinished.

    `collected` have come to something, `interrupted` to nothing: they are stored as cancelled. `dropped_runs` counts
    those that targets still had although their outcome was in the store, or nobody wants it any more: they came late,
    and `remarks` say so where somebody may miss them.
    """

    id: str
    name: str
    collected: tuple[str, ...] = ()
    interrupted: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    dropped_runs: int = 0
    reasons: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Waiting:
    """What there is to be taken up of one plan: outcomes missing in the store, and runs that its targets know.

    `reasons` say what cannot be had now, `remarks` what comes too late.
    """

    id: str
    name: str
    missing: int
    finished_runs: int = 0
    running_runs: int = 0
    reasons: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


async def resume(home: Home, wish: ResumeOrder, announce: Announce) -> tuple[TakenUp, ...]:
    """Take up every plan whose command is gone; what cannot be now, or is not wished for, stays for another time.

    When cancelled, what is not in the store yet stays too. Raises `InputError` for a wish for an unknown target.
    """
    check_targets(home, wish.targets)
    taken = []
    for path in plans(home.path):
        try:
            with claimed(path) as claim:
                if claim is not None and wish.is_wanted(claim.pending.id):
                    taken.append(await _take_up(home, claim, wish, announce))
        except InputError as error:
            taken.append(TakenUp(path.stem, path.name, reasons=(str(error),)))
    return tuple(taken)


async def look(home: Home, wish: ResumeOrder) -> tuple[Waiting, ...]:
    """What `resume` would find; changes nothing. Raises `InputError` for a wish for an unknown target."""
    check_targets(home, wish.targets)
    found = []
    for path in plans(home.path):
        try:
            pending = unclaimed(path)
            if pending is not None and wish.is_wanted(pending.id):
                found.append(await _look(home, pending, wish))
        except InputError as error:
            found.append(Waiting(path.stem, path.name, 0, reasons=(str(error),)))
    return tuple(found)


async def _take_up(home: Home, claim: PlanClaim, wish: ResumeOrder, announce: Announce) -> TakenUp:
    pending = claim.pending
    cases = undertakings_of(pending, home.store.stored_ids)
    new = [one for one in cases if not one.settled]
    reporter = announce(Expansion(tuple(one.case for one in new), ()), None if pending.passes else pending.id)
    trusted = [one.case.model.digest for one in new] if wish.trusted else []
    late: list[str] = []
    reasons: list[str] = []
    left: list[str] = []
    if pending.executor is not None and not wish.targets:
        try:
            await _end_elsewhere(home, pending, cases, wish, reporter)
        except (UnreachableError, AgentError, InputError) as error:
            reasons.append(str(error))
    for target in filter(wish.includes, _targets(pending, cases)):
        try:
            if is_removed(home, target):
                if _is_missing(target, cases):
                    left.append(f"target {target!r} was removed: what it may still have is given up")
                await _end_unasked(home, target, pending, cases, reporter)
                continue
            async with open_client(home, target, trusted_models=trusted) as client:
                late += await collect(home, client, pending, cases, wish, reporter, left.append)
        except UnreachableError as error:
            reasons.append(f"{error}{'' if wish.is_step else _way_out(target)}")
        except (AgentError, InputError) as error:
            reasons.append(str(error))
    if not reasons and all(wish.includes(one.case.target) and one.settled for one in cases):
        claim.drop()
    remarks = await patiently(partial(_too_late, home, pending, cases, late, "was dropped"))
    return _told(pending, new, len(late), [*reasons, *dict.fromkeys(left)], remarks)


def _way_out(target: str) -> str:
    """What ends the asking of a target that never comes back; nothing where it has no name that could be removed."""
    if target == LOCAL_TARGET or ":" in target:
        return ""
    return f"; where it is gone for good, `enginebench targets remove {target}` lets the next resume end without it"


def _told(
    pending: Pending, new: Sequence[Undertaking], late: int, reasons: Sequence[str], remarks: Sequence[str]
) -> TakenUp:
    settled = [one for one in new if one.settled]
    return TakenUp(
        pending.id,
        pending.name,
        collected=tuple(one.outcome_id for one in settled if one.failure is not INTERRUPTED),
        interrupted=tuple(one.outcome_id for one in settled if one.failure is INTERRUPTED),
        left=tuple(one.outcome_id for one in new if not one.settled),
        dropped_runs=late,
        reasons=tuple(reasons),
        remarks=tuple(remarks),
    )


async def _look(home: Home, pending: Pending, wish: ResumeOrder) -> Waiting:
    cases = undertakings_of(pending, home.store.stored_ids)
    states: Counter[bool] = Counter()
    late: list[str] = []
    reasons = []
    for target in filter(wish.includes, _targets(pending, cases)):
        if is_removed(home, target):
            if _is_missing(target, cases):
                reasons.append(
                    f"target {target!r} was removed: the next resume gives up what it may still have, unless it is "
                    "added again under this name before"
                )
            continue
        try:
            async with open_client(home, target) as client:
                mine = [one for one in cases if one.case.target == target]
                known = await known_runs(client, mine)
                late += _late(mine, known)
                states.update(state == run_pb2.RUN_STATE_FINISHED for state in known.values())
        except (UnreachableError, AgentError, InputError) as error:
            reasons.append(str(error))
    missing = sum(not one.settled for one in cases)
    remarks = _too_late(home, pending, cases, late, "is dropped by the next resume")
    return Waiting(pending.id, pending.name, missing, states[True], states[False], tuple(reasons), tuple(remarks))


def _is_missing(target: str, cases: Iterable[Undertaking]) -> bool:
    """Whether an outcome that this target was to bring is not in the store."""
    return any(one.case.target == target and not one.settled for one in cases)


def _targets(pending: Pending, cases: Sequence[Undertaking]) -> tuple[str, ...]:
    """Where runs of a plan may be: of a cluster's nowhere."""
    return () if pending.executor else tuple(dict.fromkeys(one.case.target for one in cases))
