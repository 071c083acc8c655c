"""One target over gRPC: every call the controller makes, with the wire's errors turned into sentences."""

import asyncio
import contextlib
import importlib.metadata
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import grpc

from enginebench_controller.errors import (
    AgentError,
    BusyError,
    DiskFullError,
    OldAgentError,
    ReservedError,
    RunUnknownError,
    UnreachableError,
)
from enginebench_controller.records import HostFacts, InputFile, ModelFile
from enginebench_controller.records.possible import EARLIEST_UNIX_NS
from enginebench_controller.targets.channels import SEE_TO_THE_LINE, START, Obstacle, find_obstacle
from enginebench_controller.targets.connections import Connection, Connections, Stubs
from enginebench_controller.targets.sending import ASK_SECONDS, Sending
from enginebench_controller.wire.fields import optional
from enginebench_proto.agreed.words import BUSY, DISK_FULL, ERROR_CODE_KEY, RESERVED
from enginebench_proto.v1 import agent_pb2, host_pb2, model_pb2, reservation_pb2, run_pb2

OWN_VERSION = importlib.metadata.version("enginebench")
OWN_REVISION = max(host_pb2.WireRevision.values())
_MOST_CHARACTERS = 40


def skew_sentence(target: str, host: HostFacts) -> str | None:
    """Who should be upgraded, where agent and controller speak different revisions of the wire; else None.

    `host` is what the target said of itself. Agents from before there were revisions tell none.
    """
    theirs = host.wire_revision or 0
    if theirs == OWN_REVISION:
        return None
    older = theirs < OWN_REVISION
    versions = f"it has enginebench {shown_version(host.agent_version)}, this is {OWN_VERSION}"
    remedy = f"upgrade the agent on {target}" if older else "upgrade enginebench here"
    age = "an older" if older else "a newer"
    return f"target {target!r} has {age} agent ({versions}): what both know works; for the rest {remedy}"


def clock_sentence(target: str, behind_ns: int) -> str | None:
    """What is done about a target's wall clock that is off; None where there is nothing to do."""
    if not behind_ns:
        return None
    direction = "behind" if behind_ns > 0 else "ahead"
    amount = timedelta(seconds=round(abs(behind_ns) / 1e9))
    return (
        f"the clock of target {target!r} is {amount} {direction}: what is measured there gets the time of this machine"
    )


def shown_version(told: str) -> str:
    """A version as an agent told it, fit for a sentence."""
    shown = "".join(character for character in told[:_MOST_CHARACTERS] if character.isprintable())
    return shown or "of unknown version"


T = TypeVar("T")

_BY_CODE = {BUSY: BusyError, DISK_FULL: DiskFullError, RESERVED: ReservedError}
"""What of an agent's own codes a caller tells from other errors of it."""

CALL_SECONDS = 15.0
CLOCK_OFF_NS = 60_000_000_000
"""Clocks of machines that ask for the time differ by less."""
FIRST_CONTACT_SECONDS = 5.0
"""A target that does not answer for this long is not there: an agent has started by then, on a slow board too."""
FIRST_CONTACT_PAUSE_SECONDS = 0.3
DISCOVERY_SECONDS = 180.0
SILENT_SECONDS = 2.0
"""A run that tells nothing for so long waits for others, or compiles."""
SHORTEST_REST_SECONDS, LONGEST_REST_SECONDS = 5.0, 60.0
"""To connect again takes 2 ms of processor time; a target that is lost should not be noticed much later."""
GONE = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}
STATUS_LOST = "Internal error from Core"
"""What grpc.aio says, with INTERNAL, where a message cannot be sent any more; it forgets the true status over that
(grpc issue 36066), be it a connection that broke or a refusal. The call is tried again, and may say it then."""


