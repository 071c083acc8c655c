"""Jobs from outside: started in a process of their own, listed, cancelled, and cleared away."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from enginebench_controller.errors import INTERRUPTED, EnginebenchError, ExitCode, InputError
from enginebench_controller.home import JOB_VARIABLE, Home
from enginebench_controller.jobs.folder import JobFolder, JobOrder, identify
from enginebench_controller.jobs.record import Job, JobEnding, JobProgress, JobState
from enginebench_controller.plan.plan import Plan, plan_toml
from enginebench_proto.agreed.durable import make_private_folder
from enginebench_proto.agreed.home import HOME_VARIABLE

JOBS_FOLDER = "jobs"
START_WITHIN_NS = 60_000_000_000
"""A job without a process for this long was never started: whoever meant to was killed meanwhile."""

_ID = re.compile(r"[0-9a-f]{1,12}")
_GROUPS = ("ladder", "models", "profiles", "prospects", "targets")
"""Commands of two words."""
_LAST_BYTES = 64 * 1024
_ANSWERED = (ExitCode.OK, ExitCode.CONDITION_MET, ExitCode.CANNOT_TELL)
"""With the last two a search ends whose answer is that nothing holds the limits, or that it cannot be told."""


def jobs(home: Home) -> tuple[Job, ...]:
    """All jobs, newest first."""
    return _looked_at(_folders(home))


def jobs_since(home: Home, unix_ns: int) -> tuple[Job, ...]:
    """The jobs that did not end before this moment, newest first; of the others nothing is read."""
    return _looked_at(one for one in _folders(home) if not one.ended_before(unix_ns))


def open_jobs(home: Home) -> tuple[Job, ...]:
    """The jobs that have not ended, newest first."""
    return tuple(one for one in jobs_since(home, time.time_ns()) if not one.state.has_ended)


def job_ids(home: Home) -> tuple[str, ...]:
    """The ids of all jobs, newest first; nothing of them is read."""
    ordered = [(at, one.path.name) for one in _folders(home) if (at := one.ordered_at_unix_ns()) is not None]
    return tuple(identity for _, identity in sorted(ordered, reverse=True))


def jobs_with(home: Home, ids: Iterable[str]) -> tuple[Job, ...]:
    """The jobs with these very ids, newest first, but for those that are gone."""
    return _looked_at(JobFolder(home.path / JOBS_FOLDER / one) for one in ids)


def job(home: Home, named: str) -> Job:
    """The job with this id, or start of an id. Raises `InputError` when there is none or more than one."""
    matching = [one for one in _folders(home) if one.path.name.startswith(named)] if _ID.fullmatch(named) else []
    found = _looked_at(matching)
    if len(found) > 1:
        raise InputError(f"{named!r} means {len(found)} jobs; name one by its id: {', '.join(one.id for one in found)}")
    if not found:
        raise InputError(f"there is no job {named!r}; `enginebench jobs list` shows those there are")
    return found[0]


def log_tail(job: Job, lines: int = 20) -> str:
    """The last lines that the command of a job printed; text of others, with whatever they put into it."""
    try:
        with JobFolder(job.folder).log_file.open("rb") as log:
            log.seek(max(0, log.seek(0, 2) - _LAST_BYTES))
            text = log.read().decode(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def _folders(home: Home) -> list[JobFolder]:
    try:
        return [JobFolder(path) for path in (home.path / JOBS_FOLDER).iterdir() if _ID.fullmatch(path.name)]
    except OSError:
        return []


def _looked_at(folders: Iterable[JobFolder]) -> tuple[Job, ...]:
    found = (_look(one) for one in folders)
    return tuple(sorted((one for one in found if one), key=lambda one: one.created_at_unix_ns, reverse=True))


def _look(folder: JobFolder) -> Job | None:
    """None for a folder that is just being made, or is none of ours."""
    order = folder.order()
    if order is None:
        return None
    is_alive = _is_alive(folder, order)  # asked first: a job may end while it is looked at
    ending, progress = folder.ending(), folder.progress() or JobProgress()
    was_cancelled = folder.cancel_file.exists()
    state = _state(ending, progress, is_alive=is_alive, was_cancelled=was_cancelled)
    return Job(
        id=folder.path.name,
        folder=folder.path,
        title=order.title,
        kind=_kind(order.arguments),
        arguments=order.arguments,
        plan=order.plan,
        compare_with=order.compare_with,
        state=state,
        created_at_unix_ns=order.created_at_unix_ns,
        started_at_unix_ns=progress.started_at_unix_ns,
        ended_at_unix_ns=ending.ended_at_unix_ns if ending else None,
        progress=progress.stopped() if state.has_ended else progress,
        seconds_left=None if state.has_ended else _seconds_left(progress),
        exit_code=ending.exit_code if ending else None,
        cancelling=was_cancelled and not state.has_ended,
    )


def _is_alive(folder: JobFolder, order: JobOrder) -> bool:
    process = folder.process()
    if process is None:
        # Two processes have only the wall clock in common, and somebody may have set it back meanwhile.
        return abs(time.time_ns() - order.created_at_unix_ns) < START_WITHIN_NS
    return process.is_alive


def _state(ending: JobEnding | None, progress: JobProgress, *, is_alive: bool, was_cancelled: bool) -> JobState:
    if ending is not None:
        return _ended(ending, progress, was_cancelled=was_cancelled)
    if not is_alive:
        return JobState.CANCELLED if was_cancelled else JobState.LOST
    return JobState.QUEUED if progress.started_at_unix_ns is None else JobState.RUNNING


def _ended(ending: JobEnding, progress: JobProgress, *, was_cancelled: bool) -> JobState:
    has_results = any(cell.state.has_ended for cell in progress.cells) and progress.failed < progress.done
    if ending.exit_code in _ANSWERED and not ending.crashed:
        return JobState.DONE
    if was_cancelled or ending.exit_code == INTERRUPTED:
        return JobState.CANCELLED
    is_partial = ending.exit_code == ExitCode.SOME_FAILED and not ending.crashed and has_results
    return JobState.DONE if is_partial else JobState.FAILED


def _kind(arguments: tuple[str, ...]) -> str:
    words = 2 if arguments[:1] and arguments[0] in _GROUPS else 1
    return " ".join(arguments[:words])


def _seconds_left(progress: JobProgress) -> float | None:
    if progress.seconds_left is None or progress.told_at_unix_ns is None:
        return None
    since_seconds = max(0.0, (time.time_ns() - progress.told_at_unix_ns) / 1e9)  # the clock may have been set back
    return max(0.0, progress.seconds_left - since_seconds)


def start_job(
    home: Home, title: str, arguments: Sequence[str], plan: Plan | None = None, *, compare_with: str | None = None
) -> Job:
    """Start `enginebench ARGUMENTS…` on its own, over the same home; a `plan` becomes a file named behind them.

    `title` is what a person reads in the list, `compare_with` the id of a benchmark to look at beside what comes of it.
    Returns at once. Raises `EnginebenchError` where no process can be had.
    """
    identity = uuid.uuid4().hex[:12]
    folder = JobFolder(home.path.absolute() / JOBS_FOLDER / identity)
    try:
        make_private_folder(folder.path)
        _furnish(folder, JobOrder(title, tuple(arguments), time.time_ns(), _document(plan), compare_with), plan)
        process = _start(folder, home, [*arguments, *([str(folder.plan_file)] if plan else [])])
    except OSError as error:
        raise EnginebenchError(f"the job could not be started ({error.strerror}): see {folder.path}") from None
    if seen := identify(process.pid):
        folder.write_process(seen)
    # Whoever starts a child has to take its end, or it stays in the process table for as long as the pages are served.
    threading.Thread(target=process.wait, name=f"job-{identity}", daemon=True).start()
    return job(home, identity)


def _furnish(folder: JobFolder, order: JobOrder, plan: Plan | None) -> None:
    if plan is not None:
        folder.plan_file.write_text(plan_toml(plan), encoding="utf-8")
    folder.write_order(order)


def _document(plan: Plan | None) -> dict[str, Any] | None:
    return None if plan is None else plan.document()


def _start(folder: JobFolder, home: Home, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    with folder.log_file.open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "enginebench_controller", *arguments],
            cwd=folder.path,
            env=_variables(folder, home),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _variables(folder: JobFolder, home: Home) -> Mapping[str, str]:
    ours = {HOME_VARIABLE: str(home.path.absolute()), JOB_VARIABLE: str(folder.path), "PYTHONUNBUFFERED": "1"}
    return os.environ | ours


def cancel(job: Job) -> None:
    """Interrupt a job as Ctrl-C would: it ends what runs, keeps what was finished, and leaves. Returns at once.

    Asked a second time, the job drops what it is doing. One that has ended stays as it is.
    """
    folder = JobFolder(job.folder)
    process = folder.process()
    if folder.ending() is not None or process is None or not process.is_alive:
        return
    # First the word, then the signal: one that comes before Python listens to signals finds the word.
    folder.cancel_file.touch()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)


def remove(job: Job) -> None:
    """Forget a job that has ended; what it made stays. Raises `InputError` for one that runs."""
    folder = JobFolder(job.folder)
    process = folder.process()
    if folder.ending() is None and process is not None and process.is_alive:
        raise InputError(f"job {job.id} is not over; cancel it first with `enginebench jobs cancel {job.id}`")
    shutil.rmtree(job.folder, ignore_errors=True)
