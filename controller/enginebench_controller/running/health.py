"""Whether targets answer: asked of all at once, each for no longer than a limit."""

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from enginebench_controller.records import Target
from enginebench_controller.running.client import CHANNEL_OPTIONS
from enginebench_controller.running.ssh import SshError
from enginebench_controller.running.tunnel import reachable

_AT_ONCE = 32

# What gRPC's core says, in lower case, and what a person calls it.
_CAUSES = {
    # c-ares and the system's resolver say it in their own words each.
    "errors resolving": "no machine of this name is known",
    "dns resolution failed": "no machine of this name is known",
    "connection refused": "nothing listens on this port",
    "no route to host": "there is no way to this machine",
    "network is unreachable": "there is no way to this machine",
}


class Health(StrEnum):
    """What became of the question."""

    SERVING = "serving"
    NOT_SERVING = "not serving"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class HealthAnswer:
    """What a target answered, and in which time; `cause` says why there is no good answer, else it is empty."""

    target: Target
    health: Health
    seconds: float
    cause: str = ""

    @property
    def sentence(self) -> str:
        """The answer for a person; where there is none, with what to do."""
        where = f"target {self.target.name!r} at {self.target.address}"
        if self.health is Health.SERVING:
            return f"{where} answers"
        if self.health is Health.NOT_SERVING:
            return f"{where} answers that it is not serving; look at its agent's own output"
        return f"{where} does not answer ({self.cause}): start `enginebench-agent serve` there, or correct the address"


def ask_health(targets: Sequence[Target], limit_s: float) -> tuple[HealthAnswer, ...]:
    """Ask the standard health service of every target, all at once.

    Takes about `limit_s` at most, and as much again where there are tunnels to open first. Never raises.
    """
    if not targets:
        return ()
    with ThreadPoolExecutor(min(len(targets), _AT_ONCE), "health") as threads:
        return tuple(threads.map(lambda target: _ask(target, limit_s), targets))


def _ask(target: Target, limit_s: float) -> HealthAnswer:
    begun_s = monotonic()
    try:
        health, cause = asyncio.run(_answer_through(target.address, limit_s))
    except SshError as error:
        health, cause = Health.UNREACHABLE, f"ssh: {error.cause}"
    return HealthAnswer(target, health, monotonic() - begun_s, cause)


async def _answer_through(address: str, limit_s: float) -> tuple[Health, str]:
    async with reachable(address, limit_s) as endpoint:
        return _answer(endpoint, limit_s)  # may block: the loop, like the thread, is this one target's


def _answer(address: str, limit_s: float) -> tuple[Health, str]:
    with grpc.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        try:
            response = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=limit_s)
        except grpc.RpcError as error:
            return Health.UNREACHABLE, _cause(error, limit_s)
    is_serving = response.status == health_pb2.HealthCheckResponse.SERVING
    return (Health.SERVING, "") if is_serving else (Health.NOT_SERVING, "")


def _cause(error: grpc.RpcError, limit_s: float) -> str:
    if error.code() == grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"nothing within {limit_s:g} s"
    if error.code() == grpc.StatusCode.UNIMPLEMENTED:
        return "what listens there is no enginebench agent"
    said = (error.details() or "").lower()
    return next((cause for part, cause in _CAUSES.items() if part in said), "the connection failed")
