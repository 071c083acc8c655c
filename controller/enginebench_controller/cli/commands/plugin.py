"""`enginebench plugin …`: for those who bring an engine of their own."""

from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import plain, print_json, remark, stdout
from enginebench_controller.cli.options import Json
from enginebench_controller.errors import ExitCode
from enginebench_controller.files.documents import head
from enginebench_controller.files.plugin_project import write_plugin_project
from enginebench_controller.home import default_home
from enginebench_controller.runs.plugin.check import MODELS, BrokenPromise, LookedAt, PluginCheck, check_plugin
from enginebench_controller.typed_paths import typed_path

group = typer.Typer(no_args_is_help=True, help="For those who bring an engine of their own.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="plugin")


@group.command("new")
def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the engine is to be called.")],
    into: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help=r"The folder to make. \[default: ./enginebench-NAME]")
    ] = None,
) -> None:
    """Write a distribution whose engine runs and keeps the contract as it is, for you to put yours in its place."""
    place = write_plugin_project(name, None if into is None else typed_path(into))
    print(place)  # data
    remark(f"put your engine into {place}/src; `enginebench plugin check {place}` says which promises it breaks")


@group.command("check")
def check(
    project: Annotated[
        str,
        typer.Argument(
            metavar="PROJECT",
            help="A folder with a pyproject.toml, or a package for pip; with --target the name of an engine there.",
        ),
    ],
    target: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Where an engine is installed already, `local` for here: all but the contract is checked.",
            autocompletion=completion.targets,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODEL",
            help=rf"What it is to run, the first that it takes; repeat it. \[default: {', '.join(MODELS)}]",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Say which promises of the spec a plugin breaks: in discovery, the contract, a model and a profile.

    It is installed into an environment that is gone afterwards; nothing is installed on a target. The exit code is 1
    where a promise is broken.
    """
    found = check_plugin(default_home(), project, target, remark, model or MODELS)
    if json:
        print_json(head("plugin_check") | asdict(found))
    else:
        _print(found)
    raise typer.Exit(int(ExitCode.SOME_FAILED if found.broken else ExitCode.OK))


def _print(found: PluginCheck) -> None:
    """The answer, then each broken promise with its sentence."""
    names = ", ".join(found.engines) or found.project
    count = len(found.broken)
    words = f"breaks {count} {'promise' if count == 1 else 'promises'}" if count else "keeps what the spec asks for"
    text = plain(f"{names}: {words}")
    text.stylize("bold red" if count else "bold green")
    stdout().print(text)
    alike: dict[tuple[str, str], list[BrokenPromise]] = {}
    for one in found.broken:
        alike.setdefault((one.engine, one.found), []).append(one)
    for one, *others in alike.values():
        whose = f"{one.engine}, " if len(found.engines) > 1 else ""
        statement = f" (“{one.statement}”)" if one.statement else ""
        stdout().print(plain(f"✗ {whose}{one.part}: {one.found}{statement}"), soft_wrap=True)
        stdout().print(plain(f"  spec: “{one.promise}”"), soft_wrap=True)
        if alike_too := [each.statement for each in others if each.statement]:
            stdout().print(plain(f"  the same of: {'; '.join(alike_too)}"), soft_wrap=True)
    for seen in found.looked_at:
        remark(f"{seen.engine}: {_looked_at(seen)}")
    for note in found.notes:
        remark(f"note: {note}")


def _looked_at(seen: LookedAt) -> str:
    parts = [f"{seen.statements} statements of the contract"] if seen.statements else []
    parts += [seen.model] if seen.model else []
    parts += ["a profile"] if seen.has_profile else []
    left_out = ", ".join(f"{count} as {why}" for why, count in Counter(seen.left_out).most_common())
    return f"held against {', '.join(parts) or 'nothing'}" + (f"; left out: {left_out}" if left_out else "")
