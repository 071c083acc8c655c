"""The machines of a cluster, and groups of cases carried out on them: each as one task, on one machine of its kind."""

import asyncio
import contextlib
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from enginebench_controller import wire
from enginebench_controller.errors import EnginebenchError, InputError, UnreachableError, UnreadableFileError
from enginebench_controller.home import Home
from enginebench_controller.plan.expand import Case
from enginebench_controller.records import LOCAL_TARGET, Failure, FailureKind, Peak, TargetSnapshot
from enginebench_controller.runs import remote_run
from enginebench_controller.runs.cluster import on_worker
from enginebench_controller.runs.cluster.on_worker import Carried, CaseOutcome, GroupOrder, MachineSeen
from enginebench_controller.runs.cluster.scheduler import Scheduler, connected
from enginebench_controller.runs.groups import Group
from enginebench_controller.runs.remote_run import Bench
from enginebench_controller.runs.sample_file import SampleFile
from enginebench_controller.runs.undertaking import ATTEMPTS, Undertaking
from enginebench_controller.targets.client import set_right
from enginebench_proto.v1 import engine_pb2, host_pb2, peaks_pb2, run_pb2


@dataclass(frozen=True)
class ClusterMachine:
    """A machine with workers for measuring: what it said of itself, and its address as Dask knows it."""

    snapshot: TargetSnapshot
    address: str

    @property
    def kind(self) -> object:
        """What machines have in common of which any may measure a group: the processor, and the engines."""
        host = self.snapshot.host
        cores = (host.physical_cores, host.logical_cores, host.cpu_quota_cores)
        engines = ((one.name, one.environment, one.version) for one in self.snapshot.available)
        return host.architecture, host.cpu_model, cores, host.isa, frozenset(engines)


@contextlib.asynccontextmanager
async def open_cluster(
    home: Home, executor: str, *, engines: Collection[str] = (), trusted_models: Iterable[str] = ()
) -> AsyncIterator["Cluster"]:
    """Connect to the scheduler that `executor` names, and ask every machine what it is, or of these `engines` only.

    What they say is kept in the store. Raises as `connected`, `fit_workers` and `done` of a scheduler do.
    """
    trusted = tuple(trusted_models)
    async with connected(executor) as scheduler:
        addresses = tuple(dict.fromkeys((await scheduler.fit_workers(on_worker.load)).values()))
        look = (scheduler.done([one], on_worker.look, frozenset(engines), trusted) for one in addresses)
        seen: list[MachineSeen] = await asyncio.gather(*look)
        machines = _machines(executor, dict(zip(addresses, seen, strict=True)))
        known = {one.target: one for one in await asyncio.to_thread(home.store.snapshots)}
        for machine, told in zip(machines, seen, strict=True):
            name = machine.snapshot.target
            await asyncio.to_thread(_keep, home, machine.snapshot, known.get(name), engines)
            if peaks := _peaks(told, machine.snapshot):
                await asyncio.to_thread(home.store.add_peaks, peaks)
        yield Cluster(scheduler, machines, trusted)


