"""How a command that is a job is coming along, written down, and how long the rest will take by what it took."""

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from enginebench_controller.jobs.folder import JobFolder
from enginebench_controller.jobs.record import Cell, CellState, JobProgress, Made, MadeKind
from enginebench_controller.plan.expand import Case, Expansion, expected_ns
from enginebench_controller.records import Failure, Status
from enginebench_proto.agreed.durations import duration_words


@dataclass
class _Course:
    """What is known of one target, in seconds: what its cases were expected to take, and what those that ended took."""

    since_s: float
    open_s: float = 0.0
    begun_s: dict[str, float] = field(default_factory=dict)
    worked_expected_s: float = 0.0
    worked_s: float = 0.0

    @property
    def pace(self) -> float | None:
        """Seconds taken a second expected; None before the first case that worked."""
        return self.worked_s / self.worked_expected_s if self.worked_expected_s else None


class Pace:
    """Follows the cases of each target, which come one after the other or all together in turns; `clock` is in seconds.

    A measurement may go on for as long as its interval takes, so what the stop rules promise is corrected by what the
    cases that worked really took. One that failed says nothing about the others.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began_s = clock()
        self._target_of: dict[str, str] = {}
        self._courses: defaultdict[str, _Course] = defaultdict(lambda: _Course(clock()))

    def add(self, cases: Sequence[Case]) -> None:
        """These are to come."""
        for case in cases:
            self._target_of[case.outcome_id] = case.target
            self._courses[case.target].open_s += _expected_s(case)

    def begun(self, case: Case) -> None:
        """This one is being carried out."""
        self._course(case).begun_s[case.outcome_id] = _expected_s(case)

    def finished(self, case: Case, *, worked: bool) -> None:
        """This one has ended. One that failed took none of the time in which others of its course are at work."""
        course, now = self._course(case), self._clock()
        course.open_s -= _expected_s(case)
        course.begun_s.pop(case.outcome_id, None)
        if worked:
            course.worked_expected_s += _expected_s(case)
            course.worked_s += now - course.since_s
        if worked or not course.begun_s:
            course.since_s = now

    def seconds_left(self) -> float:
        """Until the last target is done; what takes longer than it should counts as nearly done."""
        return max((self._left(course) for course in self._courses.values()), default=0.0)

    def seconds_left_at(self, share: float) -> float | None:
        """As for a job of equal steps, of which this share is done; None before any is."""
        return (self._clock() - self._began_s) * (1 - share) / share if share > 0 else None

    def _course(self, case: Case) -> _Course:
        """That of the target for which it was planned; on a cluster another machine of the kind may carry it out."""
        return self._courses[self._target_of[case.outcome_id]]

    def _left(self, course: _Course) -> float:
        usual = self._usual(course)
        begun_s = min(usual * sum(course.begun_s.values()), self._clock() - course.since_s)
        return max(0.0, usual * course.open_s - begun_s)

    def _usual(self, course: _Course) -> float:
        """The pace of this target, or of the others as long as it has none of its own."""
        if course.pace is not None:
            return course.pace
        known = [one.pace for one in self._courses.values() if one.pace is not None]
        return sum(known) / len(known) if known else 1.0


def _expected_s(case: Case) -> float:
    return expected_ns(case.configuration.stop) / 1e9


STALL_S = 5.0
"""An upload of which no more has arrived for so long has no pace."""


class Uploads:
    """What is told of files on their way to targets: how far each has come, and how long the rest of it takes so.

    A case's files come one behind the other. `clock` is in seconds; the pace is that since a file was first told of,
    or has moved again.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last: dict[str, tuple[int, int, float]] = {}
        self._first: dict[str, tuple[int, float]] = {}

    def words(self, case: Case, sent_bytes: int, total_bytes: int) -> str:
        """Say that so much of the present file of a case has arrived: "uploading 3 of 5 MB, 14 s left"."""
        now_s = self._clock()
        last_bytes, last_total_bytes, moved_s = self._last.get(case.outcome_id, (0, 0, now_s))
        is_stalled = sent_bytes == last_bytes and now_s - moved_s > STALL_S
        if total_bytes != last_total_bytes or sent_bytes < last_bytes or is_stalled:
            self._first[case.outcome_id] = sent_bytes, now_s
        if sent_bytes != last_bytes or total_bytes != last_total_bytes:
            moved_s = now_s
        self._last[case.outcome_id] = sent_bytes, total_bytes, moved_s
        first_bytes, since_s = self._first[case.outcome_id]
        taken_s = now_s - since_s
        left = ""
        if first_bytes < sent_bytes < total_bytes and taken_s > 0:
            left_s = taken_s * (total_bytes - sent_bytes) / (sent_bytes - first_bytes)
            left = f", {duration_words(max(1.0, left_s))} left"
        scale, unit = (1e6, "MB") if total_bytes >= 1e6 else (1e3, "kB")
        return f"uploading {sent_bytes / scale:.0f} of {total_bytes / scale:.0f} {unit}{left}"


