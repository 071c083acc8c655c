"""`enginebench profile`: the time of every layer, in a pass of its own."""

import asyncio
from typing import Annotated

import typer

from enginebench_controller.benchmarking import run_profiles
from enginebench_controller.cli.arguments import shapes, split
from enginebench_controller.cli.console import print_json, remark
from enginebench_controller.cli.progress import LiveReporter
from enginebench_controller.cli.tables import failure_sentence, print_profile
from enginebench_controller.document import profile_document
from enginebench_controller.errors import ExitCode
from enginebench_controller.expand import Expansion
from enginebench_controller.home import default_home
from enginebench_controller.plan import make_plan
from enginebench_controller.records import Status


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("profile")(profile)


def profile(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="File, name, digest or zoo:NAME.")],
    engine: Annotated[str, typer.Option(metavar="A,B,…", help="Engines, as for run.")] = "all",
    target: Annotated[str | None, typer.Option(metavar="A,B,…", help="Targets, as for run.")] = None,
    device: Annotated[str | None, typer.Option(metavar="A,B,…", help="Devices, as for run.")] = None,
    batch: Annotated[str, typer.Option(metavar="N,M,…", help="Items in one inference.")] = "1",
    cores: Annotated[str | None, typer.Option(metavar="N,M,…", help="Physical cores, as for run.")] = None,
    iterations: Annotated[int, typer.Option(help="Profiled inferences.")] = 20,
    shape: Annotated[list[str] | None, typer.Option(metavar="INPUT=AxBxC", help="As for run.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the profile.")] = None,
    most: Annotated[int, typer.Option(help="How many layers to print, slowest first.")] = 20,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Time every layer of a model. Never mixed with measurements: counters cost time of their own."""
    fields = {
        "models": [model],
        "engines": split(engine),
        "targets": split(target) or (),
        "devices": split(device) or (),
        "batch": split(batch),
        "cores": split(cores) or (),
        "iterations": iterations,
        "shapes": shapes(shape) or {},
        "name": name,
    }
    with LiveReporter() as reporter:

        def announce(expansion: Expansion) -> LiveReporter:
            reporter.begin(expansion.jobs)
            return reporter

        profiles = asyncio.run(run_profiles(default_home(), make_plan(fields, "profile"), announce))
    if json:
        print_json({"schema_version": 1, "profiles": [profile_document(one) for one in profiles]})
    for one in [] if json else profiles:
        if one.failure:
            remark(f"{one.name} on {one.engine.name}: {failure_sentence(one.failure)}")
        else:
            print_profile(one, most)
    if any(one.status is Status.FAILED for one in profiles):
        raise typer.Exit(int(ExitCode.SOME_FAILED))
