"""`enginebench resume`: what interrupted commands have left on their targets."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Annotated

import typer

from enginebench_controller.cli.arguments import split
from enginebench_controller.cli.console import print_json, print_table, remark
from enginebench_controller.cli.exit_codes import concluded
from enginebench_controller.cli.options import Json, TrustAgain
from enginebench_controller.cli.progress import announcing
from enginebench_controller.errors import ExitCode
from enginebench_controller.gating.gate import enough_of
from enginebench_controller.home import Home, default_home
from enginebench_controller.running.collecting import Wish
from enginebench_controller.running.resuming import TakenUp, Waiting, look
from enginebench_controller.running.resuming import resume as resume_all
from enginebench_controller.trust.soundness import Soundness, left_out, soundness

SCHEMA_VERSION = 1


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("resume")(resume)


def resume(
    target: Annotated[
        str | None, typer.Option(metavar="TARGET,…", help=r"Only what these targets have. \[default: all]")
    ] = None,
    finish: Annotated[bool, typer.Option("--finish", help="Carry out what never ran, too.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for runs that still go on.")] = True,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what there is, and change nothing.")] = False,
    trust: TrustAgain = False,
    json: Json = False,
) -> int:
    """Collect, once, what interrupted commands have left on their targets. Living commands are left alone."""
    home, wish = default_home(), Wish(tuple(split(target) or ()), finish, wait, trust)
    wish = replace(wish, enough_of=partial(enough_of, home))
    found: tuple[TakenUp, ...] | tuple[Waiting, ...]
    if dry_run:
        found = asyncio.run(look(home, wish))
    else:
        with announcing() as announce:
            found = asyncio.run(resume_all(home, wish, announce))
    judged = _judged(home, found)
    if json:
        plans = [asdict(one) for one in found]
        outcome = {} if dry_run else {"outcome": judged.document}
        print_json({"schema_version": SCHEMA_VERSION, "dry_run": dry_run, "plans": plans, **outcome})
    else:
        _print(found)
    code = ExitCode.OK if dry_run else concluded(judged)
    return int(ExitCode.UNREACHABLE if any(one.reasons for one in found) else code)


def _judged(home: Home, found: Sequence[TakenUp | Waiting]) -> Soundness:
    """Whether what was collected can be used; outputs are checked against those of the whole benchmark.

    What an interruption left without anything is not judged: that it is missing is what the table says.
    """
    taken = [one for one in found if isinstance(one, TakenUp)]
    ids = {id_ for one in taken for id_ in one.collected}
    stored = [one for plan in taken for one in home.store.measurements(plan.id)]
    profiles = home.store.whole_profiles(ids - {one.id for one in stored})
    begun = [home.store.benchmark(id_) for id_ in dict.fromkeys(one.benchmark_id for one in stored)]
    return replace(soundness([*stored, *profiles], home.store.models(), ids), left_out=left_out(begun))


def _print(found: Sequence[TakenUp | Waiting]) -> None:
    if not found:
        remark("nothing was interrupted, so there is nothing to resume")
        return
    # What can be counted: ids and names stand in the first two columns, and reasons are sentences.
    counts = [{name: _count(value) for name, value in asdict(one).items() if _is_counted(name)} for one in found]
    columns = [("id", False), ("name", False), *((name.replace("_", " "), True) for name in counts[0])]
    rows: list[list[object]] = [[one.id, one.name, *each.values()] for one, each in zip(found, counts, strict=True)]
    print_table("Interrupted", columns, rows)
    for reason in dict.fromkeys(reason for one in found for reason in one.reasons):
        remark(reason)


def _is_counted(name: str) -> bool:
    return name not in ("id", "name", "reasons")


def _count(value: int | Sequence[str]) -> int:
    return value if isinstance(value, int) else len(value)
