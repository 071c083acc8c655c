"""Jobs as a person looks at them: one line each, or whole, cell by cell, with what came of them."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from enginebench_controller.jobs.record import Cell, CellState, Job, JobState, Made, MadeKind
from enginebench_controller.store.measurements import Headline
from enginebench_proto.agreed.durations import duration_words
from enginebench_ui.shared.project_key import DIGEST_CHARACTERS
from enginebench_ui.shared.text import Row, cells, count_of, in_milliseconds, instant, left_words

RECENT_NS = 10 * 60 * 1_000_000_000
"""A job that ended longer ago than this is left to the page of all jobs."""

_ICONS = {
    JobState.DONE: ":material/check_circle:",
    JobState.FAILED: ":material/error:",
    JobState.CANCELLED: ":material/cancel:",
    JobState.LOST: ":material/error:",
}


@dataclass(frozen=True)
class JobLine:
    """A job in one line; `share` of it is done, from 0 to 1, None where nobody can tell.

    `model` is the start of the digest of a model version that it made, `benchmark` the id of a benchmark, if it did.
    """

    id: str
    text: str
    icon: str
    is_running: bool
    share: float | None = None
    model: str = ""
    benchmark: str = ""


def recent(jobs: Iterable[Job], now_unix_ns: int, most: int = 3) -> tuple[Job, ...]:
    """Return the jobs that run, and those that ended a moment ago, the newest first.

    When one ended that was killed before it could say so nobody knows: it counts from its beginning.
    """
    found = [
        job
        for job in jobs
        if not job.state.has_ended or now_unix_ns - (job.ended_at_unix_ns or job.created_at_unix_ns) < RECENT_NS
    ]
    return tuple(found[:most])


def job_line(job: Job, last_words: str = "") -> JobLine:
    """Say where a job is; `last_words`, the end of what its command printed, are told of one that failed."""
    progress = job.progress
    share = None if job.state.has_ended else _share(job, progress.told_at_unix_ns or 0)
    said = [job.title, "cancelling" if job.cancelling else job.state_words, *_details(job, last_words)]
    icon = _ICONS.get(job.state, ":material/pending:")
    model = next((digest[:DIGEST_CHARACTERS] for digest in job.models), "")
    benchmark = next(iter(job.benchmarks), "")
    return JobLine(job.id, " · ".join(said), icon, not job.state.has_ended, share, model, benchmark)


def _details(job: Job, last_words: str) -> list[str]:
    if job.state is JobState.FAILED:
        return [last_words.strip().removeprefix("error: ")] if last_words.strip() else []
    if job.state.has_ended:
        return []
    running = next((cell.title for cell in job.progress.cells if cell.doing), "")
    left = "" if job.seconds_left is None else f"about {_duration(job.seconds_left)} left"
    return [said for said in (job.progress.doing, running, left) if said]


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


BADGES: Mapping[JobState, tuple[str, str, str]] = {
    JobState.QUEUED: ("waiting", "gray", ":material/hourglass_empty:"),
    JobState.RUNNING: ("running", "blue", ":material/play_arrow:"),
    JobState.DONE: ("done", "green", ":material/check:"),
    JobState.FAILED: ("failed", "red", ":material/error:"),
    JobState.CANCELLED: ("cancelled", "gray", ":material/cancel:"),
    JobState.LOST: ("lost", "red", ":material/link_off:"),
}
"""How each state reads: the word, its colour, its symbol."""

_CELLS: Mapping[CellState, tuple[str, str, str]] = {
    CellState.OK: ("✓", "ok", "green"),
    CellState.INCONCLUSIVE: ("✓", "inconclusive", "orange"),
    CellState.FAILED: ("✗", "failed", "red"),
    CellState.WRONG: ("≠", "wrong outputs", "red"),
    CellState.RUNNING: ("▶", "running", "blue"),
    CellState.QUEUED: ("…", "waiting", "gray"),
    CellState.CANCELLED: ("–", "not measured", "gray"),
}
"""The sign, word and colour of each cell's state, in the order in which they are counted."""

_NEARLY_DONE = 0.99

_KINDS = {
    "run": "Benchmark",
    "rerun": "Re-run",
    "profile": "Profile",
    "models quantize": "Quantized version",
    "models prune": "Pruned version",
    "models convert": "Converted version",
    "targets calibrate": "Calibration",
    "prospects pruning": "Pruning prospects",
    "ladder throughput": "Throughput ladder",
    "ladder latency": "Latency ladder",
    "recommend": "Recommendation",
    "bisect": "Bisect",
    "resume": "Gone on with",
    "devices": "Engines and devices",
}

_EXPLAINED = {
    JobState.QUEUED: "It starts, plans, or waits until another job has left this machine.",
    JobState.LOST: "Its process vanished without a word: it was killed, or the machine was restarted. What had been "
    "finished until then is stored.",
    JobState.CANCELLED: "It was cancelled. What had been finished until then is stored.",
    JobState.FAILED: "It ended with an error.",
}


@dataclass(frozen=True)
class JobView:
    """A job as it is shown. `share` of it is done, 0 to 1: of the time where that can be estimated, else of the cells.

    `badge` is (word, colour, symbol), `tallies` are (text, colour) pairs, `made` what can be looked at already.
    """

    id: str
    title: str
    badge: tuple[str, str, str]
    facts: str
    explanation: str
    share: float | None
    progress: str
    doing: str
    tallies: tuple[tuple[str, str], ...]
    made: tuple[Made, ...]
    notes: tuple[str, ...]
    is_active: bool
    cell_rows: tuple[Row, ...]
    failures: tuple[tuple[str, tuple[str, ...]], ...]


