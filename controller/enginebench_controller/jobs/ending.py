"""Ending jobs, and clearing away those that have ended."""

import contextlib
import os
import shutil
import signal

from enginebench_controller.errors import InputError
from enginebench_controller.jobs.folder import JobFolder
from enginebench_controller.jobs.record import Job


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