WRITE_EVERY_S = 0.5
"""Events come many times a second; whoever reads looks once a second, and the disk is to be left to the measurement."""

WRITE_SHARE = 0.01
"""So much of the time writing may take at most: 2,000 cells take 40 ms, on the machine that may be measuring."""


class ProgressWriter:
    """Keeps the progress of one job in its folder; of a command that is no job, and has none, nowhere. As a
    `remote_run.Reporter`, all its calls come from one thread.
    """

    def __init__(self, folder: JobFolder | None) -> None:
        self._folder = folder
        self._cells: list[Cell] = []
        self._places: dict[str, int] = {}
        self._rest = JobProgress()
        self._benchmark_id: str | None = None
        self._pace = Pace()
        self._uploads = Uploads()
        self._next_write_s = 0.0

    def begin(self, expansion: Expansion, benchmark_id: str | None) -> None:
        """Take on these cells, behind those there are; they are of this benchmark, or each becomes a profile."""
        self._benchmark_id = benchmark_id
        for case in expansion.cases:
            self._places[case.outcome_id] = len(self._cells)
            self._cells.append(_cell(case))
        self._pace.add(expansion.cases)
        notes = dict.fromkeys([*self._rest.notes, *expansion.notes])
        self._rest = replace(self._rest, notes=tuple(notes), total=len(self._cells))
        if benchmark_id is not None:
            self._add(Made(MadeKind.BENCHMARK, benchmark_id))
        self._write()

    def doing(self, what: str) -> None:
        """Say what a command without cells does."""
        self._rest = replace(self._rest, doing=what)
        self._write()

    def learning(self, what: str, seconds_left: float) -> None:
        """Say what a search is to learn now, and how much of its budget is left."""
        is_new = what != self._rest.doing
        self._rest = replace(self._rest, doing=what, seconds_left=seconds_left)
        if is_new:
            self._write()
        else:
            self._write_now_and_then()

    def note(self, sentence: str) -> None:
        """Say something to know, once."""
        self._rest = replace(self._rest, notes=tuple(dict.fromkeys([*self._rest.notes, sentence])))
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

    def uploading(self, case: Case, sent_bytes: int, total_bytes: int) -> None:
        """See `remote_run.Reporter`."""
        self._run(case, self._uploads.words(case, sent_bytes, total_bytes))

    def running(self, case: Case, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """See `remote_run.Reporter`."""
        processes = case.configuration.stop.processes
        which = f"process {process + 1} of {processes}, " if processes > 1 else ""
        self._run(case, f"{which}{phase.replace('_', ' ')}")

    def finished(self, case: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        place = self._places[case.outcome_id]
        reason = failure.message if failure else ""
        self._cells[place] = replace(
            self._cells[place],
            target=case.target,
            state=CellState(status.value),
            doing="",
            reason=reason,
            outcome_id=outcome_id,
        )
        self._pace.finished(case, worked=status.has_numbers)
        if self._benchmark_id is None:
            self._add(Made(MadeKind.PROFILE, outcome_id))
        self._write()

    def _run(self, case: Case, doing: str) -> None:
        place = self._places[case.outcome_id]
        began = self._cells[place].state is CellState.QUEUED
        self._cells[place] = replace(self._cells[place], state=CellState.RUNNING, doing=doing)
        if began:
            self._pace.begun(case)
            self._write()
        else:
            self._write_now_and_then()

    def _add(self, made: Made) -> None:
        self._rest = replace(self._rest, made=tuple(dict.fromkeys([*self._rest.made, made])))

    def _write_now_and_then(self) -> None:
        if time.monotonic() >= self._next_write_s:
            self._write()

    def _write(self) -> None:
        if self._folder is None:
            return
        began_s, now = time.monotonic(), time.time_ns()
        left = self._pace.seconds_left() if self._places else self._rest.seconds_left
        self._rest = replace(
            self._rest,
            cells=tuple(self._cells),
            seconds_left=left,
            started_at_unix_ns=self._rest.started_at_unix_ns or now,
            told_at_unix_ns=now,
        )
        self._folder.write_progress(self._rest)
        ended_s = time.monotonic()
        self._next_write_s = ended_s + max(WRITE_EVERY_S, (ended_s - began_s) / WRITE_SHARE)


def _cell(case: Case) -> Cell:
    return Cell(
        title=case.title,
        target=case.target,
        model=case.model.name,
        engine=" ".join(filter(None, (case.engine.name, case.engine.version))),
        device=case.configuration.device,
        batch=case.configuration.batch,
        cores=case.configuration.cores,
    )
