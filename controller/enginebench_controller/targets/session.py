"""Open connections to the targets of one command, to an agent of its own on this machine where none is named."""

import asyncio
import contextlib
import difflib
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from enginebench_controller import wire
from enginebench_controller.errors import InputError, UnknownFormatError
from enginebench_controller.home import Home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.records import LOCAL_TARGET, Peak, Reservation, Target, TargetSnapshot
from enginebench_controller.targets.addresses import check_address
from enginebench_controller.targets.client import CALL_SECONDS, AgentClient, clock_sentence, skew_sentence
from enginebench_controller.targets.connections import Connections
from enginebench_controller.targets.local_agent import local_agent, remark

GREETINGS_AT_ONCE = 64
"""So many handshakes are under way together: with a thousand at once, the first would be given up before its turn."""

PATIENCE_SECONDS = 3.0
"""Whoever waits for longer for a target's first word is told so."""

WAIT_SECONDS = 60.0
"""So long one call waits for engines, and then another does: while a target measures, they wait for its end."""


@dataclass(frozen=True)
class TargetSession:
    """Connections by target name, and a fresh snapshot of each target in the order asked for."""

    clients: Mapping[str, AgentClient]
    snapshots: tuple[TargetSnapshot, ...]

    def reservation(self, target: str) -> Reservation | None:
        """Who had reserved a target as it was last asked for its facts."""
        found = self.clients[target].reservation
        return None if found is None else wire.from_reservation(found)


@contextlib.asynccontextmanager
async def open_session(
    home: Home,
    names: Sequence[str],
    *,
    engines: Collection[str] = (),
    refresh: bool = False,
    trusted_models: Sequence[str] = (),
    within_s: float | None = None,
) -> AsyncIterator[TargetSession]:
    """Connect to the named targets, or to a local agent that lives as long as the session when none is named.

    A name is one that `enginebench targets add` recorded, "local", or an address. Snapshots and peaks are
    kept in the store. A local agent asks only the `engines` of these names, if any are given, as long as they are what
    the store knows of this machine. It may run the `trusted_models` (digests) although their format can execute code;
    other targets decide for themselves. With `within_s`, engines that have not answered by then are told as being
    asked, `completed` waits for them, and until then the store keeps what it knows of the target. Raises `InputError`
    for an unknown name and `UnreachableError` for a target that does not answer.
    """
    async with contextlib.AsyncExitStack() as stack:
        added = {one.name: one for one in await asyncio.to_thread(home.store.targets)}
        wanted = dict.fromkeys(names or (LOCAL_TARGET,))
        targets = [await _target(home, name, added, stack, trusted_models) for name in wanted]
        among = Connections()
        clients = {one.name: AgentClient(one.name, one.address, home.tls, among) for one in targets}
        for client in clients.values():
            await stack.enter_async_context(client)
        known = {one.target: one for one in await asyncio.to_thread(home.store.snapshots)}
        at_once = asyncio.Semaphore(GREETINGS_AT_ONCE)

        async def greet(target: Target) -> _Greeting:
            async with at_once, clients[target.name].kept():
                return await _greet(target, clients[target.name], known.get(target.name), engines, refresh, within_s)

        greetings = await asyncio.gather(*map(greet, targets))
        await asyncio.to_thread(home.store.save_snapshot, *(one.kept for one in greetings))
        if peaks := [peak for one in greetings for peak in one.peaks]:
            await asyncio.to_thread(home.store.add_peaks, peaks)
        session = TargetSession(clients, tuple(one.seen for one in greetings))
        for told in _one_agent_sentences(targets):
            remark.get()(told)
        for one in greetings:
            name = one.seen.target
            for sentence in (
                skew_sentence(name, one.seen.host),
                clock_sentence(name, clients[name].clock_behind_ns),
                _reserved_sentence(name, session.reservation(name)),
            ):
                if sentence:
                    remark.get()(sentence)
        yield session


def _one_agent_sentences(targets: Iterable[Target]) -> Iterator[str]:
    """Of each agent that has several names here."""
    names: dict[str, list[str]] = {}
    for one in targets:
        names.setdefault(one.address, []).append(one.name)
    for address, called in names.items():
        if len(called) > 1:
            yield f"{' and '.join(called)} are one agent, at {address}: what it measures stands here several times"


async def once_listed(
    home: Home, names: Sequence[str], engines: Collection[str], find: Callable[[Sequence[str]], None], models: list[str]
) -> None:
    """Let `find` look `models` up; once more where a format is not known, after the targets have listed engines.

    Only a plugin knows the formats that it brings, and the store what plugins told. Raises what `find` and
    `open_session` raise.
    """
    try:
        await in_thread(find, models)
    except UnknownFormatError:
        await list_engines(home, names, engines)
        with engines_asked():
            await in_thread(find, models)


@contextlib.contextmanager
def engines_asked() -> Iterator[None]:
    """What cannot be read now, when all engines have been asked, will not be if they are asked once more."""
    try:
        yield
    except UnknownFormatError as error:
        raise UnknownFormatError(error.asked) from None


async def list_engines(home: Home, names: Sequence[str], engines: Collection[str] = ()) -> None:
    """Have the store know what engines the targets have. Raises what `open_session` raises."""
    async with open_session(home, names, engines=engines):
        pass


@contextlib.asynccontextmanager
async def open_client(home: Home, name: str, *, trusted_models: Sequence[str] = ()) -> AsyncIterator[AgentClient]:
    """Connect to one target, named as for `open_session`, once it answers. Raises as that does."""
    async with contextlib.AsyncExitStack() as stack:
        added = {one.name: one for one in await asyncio.to_thread(home.store.targets)}
        target = await _target(home, name, added, stack, trusted_models)
        client = await stack.enter_async_context(AgentClient(target.name, target.address, home.tls))
        await _facts(client)
        yield client


