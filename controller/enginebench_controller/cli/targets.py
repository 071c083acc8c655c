"""`enginebench targets …` and `enginebench devices`: the machines, and what they offer."""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

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
from enginebench_controller.running.session import completed, open_session
from enginebench_controller.running.ssh import is_ssh
from enginebench_controller.running.target_address import new_target, uses_tls

EARLY_SECONDS = 5.0
"""How long engines have to be in the first list; most answer within two."""

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
    unreachable: list[str] = []
    if json:
        snapshots = asyncio.run(_snapshots(names, unreachable, refresh=refresh))
        print_json({"schema_version": 1, "targets": [target_document(seen) for seen in snapshots]})
    else:
        early = partial(_print_early, hidden=hidden)
        print_devices(asyncio.run(_snapshots(names, unreachable, refresh=refresh, early=early)), hidden=hidden)
    for sentence in unreachable:
        remark(f"error: {sentence}")
    if unreachable:
        raise typer.Exit(int(ExitCode.UNREACHABLE))


async def _snapshots(
    names: Sequence[str],
    unreachable: list[str],
    *,
    refresh: bool,
    early: Callable[[Sequence[TargetSnapshot]], Sequence[TargetSnapshot]] | None = None,
) -> list[TargetSnapshot]:
    """What the targets have; why one does not answer goes to `unreachable`, where it is not the only one.

    With `early`, what some seconds have brought goes there where an engine has not answered by then; what that returns
    is not told again.
    """
    home, within_s = default_home(), None if early is None else EARLY_SECONDS
    async with contextlib.AsyncExitStack() as stack:
        sessions = []
        for name in names:
            try:
                sessions.append(
                    await stack.enter_async_context(open_session(home, [name], refresh=refresh, within_s=within_s))
                )
            except EnginebenchError as error:
                if error.exit_code is not ExitCode.UNREACHABLE or len(names) == 1:
                    raise
                unreachable.append(str(error))
        seen = [session.snapshots[0] for session in sessions]
        if early is None or not any(map(_waiting, seen)):
            return seen
        told = early(seen)
        whole = [await completed(home, session, one) for session, one in zip(sessions, seen, strict=True)]
        return [_without(one, before) for one, before in zip(whole, told, strict=True)]


def _print_early(seen: Sequence[TargetSnapshot], *, hidden: bool) -> Sequence[TargetSnapshot]:
    """Show what has answered, and say what is waited for; returns what was shown."""
    told = [replace(one, engines=tuple(e for e in one.engines if not _is_asked(e))) for one in seen]
    print_devices(told, hidden=hidden)
    names = ", ".join(f"{engine['name']} ({one.target})" for one in seen for engine in _waiting(one))
    remark(f"still being asked: {names}; each is given up when its time is up (discovery_seconds in agent.toml)")
    return told


def _waiting(seen: TargetSnapshot) -> list[Mapping[str, Any]]:
    return [engine for engine in seen.engines if _is_asked(engine)]


def _is_asked(engine: Mapping[str, Any]) -> bool:
    return bool(engine["unavailable"]) and engine["unavailable"]["kind"] == "being_asked"


def _without(whole: TargetSnapshot, told: TargetSnapshot) -> TargetSnapshot:
    known = {(engine["name"], engine["environment"]) for engine in told.engines}
    return replace(whole, engines=tuple(e for e in whole.engines if (e["name"], e["environment"]) not in known))
