"""`enginebench store …`: looking after the results file."""

from pathlib import Path
from typing import Annotated

import typer

from enginebench_controller.cli.console import UNKNOWN, confirmed, print_json, print_table, remark
from enginebench_controller.cli.options import Json
from enginebench_controller.documents.store_check import check_document
from enginebench_controller.errors import ExitCode
from enginebench_controller.home import default_home

_OF_OTHERS = 0o077

group = typer.Typer(no_args_is_help=True, help="The file that holds all results: checking it, copying it.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="store")


@group.command("check")
def check(json: Json = False) -> int:
    """Read all results, and look for damage and for what belongs to nothing. Exits with 1 when there is a problem."""
    store = default_home().store
    found = store.check()
    if json:
        print_json(check_document(store.path, found))
    else:
        rows: list[list[object]] = [
            [table, UNKNOWN if count is None else f"{count:,}"] for table, count in found.rows.items()
        ]
        print_table(str(store.path), [("table", False), ("rows", True)], rows)
    if store.path.exists() and store.path.parent.stat().st_mode & _OF_OTHERS:
        remark(f"others on this machine can look into {store.path.parent}; `chmod 700 {store.path.parent}` forbids it")
    for problem in found.problems:
        remark(problem)
    if found.problems:
        remark("nothing was changed; `enginebench store restore FILE` puts a backup in its place and keeps this file")
        return ExitCode.SOME_FAILED
    remark("no problem was found")
    return ExitCode.OK


@group.command("backup")
def backup(
    to: Annotated[Path, typer.Argument(metavar="[FILE]", help="A new file, or a folder; here by default.")] = Path(),
) -> None:
    """Copy the results to a new file, whole and checked. Others wait meanwhile."""
    remark("copying …")
    copy = default_home().store.backup(to.expanduser().absolute())
    remark(f"checked: {copy} ({copy.stat().st_size / 1e6:,.1f} MB); `enginebench store restore {copy}` takes it up")


@group.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `store backup` made.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Put a backup in the place of the results, which are kept under another name; asks first."""
    store = default_home().store
    if not (yes or confirmed(f"put {file} in the place of {store.path}? The present results are kept.")):
        return
    kept = store.restore(file.expanduser().absolute())
    remark(f"restored from {file}")
    if kept:
        remark(f"what was there before: {kept}; `enginebench store restore {kept}` undoes this")
