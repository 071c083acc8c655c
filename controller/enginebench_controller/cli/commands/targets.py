"""`enginebench targets …` and `enginebench devices`: the machines, and what they offer."""

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer
from rich.text import Text

from enginebench_controller.cli import completion
from enginebench_controller.cli.commands.calibration import calibrate_target
from enginebench_controller.cli.commands.reserving import release_targets, reserve_targets
from enginebench_controller.cli.console import complain, plain, print_json, print_table, remark, stdout
from enginebench_controller.cli.options import Json, targets_meant
from enginebench_controller.cli.tables import instant
from enginebench_controller.errors import INTERRUPTED, EnginebenchError, ExitCode, InputError
from enginebench_controller.files.benchmarks import target_document
from enginebench_controller.files.documents import head
from enginebench_controller.home import default_home
from enginebench_controller.plan.options import split
from enginebench_controller.records import (
    LOCAL_TARGET,
    NOISE_AGE_NS,
    AvailableEngine,
    Noise,
    Reservation,
    Target,
    TargetSnapshot,
    UnavailableEngine,
)
from enginebench_controller.records.cause import cause
from enginebench_controller.records.fields import RESERVATION
from enginebench_controller.runs.undertaking import outcomes_held_by
from enginebench_controller.targets.addresses import MAX_PORT, SCHEME, SshPlace, is_ssh, new_target, uses_tls
from enginebench_controller.targets.bootstrap import (
    AgentInstallation,
    WantedAgent,
    Wheel,
    bootstrap_steps,
    carry_out,
    given_wheel,
    own_wheel,
)
from enginebench_controller.targets.choosing import LABEL, parse_label
from enginebench_controller.targets.client import CALL_SECONDS
from enginebench_controller.targets.health import Health, HealthAnswer, ask_health
from enginebench_controller.targets.session import completed, open_session
from enginebench_controller.verdicts.host_words import kinds_of_cores, memory_of, processor_of
from enginebench_controller.verdicts.words import UNKNOWN
from enginebench_proto.agreed.names import as_name
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT

