"""A job as it is now."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from enginebench_controller.jobs.progress import MadeKind, Progress


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
    progress: Progress
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
    def state_words(self) -> str:
        """Its state, and of one that is done what did not come out as asked."""
        counts = ((self.progress.failed, "failures"), (self.progress.wrong, "wrong outputs"))
        short = " and ".join(word for count, word in counts if count)
        return f"done, with {short}" if self.state is JobState.DONE and short else self.state.value

    def _made(self, kind: MadeKind) -> tuple[str, ...]:
        return tuple(made.id for made in self.progress.made if made.kind is kind)
