"""Writing down how a command that is a job is coming along."""

import time
from collections.abc import Mapping
from dataclasses import replace

from enginebench_controller.jobs.folder import JobFolder
from enginebench_controller.jobs.pace import Pace
from enginebench_controller.jobs.progress import Cell, CellState, Made, MadeKind, Progress
from enginebench_controller.planning.expand import Expansion, Job
from enginebench_controller.records import Failure, Status

WRITE_EVERY_S = 0.5
"""Events come many times a second; whoever reads looks once a second, and the disk is to be left to the measurement."""


class ProgressWriter:
    """Keeps the progress of one job in its folder. As a `remote_run.Reporter`, all its calls come from one thread."""

    def __init__(self, folder: JobFolder) -> None:
        self._folder = folder
        self._cells: list[Cell] = []
        self._places: dict[int, int] = {}
        self._rest = Progress()
        self._benchmark_id: str | None = None
        self._pace = Pace()
        self._written_s = -WRITE_EVERY_S

    def begin(self, expansion: Expansion, benchmark_id: str | None) -> None:
        """Take on these cells, behind those there are; they are of this benchmark, or each becomes a profile."""
        self._benchmark_id = benchmark_id
        for job in expansion.jobs:
            self._places[id(job)] = len(self._cells)
            self._cells.append(_cell(job))
        self._pace.add(expansion.jobs)
        notes = dict.fromkeys([*self._rest.notes, *expansion.notes])
        self._rest = replace(self._rest, notes=tuple(notes), total=len(self._cells))
        if benchmark_id is not None:
            self._add(Made(MadeKind.BENCHMARK, benchmark_id))
        self._write()

    def doing(self, what: str) -> None:
        """Say what a command without cells does."""
        self._rest = replace(self._rest, doing=what)
        self._write()

    def made(self, kind: MadeKind, identity: str) -> None:
        """Say what has come of it."""
        self._add(Made(kind, identity))
        self._write()

    def step(self, number: int, total: int, title: str, share: float) -> None:
        """A command of `total` steps whose names are not known before is at step `number`, counted from 0."""
        done = [replace(cell, state=CellState.OK, doing="") for cell in self._cells[:number]]
        self._cells = [*done, Cell(title, CellState.RUNNING, doing=f"{100 * share:.0f} %")]
        self._rest = replace(self._rest, total=total, seconds_left=self._pace.seconds_left_at((number + share) / total))
        self._write_now_and_then()

    def steps_ended(self, reasons: Mapping[str, str]) -> None:
        """All steps have ended: those that failed for these reasons, by title, and the others as they should."""
        self._cells = [
            replace(cell, state=CellState.FAILED if cell.title in reasons else CellState.OK, doing="", reason=reason)
            for cell in self._cells
            for reason in [reasons.get(cell.title, "")]
        ]
        self._write()

    def uploading(self, job: Job, sent_bytes: int, total_bytes: int) -> None:
        """See `remote_run.Reporter`."""
        self._run(job, f"uploading {sent_bytes / 1e6:.0f} of {total_bytes / 1e6:.0f} MB")

    def running(self, job: Job, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """See `remote_run.Reporter`."""
        processes = job.configuration.stop.processes
        which = f"process {process + 1} of {processes}, " if processes > 1 else ""
        self._run(job, f"{which}{phase.replace('_', ' ')}")

    def finished(self, job: Job, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        place = self._places[id(job)]
        reason = failure.message if failure else ""
        self._cells[place] = replace(
            self._cells[place], state=CellState(status.value), doing="", reason=reason, outcome_id=outcome_id
        )
        self._pace.finished(job, worked=status.has_numbers)
        if self._benchmark_id is None:
            self._add(Made(MadeKind.PROFILE, outcome_id))
        self._write()

    def _run(self, job: Job, doing: str) -> None:
        place = self._places[id(job)]
        began = self._cells[place].state is CellState.QUEUED
        self._cells[place] = replace(self._cells[place], state=CellState.RUNNING, doing=doing)
        if began:
            self._pace.begun(job)
            self._write()
        else:
            self._write_now_and_then()

    def _add(self, made: Made) -> None:
        self._rest = replace(self._rest, made=tuple(dict.fromkeys([*self._rest.made, made])))

    def _write_now_and_then(self) -> None:
        if time.monotonic() - self._written_s >= WRITE_EVERY_S:
            self._write()

    def _write(self) -> None:
        now = time.time_ns()
        left = self._pace.seconds_left() if self._places else self._rest.seconds_left
        self._rest = replace(
            self._rest,
            cells=tuple(self._cells),
            seconds_left=left,
            started_at_unix_ns=self._rest.started_at_unix_ns or now,
            told_at_unix_ns=now,
        )
        self._folder.write_progress(self._rest)
        self._written_s = time.monotonic()


def _cell(job: Job) -> Cell:
    return Cell(
        title=job.title,
        target=job.target,
        model=job.model.name,
        engine=" ".join(filter(None, (job.engine.name, job.engine.version))),
        device=job.configuration.device,
        batch=job.configuration.batch,
        cores=job.configuration.cores,
    )
