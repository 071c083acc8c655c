"""`enginebench jobs …`: what the pages started, and what runs on its own."""

from dataclasses import asdict
from typing import Annotated, Any

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import confirmed, plain, print_json, print_table, remark, stdout
from enginebench_controller.cli.options import Json
from enginebench_controller.cli.tables import instant
from enginebench_controller.files.documents import head
from enginebench_controller.home import default_home
from enginebench_controller.jobs.control import cancel as cancel_job
from enginebench_controller.jobs.control import job as job_named
from enginebench_controller.jobs.control import jobs as all_jobs
from enginebench_controller.jobs.control import log_tail
from enginebench_controller.jobs.control import remove as remove_job
from enginebench_controller.jobs.record import Job
from enginebench_controller.verdicts.words import UNKNOWN
from enginebench_proto.agreed.durations import duration_words

JobName = Annotated[
    str, typer.Argument(metavar="ID", help="Id, or start of an id, of a job.", autocompletion=completion.jobs)
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]

group = typer.Typer(no_args_is_help=True, help="Benchmarks and other long work that the pages started.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="jobs")


@group.command("list")
def list_(json: Json = False) -> None:
    """List the jobs, newest first."""
    found = all_jobs(default_home())
    if json:
        print_json(head("jobs") | {"jobs": [_document(one) for one in found]})
        return
    columns = [("id", False), ("title", False), ("command", False), ("started", False), ("state", False)]
    rows: list[list[object]] = [
        [one.id, one.title, one.kind, instant(one.created_at_unix_ns), one.state_words, _cells(one), _left(one)]
        for one in found
    ]
    print_table("Jobs", [*columns, ("cells", True), ("left (estimated)", True)], rows)
    if not found:
        remark("no job yet; the pages start them: `enginebench ui`")


@group.command("show")
def show(
    job: JobName,
    lines: Annotated[int, typer.Option(min=0, help="How many of the last lines it printed to show.")] = 20,
    json: Json = False,
) -> None:
    """Show one job cell by cell, and what it printed last."""
    found = job_named(default_home(), job)
    if json:
        print_json(head("job") | {"job": _document(found)})
        return
    rows: list[list[object]] = [
        [cell.target, cell.title, cell.state, "" if cell.reason else cell.doing] for cell in found.progress.cells
    ]
    headings = ("target", "cell", "state", "")
    print_table(f"{found.title} ({found.id}): {found.state_words}", [(heading, False) for heading in headings], rows)
    for cell in found.progress.cells:
        if cell.reason:
            stdout().print(plain(f"{cell.title}: {cell.reason}"), soft_wrap=True)
    for made in found.progress.made:
        remark(f"{made.kind} {made.id}")
    if _left(found):
        remark(f"about {_left(found)} left")
    if lines and (text := log_tail(found, lines)):
        remark(text)


@group.command("cancel")
def cancel(job: JobName, yes: Yes = False) -> None:
    """Interrupt a job, as Ctrl-C would; what was finished is stored."""
    found = job_named(default_home(), job)
    if found.state.has_ended:
        remark(f"{found.id} is over: {found.state}")
    elif yes or confirmed(f"cancel {found.title} ({found.id})?"):
        cancel_job(found)
        remark(f"cancelled {found.id}; what was finished is stored")


@group.command("remove")
def remove(job: JobName, yes: Yes = False) -> None:
    """Forget a job that is over. What it made stays."""
    found = job_named(default_home(), job)
    if yes or confirmed(f"forget {found.title} ({found.id})? What it made stays."):
        remove_job(found)
        remark(f"removed {found.id}")


def _document(job: Job) -> dict[str, Any]:
    return asdict(job) | {"folder": str(job.folder), "state": job.state.value}


def _cells(job: Job) -> str:
    total = job.progress.total
    return UNKNOWN if total is None else f"{job.progress.done}/{total}"


def _left(job: Job) -> str:
    return "" if job.seconds_left is None else duration_words(job.seconds_left)
