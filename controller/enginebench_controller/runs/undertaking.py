"""What a command is about to carry out, written down before its first run, and what came of it so far.

A plan is a file in `HOME/pending/`, there until every outcome is in the store and no target keeps a run of it. While
its command lives, the kernel holds a lock on that file for it, however it ends; whoever has the lock alone may act on
the plan. So what was interrupted is collected once, and never beside the command itself.
"""

import fcntl
import os
import re
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from pydantic import (
    BeforeValidator,
    Field,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    WrapSerializer,
)

from enginebench_controller.errors import InputError
from enginebench_controller.plan.expand import Case, Interleave
from enginebench_controller.records import BlockSamples, Failure, Measurement, PassOrder
from enginebench_proto.agreed.durable import is_at, make_private_folder, sync_folder, whole_file
from enginebench_proto.v1 import run_pb2

ATTEMPTS = 3
"""So often a process is begun in all where the agent forgets its runs: one that a run brings down is not asked on."""

Keep = Callable[[Measurement, Iterable[BlockSamples]], Awaitable[None]]
"""Stores a measurement with its raw samples durably; returns only when it is."""

StoredIds = Callable[[Sequence[str]], Collection[str]]
"""Gives, of ids of benchmarks, measurements and profiles, those that the store has."""


@dataclass
class Undertaking:
    """A case under way: the results of its processes, or why there are none.

    Each attempt at a process is a run of its own, so that what comes late of an earlier one can never be taken for a
    result of a later one. `ended` once nothing of it is carried out any more, and `settled` once the outcome is in the
    store.
    """

    case: Case
    results: dict[int, run_pb2.RunResult] = field(default_factory=dict)
    failure: Failure | None = None
    settled: bool = False
    ended: bool = False
    _attempts: dict[int, int] = field(default_factory=dict)

    @property
    def outcome_id(self) -> str:
        """The id that its measurement or profile will have."""
        return self.case.outcome_id

    @property
    def goes_on(self) -> bool:
        """Whether nothing has failed yet."""
        return self.failure is None and not any(result.HasField("failure") for result in self.results.values())

    @property
    def processes(self) -> tuple[int, ...]:
        """The processes that were begun."""
        return tuple(sorted(self._attempts))

    @property
    def run_ids(self) -> list[str]:
        """The runs that a target may know of, those of earlier attempts too."""
        return [self._run_id(process, one) for process in self.processes for one in range(self._attempts[process])]

    @property
    def is_short(self) -> bool:
        """Whether any process is still to be carried out."""
        return any(map(self.lacks, range(self._all_processes)))

    def lacks(self, process: int) -> bool:
        """Whether this process is still to be carried out."""
        return self.goes_on and not self.settled and process not in self.results and process < self._all_processes

    def attempts(self, process: int) -> int:
        """How often a process was begun."""
        return self._attempts.get(process, 0)

    def begin(self, process: int) -> str:
        """Count an attempt at a process; returns the id of its run."""
        self._attempts[process] = self.attempts(process) + 1
        return self.run_id(process)

    def was_refused(self, process: int) -> None:
        """Take the latest attempt back: the target knows of no such run, and need not forget it."""
        self._attempts[process] -= 1
        if not self._attempts[process]:
            del self._attempts[process]

    def run_id(self, process: int) -> str:
        """The run of the latest attempt at a process that was begun."""
        return self._run_id(process, self._attempts[process] - 1)

    def settle(self) -> None:
        """The outcome is in the store: what it was made of is needed no more, and of 10,000 cases it is much."""
        self.settled = True
        self.results.clear()

    def cut(self, processes: int) -> None:
        """Let so many processes be all that are asked for: each has done its share of a rule for more of them."""
        rule = self.case.configuration.stop
        each = partial(_share, parts=rule.processes, of=processes)
        rule = replace(
            rule,
            processes=processes,
            min_duration_ns=each(rule.min_duration_ns),
            max_duration_ns=each(rule.max_duration_ns),
            min_iterations=each(rule.min_iterations),
        )
        self.case = replace(self.case, configuration=replace(self.case.configuration, stop=rule))

    def recognize(self, run_ids: Iterable[str]) -> None:
        """Take those of these runs for begun that are of this case."""
        for match in filter(None, map(re.compile(rf"{self.outcome_id}-(\d+)-(\d+)").fullmatch, run_ids)):
            process, attempt = int(match[1]), int(match[2])
            self._attempts[process] = max(self.attempts(process), attempt + 1)

    @property
    def _all_processes(self) -> int:
        return self.case.configuration.stop.processes

    def _run_id(self, process: int, attempt: int) -> str:
        return f"{self.outcome_id}-{process}-{attempt}"