@dataclass(frozen=True)
class Cluster:
    """A cluster that was asked what it is. A plan is for one machine of each kind; any of the kind may measure.

    `_brought` are the files, by digest, that machines were given.
    """

    _scheduler: Scheduler
    machines: tuple[ClusterMachine, ...]
    _trusted: tuple[str, ...]
    _brought: set[tuple[str, str]] = field(default_factory=set)
    _bringing: defaultdict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    @property
    def snapshots(self) -> tuple[TargetSnapshot, ...]:
        """Of all machines, under the names of their hosts."""
        return tuple(one.snapshot for one in self.machines)

    @property
    def kinds(self) -> tuple[TargetSnapshot, ...]:
        """Of one machine of each kind: what a plan is multiplied out over."""
        return tuple({one.kind: one.snapshot for one in reversed(self.machines)}.values())

    async def measure(self, bench: Bench, group: Group, samples: Sequence[SampleFile]) -> None:
        """Have every process of a group carried out by one machine. See `groups.Elsewhere`."""
        pairs = zip(group.members, samples, strict=True)
        open_ones = [(member, file) for member, file in pairs if member.goes_on and not member.settled]
        cases = tuple(member.case for member, _ in open_ones)
        if not cases:
            return
        for case in cases:
            bench.reporter.running(case, 0, "waiting for a machine", 0, 0)
        limits = (bench.timeout_ns, bench.wait_quiet_ns)
        try:
            async with self._scheduler.told(partial(_report, bench, {one.outcome_id: one for one in cases})) as topic:
                order = GroupOrder(group.name, cases, group.interleave, *limits, self._trusted, topic)
                carried = await self._carried(bench, order)
            name = self._name_of(carried)
        except EnginebenchError as error:
            kind = FailureKind.REFUSED if isinstance(error, UnreadableFileError) else FailureKind.AGENT_LOST
            for member, _ in open_ones:
                member.failure = Failure(kind, str(error))
            return
        for (member, file), outcome in zip(open_ones, carried.outcomes, strict=True):
            member.case = replace(member.case, target=name)
            await _take(member, outcome, carried.sent_at_unix_ns, file)

    async def _carried(self, bench: Bench, order: GroupOrder) -> Carried:
        """What came of a group. A machine that lacks its files is given them, once, and then carries it out itself."""
        paths = {file.sha256: path for case in order.cases for file, path in remote_run.files_of(bench, case)}
        where = self._alike(order.cases[0].target)
        lacked: set[tuple[str, str]] = set()
        for _ in range(ATTEMPTS):
            carried: Carried = await self._scheduler.done(where, on_worker.carry_out, order, {})
            if not carried.lacking:
                return carried
            async with self._bringing[carried.hostname]:
                lacking = {(carried.hostname, one) for one in carried.lacking}
                # What is lacked for a second time was not brought meanwhile: its cache has thrown it out again.
                missing = {one[1] for one in lacking if one in lacked or one not in self._brought}
                lacked |= lacking
                if missing:
                    carried = await self._brought_to(carried, order, {one: paths[one] for one in missing})
                if not carried.lacking:
                    self._brought.update((carried.hostname, one) for one in missing)
                    return carried
        raise UnreachableError("its machines were lost with it, or their agents keep no files: see to them")

    async def _brought_to(self, asked: Carried, order: GroupOrder, paths: Mapping[str, Path]) -> Carried:
        """What comes of a group where its files are brought, too; as `asked` where the worker is lost with them."""
        try:
            contents = await asyncio.to_thread(lambda: {digest: _content(path) for digest, path in paths.items()})
            held = await self._scheduler.given(asked.worker, contents)
            carried: Carried = await self._scheduler.done([asked.worker], on_worker.carry_out, order, held)
        except UnreachableError:
            return asked
        return carried

    def _alike(self, target: str) -> list[str]:
        kind = next((one.kind for one in self.machines if one.snapshot.target == target), None)
        if kind is None:
            raise UnreachableError(f"the cluster has no machine {target!r} any more: run it again")
        return [one.address for one in self.machines if one.kind == kind]

    def _name_of(self, carried: Carried) -> str:
        for machine in self.machines:
            if machine.snapshot.host.hostname == carried.hostname:
                return machine.snapshot.target
        raise UnreachableError(f"the machine {carried.hostname!r} has come to the cluster meanwhile: run it again")


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableFileError(path, error) from error


async def _take(member: Undertaking, outcome: CaseOutcome, sent_at_unix_ns: int, samples: SampleFile) -> None:
    """Let a case have what came of it, as if its agent had sent it here."""
    member.failure = outcome.failure
    for place, (process, parts) in enumerate(outcome.results.items()):
        result = await remote_run.received(_parsed(parts), place, samples)
        result.sent_at_unix_ns = sent_at_unix_ns
        set_right(result)
        member.results[process] = result


async def _parsed(parts: Sequence[bytes]) -> AsyncIterator[run_pb2.ResultPart]:
    for part in parts:
        yield run_pb2.ResultPart.FromString(part)


def _report(bench: Bench, cases: Mapping[str, Case], told: Any) -> None:
    outcome_id, process, phase = told
    bench.reporter.running(cases[outcome_id], process, phase, 0, 0)


def _machines(executor: str, seen: Mapping[str, MachineSeen]) -> tuple[ClusterMachine, ...]:
    machines = tuple(ClusterMachine(_snapshot(executor, address, told), address) for address, told in seen.items())
    names = [one.snapshot.target for one in machines]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{executor} has two machines called {twice!r}: give each a host name of its own")
    return machines


def _snapshot(executor: str, address: str, told: MachineSeen) -> TargetSnapshot:
    host = wire.from_host(host_pb2.HostFacts.FromString(told.host))
    engines = tuple(wire.from_engine(engine_pb2.Engine.FromString(one)) for one in told.engines)
    name = host.hostname if host.hostname not in ("", LOCAL_TARGET) else address
    return TargetSnapshot(name, executor, time.time_ns(), host, engines)


def _peaks(told: MachineSeen, seen: TargetSnapshot) -> tuple[Peak, ...]:
    messages = map(peaks_pb2.Peak.FromString, told.peaks)
    found = (wire.from_peak(one, seen.target, seen.host.cpu_model) for one in messages)
    return tuple(one for one in found if one is not None)


def _keep(home: Home, seen: TargetSnapshot, known: TargetSnapshot | None, asked: Collection[str]) -> None:
    """Keep what a machine said, and of engines that it was not asked for now what it said before."""
    if known and asked:
        engines = [one for one in seen.engines if one.name in asked]
        seen = replace(seen, engines=(*engines, *(one for one in known.engines if one.name not in asked)))
    home.store.save_snapshot(seen)
