"""Having targets for one's own runs alone for a while, all of them or none, and giving them back."""

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from enginebench_controller import wire
from enginebench_controller.errors import EnginebenchError, InputError, ReservedError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.records import LOCAL_TARGET, Reservation
from enginebench_controller.targets.client import AgentClient
from enginebench_controller.targets.session import check_targets, open_client
from enginebench_controller.wire.fields import optional
from enginebench_proto.v1 import reservation_pb2

ASK_AGAIN_SECONDS = (1.0, 3.0)
"""Two who wait for the same targets should not go on meeting each other."""


@dataclass(frozen=True)
class ReservationOrder:
    """For how long to have targets, how long to wait until others have ended theirs, and why, for whoever meets it."""

    for_ns: int
    wait_ns: int = 0
    reason: str = ""


async def reserve(
    home: Home, names: Iterable[str], order: ReservationOrder, on_wait: Callable[[str], None]
) -> Mapping[str, Reservation]:
    """Reserve all these targets, or none; what one had of them already is set anew.

    While it waits nothing is held, so that two who want the same ones never wait for each other; `on_wait` is told for
    whom, once. Raises `InputError` for an unknown target, `ReservedError`, `UnreachableError` and `AgentError`.
    """
    wanted = sorted(set(names))
    _check(home, wanted)
    deadline = time.monotonic() + order.wait_ns / 1e9
    is_told = False
    while True:
        try:
            return await _all_or_none(home, wanted, order)
        except ReservedError as error:
            seconds = min(random.uniform(*ASK_AGAIN_SECONDS), deadline - time.monotonic())  # noqa: S311  # no secret
            if seconds <= 0:
                if not order.wait_ns:
                    first, *others = str(error).splitlines()
                    error.args = ("\n".join((f"{first.rstrip('.')}; `--wait 10m` waits for so long", *others)),)
                raise
            if not is_told:
                on_wait(str(error))
            is_told = True
        await asyncio.sleep(seconds)


async def release(home: Home, name: str) -> Reservation | None:
    """End the reservation of a target, whoever has it; returns what it was, None where there was none.

    Raises `InputError` for an unknown target, `UnreachableError`, and `AgentError` for somebody else's that the target
    does not let one end.
    """
    _check(home, [name])
    async with open_client(home, name) as client:
        if client.reservation is None:
            return None
        answer = await client.release(client.reservation.holder)
    return wire.from_reservation(answer.released) if answer.HasField("released") else None


def _check(home: Home, names: Sequence[str]) -> None:
    check_targets(home, names)
    if LOCAL_TARGET in names:
        raise InputError(
            "this machine's own agent lives only as long as a command, and one command has it at a time: there is "
            "nothing to reserve; for a longer one run `enginebench-agent serve` and add it as a target"
        )


async def _all_or_none(home: Home, names: Sequence[str], order: ReservationOrder) -> Mapping[str, Reservation]:
    taken: dict[str, reservation_pb2.ReserveResponse] = {}
    unsure: list[str] = []

    async def take(client: AgentClient, name: str) -> None:
        try:
            taken[name] = await client.reserve(order.for_ns, order.reason)
        except UnreachableError:  # perhaps it was the answer that did not get through
            unsure.append(name)
            raise

    try:
        for name in names:
            async with open_client(home, name) as client:
                await _answered(take(client, name))
    except BaseException as error:
        stuck = [*await _give_back(home, taken), *unsure]
        if isinstance(error, EnginebenchError) and (stuck or len(names) > 1):
            error.args = (f"{error}\n{_what_is_left(names, stuck)}",)
        raise
    return {name: wire.from_reservation(answer.reservation) for name, answer in taken.items()}


async def _answered(asking: Coroutine[Any, Any, None]) -> None:
    """Wait for the answer, also where this is cancelled: what a target has granted by then is to be given back."""
    task = asyncio.ensure_future(asking)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise


async def _give_back(home: Home, taken: Mapping[str, reservation_pb2.ReserveResponse]) -> list[str]:
    """Put everything back as it was; returns the targets where that cannot be done."""
    stuck = []
    for name, answer in reversed(list(taken.items())):
        before = optional(answer, "replaced")
        try:
            async with open_client(home, name) as client:
                if before is None:
                    await client.release(answer.reservation.holder)
                else:
                    await client.reserve(before.left_ns, before.reason)
        except EnginebenchError:
            stuck.append(name)
    return stuck


def _what_is_left(names: Sequence[str], stuck: Sequence[str]) -> str:
    if not stuck:
        return f"so none of these {len(names)} targets was reserved"
    return (
        f"so none was to be reserved, but {', '.join(sorted(stuck))} may be: `enginebench targets release` once they "
        "answer, or their time comes to its end"
    )
