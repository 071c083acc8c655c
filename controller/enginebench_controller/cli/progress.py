"""How a benchmark or a gate is coming along, on stderr: a bar with the time left, and a line for what has finished."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

from enginebench_controller.cli.console import make_table, plain, remark, stderr
from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import Home
from enginebench_controller.jobs.record import MadeKind
from enginebench_controller.jobs.reporting import ProgressWriter, Uploads
from enginebench_controller.jobs.telling import own_folder
from enginebench_controller.plan.expand import Case, Expansion
from enginebench_controller.plan.expand import expected_ns as expected_of_rule
from enginebench_controller.plan.plan import GateMetric, GateTerms, parse_duration_ns
from enginebench_controller.records import Failure, ModelVersion, Status
from enginebench_controller.runs.remote_run import Announce, Reporter
from enginebench_controller.runs.searches.holding import interrupted
from enginebench_controller.runs.undertaking import missing_outcomes
from enginebench_controller.store.measurements import Headline
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.gate.results import Judged, ratio_of_values
from enginebench_controller.verdicts.gate.words import interval_words, never_known
from enginebench_controller.verdicts.words import milliseconds, rate


@contextmanager
def announcing(watched: Path | None = None) -> Iterator[Announce]:
    """Give what tells of an expansion: its notes are remarks, and then its cases are drawn as a bar.

    With the file of results that is `watched`, a table of them stands above the bar, where there is a terminal.
    """
    if watched is not None and not stderr().is_interactive:
        remark("--watch needs a terminal; here a line tells of each that has finished")
        watched = None
    with LiveReporter() if watched is None else TableReporter(watched) as reporter:
        written = ProgressWriter(own_folder())

        def announce(expansion: Expansion, benchmark_id: str | None) -> Reporter:
            for note in expansion.notes:
                remark(f"note: {note}")
            reporter.begin(expansion.cases, benchmark_id)
            written.begin(expansion, benchmark_id)
            return _Both(reporter, written)

        yield announce


def deriving(what: str) -> Callable[[ModelVersion], None]:
    """Say what a command does that makes a model version, where it is a job; gives whom to hand the version to."""
    written = ProgressWriter(own_folder())
    written.doing(what)
    return lambda version: written.made(MadeKind.MODEL, version.digest)


class _Both:
    """Tells two reporters."""

    def __init__(self, first: Reporter, second: Reporter) -> None:
        self._reporters = (first, second)

    def uploading(self, case: Case, sent_bytes: int, total_bytes: int) -> None:
        """See `remote_run.Reporter`."""
        for one in self._reporters:
            one.uploading(case, sent_bytes, total_bytes)

    def running(self, case: Case, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """See `remote_run.Reporter`."""
        for one in self._reporters:
            one.running(case, process, phase, elapsed_ns, expected_ns)

    def finished(self, case: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        for one in self._reporters:
            one.finished(case, outcome_id, status, failure)


class UploadWords:
    """The words for uploads, which without a terminal are also told now and then: they may take many minutes."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        self._uploads = Uploads(clock)
        self._clock = clock
        self._is_drawn = console.is_interactive
        self._next_s: dict[tuple[str, int], float] = {}

    def words(self, case: Case, sent_bytes: int, total_bytes: int) -> str:
        """See `Uploads`."""
        words = self._uploads.words(case, sent_bytes, total_bytes)
        if not self._is_drawn:
            now_s, one = self._clock(), (case.target, total_bytes)
            if now_s >= self._next_s.setdefault(one, now_s + QUICK_S):
                self._next_s[one] = now_s + TELL_EVERY_S
                remark(f"{case.target}: {words}")
        return words


QUICK_S, TELL_EVERY_S = 2.0, 30.0
"""An upload that has lasted so long is told in a log, and then every so often."""

REDRAWS_PER_SECOND = 2
"""What is measured may run on this very machine, and each time costs it 2 ms of a processor."""

WATCHED = (
    *(("target", False), ("model", False), ("engine", False), ("device", False), ("batch", True), ("cores", True)),
    *(("median ms", True), ("items/s", True), ("status", False)),
)
"""The table of `--watch`: headings, and whether they stand over numbers."""
_WIDE = 120
"""Columns of a terminal that has room for a bar beside what is done."""
_LINES_BESIDE = 8
"""Of a terminal: the borders and headings of that table, and the bar."""
_STORE_WAIT_S = 0.5
"""How long the table waits for others who have the results open."""


class _Bar(Progress):
    """A bar, and what is to stand above it."""

    def __init__(
        self, *columns: ProgressColumn, above: Callable[[], Iterable[RenderableType]], console: Console
    ) -> None:
        self._above = above
        super().__init__(*columns, console=console, transient=True, expand=True, refresh_per_second=REDRAWS_PER_SECOND)

    def get_renderables(self) -> Iterable[RenderableType]:
        """See `Progress`."""
        yield from self._above()
        yield from super().get_renderables()


class Drawing:
    """What draws a bar, once that is started. Use as a context manager: in the end the bar is taken away."""

    def __init__(self, bar: Progress) -> None:
        self._progress = bar

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress.live.is_started:  # stopped without a start, it would print an empty line
            self._progress.stop()


