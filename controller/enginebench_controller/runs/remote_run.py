"""One run on one target, step by step and across broken connections: its files, its start, its events, its result."""

import asyncio
import contextlib
import logging
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from enginebench_controller import wire
from enginebench_controller.errors import AgentError, RunUnknownError, UnreachableError
from enginebench_controller.plan.expand import Case, Expansion
from enginebench_controller.records import Failure, InputFile, ModelFile, ModelVersion, Status
from enginebench_controller.runs.sample_file import SampleFile
from enginebench_controller.targets.channels import OPEN_SECONDS
from enginebench_controller.targets.client import CALL_SECONDS, AgentClient
from enginebench_controller.targets.local_agent import remark
from enginebench_controller.verdicts.disturbances import waiting_for
from enginebench_proto.agreed import logs
from enginebench_proto.v1 import run_pb2

T = TypeVar("T")

RECONNECT_SECONDS = max(OPEN_SECONDS, CALL_SECONDS) + 5.0
"""A target that does not answer for this long is lost: what ran there has failed. It is longer than any call takes that
nobody answers, so that of one that fails later something was heard.
"""
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.5, 4.0
UPLOADS_AT_ONCE = 32
"""Of a thousand targets that lack a model: what is under way to each lies in memory, and they share one line."""
CANCEL_SECONDS = 5.0
"""So long each target is given to hear that a command was cancelled, and to forget its runs: somebody waits."""
LOOK_SECONDS, NEXT_LOOK_SECONDS = CALL_SECONDS, 5.0
"""So long a lost target is given to answer once more, before its next case, and before each of those behind that: where
the line is there again, connecting anew takes several round trips.
"""
TELL_AGAIN_SECONDS = 2.0
"""How often it is told of an upload how far it is, where it is no further."""

_log = logging.getLogger(__name__)


