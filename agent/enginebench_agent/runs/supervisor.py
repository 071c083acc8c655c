"""The runs of an agent, from Start to Acknowledge: which are accepted, and who may know what of them."""

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Mapping

from enginebench_agent.config import AgentConfig
from enginebench_agent.data_folder import DataFolder
from enginebench_agent.environments.discovery import Discovery
from enginebench_agent.errors import (
    BusyError,
    DifferentRunError,
    DiskFullError,
    NotFoundError,
    NotReadyError,
    ShuttingDownError,
)
from enginebench_agent.files.cache import FileCache
from enginebench_agent.files.workspace import input_files
from enginebench_agent.names import check_run_id
from enginebench_agent.runs.admission import (
    check_form,
    check_format,
    check_memory,
    check_time,
    find_device,
    find_engine,
)
from enginebench_agent.runs.attempt import SPEC_FILE
from enginebench_agent.runs.calibrations import PeakFile
from enginebench_agent.runs.endings import RunEnding
from enginebench_agent.runs.execution import Execution, Terms
from enginebench_agent.runs.queue import Lease
from enginebench_agent.runs.reservations import Claim
from enginebench_agent.runs.run import Run
from enginebench_agent.runs.spool import Spool, check_room
from enginebench_proto.agreed import logs
from enginebench_proto.agreed.words import PROCESSOR
from enginebench_proto.v1.device_pb2 import Device
from enginebench_proto.v1.run_pb2 import (
    RUN_STATE_QUEUED,
    ResultPart,
    RunEvent,
    RunResult,
    RunSpec,
    RunState,
    RunSummary,
)

_log = logging.getLogger(__name__)