Python = Annotated[str, typer.Option(metavar="COMMAND", help="The Python to use there, 3.11 or newer.")]
WheelFile = Annotated[
    Path | None, typer.Option("--wheel", metavar="FILE", help=r"What to install. \[default: the version used here]")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the steps, and do none of them.")]


def bootstrap_target(
    machine: Annotated[str, typer.Argument(metavar="USER@HOST", help="Where to log in, also as USER@HOST:PORT.")],
    name: Annotated[str | None, typer.Option(help=r"A short name for the machine. \[default: HOST]")] = None,
    engine: Annotated[str, typer.Option(metavar="A,B,…", help="Engines to install there, each by itself.")] = "",
    port: Annotated[
        int | None, typer.Option(min=1, max=MAX_PORT, help=r"The agent's port there. \[default: 50151]")
    ] = None,
    python: Python = "python3",
    wheel: WheelFile = None,
    dry_run: DryRun = False,
) -> None:
    """Put an agent on a machine over SSH, and add it as a target. What is done already is left as it is."""
    place = SshPlace.parse(machine if is_ssh(machine) else SCHEME + machine)
    place = place if port is None else replace(place, agent_port=port)
    engines = tuple(word for word in (part.strip() for part in engine.split(",")) if word)
    _bootstrap(new_target(name or place.host, place.address), engines, python, wheel, dry_run=dry_run)


def upgrade_target(
    name: Annotated[str, typer.Argument(help="A target that is reached over SSH.", autocompletion=completion.targets)],
    python: Python = "python3",
    wheel: WheelFile = None,
    dry_run: DryRun = False,
) -> None:
    """Bring the enginebench of a target to the version used here. Results not collected yet stay on it."""
    target = next((each for each in default_home().store.targets() if each.name == as_name(name)), None)
    if target is None:
        raise InputError(f"there is no target {name!r}; see `enginebench targets list`")
    if not is_ssh(target.address):
        raise InputError(
            f"the target {name!r} is at {target.address}, and only ssh:// targets can be upgraded from here"
        )
    _bootstrap(target, (), python, wheel, dry_run=dry_run)


def _bootstrap(target: Target, engines: tuple[str, ...], python: str, wheel: Path | None, *, dry_run: bool) -> None:
    with TemporaryDirectory(prefix="enginebench-") as folder:
        source = partial(_wheel, wheel, Path(folder))
        wish = WantedAgent(SshPlace.parse(target.address), source, engines, python)
        steps = bootstrap_steps(default_home(), target, AgentInstallation(wish))
        if dry_run:
            for number, step in enumerate(steps, start=1):
                stdout().print(plain(f"{number}. {step.title}"), soft_wrap=True)
        else:
            carry_out(steps, remark)


def _wheel(given: Path | None, folder: Path) -> Wheel:
    return own_wheel(folder) if given is None else given_wheel(given)


SECONDS = 3.0
ANSWER_SECONDS = 5.0
"""How long each may take to answer for itself: they are near."""


@contextlib.contextmanager
def storing_nothing() -> Iterator[None]:
    """Where it is interrupted, it is not said that anything was stored."""
    try:
        yield
    except KeyboardInterrupt:
        complain("interrupted")
        raise SystemExit(INTERRUPTED) from None


@storing_nothing()
def find_targets(
    seconds: Annotated[float, typer.Option(min=0.1, max=60, help="How long to listen.")] = SECONDS,
    interface: Annotated[
        list[str] | None, typer.Option(metavar="ADDRESS", help="Listen at this IPv4 address only; repeatable.")
    ] = None,
    json: Json = False,
) -> None:
    """Look for agents that announce themselves on the local network (`serve --announce`). Adds none.

    Anybody there can announce anything: each is asked by mutual TLS, and only one with a certificate of your authority
    is shown as serving.
    """
    try:
        from enginebench_controller.targets.finding import ask_hints, listen  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise InputError("this needs the library zeroconf: pip install 'enginebench[mdns]'") from error
    home = default_home()
    remark(f"listening for {seconds:g} s")
    hints = listen(seconds, interface or ())
    answers = ask_hints(hints, ANSWER_SECONDS, home.tls)
    targets = {target.address: target.name for target in home.store.targets()}
    known = [next((targets[one.address] for one in hint.places if one.address in targets), None) for hint in hints]
    if json:
        print_json(head("found_targets") | {"found": [*map(_found_document, answers, known)]})
        return
    print_found(answers, known)


def _found_document(answer: HealthAnswer, known: str | None) -> Mapping[str, object]:
    return {
        "name": answer.target.name,
        "address": answer.target.address,
        "health": answer.health.value,
        "cause": answer.cause or None,
        "target": known,
    }


def print_found(answers: Sequence[HealthAnswer], known: Sequence[str | None]) -> None:
    """A row an agent, and below why some do not answer; `known` are what those that were added are called."""
    columns = [(heading, False) for heading in ("calls itself", "address", "answer", "known as")]
    rows: list[list[object]] = [
        [one.target.name, one.target.address, one.health, name or UNKNOWN]
        for one, name in zip(answers, known, strict=True)
    ]
    print_table("Announced on this network", columns, rows)
    for one in answers:
        if one.cause:
            remark(f"{one.target.name} at {one.target.address}: {one.cause}")
    for one, name in zip(answers, known, strict=True):
        if one.health is Health.SERVING and name is None:
            remark(f"next: enginebench targets add {one.target.name} {one.target.address}")
    if not answers:
        remark("nothing is announced here; agents do so with `enginebench-agent serve --announce`")


EARLY_SECONDS = 5.0
"""How long engines have to be in the first list; most answer within two."""

group = typer.Typer(no_args_is_help=True, help="The machines that run agents.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    group.command("bootstrap")(bootstrap_target)
    group.command("find")(find_targets)
    group.command("upgrade")(upgrade_target)
    group.command("calibrate")(calibrate_target)
    group.command("reserve")(reserve_targets)
    group.command("release")(release_targets)
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
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="What it is to be found by, such as site=lab2; repeatable."),
    ] = None,
) -> None:
    """Remember a target. It need not be up yet."""
    target = new_target(name, address, tls=tls, labels=dict(map(parse_label, label or ())))
    store = default_home().store
    others = [one.name for one in store.targets() if one.address == target.address and one.name != target.name]
    store.add_target(target)
    if others:
        remark(f"{' and '.join(others)} is at that address, too: one machine under several names counts as several")
    name = target.name
    remark(f"added {name} at {target.address}; see what it has with `enginebench devices --target {name}`")


