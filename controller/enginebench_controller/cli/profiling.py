"""`enginebench profile`: the time of every layer, in a pass of its own."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer

from enginebench_controller.cli import run_options as options
from enginebench_controller.cli.arguments import fed, pairs, shapes, split, stated
from enginebench_controller.cli.console import print_json, remark
from enginebench_controller.cli.exit_codes import concluded
from enginebench_controller.cli.options import BatchAxis, Inputs, InputValue, Json, Model, ShapeAsForRun, Trust
from enginebench_controller.cli.profile_tables import print_layers, print_profiles, print_summary, print_types
from enginebench_controller.cli.progress import announcing, remind
from enginebench_controller.documents.profiles import profiles_document
from enginebench_controller.home import default_home
from enginebench_controller.planning.plan import make_plan
from enginebench_controller.planning.sparsity_passes import parse_sparsities
from enginebench_controller.records import Peak, Profile
from enginebench_controller.running.profiling import ProfileOrder, run_profiles
from enginebench_controller.trust.soundness import soundness


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("profile")(profile)


def profile(
    model: Model,
    engine: options.Engine = None,
    target: options.Target = None,
    device: options.Device = None,
    batch: options.Batch = None,
    cores: options.Cores = None,
    precision: options.Precision = None,
    sparsity: Annotated[
        str | None,
        typer.Option(metavar="S,T,…", help="A pass for each share of zeros imposed, such as 0,0.5,0.9: DeepSparse."),
    ] = None,
    iterations: Annotated[int, typer.Option(help="Profiled inferences.")] = 20,
    warmup: options.Warmup = None,
    shape: ShapeAsForRun = None,
    batch_axis: BatchAxis = None,
    option: options.Option = None,
    seed: options.Seed = None,
    inputs: Inputs = None,
    input_value: InputValue = None,
    timeout: options.Timeout = None,
    wait_quiet: options.WaitQuiet = None,
    name: Annotated[str | None, typer.Option(help="Name of the profiles; by default that of the model.")] = None,
    trust: Trust = False,
    most: Annotated[int, typer.Option(min=0, help="How many layers to print, slowest first.")] = 20,
    json: Json = False,
) -> None:
    """Time every layer of a model. Never mixed with measurements: counters cost time of their own."""
    given = {
        "models": [model],
        "engines": split(engine),
        "targets": split(target),
        "devices": split(device),
        "batch": split(batch),
        "cores": split(cores),
        "precision": split(precision),
        "iterations": iterations,
        "warmup": warmup,
        "shapes": shapes(shape),
        "options": pairs(option, "--option ENGINE.NAME=VALUE"),
        "seed": seed,
        "timeout": timeout,
        "wait_quiet": wait_quiet,
        "name": name,
    }
    plan = make_plan(stated(given) | fed(inputs, input_value, batch_axis), "profile")
    order = ProfileOrder(plan, parse_sparsities(sparsity), trusted=trust)
    remind(default_home())
    with announcing() as announce:
        profiles = asyncio.run(run_profiles(default_home(), order, announce))
    peaks, judged = default_home().store.peaks(), soundness(profiles)
    if json:
        print_json({**profiles_document(profiles, peaks), "outcome": judged.document})
    else:
        _print(profiles, peaks, most)
    raise typer.Exit(concluded(judged))


def _print(profiles: Sequence[Profile], peaks: Sequence[Peak], most: int) -> None:
    for one in profiles:
        print_summary(one)
        if one.layers:
            print_types(one)
            print_layers(one, peaks, most)
    if len(profiles) > 1:
        print_profiles("All passes", profiles)
    for one in profiles:
        remark(f"look at it again with `enginebench profiles show {one.id}`")
