"""What a command is about to carry out, written down before its first run, so that nothing is lost with the command.

A plan is a file in `HOME/pending/`, there until every outcome is in the store and no target keeps a run of it. While
its command lives, the kernel holds a lock on that file for it, however it ends; whoever has the lock alone may act on
the plan. So what was interrupted is collected once, and never beside the command itself.
"""

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO, Literal

from pydantic import TypeAdapter, ValidationError

from enginebench_controller.errors import InputError
from enginebench_controller.planning.expand import Job
from enginebench_controller.planning.turns import Interleave
from enginebench_controller.running.outcome import PassOrder
from enginebench_controller.running.undertaking import Undertaking
from enginebench_proto.agreed.durable import make_private_folder, sync_folder, whole_file

FOLDER = "pending"


@dataclass(frozen=True)
class PendingJob:
    """A job, and the id its measurement or profile will have."""

    outcome_id: str
    job: Job


@dataclass(frozen=True)
class Pending:
    """The jobs of a command in the order they are carried out in; `passes` is there where they are per-layer passes.

    `id` is that of the benchmark, or what the passes have in common.
    """

    id: str
    name: str
    timeout_ns: int
    jobs: tuple[PendingJob, ...]
    interleave: Interleave | None = None
    passes: PassOrder | None = None
    wait_quiet_ns: int = 0
    form: Literal[1] = 1

    @property
    def outcome_ids(self) -> tuple[str, ...]:
        """The ids that the measurements or profiles will have."""
        return tuple(one.outcome_id for one in self.jobs)

    def undertakings(self) -> tuple[Undertaking, ...]:
        """The jobs, to be carried out or taken up."""
        return tuple(Undertaking(one.job, one.outcome_id) for one in self.jobs)


@dataclass(frozen=True)
class Claim:
    """A plan that nobody but this process may act on."""

    pending: Pending
    _path: Path

    def drop(self) -> None:
        """Remove the plan: nothing of it is left to be done."""
        self._path.unlink(missing_ok=True)
        sync_folder(self._path.parent)


def pending_jobs(undertakings: Iterable[Undertaking]) -> tuple[PendingJob, ...]:
    """Jobs under way as a plan has them."""
    return tuple(PendingJob(one.outcome_id, one.job) for one in undertakings)


@contextmanager
def written(home: Path, pending: Pending) -> Iterator[Claim]:
    """Write a plan down, durably, and claim it for as long as the block lasts. Raises `InputError` where it cannot."""
    path = home / FOLDER / f"{pending.jobs[0].outcome_id}.json"
    try:
        make_private_folder(path.parent)
        stream = _put(path, _form().dump_json(pending))
    except OSError as error:
        raise InputError(f"the plan cannot be written to {path.parent} ({error.strerror}): make room there") from error
    with stream:
        yield Claim(pending, path)


def plans(home: Path) -> tuple[Path, ...]:
    """The plans that are there, oldest first."""
    return tuple(sorted((home / FOLDER).glob("*.json"), key=_written_ns))


@contextmanager
def claimed(path: Path) -> Iterator[Claim | None]:
    """Claim a plan for as long as the block lasts; None for one that a living command has, or that is gone.

    Raises `InputError` for a file that this version cannot read.
    """
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        yield None
        return
    with stream:
        yield Claim(_read(stream, path), path) if _locked(stream) and path.exists() else None


def _put(path: Path, content: bytes) -> BinaryIO:
    """Write the file whole and locked before it has its name; returns what holds the lock."""
    with whole_file(path, partial=path.with_suffix(".part")) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        stream.write(content)
        # The lock belongs to what was opened, so it is held as long as either is.
        return os.fdopen(os.dup(stream.fileno()), "rb")


def _locked(stream: BinaryIO) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(stream: BinaryIO, path: Path) -> Pending:
    try:
        return _form().validate_json(stream.read())
    except ValidationError as error:
        raise InputError(
            f"{path} is no plan that this version of enginebench can take up; "
            "use the version that was interrupted, or remove the file to give its results up"
        ) from error


def _written_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0


@cache
def _form() -> TypeAdapter[Pending]:
    return TypeAdapter(Pending)
