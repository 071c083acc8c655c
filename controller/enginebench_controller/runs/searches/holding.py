"""Searches under way and interrupted: who carries one out, and which nobody does."""

import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from enginebench_controller.errors import BusyError, EnginebenchError, InputError, UnreachableError
from enginebench_controller.home import Home
from enginebench_controller.records import Search, SearchKind
from enginebench_proto.agreed.durable import make_private_folder
from enginebench_proto.agreed.names import as_name

FOLDER = "searches"
_LOOK_S = 0.5
"""Who only asks whether anybody has a search has its lock for less than that."""


def new_search(kind: SearchKind, name: str, order: Mapping[str, Any]) -> Search:
    """A search that begins now. It is to be stored once it is `held`, so that nobody takes it for interrupted."""
    return Search(uuid.uuid4().hex[:12], kind, as_name(name), time.time_ns(), order)


@contextmanager
def held(home: Home, search_id: str) -> Iterator[None]:
    """Carry a search out, as the only one; the kernel lets go of it with the process, however that ends.

    Raises `InputError` where another command does.
    """
    lock = _lock(home, search_id)
    try:
        lock.acquire(timeout=_LOOK_S)
    except Timeout:
        raise InputError(f"the search {search_id} is under way in another command: wait for that") from None
    try:
        yield
    finally:
        if not _goes_on(home, search_id):  # nobody asks for it any more
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _goes_on(home: Home, search_id: str) -> bool:
    """Whether a search lacks its answer, as one does not that was refused before it began; so where nobody can say."""
    try:
        return any(one.answer is None for one in home.store.searches_meant(search_id))
    except EnginebenchError:
        return True


def orders_file(home: Home, search_id: str) -> Path:
    """Where a command writes down what it was to do with the answer, until that is done."""
    return home.path / FOLDER / f"{search_id}.json"


def remove_search(home: Home, search_id: str) -> None:
    """Remove a search with its steps and, once it is gone for good, what it was to write. Raises `EnginebenchError`."""
    home.store.remove_search(search_id)
    orders_file(home, search_id).unlink(missing_ok=True)


def as_stored(home: Home, search: Search) -> Search:
    """The search as it is now, as others may have had it before it was `held`. Raises `InputError` where it is gone."""
    if not home.store.searches_meant(search.id):
        raise InputError(f"the search {search.id} ({search.name}) was removed meanwhile: begin it anew if it is wanted")
    return home.store.search(search.id)


def answered(home: Home, search: Search, answer: Mapping[str, Any]) -> Search:
    """Keep the answer; returns the search with it. Raises `InputError` where the search was removed meanwhile.

    One that is there already stays: it is this one, where others had the store just after it was kept.
    """
    home.store.answer_search(search.id, answer)
    return as_stored(home, search)


@contextmanager
def resumable(home: Home, search: Search) -> Iterator[None]:
    """Raise for a target that is gone, or takes nothing for now, `UnreachableError` with what goes on from there."""
    try:
        yield
    except (UnreachableError, BusyError) as error:
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


def unwritten(home: Home) -> tuple[Search, ...]:
    """The searches with an answer, of which nobody writes what was asked for and is not there yet, oldest first."""
    asked = {path.stem for path in (home.path / FOLDER).glob("*.json")}
    if not asked:  # so that the store need not be asked
        return ()
    found = [one for one in reversed(home.store.searches()) if one.answer is not None and one.id in asked]
    return tuple(one for one in found if not is_held(home, one.id))


def to_go_on_with(home: Home, named: str) -> Search:
    """The search of this name that was interrupted, if only before all that was asked for was written.

    Raises `InputError` for an unknown one, one that is through, or one under way.
    """
    found = home.store.search(named)
    if found.answer is not None and not orders_file(home, found.id).exists():
        raise InputError(f"the search {found.id} has its answer: `enginebench show {found.id}`")
    if is_held(home, found.id):
        raise InputError(f"the search {found.id} is under way in another command: wait for that")
    return found


def is_step_of(home: Home, search_ids: frozenset[str], pending_id: str) -> bool:
    """Whether a plan in HOME/pending is of a step of these searches, or of the layers of one."""
    benchmark_id = pending_id.partition("-")[0]
    return any(benchmark_id == step.id for one in search_ids for step in home.store.steps_of(one))


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
