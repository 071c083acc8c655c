"""Whether targets answer: asked of all at once, each for no longer than a limit."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from enginebench_controller import wire
from enginebench_controller.errors import InputError, UnreachableError
from enginebench_controller.records import Reservation, Target
from enginebench_controller.targets.addresses import SshError
from enginebench_controller.targets.channels import START, Obstacle, find_obstacle, open_channel, reachable
from enginebench_controller.wire.fields import optional
from enginebench_proto.v1 import agent_pb2, agent_pb2_grpc

_AT_ONCE = 32
PATIENCE_SECONDS = 2.0
"""Who waits for longer is told for whom."""


class Health(StrEnum):
    """What became of the question."""

    SERVING = "serving"
    NOT_SERVING = "not serving"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class HealthAnswer:
    """What a target answered, and in which time.

    `cause` says why there is no good answer, else it is empty; `remedy` is what to do, where the cause does not say.
    `reservation` is who has it to himself, where it says so.
    """

    target: Target
    health: Health
    seconds: float
    cause: str = ""
    remedy: str = START
    reservation: Reservation | None = None

    @property
    def sentence(self) -> str:
        """The answer for a person; where there is none, with what to do."""
        where = f"target {self.target.name!r} at {self.target.address}"
        if self.health is Health.SERVING:
            return f"{where} answers"
        if self.health is Health.NOT_SERVING:
            return f"{where} answers that it is not serving; look at its agent's own output"
        return f"{where} does not answer ({self.cause}): {self.remedy}" if self.remedy else f"{where}: {self.cause}"


def ask_health(
    targets: Sequence[Target],
    limit_s: float,
    tls: Path | None = None,
    waiting: Callable[[Sequence[Target]], object] = lambda _: None,
) -> tuple[HealthAnswer, ...]:
    """Ask the standard health service of every target, 32 at a time.

    Takes about `limit_s` at most for these, and as much again where there are tunnels to open first. Raises nothing of
    its own, and where it is interrupted ends at once. `tls` is the folder of the client's certificate, by default that
    of the user's home. `waiting` receives those that have not answered after `PATIENCE_SECONDS`.
    """
    if not targets:
        return ()
    asking = _Asking()
    with ThreadPoolExecutor(min(len(targets), _AT_ONCE), "health") as threads:
        answers = [threads.submit(_ask, target, limit_s, tls, asking) for target in targets]
        try:
            if silent := wait(answers, PATIENCE_SECONDS).not_done:
                waiting([target for target, answer in zip(targets, answers, strict=True) if answer in silent])
            return tuple(answer.result() for answer in answers)
        except BaseException:
            threads.shutdown(wait=False, cancel_futures=True)
            asking.give_up()
            raise


class _Asking:
    """The questions that are under way, each in a loop and a thread of its own, and may be given up from another."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Any], asyncio.AbstractEventLoop] = {}
        self._is_over = False

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """Let what the present task does in a block be given up."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101  # in a loop
        self._tasks[task] = asyncio.get_running_loop()
        try:
            if self._is_over:
                raise asyncio.CancelledError
            yield
        finally:
            del self._tasks[task]

    def give_up(self) -> None:
        """Nobody wants any answer."""
        self._is_over = True
        for task, loop in tuple(self._tasks.items()):
            with contextlib.suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(task.cancel)


def _ask(target: Target, limit_s: float, tls: Path | None, asking: _Asking) -> HealthAnswer:
    begun_s = monotonic()
    try:
        told = asyncio.run(_answer_through(target.address, limit_s, tls, asking))
    except (InputError, SshError, UnreachableError) as error:
        told = Obstacle(str(error), "")
    seconds = monotonic() - begun_s
    if isinstance(told, Obstacle):
        return HealthAnswer(target, Health.UNREACHABLE, seconds, told.cause, told.remedy)
    return HealthAnswer(target, told.health, seconds, reservation=told.reservation)


@dataclass(frozen=True)
class _Told:
    """What an agent says of itself."""

    health: Health
    reservation: Reservation | None


async def _answer_through(address: str, limit_s: float, tls: Path | None, asking: _Asking) -> _Told | Obstacle:
    with asking.one():
        async with reachable(address, limit_s) as endpoint:
            return await _answer(endpoint, limit_s, tls)


async def _answer(address: str, limit_s: float, tls: Path | None) -> _Told | Obstacle:
    with open_channel(grpc, address, tls) as channel:
        # Asked at once, so that both together take no longer than one.
        facts = agent_pb2_grpc.AgentServiceStub(channel).GetHost.future(agent_pb2.GetHostRequest(), timeout=limit_s)
        check = health_pb2_grpc.HealthStub(channel).Check.future(health_pb2.HealthCheckRequest(), timeout=limit_s)
        await _done(check)
        try:
            response = check.result()
        except grpc.RpcError as error:
            return _obstacle(error, address, limit_s)
        await _done(facts)
        is_serving = response.status == health_pb2.HealthCheckResponse.SERVING
        return _Told(Health.SERVING if is_serving else Health.NOT_SERVING, _reservation(facts))


async def _done(call: Any) -> None:
    """Until a call has ended, which goes on in a thread of gRPC's own."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def tell(_: object) -> None:
        with contextlib.suppress(RuntimeError):  # of a loop that has not waited for it
            loop.call_soon_threadsafe(done.set)

    call.add_done_callback(tell)
    await done.wait()


def _reservation(facts: Any) -> Reservation | None:
    try:
        found = optional(facts.result(), "reservation")
    except (grpc.RpcError, grpc.FutureCancelledError):  # of a server that has health alone
        return None
    return None if found is None else wire.from_reservation(found)


def _obstacle(error: grpc.RpcError, address: str, limit_s: float) -> Obstacle:
    if error.code() == grpc.StatusCode.UNIMPLEMENTED:
        return Obstacle("what listens there is no enginebench agent")
    if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return Obstacle(error.details() or "it does not let you in", "")
    return find_obstacle(error, address, limit_s)