@group.command("label")
def label(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="NAME… KEY=VALUE… KEY-…",
            help="Targets, also by label:KEY=VALUE; labels to give them; and, with a dash behind, labels to take away.",
            autocompletion=completion.targets,
        ),
    ],
) -> None:
    """Give targets labels, by which --target 'label:KEY=VALUE,…' finds them."""
    given = dict(parse_label(word) for word in words if "=" in word and not word.startswith(LABEL))
    gone = {word.removesuffix("-") for word in words if word.endswith("-") and "=" not in word}
    named = [word for word in words if word.startswith(LABEL) or not ("=" in word or word.endswith("-"))]
    if not named or not (given or gone):
        raise InputError("name targets, and labels for them: enginebench targets label board site=lab2")
    names = targets_meant(named) or ()
    for one in default_home().store.label_targets(names, {**dict.fromkeys(gone), **given}):
        remark(f"{one.name}: {_labels(one) or 'no labels'}")


@group.command("list")
def list_(
    target: Annotated[str | None, typer.Option(metavar="A,B,…", help="Only these, also by label:KEY=VALUE.")] = None,
    json: Json = False,
) -> None:
    """List the targets."""
    meant = targets_meant(split(target))
    targets = [one for one in default_home().store.targets() if meant is None or one.name in meant]
    noise = default_home().store.noise(time.time_ns() - NOISE_AGE_NS)
    if json:
        print_json([_document(target, noise.get(target.name)) for target in targets])
        return
    rows: list[list[object]] = [
        [t.name, t.address, _connection(t), _labels(t) or UNKNOWN, instant(t.added_at_unix_ns)] for t in targets
    ]
    columns = [(heading, False) for heading in ("name", "address", "connection", "labels", "added")]
    print_table("Targets", columns, rows)
    for one in (noise[t.name] for t in targets if t.name in noise):
        if one.is_noisy:
            remark(f"{one.target} is noisy ({one.sentence}): label:… leaves it out until it is quiet, or for a day")
    if not targets:
        remark("no targets; without one, `enginebench run` starts an agent on this machine by itself")


@group.command("check")
@storing_nothing()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME…]", help="Which; all by default.", autocompletion=completion.targets),
    ] = None,
    json: Json = False,
) -> None:
    """Ask targets for their health, and who has reserved them. Exits with 3 when one does not answer."""
    targets = {target.name: target for target in default_home().store.targets()}
    names = targets_meant(names)
    unknown = [name for name in names or () if name not in targets]
    if unknown:
        raise InputError(f"there is no target {unknown[0]!r}; see `enginebench targets list`")
    chosen = [targets[name] for name in names or targets]
    answers = ask_health(chosen, CALL_SECONDS, default_home().tls, _tell_waiting)
    if json:
        print_json([_health_document(one) for one in answers])
    else:
        columns = [(heading, False) for heading in ("name", "address", "health")]
        rows: list[list[object]] = [[one.target.name, one.target.address, one.health] for one in answers]
        print_table("Targets", columns, rows)
        for one in answers:
            if one.reservation:
                stdout().print(plain(f"{one.target.name} is reserved {one.reservation.words}"), soft_wrap=True)
    silent = [one for one in answers if one.health is not Health.SERVING]
    for one in silent:
        remark(one.sentence)
    if silent:
        raise typer.Exit(int(ExitCode.UNREACHABLE))


