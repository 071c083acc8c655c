"""Whether targets answer: asked of all at once, each for no longer than a limit."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
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


def ask_health(targets: Sequence[Target], limit_s: float, tls: Path | None = None) -> tuple[HealthAnswer, ...]:
    """Ask the standard health service of every target, 32 at a time.

    Takes about `limit_s` at most for these, and as much again where there are tunnels to open first. Never raises.
    `tls` is the folder of the client's certificate, by default that of the user's home.
    """
    if not targets:
        return ()
    with ThreadPoolExecutor(min(len(targets), _AT_ONCE), "health") as threads:
        return tuple(threads.map(lambda target: _ask(target, limit_s, tls), targets))


def _ask(target: Target, limit_s: float, tls: Path | None) -> HealthAnswer:
    begun_s = monotonic()
    try:
        told = asyncio.run(_answer_through(target.address, limit_s, tls))
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


async def _answer_through(address: str, limit_s: float, tls: Path | None) -> _Told | Obstacle:
    async with reachable(address, limit_s) as endpoint:
        return _answer(endpoint, limit_s, tls)  # may block: the loop, like the thread, is this one target's


def _answer(address: str, limit_s: float, tls: Path | None) -> _Told | Obstacle:
    with open_channel(grpc, address, tls) as channel:
        # Asked at once, so that both together take no longer than one.
        facts = agent_pb2_grpc.AgentServiceStub(channel).GetHost.future(agent_pb2.GetHostRequest(), timeout=limit_s)
        try:
            response = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=limit_s)
        except grpc.RpcError as error:
            return _obstacle(error, address, limit_s)
        is_serving = response.status == health_pb2.HealthCheckResponse.SERVING
        return _Told(Health.SERVING if is_serving else Health.NOT_SERVING, _reservation(facts))


def _reservation(facts: Any) -> Reservation | None:
    try:
        found = optional(facts.result(), "reservation")
    except (grpc.RpcError, grpc.FutureCancelledError):  # of a server that has health alone
        return None
    return None if found is None else wire.from_reservation(found)


def _obstacle(error: grpc.RpcError, address: str, limit_s: float) -> Obstacle:
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return Obstacle(f"nothing within {limit_s:g} s")
    if error.code() == grpc.StatusCode.UNIMPLEMENTED:
        return Obstacle("what listens there is no enginebench agent")
    if error.code() in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED):
        return Obstacle(error.details() or "it does not let you in", "")
    return find_obstacle(error.details(), address)
