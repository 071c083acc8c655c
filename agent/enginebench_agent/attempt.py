"""One child at work on one run: hears it out, keeps its result, and judges how it ended."""

import asyncio
from dataclasses import dataclass
from pathlib import Path

from enginebench_agent import endings
from enginebench_agent.cgroup import oom_kills
from enginebench_agent.child import Child, ChildExit, ChildStartError, spawned
from enginebench_agent.framing import FramingError
from enginebench_agent.run import Ending, Run
from enginebench_agent.spool import SpoolWriter
from enginebench_agent.uninterrupted import run_to_end
from enginebench_proto.v1.run_pb2 import OUTCOME_INCONCLUSIVE, OUTCOME_OK, Failure, ResultPart, RunResult
from enginebench_proto.v1.worker_pb2 import WorkerMessage

SPEC_FILE = "spec"
"""Name of the serialized specification in the run's folder; the child reads it as its standard input."""

MAX_RESULT_BYTES = 256 * 1024 * 1024
EXIT_GRACE_SECONDS = 5.0
"""How long a child may live on after its whole result has arrived; some engines hang on the way out."""

_ROOT = Path("/")


@dataclass(frozen=True)
class Order:
    """What to start: the interpreter, the run's private folder, the model's main file in it, and the time limit."""

    python: Path
    folder: Path
    model: Path
    limit_seconds: float


class Attempt:
    """One try of a run. What the child delivers goes to the run's log and, the result, to `writer`."""

    def __init__(self, run: Run, order: Order, writer: SpoolWriter) -> None:
        self._run = run
        self._order = order
        self._writer = writer
        self._result: RunResult | None = None
        self._samples = 0
        self._oom_kills_before = oom_kills(_ROOT)

    async def make(self) -> Ending:
        """Start the child and hear it out. Cancelling this kills the child before the cancellation goes on.

        The ending counts as spooled when the writer holds its result; committing it is left to the caller.
        """
        order = self._order
        try:
            async with spawned(
                order.python, ["run", str(order.model)], order.folder, order.folder / SPEC_FILE
            ) as child:
                return await self._hear_out(child)
        except ChildStartError as error:
            return self._failed(endings.of_unstartable(str(error)))
        except (FramingError, _OversizeError) as error:
            text = "the engine's process sent something that is no result"
            return self._failed(endings.of_defect(text, self._run.phase, str(error)))

    async def _hear_out(self, child: Child) -> Ending:
        try:
            async with asyncio.timeout(self._order.limit_seconds) as timer:
                async for message in child.messages():
                    await self._hear(message)
                    if self._is_complete():
                        timer.reschedule(asyncio.get_running_loop().time() + EXIT_GRACE_SECONDS)
                return self._judged(await child.exit())
        except TimeoutError:
            child.kill()
            end = await child.exit()
            late = endings.of_time_limit(end, self._run.phase, self._order.limit_seconds)
            return self._delivered() or self._failed(late)

    def _judged(self, end: ChildExit) -> Ending:
        if self._result is not None and end.exit_code == 0:
            return Ending(self._result, spooled=True)
        oom_killed = (oom_kills(_ROOT) or 0) > (self._oom_kills_before or 0)
        crash = endings.of_exit(end, self._run.phase, oom_killed=oom_killed)
        return self._delivered() or self._failed(crash)

    def _delivered(self) -> Ending | None:
        # An end with a bang, after the last sample has arrived, takes nothing from the measurement.
        return Ending(self._result, spooled=True) if self._result is not None and self._is_complete() else None

    def _failed(self, failure: Failure) -> Ending:
        return Ending(endings.failed(failure), spooled=False)

    async def _hear(self, message: WorkerMessage) -> None:
        match message.WhichOneof("message"):
            case "phase":
                self._run.phase = message.phase.name
                self._run.log.phase(message.phase)
            case "progress":
                self._run.log.progress(message.progress)
            case "part":
                await self._take(message.part)

    async def _take(self, part: ResultPart) -> None:
        if part.HasField("result"):
            self._result = self._run.complete(part.result)
        self._samples += len(part.samples.latency_ns)
        await run_to_end(self._writer.add, part)
        if self._writer.written_bytes > MAX_RESULT_BYTES:
            raise _OversizeError(f"The result exceeds {MAX_RESULT_BYTES} bytes.")

    def _is_complete(self) -> bool:
        if self._result is None:
            return False
        measured = self._result.outcome in (OUTCOME_OK, OUTCOME_INCONCLUSIVE) and self._result.HasField("measurement")
        return not measured or self._samples == self._result.measurement.iterations


class _OversizeError(Exception):
    """The child sent more than any result can have."""