def _share(whole: int, *, parts: int, of: int) -> int:
    """What `of` parts of a whole come to, each rounded as the processes' shares are."""
    return -(-whole // parts) * of


FOLDER = "pending"

_DIGEST = re.compile("[0-9a-f]{64}")
_INPUTS_KEPT_S = 7 * 86_400


def _from_file(stored: Any) -> Any:
    """In the file the id stands beside the case; elsewhere in it."""
    if not isinstance(stored, list) or not all(isinstance(one, dict) and "job" in one for one in stored):
        return stored
    return [{**one["job"], "outcome_id": one.get("outcome_id")} for one in stored]


def _to_file(cases: Any, plain: SerializerFunctionWrapHandler) -> list[dict[str, Any]]:
    return [
        {"outcome_id": one["outcome_id"], "job": {key: value for key, value in one.items() if key != "outcome_id"}}
        for one in plain(cases)
    ]


@dataclass(frozen=True)
class Pending:
    """The cases of a command in the order they are carried out in; `passes` is there where they are per-layer passes.

    `id` is that of the benchmark, or what the passes have in common, and `executor` the cluster that carries them out,
    where one does.
    """

    id: str
    name: str
    timeout_ns: int
    cases: Annotated[tuple[Case, ...], Field(alias="jobs"), BeforeValidator(_from_file), WrapSerializer(_to_file)]
    interleave: Interleave | None = None
    passes: PassOrder | None = None
    wait_quiet_ns: int = 0
    executor: str | None = None
    form: Literal[1] = 1

    @property
    def outcome_ids(self) -> tuple[str, ...]:
        """The ids that the measurements or profiles will have."""
        return tuple(one.outcome_id for one in self.cases)

    def undertakings(self) -> tuple[Undertaking, ...]:
        """The cases, to be carried out or taken up."""
        return tuple(map(Undertaking, self.cases))


@dataclass(frozen=True)
class PlanClaim:
    """A plan that nobody but this process may act on."""

    pending: Pending
    _path: Path

    def drop(self) -> None:
        """Remove the plan: nothing of it is left to be done."""
        self._path.unlink(missing_ok=True)
        sync_folder(self._path.parent)

    def leave(self, cases: Sequence[Case]) -> None:
        """Remove the plan but for these cases, to be taken up by whoever does. Raises as `written` does."""
        self.drop()
        if cases:
            with written(self._path.parents[1], replace(self.pending, cases=tuple(cases))):
                pass


@contextmanager
def written(home: Path, pending: Pending) -> Iterator[PlanClaim]:
    """Write a plan down, durably, and claim it for as long as the block lasts. Raises `InputError` where it cannot."""
    path = home / FOLDER / f"{pending.cases[0].outcome_id}.json"
    try:
        make_private_folder(path.parent)
        stream = _put(path, _form().dump_json(pending, by_alias=True))
    except OSError as error:
        raise InputError(f"the plan cannot be written to {path.parent} ({error.strerror}): make room there") from error
    with stream:
        yield PlanClaim(pending, path)


def sweep_inputs(inputs: Path, home: Path) -> None:
    """Remove given inputs that no plan has named for a week: whoever needs them again prepares them again.

    Between two of its steps a search has no plan, but goes on with what was prepared for all of them.
    """
    with suppress(OSError):
        files = list(inputs.iterdir())
        named = {digest for path in plans(home) for digest in _DIGEST.findall(path.read_text("ascii", "replace"))}
        for file in files:
            if file.name in named:
                os.utime(file)
            elif file.stat().st_mtime < time.time() - _INPUTS_KEPT_S:
                file.unlink()


def plans(home: Path) -> tuple[Path, ...]:
    """The plans that are there, oldest first."""
    return tuple(sorted((home / FOLDER).glob("*.json"), key=_written_ns))


@contextmanager
def claimed(path: Path) -> Iterator[PlanClaim | None]:
    """Claim a plan for as long as the block lasts; None for one that a living command has, or that is gone.

    Raises `InputError` for a file that this version cannot read.
    """
    try:
        stream = path.open("r+b")  # over NFS only what was opened for writing can be locked alone: flock(2)
    except FileNotFoundError:
        yield None
        return
    with stream:
        yield PlanClaim(_read(stream, path), path) if _locked(stream) and is_at(path, stream) else None


def unclaimed(path: Path) -> Pending | None:
    """What is in a plan that nobody has now, to look at and not to act on; None where `claimed` gives None.

    It is nobody's again at once: who looks may take his time, and whoever takes it up meanwhile is to have it. Raises
    as `claimed` does.
    """
    with claimed(path) as claim:
        return None if claim is None else claim.pending


def under_way(home: Path, stored_ids: StoredIds) -> frozenset[str]:
    """The benchmarks of which something is still to come, of living commands or interrupted ones.

    Where all is in the store, a plan is there for the sake of a target that has yet to forget its runs.
    """
    found = set()
    for path in plans(home):
        with suppress(FileNotFoundError), path.open("rb") as stream:
            pending = _read(stream, path)
            if not set(pending.outcome_ids) <= set(stored_ids(pending.outcome_ids)):
                found.add(pending.id)
    return frozenset(found)


def missing_outcomes(home: Path, stored_ids: StoredIds) -> int:
    """How many measurements and profiles of interrupted commands are not in the store."""
    return sum(not one.settled for pending in _interrupted(home) for one in undertakings_of(pending, stored_ids))


def outcomes_held_by(target: str, home: Path, stored_ids: StoredIds) -> int:
    """How many of the missing outcomes of interrupted commands can come from nowhere but this target."""
    asked = (pending for pending in _interrupted(home) if pending.executor is None)
    cases = (one for pending in asked for one in undertakings_of(pending, stored_ids))
    return sum(one.case.target == target and not one.settled for one in cases)


def _interrupted(home: Path) -> Iterator[Pending]:
    for path in plans(home):
        with suppress(InputError):
            if (pending := unclaimed(path)) is not None:
                yield pending


def undertakings_of(pending: Pending, stored_ids: StoredIds) -> tuple[Undertaking, ...]:
    """The cases of a plan; settled are those whose outcome is in the store, or whose benchmark is not.

    A command stores its benchmark before its first run: where it is not there, nothing has begun, or it was removed.
    """
    cases = pending.undertakings()
    stored = stored_ids([pending.id, *pending.outcome_ids])
    for one in cases:
        one.settled = one.outcome_id in stored or (pending.passes is None and pending.id not in stored)
    return cases


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
