"""Jobs in one line each, for the page that started them."""

from collections.abc import Iterable
from dataclasses import dataclass

from enginebench_controller.jobs import Job, JobState
from enginebench_ui.views.project_key import DIGEST_CHARACTERS

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

    `model` is the start of the digest of the model version that it made, if it did.
    """

    id: str
    text: str
    icon: str
    is_running: bool
    share: float | None = None
    model: str = ""


def recent(jobs: Iterable[Job], now_unix_ns: int, most: int = 3) -> tuple[Job, ...]:
    """Return the jobs that run, and those that ended a moment ago, the newest first."""
    found = [job for job in jobs if not job.state.has_ended or now_unix_ns - (job.ended_at_unix_ns or 0) < RECENT_NS]
    return tuple(found[:most])


def job_line(job: Job, last_words: str = "") -> JobLine:
    """Say where a job is; `last_words`, the end of what its command printed, are told of one that failed."""
    progress = job.progress
    share = progress.done / progress.total if progress.total and not job.state.has_ended else None
    said = [job.title, "cancelling" if job.cancelling else job.state.value, *_details(job, last_words)]
    icon = _ICONS.get(job.state, ":material/pending:")
    model = next((digest[:DIGEST_CHARACTERS] for digest in job.models), "")
    return JobLine(job.id, " · ".join(said), icon, not job.state.has_ended, share, model)


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
