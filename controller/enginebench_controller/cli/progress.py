"""How a benchmark is coming along, on stderr: a bar with the time left, and a line for every finished job."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from enginebench_controller.cli.console import plain, remark, stderr
from enginebench_controller.home import Home
from enginebench_controller.jobs.record import MadeKind
from enginebench_controller.jobs.reporting import ProgressWriter
from enginebench_controller.jobs.telling import own_folder
from enginebench_controller.plan.expand import Case, Expansion
from enginebench_controller.plan.expand import expected_ns as expected_of_rule
from enginebench_controller.records import Failure, ModelVersion, Status
from enginebench_controller.runs.remote_run import Announce, Reporter
from enginebench_controller.runs.resuming import missing_outcomes


@contextmanager
def announcing() -> Iterator[Announce]:
    """Give what tells of an expansion: its notes are remarks, and then its jobs are drawn as a bar."""
    with LiveReporter() as reporter:
        folder = own_folder()
        written = ProgressWriter(folder) if folder else None

        def announce(expansion: Expansion, benchmark_id: str | None) -> Reporter:
            for note in expansion.notes:
                remark(f"note: {note}")
            reporter.begin(expansion.jobs)
            if written is None:
                return reporter
            written.begin(expansion, benchmark_id)
            return _Both(reporter, written)

        yield announce


@contextmanager
def deriving(what: str) -> Iterator[Callable[[ModelVersion], None]]:
    """Say what a command does that makes a model version, where it is a job; gives whom to hand the version to."""
    folder = own_folder()
    written = ProgressWriter(folder) if folder else None
    if written is not None:
        written.doing(what)

    def made(version: ModelVersion) -> None:
        if written is not None:
            written.made(MadeKind.MODEL, version.digest)

    yield made


class _Both:
    """Tells two reporters."""

    def __init__(self, first: Reporter, second: Reporter) -> None:
        self._reporters = (first, second)

    def uploading(self, job: Case, sent_bytes: int, total_bytes: int) -> None:
        """See `remote_run.Reporter`."""
        for one in self._reporters:
            one.uploading(job, sent_bytes, total_bytes)

    def running(self, job: Case, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """See `remote_run.Reporter`."""
        for one in self._reporters:
            one.running(job, process, phase, elapsed_ns, expected_ns)

    def finished(self, job: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        for one in self._reporters:
            one.finished(job, outcome_id, status, failure)


REDRAWS_PER_SECOND = 2
"""What is measured may run on this very machine, and each time costs it 2 ms of a processor."""


class LiveReporter:
    """Draws progress. Use as a context manager; the jobs are given before anything runs."""

    def __init__(self) -> None:
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[done]}/{task.fields[jobs]}", markup=False),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=stderr(),
            transient=True,
            refresh_per_second=REDRAWS_PER_SECOND,
        )
        self._current_ns: dict[str, int] = {}
        self._task: TaskID | None = None
        self._jobs = 0
        self._total_ns = 0
        self._finished_ns = 0
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress.live.is_started:  # stopped without a start, it would print an empty line
            self._progress.stop()

    def begin(self, jobs: Sequence[Case]) -> None:
        """Show the bar for these jobs, where it can be drawn over again; later ones prolong it."""
        self._jobs += len(jobs)
        self._total_ns += sum(map(_expected_ns, jobs))
        if self._task is None:
            self._task = self._progress.add_task("starting", total=self._total_ns, done=0, jobs=self._jobs)
        self._progress.update(self._task, total=self._total_ns, jobs=self._jobs)
        if self._progress.console.is_interactive:
            self._progress.start()

    def uploading(self, job: Case, sent_bytes: int, total_bytes: int) -> None:
        """See `remote_run.Reporter`."""
        self._show(job, f"uploading {sent_bytes / 1e6:.0f} of {total_bytes / 1e6:.0f} MB")

    def running(self, job: Case, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """See `remote_run.Reporter`."""
        before_ns = job.configuration.stop.warmup_ns if phase == "steady_state" else 0
        share_ns = _expected_ns(job) // job.configuration.stop.processes
        self._current_ns[job.outcome_id] = process * share_ns + min(share_ns, before_ns + elapsed_ns)
        self._show(job, f"{_which(job, process)}{phase.replace('_', ' ')}{_share(elapsed_ns, expected_ns)}")

    def finished(self, job: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        self._current_ns.pop(job.outcome_id, None)
        self._finished_ns += _expected_ns(job)
        self._count += 1
        why = f": {failure.message}" if failure else ""
        line = f"[{self._count}/{self._jobs}] {job.target} · {job.title} · {status}{why}"
        self._progress.console.print(plain(line), soft_wrap=True)
        self._show(job, str(status))

    def _show(self, job: Case, doing: str) -> None:
        completed = self._finished_ns + sum(self._current_ns.values())
        description = plain(f"{job.title}: {doing}").plain
        if self._task is None:
            return
        self._progress.update(self._task, completed=completed, description=description, done=self._count)


def _which(job: Case, process: int) -> str:
    processes = job.configuration.stop.processes
    return f"process {process + 1}/{processes}, " if processes > 1 else ""


def _share(elapsed_ns: int, expected_ns: int) -> str:
    return f" {min(100, 100 * elapsed_ns // expected_ns)} %" if expected_ns else ""


def _expected_ns(job: Case) -> int:
    return expected_of_rule(job.configuration.stop)


def remind(home: Home) -> None:
    """Say that something waits to be resumed, where that is so."""
    if missing := missing_outcomes(home):
        remark(f"{missing} results of interrupted commands are missing: `enginebench resume` collects what there is")
