"""Sees one run through: lease, private folder, child, and the outcome in the spool whatever happens."""

import asyncio
import logging
import time
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent import endings
from enginebench_agent.attempt import Attempt, Order
from enginebench_agent.cache import FileCache
from enginebench_agent.leases import Leases
from enginebench_agent.run import Ending, Run
from enginebench_agent.spool import Spool
from enginebench_agent.uninterrupted import run_to_end
from enginebench_agent.workspace import place_model, remove_folder
from enginebench_proto.v1.run_pb2 import ResultPart, RunResult

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """What a run was granted: an interpreter, the resources of its device, a private folder and a time limit."""

    python: Path
    resources: tuple[str, ...]
    folder: Path
    limit_seconds: float


class Execution:
    """Carries out runs with an agent's cache, leases and spool."""

    def __init__(self, cache: FileCache, leases: Leases, spool: Spool) -> None:
        self._cache = cache
        self._leases = leases
        self._spool = spool

    def begin(self, run: Run, terms: Terms) -> None:
        """Queue the run; everything else happens by itself."""
        run.queue()
        run.work = asyncio.create_task(self._work(run, terms))
        run.keeper = asyncio.create_task(self._keep(run, run.work, terms.folder))

    async def _work(self, run: Run, terms: Terms) -> Ending:
        files = run.spec.model.files
        with self._cache.pinned(file.sha256 for file in files):
            async with self._leases.hold(terms.resources):
                run.begin(time.time_ns())
                try:
                    model = await place_model(terms.folder / "model", files, self._cache)
                    return await self._attempt(run, Order(terms.python, terms.folder, model, terms.limit_seconds))
                finally:
                    await remove_folder(terms.folder)  # still under the lease: the disk is quiet for the next run

    async def _attempt(self, run: Run, order: Order) -> Ending:
        with self._spool.begin(run.spec.run_id) as writer:
            ending = await Attempt(run, order, writer).make()
            if ending.spooled:
                await run_to_end(writer.commit)
            return ending

    async def _keep(self, run: Run, work: "asyncio.Task[Ending]", folder: Path) -> None:
        await asyncio.wait([work])
        ending = _ending(run, work)
        await remove_folder(folder)  # of a run that never left the queue
        if not ending.spooled:
            ending = await self._spool_failure(run, ending.result)
        run.finish(ending.result.outcome)

    async def _spool_failure(self, run: Run, result: RunResult) -> Ending:
        try:
            await run_to_end(self._store, run.complete(result))
        except Exception as error:  # whatever it was, the run must end, and its watchers must hear of it
            _log.exception("the result of run %s cannot be spooled", run.spec.run_id)
            text = "the agent could not write the result to its spool; make room on its disk, then run it again"
            run.unspooled = result = run.complete(endings.failed(endings.of_defect(text, detail=str(error))))
        return Ending(result, spooled=True)

    def _store(self, result: RunResult) -> None:
        with self._spool.begin(result.run_id) as writer:
            writer.add(ResultPart(result=result))
            writer.commit()


def _ending(run: Run, work: "asyncio.Task[Ending]") -> Ending:
    if work.cancelled():
        return Ending(endings.failed(endings.of_cancellation(run.phase)), spooled=False)
    if (error := work.exception()) is not None:
        _log.error("run %s failed inside the agent", run.spec.run_id, exc_info=error)
        text = "the agent could not carry out the run; its log on standard error tells why"
        detail = f"{type(error).__name__}: {error}"
        return Ending(endings.failed(endings.of_defect(text, run.phase, detail)), spooled=False)
    return work.result()
