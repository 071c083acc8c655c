"""Sees one run through: lease, private folder, child, and the outcome in the spool whatever happens."""

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from enginebench_agent.errors import ReservedError
from enginebench_agent.files.cache import FileCache
from enginebench_agent.files.reception import DISK_FULL
from enginebench_agent.files.workspace import digests_needed, input_files, place_inputs, place_model, remove_folder
from enginebench_agent.machine.bystanders import Quiet, Watch, surroundings
from enginebench_agent.runs import endings
from enginebench_agent.runs.attempt import Attempt, Order
from enginebench_agent.runs.calibrations import PeakFile
from enginebench_agent.runs.endings import RunEnding, ending_of, kind_word
from enginebench_agent.runs.limits import NO_LIMITS, ChildLimits
from enginebench_agent.runs.queue import Lease, Queue
from enginebench_agent.runs.reservations import Claim
from enginebench_agent.runs.run import Run
from enginebench_agent.runs.spool import Spool
from enginebench_agent.runs.turns import Groups, Member
from enginebench_agent.uninterrupted import run_to_end
from enginebench_proto.agreed import logs
from enginebench_proto.v1.run_pb2 import Failure, RunResult, RunSpec

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """What a run was granted: an interpreter, a private folder, its limits, a wait for quiet, and its claim to begin;
    and whether it is the processor that computes.
    """

    python: Path
    on_processor: bool
    folder: Path
    limit_seconds: float
    limits: ChildLimits = NO_LIMITS
    wait_quiet_ns: int = 0
    claim: Claim = field(default_factory=Claim)