class LiveReporter(Drawing):
    """Draws progress. The cases are given before anything runs."""

    def __init__(self) -> None:
        is_wide = stderr().width >= _WIDE
        bar = _Bar(
            # What is done comes first and whose it is last: that is cut where there is no room for both.
            TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True)),
            *((BarColumn(),) if is_wide else ()),
            TaskProgressColumn(),
            TextColumn("{task.fields[done]}/{task.fields[cases]}", markup=False),
            *((TimeElapsedColumn(),) if is_wide else ()),
            TextColumn("left"),
            TimeRemainingColumn(),
            above=self.above,
            console=stderr(),
        )
        super().__init__(bar)
        self._uploads = UploadWords(bar.console)
        self._current_ns: dict[str, int] = {}
        self._task: TaskID | None = None
        self._cases = 0
        self._total_ns = 0
        self._finished_ns = 0
        self._count = 0

    def above(self) -> Iterable[RenderableType]:
        """What is to stand above the bar."""
        return ()

    def begin(self, cases: Sequence[Case], benchmark_id: str | None) -> None:
        """Show the bar for these cases, where it can be drawn over again; later ones prolong it."""
        self._cases += len(cases)
        self._total_ns += sum(map(_expected_ns, cases))
        if self._task is None:
            self._task = self._progress.add_task("starting", total=self._total_ns, done=0, cases=self._cases)
        self._progress.update(self._task, total=self._total_ns, cases=self._cases)
        if self._progress.console.is_interactive:
            self._progress.start()

    def uploading(self, case: Case, sent_bytes: int, total_bytes: int) -> None:
        """See `remote_run.Reporter`."""
        self._show(case, self._uploads.words(case, sent_bytes, total_bytes))

    def running(self, case: Case, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """See `remote_run.Reporter`."""
        before_ns = case.configuration.stop.warmup_ns if phase == "steady_state" else 0
        share_ns = _expected_ns(case) // case.configuration.stop.processes
        self._current_ns[case.outcome_id] = process * share_ns + min(share_ns, before_ns + elapsed_ns)
        self._show(case, f"{_which(case, process)}{phase.replace('_', ' ')}{_share(elapsed_ns, expected_ns)}")

    def finished(self, case: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        self._current_ns.pop(case.outcome_id, None)
        self._finished_ns += _expected_ns(case)
        self._count += 1
        why = f": {failure.message}" if failure else ""
        self.tell(f"[{self._count}/{self._cases}] {case.target} · {case.title} · {status}{why}")
        self._show(case, str(status))

    def tell(self, line: str) -> None:
        """Print a line for what has finished."""
        self._progress.console.print(plain(line), soft_wrap=True)

    def _show(self, case: Case, doing: str) -> None:
        completed = self._finished_ns + sum(self._current_ns.values())
        description = plain(f"{doing} · {case.title}").plain
        if self._task is None:
            return
        self._progress.update(self._task, completed=completed, description=description, done=self._count)


class TableReporter(LiveReporter):
    """Draws a table above the bar: what runs, then what has finished, the newest first, as far as there is room."""

    def __init__(self, results: Path) -> None:
        self._store = Store(results, _STORE_WAIT_S)
        self._benchmark_id: str | None = None
        self._running: dict[str, tuple[Case, str]] = {}
        self._finished: dict[str, tuple[Case, str]] = {}
        self._headlines: Mapping[str, Headline] = {}
        super().__init__()  # which asks at once what is above

    def begin(self, cases: Sequence[Case], benchmark_id: str | None) -> None:
        """See `LiveReporter`."""
        self._benchmark_id = benchmark_id
        super().begin(cases, benchmark_id)

    def running(self, case: Case, process: int, phase: str, elapsed_ns: int, expected_ns: int) -> None:
        """See `remote_run.Reporter`."""
        super().running(case, process, phase, elapsed_ns, expected_ns)
        self._running[case.outcome_id] = case, f"{_which(case, process)}{phase.replace('_', ' ')}"

    def finished(self, case: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        super().finished(case, outcome_id, status, failure)
        self._running.pop(case.outcome_id, None)
        self._finished = {outcome_id: (case, str(status)), **self._finished}

    def tell(self, line: str) -> None:
        """Nothing: the table has it."""

    def above(self) -> Iterable[RenderableType]:
        """The table. The thread that draws it asks the store, too, so that the benchmark does not wait for that."""
        cases = [*dict(self._running).items(), *self._finished.items()]
        if not cases:
            return
        if self._benchmark_id is not None and self._finished.keys() - self._headlines.keys():
            with suppress(EnginebenchError):  # else there are numbers the next time
                self._headlines = self._store.headlines(self._benchmark_id)
        console = self._progress.console
        room = max(console.height - _LINES_BESIDE, 3)
        yield make_table("", WATCHED, [self._row(id_, *one) for id_, one in cases[:room]], console.width)[0]

    def _row(self, outcome_id: str, case: Case, doing: str) -> list[object]:
        asked, found = case.configuration, self._headlines.get(outcome_id)
        engine = " ".join(filter(None, (case.engine.name, case.engine.version)))
        median = milliseconds(found.median_ns if found else None)
        numbers = [median, rate(found.throughput_items_per_s if found else None)]
        return [case.target, case.model.name, engine, asked.device, asked.batch, asked.place, *numbers, doing]


def _which(case: Case, process: int) -> str:
    processes = case.configuration.stop.processes
    return f"process {process + 1}/{processes}, " if processes > 1 else ""


def _share(elapsed_ns: int, expected_ns: int) -> str:
    return f" {min(100, 100 * elapsed_ns // expected_ns)} %" if expected_ns else ""


def _expected_ns(case: Case) -> int:
    return expected_of_rule(case.configuration.stop)


@contextmanager
def watching() -> Iterator["GateProgress"]:
    """Tell on stderr how a gate is coming along, and where it is interrupted, what shows the pairs so far."""
    with GateProgress() as progress:
        try:
            yield progress
        except KeyboardInterrupt:
            if progress.benchmark_id:
                remark(f"`enginebench show {progress.benchmark_id}` says what the pairs so far tell")
            raise


class GateProgress(Drawing, Reporter):
    """A bar of the budget with the interval so far; without a terminal, a line whenever the pairs have doubled."""

    def __init__(self) -> None:
        super().__init__(budget_bar())
        self._uploads = UploadWords(self._progress.console)
        self._task: TaskID | None = None
        self._told = 0
        self._unknown = set[str]()
        self._seconds = 0.0
        self.benchmark_id = ""

    def said(self, sentence: str) -> None:
        """See `GateWatcher`."""
        if self._progress.live.is_started:
            self._progress.stop()
        remark(sentence)

    def forget(self) -> None:
        """Take the bar away, where another gate follows."""
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task, self._told = None, 0
        self._unknown.clear()

    def begun(self, benchmark_id: str, terms: GateTerms) -> None:
        """See `GateWatcher`."""
        self.benchmark_id = benchmark_id
        self._seconds = parse_duration_ns(terms.budget) / 1e9
        self._task = self._progress.add_task("first pair", total=self._seconds, left=left_words(self._seconds))
        if self._progress.console.is_interactive:
            self._progress.start()

    def looked(self, judged: Judged, seconds_left: float) -> None:
        """See `GateWatcher`."""
        if self._task is None:
            return
        for sentence in never_known(judged):
            self._tell_once(sentence)
        words = _so_far(judged)
        done = self._seconds - seconds_left
        self._progress.update(self._task, description=words, completed=done, left=left_words(seconds_left))
        if not self._progress.console.is_interactive and judged.pairs >= 2 * self._told:
            self._told = max(judged.pairs, 1)
            remark(f"{words}, {left_words(seconds_left)}")

    def _tell_once(self, sentence: str) -> None:
        """Above the bar, which goes on."""
        if sentence not in self._unknown:
            self._progress.console.print(plain(sentence), soft_wrap=True)
        self._unknown.add(sentence)

    def uploading(self, case: Case, sent_bytes: int, total_bytes: int) -> None:
        """See `remote_run.Reporter`."""
        words = self._uploads.words(case, sent_bytes, total_bytes)
        if self._task is not None:
            self._progress.update(self._task, description=words)

    def finished(self, case: Case, outcome_id: str, status: Status, failure: Failure | None) -> None:
        """See `remote_run.Reporter`."""
        if failure is not None:
            self.said(f"{case.title}: {failure.message}")


_TELLING = 3.0
"""Times as large as its lower end the upper end of an interval may be that says anything while pairs are added."""


def _so_far(judged: Judged) -> str:
    """The pairs, and what they say of the metric that would decide now."""
    one = judged.decisive
    pairs = f"{judged.pairs} pair{'' if judged.pairs == 1 else 's'}"
    found = ratio_of_values(one)
    if found is None:
        return pairs
    middle, low, high = found
    if high > _TELLING * low:
        return f"{pairs}: {one.metric} about {middle:.2f}×, too few yet to say"
    interval = "" if one.metric is GateMetric.SIZE else f" ({interval_words(low, high)})"
    return f"{pairs}: {one.metric} {middle:.3f}×{interval}"


def budget_bar() -> Progress:
    """A bar of a budget: what it goes into, and in the field `left` the words for the rest of it."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[left]}", markup=False),
        console=stderr(),
        transient=True,
        expand=True,
        refresh_per_second=REDRAWS_PER_SECOND,
    )


def left_words(seconds: float) -> str:
    """So much of a budget is left: "1:05 left"."""
    return f"{int(seconds // 60)}:{int(seconds % 60):02} left"


def remind(home: Home) -> None:
    """Say that something waits to be resumed, where that is so."""
    if missing := missing_outcomes(home.path, home.store.stored_ids):
        words = "result of interrupted commands is" if missing == 1 else "results of interrupted commands are"
        remark(f"{missing} {words} missing: `enginebench resume` collects what there is")
    for one in interrupted(home):
        remark(f"the search {one.id} ({one.name}) was interrupted: `enginebench resume {one.id}` goes on with it")
