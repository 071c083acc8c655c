"""One child at work on one run: hears it out, keeps its blocks, and judges how it ended."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from enginebench_agent.machine.bystanders import Quiet, Watch
from enginebench_agent.machine.cgroup import oom_kills
from enginebench_agent.runs import endings
from enginebench_agent.runs.block_clock import BlockClock, busy_ns, waited_ns
from enginebench_agent.runs.child import Child, ChildExit, ChildStartError, spawned
from enginebench_agent.runs.limits import NO_LIMITS, ChildLimits, ResidentSet
from enginebench_agent.runs.resting import OwnTime
from enginebench_agent.runs.run import Run
from enginebench_agent.runs.spool import OversizeError, SpoolWriter
from enginebench_agent.runs.turns import Member
from enginebench_agent.uninterrupted import run_to_end
from enginebench_agent.worker.pipe import FramingError, TruncatedError
from enginebench_proto.v1.measurement_pb2 import Bystanders, Measurement
from enginebench_proto.v1.run_pb2 import (
    OUTCOME_FAILED,
    OUTCOME_INCONCLUSIVE,
    OUTCOME_OK,
    Failure,
    ResultPart,
    RunResult,
)
from enginebench_proto.v1.worker_pb2 import WorkerMessage

SPEC_FILE = "spec"
"""Name of the serialized specification in the run's folder; the child reads it as its standard input."""

WARM_UP, STEADY_STATE = "warm_up", "steady_state"
"""Phases in which nothing of ours looks at the machine: a look takes milliseconds."""

EXIT_GRACE_SECONDS = 5.0
"""How long a child may live on after its result has arrived; some engines hang on the way out."""

_ROOT = Path("/")
_OUTCOMES_OF_A_CHILD = frozenset({OUTCOME_OK, OUTCOME_INCONCLUSIVE, OUTCOME_FAILED})


@dataclass(frozen=True)
class Order:
    """What to start: the interpreter, the run's private folder, in it the model's main file and, where some were
    given, the folder of inputs, the time limit, whom to take turns with, and what it may take of the machine.
    """

    python: Path
    folder: Path
    model: Path
    limit_seconds: float
    inputs: Path | None = None
    turns: Member | None = None
    limits: ChildLimits = NO_LIMITS