_MOST_WAITED_FOR = 8


def _tell_waiting(silent: Sequence[Target]) -> None:
    names = ", ".join(one.name for one in silent[:_MOST_WAITED_FOR])
    more = f" and {len(silent) - _MOST_WAITED_FOR:,} more" if len(silent) > _MOST_WAITED_FOR else ""
    remark(f"waiting for {names}{more} (up to {CALL_SECONDS:g} s)")


def _health_document(one: HealthAnswer) -> Mapping[str, object]:
    return {
        "name": one.target.name,
        "address": one.target.address,
        "health": one.health.value,
        "reservation": RESERVATION.to_data(one.reservation),
    }


@group.command("remove")
def remove(name: Annotated[str, typer.Argument(help="The target's name.", autocompletion=completion.targets)]) -> None:
    """Forget a target and its calibrations. What was measured stays; what it still holds of an interrupted command is
    given up.
    """
    home, name = default_home(), as_name(name)
    home.store.remove_target(name)
    remark(f"removed {name}")
    if held := outcomes_held_by(name, home.path, home.store.stored_ids):
        remark(
            f"it may still have {held:,} of the results of interrupted commands: the next `enginebench resume` gives "
            "that up, unless it is added again under this name before"
        )


def _document(target: Target, noise: Noise | None) -> dict[str, object]:
    return {
        "name": target.name,
        "address": target.address,
        "tls": uses_tls(target.address),
        "added_at_unix_ns": target.added_at_unix_ns,
        "labels": dict(target.labels),
        "noise": None if noise is None else {**asdict(noise), "is_noisy": noise.is_noisy},
    }


def _labels(target: Target) -> str:
    return ", ".join(f"{key}={value}" for key, value in target.labels.items())


def _connection(target: Target) -> str:
    if is_ssh(target.address):
        return "SSH"
    return "mutual TLS" if uses_tls(target.address) else "plain text"


MOST_DEVICES = 8
"""So many devices of an engine are named in its line; `--json` has all."""


def devices(
    target: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Targets, also by label:KEY=VALUE; all known ones by default, or this machine.",
            autocompletion=completion.targets,
        ),
    ] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Ask the engines anew.")] = False,
    hidden: Annotated[bool, typer.Option("--hidden", help="Show engines that exist for testing only.")] = False,
    json: Json = False,
) -> None:
    """Show every target's engines and devices, with the reason for each engine that is missing."""
    home = default_home()
    names = targets_meant(split(target)) or [one.name for one in home.store.targets()] or [LOCAL_TARGET]
    unreachable: list[str] = []
    reserved: dict[str, Reservation | None] = {}
    if json:
        snapshots = asyncio.run(_snapshots(names, unreachable, reserved, refresh=refresh))
        documents = [
            target_document(seen) | {"reservation": RESERVATION.to_data(reserved.get(seen.target))}
            for seen in snapshots
        ]
        print_json(head("devices") | {"targets": documents})
    else:
        early = partial(_print_early, hidden=hidden)
        print_devices(
            asyncio.run(_snapshots(names, unreachable, reserved, refresh=refresh, early=early)), hidden=hidden
        )
        for name, one in reserved.items():
            if one is not None and one.is_yours:  # others' were told of as the target was asked
                stdout().print(plain(f"{name} is reserved {one.words}"), soft_wrap=True)
    for sentence in unreachable:
        remark(f"error: {sentence}")
    if unreachable:
        raise typer.Exit(int(ExitCode.UNREACHABLE))


