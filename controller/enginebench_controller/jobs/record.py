"""A job as it is now: its state, its cells, what it has made so far, and when it will probably be done."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any


class CellState(StrEnum):
    """Where one cell is; those that have ended are called as their measurements are.

    WRONG is one with numbers whose outputs are not what its model computes: known once all have been measured.
    """

    QUEUED = "queued"
    RUNNING = "running"
    OK = "ok"
    INCONCLUSIVE = "inconclusive"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WRONG = "wrong outputs"

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self not in (CellState.QUEUED, CellState.RUNNING)


class MadeKind(StrEnum):
    """What jobs make."""

    BENCHMARK = "benchmark"
    PROFILE = "profile"
    MODEL = "model"
    SEARCH = "search"


@dataclass(frozen=True)
class Made:
    """Something that a job has put into the store or the library; a benchmark is there before its first measurement.

    `id` is that of the benchmark, the profile or the search, or the digest of the model version. A search is there
    before its answer.
    """

    kind: MadeKind
    id: str


@dataclass(frozen=True)
class Cell:
    """One configuration of a job, or one of its other steps.

    `doing` says what a running one does, `reason` why one failed; `outcome_id` is that of the measurement or profile
    that it became. Names come from files and engines.
    """

    title: str
    state: CellState = CellState.QUEUED
    target: str = ""
    model: str = ""
    engine: str = ""
    device: str = ""
    batch: int | None = None
    cores: int | None = None
    doing: str = ""
    reason: str = ""
    outcome_id: str | None = None


@dataclass(frozen=True)
class JobProgress:
    """What a job says of itself. `total` is None as long as nobody knows how many cells there will be.

    `seconds_left` is an estimate made at `told_at_unix_ns`, None where there is nothing to base one on.
    """

    cells: tuple[Cell, ...] = ()
    total: int | None = None
    doing: str = ""
    seconds_left: float | None = None
    notes: tuple[str, ...] = ()
    made: tuple[Made, ...] = ()
    started_at_unix_ns: int | None = None
    told_at_unix_ns: int | None = None

    @property
    def done(self) -> int:
        """How many cells have ended, however they did."""
        return sum(cell.state.has_ended for cell in self.cells)

    @property
    def failed(self) -> int:
        """How many cells failed."""
        return sum(cell.state is CellState.FAILED for cell in self.cells)

    @property
    def wrong(self) -> int:
        """How many cells have wrong outputs."""
        return sum(cell.state is CellState.WRONG for cell in self.cells)

    def stopped(self) -> "JobProgress":
        """The same once its job is gone: what had not ended never will."""
        cells = (cell if cell.state.has_ended else _never_ended(cell) for cell in self.cells)
        return replace(self, cells=tuple(cells), doing="", seconds_left=None)


def _never_ended(cell: Cell) -> Cell:
    return replace(cell, state=CellState.CANCELLED, doing="")


@dataclass(frozen=True)
class JobEnding:
    """How the command of a job ended; `crashed` where it was by an error nobody foresaw."""

    exit_code: int
    ended_at_unix_ns: int
    crashed: bool = field(default=False)


class JobState(StrEnum):
    """Where a job is. LOST: its process is gone without a word, killed or with the machine."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def has_ended(self) -> bool:
        """Whether nothing more comes of it."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True)
class Job:
    """A command that runs on its own, as it was when it was looked at. Instants are in nanoseconds since the epoch.

    `kind` is the command, such as "run" or "models quantize", and `plan` the plan it was given, if any; what it makes
    is to be shown beside the benchmark `compare_with`. QUEUED is one that starts, plans, or waits until another command
    has left this machine. DONE has its results, though cells of it may have failed. `seconds_left` is an estimate, None
    where nobody can tell. `cancelling`: it was cancelled and is still putting its things away.
    """

    id: str
    folder: Path
    title: str
    kind: str
    arguments: tuple[str, ...]
    state: JobState
    created_at_unix_ns: int
    started_at_unix_ns: int | None
    ended_at_unix_ns: int | None
    progress: JobProgress
    seconds_left: float | None
    exit_code: int | None
    cancelling: bool
    plan: Mapping[str, Any] | None = None
    compare_with: str | None = None

    @property
    def benchmarks(self) -> tuple[str, ...]:
        """The ids of the benchmarks it has made."""
        return self._made(MadeKind.BENCHMARK)

    @property
    def profiles(self) -> tuple[str, ...]:
        """The ids of the profiles it has made."""
        return self._made(MadeKind.PROFILE)

    @property
    def models(self) -> tuple[str, ...]:
        """The digests of the model versions it has made."""
        return self._made(MadeKind.MODEL)

    @property
    def searches(self) -> tuple[str, ...]:
        """The ids of the searches it has begun, or gone on with."""
        return self._made(MadeKind.SEARCH)

    @property
    def state_words(self) -> str:
        """Its state, and of one that is done what did not come out as asked."""
        counts = ((self.progress.failed, "failures"), (self.progress.wrong, "wrong outputs"))
        short = " and ".join(word for count, word in counts if count)
        return f"done, with {short}" if self.state is JobState.DONE and short else self.state.value

    def _made(self, kind: MadeKind) -> tuple[str, ...]:
        return tuple(made.id for made in self.progress.made if made.kind is kind)
