"""How far a job is: its cells, what it has made so far, and when it will probably be done."""

from dataclasses import dataclass, field, replace
from enum import StrEnum


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


@dataclass(frozen=True)
class Made:
    """Something that a job has put into the store or the library; a benchmark is there before its first measurement.

    `id` is that of the benchmark or the profile, or the digest of the model version.
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
class Progress:
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

    def stopped(self) -> "Progress":
        """The same once its job is gone: what had not ended never will."""
        cells = (cell if cell.state.has_ended else _never_ended(cell) for cell in self.cells)
        return replace(self, cells=tuple(cells), doing="", seconds_left=None)


def _never_ended(cell: Cell) -> Cell:
    return replace(cell, state=CellState.CANCELLED, doing="")


@dataclass(frozen=True)
class Ending:
    """How the command of a job ended; `crashed` where it was by an error nobody foresaw."""

    exit_code: int
    ended_at_unix_ns: int
    crashed: bool = field(default=False)