class Execution:
    """Carries out runs with an agent's cache, lease and spool; what calibrations find goes to `peaks` too.

    `ended` counts the runs that ended in each way since the agent started.
    """

    def __init__(self, cache: FileCache, lease: Lease, spool: Spool, peaks: PeakFile) -> None:
        self._cache = cache
        self._lease = lease
        self._groups = Groups(lease)
        self._queue = Queue(lease.reservations.keeps_out)
        self._quiet = Quiet()
        self._spool = spool
        self._peaks = peaks
        self.ended: Counter[RunEnding] = Counter()
        lease.reservations.listen(self._heed_reservation)

    def check(self, spec: RunSpec, terms: Terms) -> None:
        """Raises `InvalidRequestError` for a run that cannot join the group it names, and `ReservedError`."""
        if spec.HasField("interleaving"):
            self._groups.check(spec.interleaving, terms.claim)
        self._lease.reservations.check(terms.claim)

    def begin(self, run: Run, terms: Terms) -> None:
        """Queue the run, for which `check` has passed; everything else happens by itself."""
        pins = contextlib.ExitStack()
        # At once, and not when the work begins: an upload may want the room of these files before. And first: where it
        # fails, nobody waits in the queue or in a group for a run that does not come.
        pins.enter_context(self._cache.pinned(digests_needed(run.spec)))
        _log.info("run accepted", extra=_told_of(run.spec))
        interleaved = run.spec.HasField("interleaving")
        member = self._groups.join(run.spec.interleaving, terms.claim) if interleaved else None
        run.claim = terms.claim if member is None else member.claim
        self._queue.enter(run)
        self._tell_kept_out(run)
        run.work = asyncio.create_task(self._work(run, terms, member))
        run.keeper = asyncio.create_task(self._keep(run, run.work, terms.folder, member, pins))

    def _heed_reservation(self) -> None:
        """Tell those who wait how it stands, and refuse those for whom that is too long."""
        for run in self._queue.waiting():
            try:
                self._lease.reservations.check(run.claim)
            except ReservedError as error:
                run.refuse(str(error).removesuffix("."))
            else:
                self._tell_kept_out(run)
        self._queue.tell()

    def _tell_kept_out(self, run: Run) -> None:
        reservation = self._lease.reservations.told()
        if reservation is not None and self._lease.reservations.keeps_out(run.claim):
            run.keep_out(reservation)

    async def _work(self, run: Run, terms: Terms, member: Member | None) -> RunResult:
        logs.bind(run=run.spec.run_id)
        async with self._granted(run, terms, member):
            run.begin(time.time_ns())
            _log.info("run began", extra=logs.told(waited_seconds=run.log.elapsed_ns() / 1e9))
            try:
                watch = await self._watch(run, terms, member)
                return await self._attempt(run, await self._order(run.spec, terms, member), watch)
            finally:
                await remove_folder(terms.folder)  # still under the lease: the disk is quiet for the next run

    @contextlib.asynccontextmanager
    async def _granted(self, run: Run, terms: Terms, member: Member | None) -> AsyncIterator[None]:
        if member is None:
            async with self._lease.hold(run.claim):
                yield
        else:
            await member.may_start()
            yield  # the lease is the group's; it ends after the last member has left

    async def _watch(self, run: Run, terms: Terms, member: Member | None) -> Watch:
        """Wait for quiet, where this run begins alone; whoever joins a group finds those before it."""
        known = await asyncio.to_thread(surroundings, on_processors=terms.on_processor)
        if member is None or member.is_first:
            cores = run.spec.configuration.cores
            known.MergeFrom(await self._quiet.wait(cores, terms.wait_quiet_ns, run.log.unquiet))
            if member is not None:
                member.has_looked()
        return Watch(self._quiet, known)

    async def _order(self, spec: RunSpec, terms: Terms, member: Member | None) -> Order:
        return Order(
            python=terms.python,
            folder=terms.folder,
            model=await place_model(terms.folder / "model", spec.model.files, self._cache),
            limit_seconds=terms.limit_seconds,
            inputs=await place_inputs(terms.folder / "inputs", input_files(spec), self._cache),
            turns=member,
            limits=terms.limits,
        )

    async def _attempt(self, run: Run, order: Order, watch: Watch) -> RunResult:
        with self._spool.begin(run.spec.run_id) as writer:
            result = await Attempt(run, order, writer, watch).make()
            if result.HasField("measurement") and result.measurement.HasField("written_bytes"):
                result.measurement.written_bytes += writer.written_bytes
            await run_to_end(writer.commit, result)
        if result.peaks:
            await run_to_end(self._peaks.keep, result.peaks)
        return result

    async def _keep(
        self,
        run: Run,
        work: "asyncio.Task[RunResult]",
        folder: Path,
        member: Member | None,
        pins: contextlib.ExitStack,
    ) -> None:
        logs.bind(run=run.spec.run_id)
        await asyncio.wait([work])
        pins.close()
        if member is not None:
            member.leave(cancelled=work.cancelled())
        await remove_folder(folder)  # of a run that never left the queue
        failure = _failure(run, work)
        result = work.result() if failure is None else await self._spool_failure(run, failure)
        self._queue.leave(run)
        run.finish(result.outcome)
        self._tell_end(run, ending_of(result))

    def _tell_end(self, run: Run, ending: RunEnding) -> None:
        self.ended[ending] += 1
        seconds = run.log.elapsed_ns() / 1e9
        words = logs.told(outcome=ending.outcome, failure=ending.failure, phase=run.phase, seconds=seconds)
        _log.info("run ended", extra=words)

    async def _spool_failure(self, run: Run, failure: Failure) -> RunResult:
        result = run.complete(endings.failed(failure))
        try:
            await run_to_end(self._store, result)
        except Exception as error:  # whatever it was, the run must end, and its watchers must hear of it
            _log.exception("result cannot be spooled")
            failure = _shortage(error, run.phase) or endings.of_unwritten(error)
            run.unspooled = result = run.complete(endings.failed(failure))
        return result

    def _store(self, result: RunResult) -> None:
        with self._spool.begin(result.run_id) as writer:
            writer.commit(result)


def _told_of(spec: RunSpec) -> dict[str, Any]:
    return logs.told(
        run=spec.run_id,
        kind=kind_word(spec.kind),
        engine=spec.engine,
        environment=spec.environment,
        device=spec.configuration.device,
    )


def _failure(run: Run, work: "asyncio.Task[RunResult]") -> Failure | None:
    """Why the work ended without a spooled result; None where there is one."""
    if work.cancelled():
        return endings.of_reservation(run.refusal) if run.refusal else endings.of_cancellation(run.phase)
    if (error := work.exception()) is None:
        return None
    if (shortage := _shortage(error, run.phase)) is not None:
        return shortage
    _log.error("run failed inside the agent", exc_info=error)
    text = "the agent could not carry out the run; its log on standard error tells why"
    return endings.of_defect(text, run.phase, f"{type(error).__name__}: {error}")


def _shortage(error: BaseException, phase: str) -> Failure | None:
    """The failure that this error is where the machine had too little for the agent; None for any other error."""
    number = error.errno if isinstance(error, OSError) else None
    if number in DISK_FULL:
        return endings.of_full_disk(phase)
    return endings.of_shortage(number, phase) if number in endings.SHORTAGES else None