async def _snapshots(
    names: Sequence[str],
    unreachable: list[str],
    reserved: dict[str, Reservation | None],
    *,
    refresh: bool,
    early: Callable[[Sequence[TargetSnapshot]], Sequence[TargetSnapshot]] | None = None,
) -> list[TargetSnapshot]:
    """What the targets have; why one does not answer goes to `unreachable`, where it is not the only one, and who has
    reserved it to `reserved`.

    With `early`, what some seconds have brought goes there where an engine has not answered by then; what that returns
    is not told again.
    """
    home = default_home()
    # Without `refresh`, a document is made of what is known at once, although somebody has all asked anew.
    within_s = EARLY_SECONDS if refresh or early is not None else None
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
        reserved |= {one.target: session.reservation(one.target) for one, session in zip(seen, sessions, strict=True)}
        if not any(one.being_asked for one in seen):
            return seen
        told = None if early is None else early(seen)
        whole = [await completed(home, session, one) for session, one in zip(sessions, seen, strict=True)]
        if told is None:
            return whole
        return [_without(one, before) for one, before in zip(whole, told, strict=True)]


def _print_early(seen: Sequence[TargetSnapshot], *, hidden: bool) -> Sequence[TargetSnapshot]:
    """Show what has answered, and say what is waited for; returns what was shown."""
    told = [replace(one, engines=tuple(e for e in one.engines if e not in one.being_asked)) for one in seen]
    print_devices(told, hidden=hidden)
    names = ", ".join(f"{engine.name} ({one.target})" for one in seen for engine in one.being_asked)
    remark(
        f"still being asked: {names}; where a target measures they wait for its end, and then each is given up "
        "when its time is up (discovery_seconds in agent.toml)"
    )
    return told


def _without(whole: TargetSnapshot, told: TargetSnapshot) -> TargetSnapshot:
    known = {(engine.name, engine.environment) for engine in told.engines}
    return replace(whole, engines=tuple(e for e in whole.engines if (e.name, e.environment) not in known))


def print_devices(snapshots: Collection[TargetSnapshot], *, hidden: bool) -> None:
    """Targets → engines, a line each with its devices; below them the engines that are missing, with the reason."""
    shown = [(one, engine) for one in snapshots for engine in one.engines if hidden or not engine.hidden]
    rows = [_row(one, engine) for one, engine in shown if isinstance(engine, AvailableEngine)]
    headings = ("target", "engine", "version", "environment", "devices", "precisions")
    print_table("Engines", [(heading, False) for heading in headings], rows)
    for machine in dict.fromkeys(map(_machine, snapshots)):
        stdout().print(plain(machine), soft_wrap=True)
    for one, engine in shown:
        if isinstance(engine, UnavailableEngine):
            where = "" if engine.environment == DEFAULT_ENVIRONMENT else f" ({engine.environment})"
            sentence = f"{engine.name}{where} is unavailable on {one.target}: {cause(engine.reason)}"
            stdout().print(plain(sentence), soft_wrap=True)


def _machine(seen: TargetSnapshot) -> str:
    host = seen.host
    cores = f"{host.physical_cores} cores" if host.physical_cores else ""
    known = (processor_of(host), kinds_of_cores(host) or cores, memory_of(host), host.virtualization, host.emulation)
    return f"{seen.target}: {', '.join(filter(None, known)) or UNKNOWN}"


def _row(seen: TargetSnapshot, engine: AvailableEngine) -> list[object]:
    told = [
        one.name if one.full_name in ("", one.name, seen.host.cpu_model) else f"{one.name} ({one.full_name})"
        for one in engine.devices[:MOST_DEVICES]
    ]
    more = len(engine.devices) - len(told) + engine.more_devices
    told += [f"and {more:,} more"] if more else []
    precisions = dict.fromkeys(precision for one in engine.devices for precision in one.precisions)
    devices = ", ".join(told) or Text("none found", style="yellow")
    return [seen.target, engine.name, engine.version, engine.environment, devices, ", ".join(precisions)]
