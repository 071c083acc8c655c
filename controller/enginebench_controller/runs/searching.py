"""Searches under way and interrupted: who carries one out, and the steps that a kill has left half-done.

What to do next is decided from the steps' results alone, so a search that was interrupted goes on where it was: what
its targets hold is collected, the step under way is finished, and the same question is asked again.
"""

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from enginebench_controller import wire
from enginebench_controller.errors import (
    ChangedTargetError,
    EnginebenchError,
    InputError,
    ReservedError,
    UnreachableError,
)
from enginebench_controller.home import Home
from enginebench_controller.records import HostFacts, Search, SearchKind
from enginebench_controller.runs.patience import patiently
from enginebench_controller.runs.remote_run import Announce
from enginebench_controller.runs.resuming import ResumeOrder, resume
from enginebench_controller.targets.session import is_removed, open_client
from enginebench_controller.verdicts.words import changes_of
from enginebench_proto.agreed.durable import make_private_folder

FOLDER = "searches"


def new_search(kind: SearchKind, name: str, order: Mapping[str, Any]) -> Search:
    """A search that begins now. It is to be stored once it is `held`, so that nobody takes it for interrupted."""
    return Search(uuid.uuid4().hex[:12], kind, name, time.time_ns(), order)


@contextmanager
def held(home: Home, search_id: str) -> Iterator[None]:
    """Carry a search out, as the only one; the kernel lets go of it with the process, however that ends.

    Raises `InputError` where another command does.
    """
    lock = _lock(home, search_id)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise InputError(f"the search {search_id} is under way in another command: wait for that") from None
    goes_on = False
    try:
        yield
    except BaseException:
        goes_on = True
        with suppress(EnginebenchError):
            goes_on = bool(home.store.searches_meant(search_id))  # and else it was refused before it began
        raise
    finally:
        if not goes_on:  # nobody asks for it any more
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


@contextmanager
def resumable(home: Home, search: Search) -> Iterator[None]:
    """Raise for a target that is gone, or somebody else's for now, `UnreachableError` with what goes on from there."""
    try:
        yield
    except (UnreachableError, ReservedError) as error:
        if not home.store.steps_of(search.id):  # nothing has begun
            raise
        raise UnreachableError(
            f"{error}\nthe search {search.id} has no answer yet and keeps what was measured: "
            f"`enginebench resume {search.id}` goes on with it"
        ) from error


def interrupted(home: Home) -> tuple[Search, ...]:
    """The searches without an answer that nobody carries out, oldest first."""
    if not any((home.path / FOLDER).glob("*.lock")):  # so that the store need not be asked
        return ()
    open_ones = [one for one in reversed(home.store.searches()) if one.answer is None]
    return tuple(one for one in open_ones if not is_held(home, one.id))


def to_go_on_with(home: Home, named: str) -> Search:
    """The interrupted search of this name. Raises `InputError` for an unknown, an answered one, or one under way."""
    found = home.store.search(named)
    if found.answer is not None:
        raise InputError(f"the search {found.id} has its answer: `enginebench show {found.id}`")
    if is_held(home, found.id):
        raise InputError(f"the search {found.id} is under way in another command: wait for that")
    return found


def is_step_of(home: Home, search_ids: frozenset[str], pending_id: str) -> bool:
    """Whether a plan in HOME/pending is of a step of these searches, or of the layers of one."""
    benchmark_id = pending_id.partition("-")[0]
    return any(benchmark_id == step.id for one in search_ids for step in home.store.steps_of(one))


async def take_up_step(home: Home, search: Search, wish: ResumeOrder, announce: Announce) -> None:
    """Collect what the targets hold of the step of a search that was under way, and finish it.

    Raises `ChangedTargetError`, before anything is settled, where a target is not what it was in its last step, and
    `UnreachableError` where one cannot be asked, or something of the step is still to come.
    """
    await _check_unchanged(home, search)
    ids = frozenset({search.id})
    mine = replace(wish, finish=True, is_wanted=lambda pending_id: is_step_of(home, ids, pending_id), is_step=True)
    taken = await resume(home, mine, announce)
    if any(one.left for one in taken):
        raise UnreachableError("\n".join(dict.fromkeys(reason for one in taken for reason in one.reasons)))


async def _check_unchanged(home: Home, search: Search) -> None:
    """Of two machines, or two states of one, no answer is made: what a search measures is compared with all before."""
    steps = await patiently(partial(home.store.steps_of, search.id))
    before: dict[str, HostFacts] = {}
    for step in steps:
        snapshots = await patiently(partial(home.store.benchmark_snapshots, step.id))
        before |= {one.target: one.host for one in snapshots}
    for target, host in before.items():
        if is_removed(home, target):
            continue  # that is told where it is asked for
        async with open_client(home, target) as client:
            changes = changes_of(host, wire.from_host(await client.host()))
        if changes:
            raise ChangedTargetError(
                f"target {target!r} is not what it was in the last step of the search {search.id} ({changes}), and "
                "what is measured there now is not to be compared with that: search anew with "
                f"`enginebench {search.kind}`, and give this one up with `enginebench remove {search.id}`"
            )


def is_held(home: Home, search_id: str) -> bool:
    """Whether a command carries a search out now."""
    lock = _lock(home, search_id)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return True
    lock.release()
    return False


def _lock(home: Home, search_id: str) -> FileLock:
    folder = home.path / FOLDER
    make_private_folder(folder)
    return FileLock(folder / f"{search_id}.lock", thread_local=False)
