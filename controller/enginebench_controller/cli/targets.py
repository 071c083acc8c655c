"""`enginebench targets …` and `enginebench devices`: the machines, and what they offer."""

import asyncio
from typing import Annotated

import typer

from enginebench_controller.cli.bootstrap import bootstrap_target, upgrade_target
from enginebench_controller.cli.calibration import calibrate_target
from enginebench_controller.cli.console import print_json, print_table, remark
from enginebench_controller.cli.finding import find_targets
from enginebench_controller.cli.options import Json
from enginebench_controller.cli.tables import instant, print_devices
from enginebench_controller.documents.benchmarks import target_document
from enginebench_controller.errors import EnginebenchError, ExitCode, InputError
from enginebench_controller.home import default_home
from enginebench_controller.records import LOCAL_TARGET, Target, TargetSnapshot
from enginebench_controller.running.client import CALL_SECONDS
from enginebench_controller.running.health import Health, ask_health
from enginebench_controller.running.session import open_session
from enginebench_controller.running.ssh import is_ssh
from enginebench_controller.running.target_address import new_target, uses_tls

group = typer.Typer(no_args_is_help=True, help="The machines that run agents.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group.command("bootstrap")(bootstrap_target)
    group.command("find")(find_targets)
    group.command("upgrade")(upgrade_target)
    group.command("calibrate")(calibrate_target)
    app.add_typer(group, name="targets")
    app.command("devices")(devices)


@group.command("add")
def add(
    name: Annotated[str, typer.Argument(help="A short name for the machine.")],
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", help="HOST:PORT where its agent listens, or ssh://USER@HOST.")
    ],
    tls: Annotated[
        bool, typer.Option("--tls", help="Mutual TLS also on this machine; elsewhere it always is.")
    ] = False,
) -> None:
    """Remember a target. It need not be up yet."""
    target = new_target(name, address, tls=tls)
    default_home().store.add_target(target)
    remark(f"added {name} at {target.address}; see what it has with `enginebench devices --target {name}`")


@group.command("list")
def list_(json: Json = False) -> None:
    """List the targets."""
    targets = default_home().store.targets()
    if json:
        print_json([_document(target) for target in targets])
        return
    rows: list[list[object]] = [[t.name, t.address, _connection(t), instant(t.added_at_unix_ns)] for t in targets]
    columns = [(heading, False) for heading in ("name", "address", "connection", "added")]
    print_table("Targets", columns, rows)
    if not targets:
        remark("no targets; without one, `enginebench run` starts an agent on this machine by itself")


@group.command("check")
def check(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME…]", help="Which; all by default.")] = None,
    json: Json = False,
) -> None:
    """Ask targets for their health. Exits with 3 when one does not answer."""
    targets = {target.name: target for target in default_home().store.targets()}
    unknown = [name for name in names or () if name not in targets]
    if unknown:
        raise InputError(f"there is no target {unknown[0]!r}; see `enginebench targets list`")
    chosen = [targets[name] for name in names or targets]
    answers = ask_health(chosen, CALL_SECONDS, default_home().tls)
    rows: list[list[object]] = [[one.target.name, one.target.address, one.health] for one in answers]
    if json:
        print_json([dict(zip(("name", "address", "health"), row, strict=True)) for row in rows])
    else:
        print_table("Targets", [("name", False), ("address", False), ("health", False)], rows)
    silent = [one for one in answers if one.health is not Health.SERVING]
    for one in silent:
        remark(one.sentence)
    if silent:
        raise typer.Exit(int(ExitCode.UNREACHABLE))


@group.command("remove")
def remove(name: Annotated[str, typer.Argument(help="The target's name.")]) -> None:
    """Forget a target. What was measured on it stays."""
    default_home().store.remove_target(name)
    remark(f"removed {name}")


def _document(target: Target) -> dict[str, object]:
    return {
        "name": target.name,
        "address": target.address,
        "tls": uses_tls(target.address),
        "added_at_unix_ns": target.added_at_unix_ns,
    }


def _connection(target: Target) -> str:
    if is_ssh(target.address):
        return "SSH"
    return "mutual TLS" if uses_tls(target.address) else "plain text"


def devices(
    target: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Targets; all known ones by default, or this machine.")
    ] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask the engines anew.")] = False,
    hidden: Annotated[bool, typer.Option("--hidden", help="Show engines that exist for testing only.")] = False,
    json: Json = False,
) -> None:
    """Show every target's engines and devices, with the reason for each engine that is missing."""
    home = default_home()
    names = target.split(",") if target else [t.name for t in home.store.targets()] or [LOCAL_TARGET]
    snapshots = []
    unreachable = []
    for name in names:
        try:
            snapshots.append(asyncio.run(_snapshot(name, refresh=refresh)))
        except EnginebenchError as error:
            if error.exit_code is not ExitCode.UNREACHABLE or len(names) == 1:
                raise
            unreachable.append(str(error))
    if json:
        print_json({"schema_version": 1, "targets": [target_document(seen) for seen in snapshots]})
    else:
        print_devices(snapshots, hidden=hidden)
    for sentence in unreachable:
        remark(f"error: {sentence}")
    if unreachable:
        raise typer.Exit(int(ExitCode.UNREACHABLE))


async def _snapshot(name: str, *, refresh: bool) -> TargetSnapshot:
    async with open_session(default_home(), [name], refresh=refresh) as session:
        return session.snapshots[0]