class Attempt:
    """One try of a run. What the child delivers goes to the run's log and, blocks and samples, to `writer`.

    Of a member of a group it is what rests while others have their turn: its time limit does, and so does who looks at
    its memory.
    """

    def __init__(self, run: Run, order: Order, writer: SpoolWriter, watch: Watch | None = None) -> None:
        self._run = run
        self._order = order
        self._writer = writer
        self._watch = watch or Watch(Quiet(), Bystanders())
        self._has_wanted_a_block = False
        self._result: RunResult | None = None
        self._blocks = 0
        self._samples = 0
        self._exceeds_memory = False
        self._unwatched: BaseException | None = None
        self._clock = BlockClock()
        self._own_time = OwnTime()
        self._child: Child | None = None
        self._oom_kills_before = oom_kills(_ROOT)

    async def make(self) -> RunResult:
        """Start the child and hear it out. Cancelling this kills the child before the cancellation goes on.

        Committing the result to the spool is left to the caller. Raises `OSError` where the disk is full.
        """
        try:
            async with self._started() as self._child:
                return await self._hear_out(self._child)
        except ChildStartError as error:
            failure = endings.of_unstartable(str(error), error.number)
        except OversizeError as error:
            failure = endings.of_oversize(str(error), self._run.phase)
        except (FramingError, _UnsoundError) as error:
            text = "the engine's process sent something that is no result"
            failure = endings.of_defect(text, self._run.phase, str(error))
        return self._failed(failure)

    async def rest(self) -> None:
        """Stop the child that waits for its turn; returns once it stands still."""
        self._own_time.rest()
        if self._child is not None:
            await self._child.rest()

    def go_on(self) -> None:
        """The child's turn has come."""
        if self._child is not None:
            self._child.go_on()
        self._own_time.go_on()

    @contextlib.asynccontextmanager
    async def _started(self) -> AsyncIterator[Child]:
        order = self._order
        arguments = ["run", str(order.model)]
        if order.inputs is not None:
            arguments += ["--inputs", str(order.inputs)]
        with contextlib.ExitStack() as stack:
            descriptors = []
            if order.turns is not None:
                descriptors.append(stack.enter_context(order.turns.pipe()))
                arguments += ["--turns", str(descriptors[0])]
                order.turns.attend(self)
            stdin = order.folder / SPEC_FILE
            async with spawned(order.python, arguments, order.folder, stdin, descriptors, order.limits) as child:
                yield child

    async def _hear_out(self, child: Child) -> RunResult:
        resident = ResidentSet(child.pid, self._sleep, max_bytes=self._order.limits.memory_bytes)
        sampling = asyncio.create_task(resident.sample_until_exceeded())
        sampling.add_done_callback(partial(self._stop_exceeding, child))
        try:
            async with asyncio.timeout(None) as timer:
                self._own_time.call_later(self._order.limit_seconds, partial(_ring, timer))
                with contextlib.suppress(TruncatedError):  # its end is judged below
                    self._clock.wait()
                    async for message in child.messages():
                        self._clock.hear(message, waited_ns(str(child.pid)))
                        await self._hear(message, child, resident)
                        self._clock.wait()
                        if self._result is not None:
                            sampling.cancel()
                            self._own_time.stop()
                            timer.reschedule(asyncio.get_running_loop().time() + EXIT_GRACE_SECONDS)
                return self._judged(await child.exit())
        except TimeoutError:
            child.kill()
            end = await child.exit()
            late = endings.of_time_limit(end, self._run.phase, self._order.limit_seconds)
            return self._result or self._failed(late)
        finally:
            sampling.cancel()
            self._own_time.stop()

    async def _sleep(self, seconds: float) -> None:
        begin_ns, busy_before_ns = self._own_time.nanoseconds(), busy_ns()
        await self._own_time.sleep(seconds)
        late_ns = self._own_time.nanoseconds() - begin_ns - round(seconds * 1e9)
        self._clock.oversleep(late_ns, busy_ns() - busy_before_ns, round(seconds * 1e9))

    def _stop_exceeding(self, child: Child, sampling: "asyncio.Task[None]") -> None:
        if not sampling.cancelled():
            self._unwatched = sampling.exception()
            self._exceeds_memory = self._unwatched is None
            child.kill()

    def _judged(self, end: ChildExit) -> RunResult:
        if self._result is not None:  # it came last; an end with a bang afterwards takes nothing from it
            return self._result
        limits = self._order.limits
        if self._unwatched is not None:
            text = "the agent could not watch how much memory the engine takes, and stopped it"
            return self._failed(endings.of_defect(text, self._run.phase, repr(self._unwatched)))
        if self._exceeds_memory:
            return self._failed(endings.of_memory_limit(end, self._run.phase, limits))
        oom_killed = (oom_kills(_ROOT) or 0) > (self._oom_kills_before or 0)
        return self._failed(endings.of_exit(end, self._run.phase, limits, oom_killed=oom_killed))

    def _failed(self, failure: Failure) -> RunResult:
        return self._run.complete(endings.failed(failure))

    async def _hear(self, message: WorkerMessage, child: Child, resident: ResidentSet) -> None:
        match message.WhichOneof("message"):
            case "pid":
                resident.follow(child.pid)
            case "phase":
                self._run.phase = message.phase.name
                self._run.log.phase(message.phase)
                resident.enter(message.phase.name)
                if message.phase.name == WARM_UP:
                    await self._watch.begin()
            case "progress":
                self._run.log.progress(message.progress)
            case "turn_wanted" if self._order.turns is not None:
                if self._run.phase == STEADY_STATE and not self._has_wanted_a_block:
                    self._has_wanted_a_block = True  # nobody has a block before all have wanted one
                    await self._watch.begin()
                self._order.turns.want(unfinished=message.turn_wanted.unfinished)
            case "part" if self._result is not None:
                raise _UnsoundError("Something came after the result.")
            case "part" if message.part.HasField("result"):
                self._take_result(message.part.result, resident)
                await self._tell_bystanders()
            case "part":
                await self._take_block(message.part)

    async def _tell_bystanders(self) -> None:
        """Only with numbers: a member that fails may do so while another has its turn."""
        if self._result is None or self._result.outcome == OUTCOME_FAILED:
            return
        if self._result.HasField("measurement"):
            self._result.measurement.bystanders.CopyFrom(await self._watch.end())
        elif self._result.HasField("profile"):
            self._result.profile.bystanders.CopyFrom(await self._watch.end())

    async def _take_block(self, part: ResultPart) -> None:
        self._blocks += part.HasField("block")
        self._samples += len(part.samples.latency_ns)
        await run_to_end(self._writer.add, part)

    def _take_result(self, result: RunResult, resident: ResidentSet) -> None:
        if result.outcome not in _OUTCOMES_OF_A_CHILD:
            raise _UnsoundError(f"Its result has no outcome that a child can tell ({result.outcome}).")
        if result.outcome in (OUTCOME_OK, OUTCOME_INCONCLUSIVE) and result.HasField("measurement"):
            self._check_counts(result.measurement)
        resident.sample()
        resident.fill(result.measurement.phases)
        resident.fill(result.profile.phases)
        if result.HasField("measurement") and self._clock.stood_still_ns:
            result.measurement.agent_paused_ns = self._clock.stood_still_ns
        if _has_numbers(result) and (difference := self._clock.difference_ns()) is not None:
            failure = endings.of_clock(*difference, self._run.phase)
            result = RunResult(outcome=OUTCOME_FAILED, failure=failure, engine_version=result.engine_version)
        self._result = self._run.complete(result)

    def _check_counts(self, measurement: Measurement) -> None:
        told = (measurement.blocks, measurement.iterations)
        if told != (self._blocks, self._samples):
            raise _UnsoundError(
                f"It tells of {told[0]} blocks with {told[1]} samples, but sent {self._blocks} with {self._samples}."
            )


def _ring(timer: asyncio.Timeout) -> None:
    timer.reschedule(asyncio.get_running_loop().time())


def _has_numbers(result: RunResult) -> bool:
    return result.HasField("measurement") or result.HasField("profile") or bool(result.peaks)


class _UnsoundError(Exception):
    """The child sent what no sound worker sends."""