def job_view(
    job: Job, now_unix_ns: int, headlines: Mapping[str, Headline] | None = None, others: Iterable[Job] = ()
) -> JobView:
    """Return a job as it is shown at this instant, in nanoseconds since the epoch.

    `headlines` are what its cells came to, by the id of the measurement; among `others` is whom it may wait for.
    """
    progress = job.progress
    word, colour, symbol = badge(job)
    return JobView(
        id=job.id,
        title=job.title,
        badge=("cancelling" if job.cancelling else word, colour, symbol),
        facts=" · ".join((kind_words(job.kind), instant(job.created_at_unix_ns), *_took(job, now_unix_ns), job.id)),
        explanation=_explained(job, others),
        share=_share(job, now_unix_ns),
        progress=_progress(job),
        doing=_doing(job),
        tallies=_tallies(progress.cells),
        made=progress.made,
        notes=progress.notes,
        is_active=not job.state.has_ended,
        cell_rows=_rows(progress.cells, headlines or {}),
        failures=_failures(progress.cells),
    )


def badge(job: Job) -> tuple[str, str, str]:
    """Return the word, colour and symbol of a job's state; one that is done may have come to less than was asked."""
    if job.state is JobState.DONE and job.state_words != job.state:
        return job.state_words, "orange", ":material/warning:"
    return BADGES[job.state]


def kind_words(kind: str) -> str:
    """Name a command by what it makes."""
    return _KINDS.get(kind, kind)


def made_kinds(made: Iterable[Made]) -> dict[MadeKind, list[str]]:
    """Return the ids of what was made, by kind."""
    found: defaultdict[MadeKind, list[str]] = defaultdict(list)
    for one in made:
        found[one.kind].append(one.id)
    return dict(found)


def _explained(job: Job, others: Iterable[Job]) -> str:
    running = (one for one in others if one.state is JobState.RUNNING and one.id != job.id)
    ahead = min(running, key=lambda one: one.created_at_unix_ns, default=None)
    if job.state is JobState.QUEUED and ahead is not None:
        return f"It starts, plans, or waits until “{ahead.title}” has left this machine."
    return _EXPLAINED.get(job.state, "")


def _took(job: Job, now_unix_ns: int) -> tuple[str, ...]:
    if job.started_at_unix_ns is None:
        return ()
    if not job.state.has_ended:
        return (f"running for {duration_words((now_unix_ns - job.started_at_unix_ns) / 1e9)}",)
    if job.ended_at_unix_ns is None:
        return ()
    return (f"took {duration_words((job.ended_at_unix_ns - job.started_at_unix_ns) / 1e9)}",)


def _share(job: Job, now_unix_ns: int) -> float | None:
    """Not all of it before it is over: an estimate may be too short."""
    progress = job.progress
    if not progress.total and job.seconds_left is None:
        return None
    share = progress.done / progress.total if progress.total else 0.0
    if job.seconds_left is not None and job.started_at_unix_ns is not None:
        passed = max(0.0, (now_unix_ns - job.started_at_unix_ns) / 1e9)
        share = max(share, passed / (passed + job.seconds_left)) if passed else share
    return share if job.state.has_ended else min(share, _NEARLY_DONE)


def _progress(job: Job) -> str:
    total = job.progress.total
    done = f"{job.progress.done} of {count_of(total, 'cell')}" if total else ""
    left = left_words(job.seconds_left) if not job.state.has_ended else ""
    return " · ".join(filter(None, (done, left)))


def _doing(job: Job) -> str:
    running = [f"{cell.title}: {cell.doing}" for cell in job.progress.cells if cell.state is CellState.RUNNING]
    if job.progress.total is None:
        otherwise = "Planning …"
    else:
        otherwise = "Finishing …" if job.progress.done >= job.progress.total else "Between two cells …"
    return job.progress.doing or "; ".join(running) or otherwise


def _tallies(found: Sequence[Cell]) -> tuple[tuple[str, str], ...]:
    counts = Counter(cell.state for cell in found)
    return tuple((f"{counts[state]} {word}", colour) for state, (_, word, colour) in _CELLS.items() if counts[state])


def _rows(found: Sequence[Cell], headlines: Mapping[str, Headline]) -> tuple[Row, ...]:
    several_targets = len({cell.target for cell in found}) > 1
    rows = []
    for cell in found:
        row = _configuration(cell, several_targets=several_targets) if cell.model else {"Step": cell.title}
        figures = _figures(headlines.get(cell.outcome_id or ""))
        sign, word, _ = _CELLS[cell.state]
        rows.append(cells({"State": f"{sign} {word}"} | row | figures | {"What": cell.doing or cell.reason or None}))
    return _telling(rows)


def _telling(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Leave the columns out in which no row says anything."""
    telling = {heading for row in rows for heading, value in row.items() if value is not None}
    return tuple({heading: value for heading, value in row.items() if heading in telling} for row in rows)


def _configuration(cell: Cell, *, several_targets: bool) -> Row:
    target = {"Target": cell.target} if several_targets else {}
    where = {"Model": cell.model, "Engine": cell.engine, **target, "Device": cell.device}
    return where | {"Batch": cell.batch, "Cores": cell.cores}


def _figures(headline: Headline | None) -> Row:
    return {
        "Median (ms)": in_milliseconds(headline.median_ns) if headline else None,
        "Items/s": headline.throughput_items_per_s if headline else None,
    }


def _failures(found: Iterable[Cell]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The reasons of failures and of wrong outputs, each once, with the cells they are of."""
    titles: defaultdict[str, list[str]] = defaultdict(list)
    for cell in found:
        if cell.state in (CellState.FAILED, CellState.WRONG):
            titles[cell.reason].append(cell.title)
    return tuple((reason or "it failed without a word", tuple(named)) for reason, named in titles.items())