class Reporter(Protocol):
    """Who wants to know how a benchmark is coming along, or of some of it only. All calls come from one thread."""

    def uploading(self, case: Case, sent_bytes: int, total_bytes: int) -> None:
        """`sent_bytes` of a file of `total_bytes` have reached the target; told again while it is no more."""
        return

    def running(self, case: Case, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """This process of the case, counted from 0, is in this phase; the times are 0 where unknown."""
        return

    def finished(self, case: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """The case has ended; its outcome is stored as the measurement or profile with this id."""
        return


class Unreported(Reporter):
    """Nobody wants to know."""


Announce = Callable[[Expansion, str | None], Reporter]
"""Told what will run just before it does, and the id of the benchmark it belongs to (None for profiles, which have ids
of their own); returns who wants to know how it is coming along."""

SendOn = Callable[[str, Sequence[str]], Awaitable[None]]
"""Given the id of a benchmark and of those of its measurements that have just been stored, while nothing else of their
device runs: what it starts has ended when it returns. It raises nothing for what goes wrong elsewhere."""


@dataclass
class Bench:
    """What cases are carried out with: the connections, where files lie and may lie, and what has happened so far.

    `remembered` are the runs, by target, that it could not be told to forget, and `telling_s` how much of the limit for
    that has passed, where its last run was cancelled. Of the `lost_targets`, with the reason, the `silent_targets` were
    asked once more in vain. Where it `is_step` of a search, a target that is lost, or somebody else's for now, ends it
    as a kill does, with all left to be resumed: that says nothing of the cases, and what is decided of them would be
    final.
    """

    clients: Mapping[str, AgentClient]
    file_paths: Callable[[ModelVersion], Sequence[Path]]
    folder: Path
    reporter: Reporter
    timeout_ns: int
    wait_quiet_ns: int = 0
    send_on: SendOn | None = None
    is_step: bool = False
    lost_targets: dict[str, str] = field(default_factory=dict)
    silent_targets: set[str] = field(default_factory=set)
    remembered: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    telling_s: dict[str, float] = field(default_factory=dict)
    uploads: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(UPLOADS_AT_ONCE))
    _locks: defaultdict[tuple[str, str], asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    def lock(self, target: str, sha256: str) -> asyncio.Lock:
        """The lock that guards a file on its way to a target."""
        return self._locks[target, sha256]


async def upload(bench: Bench, case: Case) -> None:
    """Bring the model's files and those of a given input set to the target, unless it has them.

    Raises `UnreadableFileError` for a file that is not there any more. This and all the others here raise
    `UnreachableError` when the target is gone for good, and `AgentError` when it refuses.
    """
    for file, path in files_of(bench, case):
        async with bench.lock(case.target, file.sha256):
            await _bring(bench, case, file, path)


async def meet(bench: Bench, target: str, engines: Iterable[str]) -> None:
    """Have the agent ask these engines what they are, unless it knows: while runs wait for others it cannot."""
    await _persist(lambda: bench.clients[target].engines(engines))


async def _bring(bench: Bench, case: Case, file: ModelFile | InputFile, path: Path) -> None:
    client, silence = bench.clients[case.target], _Silence()
    sent_bytes, kept_bytes, reached_bytes = 0, 0, 0

    def on_sent(offset_bytes: int, size_bytes: int) -> None:
        nonlocal sent_bytes, reached_bytes
        sent_bytes += size_bytes
        reached_bytes = offset_bytes
        bench.reporter.uploading(case, offset_bytes, file.size_bytes)

    async def tell_again() -> None:
        while True:
            await asyncio.sleep(TELL_AGAIN_SECONDS)
            bench.reporter.uploading(case, reached_bytes, file.size_bytes)

    async def rest() -> None:
        nonlocal kept_bytes, reached_bytes
        if (offset_bytes := await client.committed_bytes(file)) is None:
            return
        # What was sent and not kept is sent again: only what the agent has for good brings the end nearer.
        if offset_bytes > kept_bytes:
            silence.ends()
        kept_bytes = reached_bytes = offset_bytes
        async with bench.uploads:
            telling = asyncio.create_task(tell_again())
            try:
                await client.upload(file, path, offset_bytes, on_sent)
            finally:
                telling.cancel()

    await _persist(rest, silence)
    _log.info("file there", extra=logs.told(target=case.target, sha256=file.sha256, sent_bytes=sent_bytes))


async def start(bench: Bench, case: Case, spec: run_pb2.RunSpec) -> None:
    """Queue a run of the case."""
    await _persist(lambda: bench.clients[case.target].start(spec, bench.wait_quiet_ns))
    bench.telling_s.pop(case.target, None)
    engine = f"{spec.engine}@{spec.environment}"
    _log.info("run started", extra=logs.told(run=spec.run_id, target=case.target, engine=engine, model=case.model.name))


async def follow(bench: Bench, case: Case, run_id: str, process: int = 0) -> None:
    """Report a run's events until it is finished."""
    sequence = 0
    phase = "queued"
    finished = False
    silence = _Silence()

    async def rest() -> None:
        nonlocal sequence, phase, finished
        async with contextlib.aclosing(bench.clients[case.target].watch(run_id, sequence)) as events:
            async for event in events:
                silence.ends()
                sequence = event.sequence + 1
                phase = _phase(event) or phase
                bench.reporter.running(case, process, phase, event.progress.elapsed_ns, event.progress.expected_ns)
                finished = event.state.state == run_pb2.RUN_STATE_FINISHED

    begun = time.monotonic()
    while not finished:
        await _persist(rest, silence)
    seconds = time.monotonic() - begun
    _log.info("run ended", extra=logs.told(run=run_id, target=case.target, phase=phase, seconds=seconds))


async def fetch(
    bench: Bench, case: Case, run_id: str, process: int = 0, samples: SampleFile | None = None
) -> run_pb2.RunResult:
    """The result of a finished run; its blocks go to `samples`, as those of this process.

    One that was cancelled is for its agent to have been stopped, since nobody asks for what he has cancelled himself:
    that raises `RunUnknownError`, as an agent does that was killed and comes back.
    """

    async def whole() -> run_pb2.RunResult:
        async with contextlib.aclosing(bench.clients[case.target].result(run_id)) as parts:
            return await received(parts, process, samples)

    result = await _persist(whole)
    if result.outcome == run_pb2.OUTCOME_CANCELLED:
        raise RunUnknownError(f"target {case.target!r}: its agent was stopped, and cancelled the run {run_id}")
    return result


async def received(
    parts: AsyncIterable[run_pb2.ResultPart], process: int = 0, samples: SampleFile | None = None
) -> run_pb2.RunResult:
    """The result that comes in parts; its blocks go to `samples`, as those of this process."""
    result = run_pb2.RunResult()
    if samples is not None:
        samples.begin(process)
    async for part in parts:
        if part.HasField("result"):
            result = part.result
        elif samples is not None:
            _add(samples, part, process)
    return result


async def cancel(bench: Bench, case: Case, run_id: str) -> None:
    """End a run, if the target still knows it and answers."""
    begun = time.monotonic()
    with contextlib.suppress(AgentError, UnreachableError, TimeoutError):
        await asyncio.wait_for(bench.clients[case.target].cancel(run_id), CANCEL_SECONDS)
    bench.telling_s[case.target] = time.monotonic() - begun


async def acknowledge(bench: Bench, case: Case, run_id: str) -> None:
    """Let the agent forget a run whose outcome is stored; one that cannot be told is among those `remembered`.

    Where its last run was cancelled, this takes no more than what that has left of `CANCEL_SECONDS`.
    """
    target, begun = case.target, time.monotonic()
    bench.remembered[target].add(run_id)
    if target in bench.lost_targets:
        return
    told_s = bench.telling_s.get(target)
    with contextlib.suppress(UnreachableError, AgentError, TimeoutError):
        async with asyncio.timeout(None if told_s is None else CANCEL_SECONDS - told_s):
            await bench.clients[target].acknowledge(run_id)
        _log.info("result acknowledged", extra=logs.told(run=run_id, target=target))
        bench.remembered[target].discard(run_id)
    if told_s is not None:
        bench.telling_s[target] = told_s + time.monotonic() - begun


def say_who_was_not_told(bench: Bench) -> None:
    """Of a command that was cancelled: which targets still have runs of it."""
    for target, run_ids in bench.remembered.items():
        if run_ids:
            remark.get()(f"{target} could not be told: `enginebench resume` clears it")


async def remind(bench: Bench) -> None:
    """Tell targets that are not lost once more which runs to forget: of a thousand one may just have been busy."""

    async def again(target: str, run_id: str) -> None:
        with contextlib.suppress(UnreachableError, AgentError):
            await bench.clients[target].acknowledge(run_id)
            bench.remembered[target].discard(run_id)

    left = [
        (name, run_id) for name, ids in bench.remembered.items() if name not in bench.lost_targets for run_id in ids
    ]
    await asyncio.gather(*(again(*one) for one in left))


async def look_again(bench: Bench, target: str) -> None:
    """Ask a lost target once more; one that answers is lost no longer, and drops what was given up meanwhile."""
    if target not in bench.lost_targets:
        return
    client = bench.clients[target]
    limit_s = NEXT_LOOK_SECONDS if target in bench.silent_targets else LOOK_SECONDS
    try:
        async with asyncio.timeout(limit_s):
            await _persist(client.host)
    except (UnreachableError, TimeoutError):
        bench.silent_targets.add(target)
        bench.lost_targets[target] = f"it was lost before, and did not answer again within {limit_s:g} s"
        return
    except AgentError:
        return
    bench.lost_targets.pop(target, None)  # cases of its other devices look too
    bench.silent_targets.discard(target)
    with contextlib.suppress(AgentError, UnreachableError):  # else `remind` or a resume does
        for run_id in tuple(bench.remembered[target]):
            await drop(client, run_id)
            bench.remembered[target].discard(run_id)


async def drop(client: AgentClient, run_id: str) -> None:
    """End a run whose outcome nobody wants any more, and let its agent forget it; harmless for an unknown one.

    Raises as the calls do.
    """
    with contextlib.suppress(RunUnknownError):
        await client.cancel(run_id)
        await client.acknowledge(run_id)


def _phase(event: run_pb2.RunEvent) -> str | None:
    """What a run is at from this event on; None where it says nothing of that."""
    if event.HasField("phase"):
        return event.phase.name
    if event.state.state == run_pb2.RUN_STATE_QUEUED:
        before = event.state.runs_before
        return f"queued, {before} before it" if before else "queued"
    if event.HasField("unquiet"):
        return _waiting(event.unquiet)
    if event.HasField("kept_out_by"):
        return f"waits, as the target is reserved {wire.from_reservation(event.kept_out_by).words}"
    return None


def _waiting(unquiet: run_pb2.Unquiet) -> str:
    use = wire.from_machine_use(unquiet.seen)
    return "waiting for quiet" if use is None else waiting_for(use, unquiet.at_most_ns)


def files_of(bench: Bench, case: Case) -> Iterator[tuple[ModelFile | InputFile, Path]]:
    """What a case needs on its target, and where it lies here: the model's files, and those of a given input set."""
    yield from zip(case.model.files, bench.file_paths(case.model), strict=True)
    for item in case.configuration.input_set.items:
        yield from ((file, case.input_paths[file.sha256]) for file in item)


def _add(samples: SampleFile, part: run_pb2.ResultPart, process: int) -> None:
    if part.HasField("block"):
        samples.add_block(wire.from_block(part.block, process))
    elif part.HasField("samples"):  # a newer agent may send more
        samples.add_samples(wire.from_samples(part.samples, process))


class _Silence:
    """How long a target has not been heard. Whoever hears of it ends the silence."""

    def __init__(self) -> None:
        self._since: float | None = None

    def ends(self) -> None:
        """The target has done something that need not be done again."""
        self._since = None

    def seconds(self, now: float) -> float:
        """How long it has lasted; it begins where none has."""
        if self._since is None:
            self._since = now
        return now - self._since


async def _persist(call: Callable[[], Awaitable[T]], silence: _Silence | None = None) -> T:
    """Repeat a call that is safe to repeat until it succeeds; give up after a silence of `RECONNECT_SECONDS`."""
    silence = silence or _Silence()
    while True:
        begun = time.monotonic()
        try:
            return await call()
        except UnreachableError as error:
            failed = time.monotonic()
            _log.info("trying again", extra=logs.told(reason=str(error), seconds=failed - begun))
            # This attempt had answers, so a new silence begins.
            if failed - begun > RECONNECT_SECONDS:
                silence.ends()
            if (silent_s := silence.seconds(failed)) > RECONNECT_SECONDS:
                raise
            # The longer it lasts the rarer, and a thousand targets that went away together do not all ask at once.
            pause_s = min(max(RETRY_SECONDS, silent_s / 4), LONGEST_RETRY_SECONDS)
            await asyncio.sleep(random.uniform(pause_s / 2, pause_s))  # noqa: S311  # no secret
