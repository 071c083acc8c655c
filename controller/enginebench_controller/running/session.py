"""Open connections to the targets of one command, and what they offer."""

import asyncio
import contextlib
import difflib
import sys
import time
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from enginebench_controller import convert
from enginebench_controller.errors import InputError
from enginebench_controller.home import Home
from enginebench_controller.records import LOCAL_TARGET, Target, TargetSnapshot
from enginebench_controller.running.client import AgentClient
from enginebench_controller.running.local_agent import local_agent
from enginebench_controller.running.skew import skew_sentence
from enginebench_controller.running.target_address import check_address


@dataclass(frozen=True)
class Session:
    """Connections by target name, and a fresh snapshot of each target in the order asked for."""

    clients: Mapping[str, AgentClient]
    snapshots: tuple[TargetSnapshot, ...]


@contextlib.asynccontextmanager
async def open_session(
    home: Home,
    names: Sequence[str],
    *,
    refresh: bool = False,
    trusted_models: Sequence[str] = (),
    within_s: float | None = None,
) -> AsyncIterator[Session]:
    """Connect to the named targets, or to a local agent that lives as long as the session when none is named.

    A name is one that `enginebench targets add` recorded, "local", or an address. Snapshots and peaks are
    kept in the store. A local agent may run the `trusted_models` (digests) although their format can execute code;
    other targets decide for themselves. With `within_s`, engines that have not answered by then are told as being
    asked, and `completed` waits for them. Raises `InputError` for an unknown name and `UnreachableError` for a target
    that does not answer.
    """
    async with contextlib.AsyncExitStack() as stack:
        wanted = dict.fromkeys(names or (LOCAL_TARGET,))
        targets = [await _target(home, name, stack, trusted_models) for name in wanted]
        clients = {t.name: await stack.enter_async_context(AgentClient(t.name, t.address, home.tls)) for t in targets}
        snapshots = await asyncio.gather(
            *(snapshot(target, clients[target.name], refresh=refresh, within_s=within_s) for target in targets)
        )
        for seen in snapshots:
            await asyncio.to_thread(home.store.save_snapshot, seen)
            await _keep_peaks(home, clients[seen.target])
            if sentence := skew_sentence(seen.target, seen.host):
                print(sentence, file=sys.stderr)
        yield Session(clients, tuple(snapshots))


@contextlib.asynccontextmanager
async def open_client(home: Home, name: str, *, trusted_models: Sequence[str] = ()) -> AsyncIterator[AgentClient]:
    """Connect to one target, named as for `open_session`, once it answers. Raises as that does."""
    async with contextlib.AsyncExitStack() as stack:
        target = await _target(home, name, stack, trusted_models)
        client = await stack.enter_async_context(AgentClient(target.name, target.address, home.tls))
        await client.host()
        yield client


def check_targets(home: Home, names: Iterable[str]) -> None:
    """Raise `InputError` for the first that is no target of the store, nor this machine, nor an address."""
    known = [target.name for target in home.store.targets()]
    for name in names:
        _check_known(name, known)


async def completed(home: Home, session: Session, seen: TargetSnapshot, *, refresh: bool = False) -> TargetSnapshot:
    """The snapshot with the engines that were being asked, once they have answered or their time is up.

    With `refresh` all are asked anew, and those of new environments for the first time.
    """
    engines = await session.clients[seen.target].engines(refresh=refresh)
    whole = replace(seen, seen_at_unix_ns=time.time_ns(), engines=tuple(map(convert.from_engine, engines)))
    await asyncio.to_thread(home.store.save_snapshot, whole)
    return whole


async def snapshot(
    target: Target, client: AgentClient, *, refresh: bool = False, within_s: float | None = None
) -> TargetSnapshot:
    """What a target says of itself now. Raises `UnreachableError`."""
    host = await client.host()
    engines = await client.engines(refresh=refresh, within_s=within_s)
    return TargetSnapshot(
        target=target.name,
        address=target.address,
        seen_at_unix_ns=time.time_ns(),
        host=convert.from_host(host),
        engines=tuple(convert.from_engine(engine) for engine in engines),
    )


async def _keep_peaks(home: Home, client: AgentClient) -> None:
    """Take over what the target was calibrated to, by this controller, another one or its owner."""
    peaks = [convert.from_peak(message, client.name) for message in await client.peaks()]
    if known := [peak for peak in peaks if peak is not None]:
        await asyncio.to_thread(home.store.add_peaks, known)


async def _target(home: Home, name: str, stack: contextlib.AsyncExitStack, trusted_models: Sequence[str]) -> Target:
    known = {target.name: target for target in home.store.targets()}
    if name in known:
        return known[name]
    _check_known(name, known)
    if name == LOCAL_TARGET:
        return await stack.enter_async_context(local_agent(home.path, trusted_models=trusted_models))
    return Target(name, name, added_at_unix_ns=0)


def _check_known(name: str, known: Collection[str]) -> None:
    if name in known or name == LOCAL_TARGET:
        return
    if ":" in name:
        check_address(name)
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "add it with `enginebench targets add NAME HOST:PORT`"
    raise InputError(f"there is no target {name!r}; {hint}")