def means_own_agent(home: Home, names: Iterable[str] = ()) -> bool:
    """Whether `open_session` would start an agent of its own for these names, and connect to nothing else."""
    return set(names) <= {LOCAL_TARGET} and all(one.name != LOCAL_TARGET for one in home.store.targets())


def check_targets(home: Home, names: Iterable[str]) -> None:
    """Raise `InputError` for the first that is no target of the store, nor this machine, nor an address."""
    known = [target.name for target in home.store.targets()]
    for name in names:
        _check_known(name, known)


def is_removed(home: Home, name: str) -> bool:
    """Whether a target, which had this name, has none in the store any more; a bare address is always there."""
    return not _is_reachable(name, [target.name for target in home.store.targets()])


def refuse_emulated(seen: TargetSnapshot, why: str) -> None:
    """Raise `InputError` for a target whose processor is made by programs."""
    if seen.host.emulation:
        raise InputError(f"{seen.target} is emulated ({seen.host.emulation}): {why}")


async def completed(
    home: Home, session: TargetSession, seen: TargetSnapshot, *, refresh: bool = False
) -> TargetSnapshot:
    """The snapshot with the engines that were being asked, once they have answered or their time is up.

    With `refresh` all are asked anew, and those of new environments for the first time.
    A target that measures is waited for.
    """
    whole = seen
    while refresh or whole.being_asked:
        engines, _ = await session.clients[seen.target].engines(refresh=refresh, within_s=WAIT_SECONDS)
        whole = replace(seen, seen_at_unix_ns=time.time_ns(), engines=tuple(map(wire.from_engine, engines)))
        refresh = False
    await asyncio.to_thread(home.store.save_snapshot, whole)
    return whole


@dataclass(frozen=True)
class _Greeting:
    """What a target says of itself now, what is kept of that, and what it was calibrated to by whomever."""

    seen: TargetSnapshot
    kept: TargetSnapshot
    peaks: tuple[Peak, ...]


async def _facts(client: AgentClient) -> Any:
    """What a target says of itself; where that takes long, it is told what is waited for."""
    sentence = f"waiting for {client.name} (up to {CALL_SECONDS:g} s)"
    told = asyncio.get_running_loop().call_later(PATIENCE_SECONDS, lambda: remark.get()(sentence))
    try:
        return await client.host()
    finally:
        told.cancel()


async def _greet(
    target: Target,
    client: AgentClient,
    known: TargetSnapshot | None,
    names: Collection[str],
    refresh: bool,
    within_s: float | None,
) -> _Greeting:
    """Ask a target what it is. Raises `UnreachableError`.

    An agent that lives for this command imports each engine that it is asked for, which takes seconds. So it is asked
    only for what is wanted, and for all where that is not what the store `known` of it says: then more has changed.
    """
    host = wire.from_host(await _facts(client))
    is_for_us = target.name == LOCAL_TARGET and target.added_at_unix_ns == 0
    can_be_few = is_for_us and not refresh and known is not None and known.host.agent_version == host.agent_version
    few = names if can_be_few else ()

    async def asked(names: Collection[str]) -> tuple[TargetSnapshot, tuple[Peak, ...]]:
        engines, peaks = await client.engines(names, refresh=refresh, within_s=within_s)
        seen = TargetSnapshot(target.name, target.address, time.time_ns(), host, tuple(map(wire.from_engine, engines)))
        calibrated = (wire.from_peak(one, client.name, host.cpu_model) for one in peaks)
        return seen, tuple(one for one in calibrated if one is not None)

    seen, peaks = await asked(few)
    if few and known is not None and _are_as_known(few, seen, known):
        return _Greeting(seen, replace(known, host=host), peaks)
    if few:
        seen, peaks = await asked(())
    kept = known if known is not None and seen.being_asked else seen
    return _Greeting(seen, kept, peaks)


def _reserved_sentence(target: str, one: Reservation | None) -> str | None:
    """Who else has the target to himself, and what that means; None where nobody does."""
    if one is None or one.is_yours:
        return None
    return (
        f"target {target!r} is reserved {one.words}: what is begun there waits for that, or is refused where that is "
        "longer than its own time limit (`--timeout`)"
    )


def _are_as_known(names: Collection[str], seen: TargetSnapshot, known: TargetSnapshot) -> bool:
    """Whether the engines of these names are all there, and are what they were."""
    before, now = ([one for one in each.engines if one.name in names] for each in (known, seen))
    return before == now and {one.name for one in now} == set(names)


async def _target(
    home: Home,
    name: str,
    known: Mapping[str, Target],
    stack: contextlib.AsyncExitStack,
    trusted_models: Sequence[str],
) -> Target:
    if name in known:
        return known[name]
    _check_known(name, known)
    if name == LOCAL_TARGET:
        return await stack.enter_async_context(local_agent(home.path, home.agent_data, trusted_models=trusted_models))
    return Target(name, name, added_at_unix_ns=0)


def _is_reachable(name: str, known: Collection[str]) -> bool:
    return name in known or name == LOCAL_TARGET or ":" in name


def _check_known(name: str, known: Collection[str]) -> None:
    if _is_reachable(name, known):
        if name not in known and name != LOCAL_TARGET:
            check_address(name)
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "add it with `enginebench targets add NAME HOST:PORT`"
    raise InputError(f"there is no target {name!r}; {hint}")
