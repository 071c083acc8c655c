"""Starting jobs: a process of its own session, which neither Ctrl-C nor the end of the one who started it reaches."""

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from enginebench_controller.errors import EnginebenchError
from enginebench_controller.home import HOME_VARIABLE, Home
from enginebench_controller.jobs.folder import JobFolder, JobOrder
from enginebench_controller.jobs.listing import JOBS_FOLDER, job
from enginebench_controller.jobs.process import identify
from enginebench_controller.jobs.record import Job
from enginebench_controller.jobs.telling import JOB_VARIABLE
from enginebench_controller.planning.plan import Plan, plan_toml
from enginebench_proto.agreed.durable import make_private_folder


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
            [sys.executable, "-m", "enginebench_controller", *arguments],
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