class AgentClient:
    """A connection to one agent, through a tunnel where its address asks for one. Use as an async context manager.

    Every method raises `UnreachableError` when the target does not answer in time and `AgentError` with the agent's
    own sentence when it answers with an error.
    """

    def __init__(self, name: str, address: str, tls: Path | None = None, among: Connections | None = None) -> None:
        """`tls` is the folder of the client's certificate, by default that of the user's home.

        The connection takes a place `among` those of the same command, and may be another one for each call.
        """
        self.name = name
        self.address = address
        self._connection = Connection(address, tls, among or Connections())
        self._agent_version: str | None = None
        self.clock_behind_ns = 0
        """By how much the target's wall clock is behind this one's, where that is more than anybody's is off."""
        self.reservation: reservation_pb2.Reservation | None = None
        """Who had reserved the target when it was asked for its facts; None where nobody had."""

    async def __aenter__(self) -> Self:
        async with self._connection.used():
            return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._connection.close()

    def kept(self) -> AbstractAsyncContextManager[None]:
        """Let the connection stay open between the calls in a block, however many others wait for one."""
        return self._connection.kept()

    async def host(self) -> Any:
        """The target's `HostFacts` but for its time of now; asked again where it is just starting."""
        answer = await self._first_answer()
        self.reservation = optional(answer, "reservation")
        host = answer.host
        self._agent_version = shown_version(host.agent_version)
        self.clock_behind_ns = _behind_ns(optional(host, "now_unix_ns"))
        host.ClearField("now_unix_ns")
        return host

    async def _first_answer(self) -> Any:
        """Ask again as long as the target may be just starting. Later calls are tried again where they are made."""
        deadline = time.monotonic() + FIRST_CONTACT_SECONDS
        while True:
            try:
                return await self._call(lambda to: to.agent.GetHost(agent_pb2.GetHostRequest(), timeout=CALL_SECONDS))
            except UnreachableError as error:
                if error.lasting or time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(FIRST_CONTACT_PAUSE_SECONDS)

    async def engines(
        self, names: Iterable[str] = (), *, refresh: bool = False, within_s: float | None = None
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        """The target's `Engine` messages, hidden ones included, and the `Peak` messages of its last calibrations.

        The first call waits for discovery, of the engines of these names only if any is given; others may be among
        them. With `within_s`, no longer than that: engines that have not answered by then are told as being asked.
        """
        request = agent_pb2.ListEnginesRequest(
            refresh=refresh, within_ns=round((within_s or 0) * 1e9), names=sorted(names)
        )
        answer = await self._call(
            lambda to: to.agent.ListEngines(request, timeout=DISCOVERY_SECONDS), DISCOVERY_SECONDS
        )
        return list(answer.engines), list(answer.peaks)

    async def committed_bytes(self, file: ModelFile | InputFile) -> int | None:
        """How much of a file the agent has for good, which `upload` can continue from; None where it has the whole."""
        request = model_pb2.FindMissingRequest(sha256=[file.sha256])
        missing = (await self._call(lambda to: to.models.FindMissing(request, timeout=CALL_SECONDS))).missing
        return int(missing[0].committed_bytes) if missing else None

    async def upload(
        self, file: ModelFile | InputFile, path: Path, offset_bytes: int, on_sent: Callable[[int, int], None]
    ) -> None:
        """Send one file from where the agent has it on.

        `on_sent` receives how far into the file the agent has taken it in, and how much of that is new, both in bytes.
        Raises `UnreadableFileError` where it cannot be read to its end.
        """
        sending = Sending(file, path, offset_bytes, on_sent)
        watching = asyncio.create_task(self._watched(sending, file))
        try:
            await self._call(lambda to: to.models.Upload(sending.parts()))
            sending.taken()
        finally:
            sending.stop()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watched(self, sending: Sending, file: ModelFile | InputFile) -> None:
        told: int | None = 0

        async def received() -> int | None:
            nonlocal told
            request = model_pb2.FindMissingRequest(sha256=[file.sha256])
            try:
                async with self._connection.used() as to:
                    missing = (await to.models.FindMissing(request, timeout=CALL_SECONDS)).missing
            except grpc.aio.AioRpcError:  # where the target is gone, the upload itself learns of it
                await asyncio.sleep(ASK_SECONDS)
            else:
                told = optional(missing[0], "received_bytes") if missing else file.size_bytes
            return told

        await sending.watch(received)

    async def start(self, spec: run_pb2.RunSpec, wait_quiet_ns: int = 0) -> None:
        """Queue a run, to begin when the target is quiet or after so long; the same id again changes nothing."""
        try:
            request = run_pb2.StartRequest(spec=spec, wait_quiet_ns=wait_quiet_ns)
            await self._call(lambda to: to.runs.Start(request, timeout=CALL_SECONDS))
        except RunUnknownError as error:  # here it is the engine or the device that is not found
            raise AgentError(str(error)) from error

    async def watch(self, run_id: str, from_sequence: int) -> AsyncGenerator[Any, None]:
        """The run's `RunEvent` messages from a sequence number on, until it is finished.

        While others wait for a connection, a run that takes a while yet is left alone for as long.
        """
        sequence, rest_s = from_sequence, 0.0
        while True:
            if rest_s:
                await self._connection.rest(rest_s)
            async with self._connection.used() as to:
                stream = to.runs.Watch(run_pb2.WatchRequest(run_id=run_id, from_sequence=sequence))
                async with contextlib.aclosing(_with_pauses(stream)) as events:
                    try:
                        async for event in events:
                            if event is not None:
                                sequence = event.sequence + 1
                                yield event
                            if self._connection.is_wanted and (rest_s := _rest_s(event)):
                                break
                        else:
                            return
                    except grpc.aio.AioRpcError as error:
                        raise self._translated(error) from error

    async def cancel(self, run_id: str) -> None:
        """End a run; harmless on a finished one."""
        await self._call(lambda to: to.runs.Cancel(run_pb2.CancelRequest(run_id=run_id), timeout=CALL_SECONDS))

    async def result(self, run_id: str) -> AsyncGenerator[run_pb2.ResultPart, None]:
        """The outcome of a finished run, part by part: the `result` first, then each `block` before its `samples`."""
        # No deadline: samples may be many and the network slow; keepalive notices a target that is gone.
        async with self._connection.used() as to:
            try:
                async for part in to.runs.Result(run_pb2.ResultRequest(run_id=run_id)):
                    if part.HasField("result"):
                        set_right(part.result)
                    yield part
            except grpc.aio.AioRpcError as error:
                raise self._translated(error) from error

    async def acknowledge(self, run_id: str) -> None:
        """Tell the agent that the outcome is stored."""
        await self._call(
            lambda to: to.runs.Acknowledge(run_pb2.AcknowledgeRequest(run_id=run_id), timeout=CALL_SECONDS)
        )

    async def runs(self) -> Sequence[run_pb2.RunSummary]:
        """The runs that the target knows: those that go on, and those whose results nobody has acknowledged."""
        return list((await self._call(lambda to: to.runs.List(run_pb2.ListRequest(), timeout=CALL_SECONDS))).runs)

    async def reserve(self, for_ns: int, reason: str) -> reservation_pb2.ReserveResponse:
        """Have the target for this name alone, for so long from now on. Raises `ReservedError` where another has it."""
        request = reservation_pb2.ReserveRequest(for_ns=for_ns, reason=reason)
        return await self._call(lambda to: to.reservations.Reserve(request, timeout=CALL_SECONDS))

    async def release(self, holder: str) -> reservation_pb2.ReleaseResponse:
        """End what `holder`, as the target tells of him, has reserved; harmless where he has nothing."""
        request = reservation_pb2.ReleaseRequest(holder=holder)
        return await self._call(lambda to: to.reservations.Release(request, timeout=CALL_SECONDS))

    async def _call(self, call: Callable[[Stubs], Awaitable[T]], limit_s: float | None = None) -> T:
        async with self._connection.used() as to:
            try:
                return await call(to)
            except grpc.aio.AioRpcError as error:
                raise self._translated(error, limit_s) from error

    def _translated(self, error: grpc.aio.AioRpcError, limit_s: float | None = None) -> Exception:
        if error.details() == STATUS_LOST:
            return UnreachableError(
                f"target {self.name!r} did not take what was sent, and why is in its agent's log only"
            )
        # It still holds an upload whose sender was cut off, and lets go once its keepalive notices; or what it holds
        # has changed since it was asked, by that upload's last bytes or for want of room.
        if error.code() == grpc.StatusCode.ABORTED:
            return UnreachableError(f"target {self.name!r}: {error.details()}")
        if error.code() in GONE:
            obstacle = find_obstacle(error, self.address, limit_s or CALL_SECONDS)
            return UnreachableError(self._unreachable(obstacle), lasting=not obstacle.is_passing)
        if error.code() == grpc.StatusCode.UNIMPLEMENTED:
            return self._too_old(error.details() or "")
        if error.code() == grpc.StatusCode.NOT_FOUND:
            return RunUnknownError(f"target {self.name!r}: {error.details()}")
        code = dict(error.trailing_metadata() or ()).get(ERROR_CODE_KEY)
        return _BY_CODE.get(str(code), AgentError)(f"target {self.name!r}: {error.details()}")

    def _unreachable(self, obstacle: Obstacle) -> str:
        where = f"target {self.name!r} at {self.address}"
        if obstacle.remedy == SEE_TO_THE_LINE:
            return f"{where} does not answer{obstacle.because}: {SEE_TO_THE_LINE}"
        if obstacle.remedy != START:
            return f"{where} cannot be used, as {obstacle.cause}: {obstacle.remedy}"
        return (
            f"{where} does not answer{obstacle.because}: start `enginebench-agent serve` there, "
            "or check the address with `enginebench targets list`"
        )

    def _too_old(self, said: str) -> AgentError:
        if self._agent_version is None:  # it did not even tell what it is
            return OldAgentError(
                f"what listens at {self.address} is no enginebench agent, or one that is too old: correct the address "
                f"of target {self.name!r}, or upgrade the agent there to enginebench {OWN_VERSION}"
            )
        return OldAgentError(
            f"target {self.name!r}: {said.rstrip('.!')}; upgrade the agent on {self.name} "
            f"(it has enginebench {self._agent_version}, this is {OWN_VERSION})"
        )


async def _with_pauses(stream: Any) -> AsyncGenerator[Any | None, None]:
    """What comes in a stream, and None whenever nothing has come for `SILENT_SECONDS`."""
    coming = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(stream.read())
            await asyncio.wait([coming], timeout=SILENT_SECONDS)
            if not coming.done():
                yield None
                continue
            event, coming = await coming, None
            if event is grpc.aio.EOF:
                return
            yield event
    finally:
        if coming is not None:
            coming.cancel()  # and the call with it
            await asyncio.wait([coming])
        stream.cancel()


def _rest_s(event: Any | None) -> float:
    """For how long a run may be left alone that has just told this, or nothing; 0 where it may not."""
    if event is None:
        return SHORTEST_REST_SECONDS
    left_s = (event.progress.expected_ns - event.progress.elapsed_ns) / 1e9
    return min(left_s, LONGEST_REST_SECONDS) if left_s >= SHORTEST_REST_SECONDS else 0.0


def _behind_ns(told_ns: int | None) -> int:
    """By how much a wall clock is behind this one's, that has just said so; 0 where that is no more than usual."""
    behind_ns = 0 if told_ns is None else time.time_ns() - told_ns
    return behind_ns if abs(behind_ns) > CLOCK_OFF_NS else 0


def set_right(result: run_pb2.RunResult) -> None:
    """Give a result the time of this machine; none where its agent was in another age and has forgotten which."""
    if result.started_at_unix_ns:
        started_ns = result.started_at_unix_ns + _behind_ns(optional(result, "sent_at_unix_ns"))
        result.started_at_unix_ns = started_ns if started_ns > EARLIEST_UNIX_NS else 0
    result.ClearField("sent_at_unix_ns")  # of this answer, and not of the result