class Supervisor:
    """Accepts runs, answers for them, and keeps them until somebody has their results."""

    def __init__(
        self, folder: DataFolder, cache: FileCache, discovery: Discovery, lease: Lease, peaks: PeakFile
    ) -> None:
        self._folder = folder
        self._cache = cache
        self._discovery = discovery
        self._reservations = lease.reservations
        self._spool = Spool(folder.spool)
        self._execution = Execution(cache, lease, self._spool, peaks)
        self._runs = {result.run_id: Run.recovered(result) for result in self._spool.recover()}
        self._closing = False

    async def start(self, spec: RunSpec, wait_quiet_ns: int = 0, caller: str | None = None) -> RunState:
        """Queue a run, or tell the state of the run that has this id and specification already.

        It begins when others leave the machine alone, or after `wait_quiet_ns`; `caller` is a name as in `Peer`.

        Raises what `admission` raises, `DifferentRunError`, `NotReadyError` for files not uploaded, `DiskFullError`,
        `BusyError` for a full queue, `ReservedError`, and `ShuttingDownError`.
        """
        if (known := self._known(spec)) is not None:
            return known.state
        check_form(spec)
        engine = find_engine(spec, await self._discovery.engine(spec.engine, spec.environment)).available
        check_format(spec.model, engine, self._discovery.config, self._folder)
        check_memory(spec, self._discovery.config.child_limits)
        check_time(spec, self._discovery.config, self._folder)
        device = find_device(spec, engine)
        if (known := self._known(spec)) is not None:  # another call was quicker
            return known.state
        self._accept(spec, device, wait_quiet_ns, caller)
        return RUN_STATE_QUEUED

    def watch(self, run_id: str, from_sequence: int) -> AsyncIterator[RunEvent]:
        """The run's events from a sequence number on. Raises `NotFoundError`."""
        return self._find(run_id).log.watch(from_sequence)

    async def cancel(self, run_id: str) -> None:
        """End a run; its child is gone and its outcome is spooled afterwards. Raises `NotFoundError`."""
        run = self._find(run_id)
        _log.info("cancellation asked for", extra=logs.told(run=run_id))
        await run.cancel()

    def result(self, run_id: str) -> AsyncIterator[ResultPart]:
        """The outcome, from the spool. Raises `NotFoundError`, or `NotReadyError` while the run goes on."""
        run = self._find(run_id)
        _refuse_unfinished(run)
        return self._spool.read(run_id) if run.unspooled is None else _alone(run.unspooled)

    def acknowledge(self, run_id: str) -> None:
        """Forget a finished run; harmless for an unknown one. Raises `NotReadyError` while the run goes on."""
        if (run := self._runs.get(check_run_id(run_id))) is not None:
            _refuse_unfinished(run)
            self._spool.remove(run_id)
            _log.info("result acknowledged", extra=logs.told(run=run_id))
            del self._runs[run_id]

    def summaries(self) -> list[RunSummary]:
        """Every run this agent knows, those of an earlier agent first."""
        return [run.summary() for run in tuple(self._runs.values())]  # metrics are read from another thread

    @property
    def ended(self) -> Mapping[RunEnding, int]:
        """How many runs ended in which way since the agent started."""
        return dict(self._execution.ended)

    def accept_no_more(self) -> None:
        """Refuse new runs from now on; those that are known go on."""
        self._closing = True

    async def drain(self) -> bool:
        """Wait until all runs have ended; returns whether there was any to wait for."""
        keepers = [run.keeper for run in self._runs.values() if run.keeper is not None and not run.is_finished]
        if keepers:
            await asyncio.wait(keepers)
        return bool(keepers)

    async def close(self) -> None:
        """Accept no more runs, end those that go on, and wait until their outcomes are spooled."""
        self.accept_no_more()
        await asyncio.gather(*(run.cancel() for run in self._runs.values()))

    def _known(self, spec: RunSpec) -> Run | None:
        run = self._runs.get(spec.run_id)
        if run is not None and run.spec != spec:
            raise DifferentRunError(f"the run id {spec.run_id} belongs to another run; choose a new one.")
        return run

    def _find(self, run_id: str) -> Run:
        if (run := self._runs.get(run_id)) is None:
            raise NotFoundError(
                f"this agent knows no run {run_id[:64]!r}: it was restarted since, or told to forget the run."
            )
        return run

    def _accept(self, spec: RunSpec, device: Device, wait_quiet_ns: int, caller: str | None) -> None:
        if self._closing:
            raise ShuttingDownError("this agent is about to stop and takes no more runs; start it again first.")
        terms = self._terms(spec, device, wait_quiet_ns, caller)
        self._check_queue(terms.claim)
        self._check_files(spec)
        self._execution.check(spec, terms)
        self._make_run_folder(_ending_within(terms.limit_seconds, spec))
        run = Run(spec)
        self._execution.begin(run, terms)
        self._runs[spec.run_id] = run

    def _check_queue(self, claim: Claim) -> None:
        queued = [run for run in self._runs.values() if run.state == RUN_STATE_QUEUED]
        if not self._reservations.keeps_out(claim):  # nor do those in its way who wait for the end of a reservation
            queued = [run for run in queued if not self._reservations.keeps_out(run.claim)]
        waiting = len(queued)
        if waiting >= self._discovery.config.max_queued_runs:
            raise BusyError(
                f"{waiting} runs wait on this agent already: wait until some have ended, or raise max_queued_runs in "
                f"{self._folder.config_file}."
            )

    def _check_files(self, spec: RunSpec) -> None:
        for file in spec.model.files:
            self._check_file(f"the model's file {file.name!r}", file.sha256)
        for input_file in input_files(spec):
            self._check_file(f"a file for the input {input_file.input!r}", input_file.sha256)

    def _check_file(self, what: str, sha256: str) -> None:
        if not self._cache.holds(sha256):
            raise NotReadyError(
                f"{what} ({sha256}) is not on this agent: it was not uploaded, or made way for what was uploaded "
                f"later; then raise max_cache_bytes in {self._folder.config_file}, or ask for fewer models at once."
            )

    def _terms(self, spec: RunSpec, device: Device, wait_quiet_ns: int, caller: str | None) -> Terms:
        config = self._discovery.config
        if (environment := config.environment(spec.environment)) is None:
            raise NotFoundError(f"the environment {spec.environment!r} was removed from this agent.")
        limit_seconds = _limit_seconds(spec, config)
        return Terms(
            python=environment.python,
            on_processor=PROCESSOR in device.resources,
            folder=self._folder.runs / spec.run_id,
            limit_seconds=limit_seconds,
            limits=config.child_limits.within(limit_seconds),
            wait_quiet_ns=min(wait_quiet_ns, config.max_run_seconds * 1_000_000_000),
            claim=Claim(caller, limit_seconds),
        )

    def _make_run_folder(self, spec: RunSpec) -> None:
        folder = self._folder.runs / spec.run_id
        try:
            check_room(self._folder.runs)
            folder.mkdir(mode=0o700)
            (folder / SPEC_FILE).write_bytes(spec.SerializeToString())
        except OSError as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise DiskFullError(
                f"cannot write to the agent's data folder {self._folder.root} ({error.strerror}): make room there."
            ) from error


async def _alone(result: RunResult) -> AsyncIterator[ResultPart]:
    yield ResultPart(result=result)


def _limit_seconds(spec: RunSpec, config: AgentConfig) -> float:
    asked_seconds = spec.timeout_ns / 1e9 if spec.timeout_ns else float(config.max_run_seconds)
    return min(asked_seconds, config.max_run_seconds)


STEADY_SHARE = 0.75
"""Of the time that a child may have, the blocks of its steady state may take so much. The rest is for what comes before
and after, and between blocks: of 22 ms on a crowded machine that was a quarter more.
"""


def _ending_within(limit_seconds: float, spec: RunSpec) -> RunSpec:
    """The run with a steady state that ends, inconclusive and with its numbers, before its child would be killed."""
    ending = RunSpec()
    ending.CopyFrom(spec)
    stop = ending.configuration.stop
    longest_ns = max(stop.min_duration_ns, int(STEADY_SHARE * limit_seconds * 1e9))
    if not 0 < stop.max_duration_ns <= longest_ns:
        stop.max_duration_ns = longest_ns
    return ending


def _refuse_unfinished(run: Run) -> None:
    if not run.is_finished:
        raise NotReadyError(f"the run {run.spec.run_id} is not finished; watch it, or cancel it.")
