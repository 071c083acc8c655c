"""`enginebench ladder …`: the notebooks' performance tricks as one command each."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.cli.arguments import fed, shapes, split, stated
from enginebench_controller.cli.console import print_json, remark
from enginebench_controller.cli.exit_codes import concluded
from enginebench_controller.cli.ladder_table import print_ladder
from enginebench_controller.cli.options import BatchAxis, Inputs, InputValue, Json, Model, ShapeAsForRun, Trust
from enginebench_controller.cli.progress import announcing, remind
from enginebench_controller.cli.run_options import WaitQuiet
from enginebench_controller.errors import InputError
from enginebench_controller.home import Home, default_home
from enginebench_controller.ladder.chart import check_chart_path, write_chart
from enginebench_controller.ladder.climbing import climb
from enginebench_controller.ladder.document import ladder_document
from enginebench_controller.ladder.planning import Wish, base_plan
from enginebench_controller.ladder.results import ladder_of
from enginebench_controller.ladder.steps import Kind, steps
from enginebench_controller.records import Benchmark, ModelVersion
from enginebench_controller.trust.soundness import soundness

IMAGES = 1024
"""As in the notebooks."""


def _skip(kind: Kind) -> typer.models.OptionInfo:
    names = [step.name for step in steps(kind, batches=(), skipped=())]
    also = ["batch (all of --batches)"] if kind is Kind.THROUGHPUT else []
    option: typer.models.OptionInfo = typer.Option(
        metavar="RUNG,…", help=f"Rungs to leave out: {', '.join(names + also)}."
    )
    return option


Target = Annotated[
    str | None,
    typer.Option(metavar="NAME", help=r"Target by name or HOST:PORT. \[default: an agent on this machine]"),
]
Cores = Annotated[int | None, typer.Option(metavar="N", min=1, help=r"Physical cores. \[default: all of the target's]")]
Requests = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help=r"Requests in flight, at most, from the rung async on. \[default: twice the cores, and at least 4]",
    ),
]
Precision = Annotated[
    str | None,
    typer.Option(metavar="P", help=r"f32, bf16, f16, or default: the engine's own choice. \[default: f32]"),
]
Duration = Annotated[
    str, typer.Option(metavar="DURATION", help="Shortest steady state of a rung, all processes together.")
]
Iterations = Annotated[int, typer.Option(metavar="N", min=1, help="Fewest images of a rung, all processes together.")]
MaxDuration = Annotated[
    str, typer.Option(metavar="DURATION", help="Longest steady state of a rung, all processes together.")
]
Processes = Annotated[int, typer.Option(metavar="N", help="Fresh processes a rung is measured in; 1 for a quick look.")]
IntervalTarget = Annotated[
    str,
    typer.Option(
        "--interval",
        metavar="PERCENT",
        help="Measure a rung until half its median's 95 % interval is at most this share of the median; "
        "0% does not wait for it.",
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", help="Seed of random inputs.")]
Chart = Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the ladder to FILE.svg or FILE.png.")]

group = typer.Typer(no_args_is_help=True, help="One model made faster step by step, after OpenVINO's notebooks.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="ladder")


@group.command("throughput")
def throughput(
    model: Model,
    target: Target = None,
    batches: Annotated[str, typer.Option(metavar="N,M,…", help="Bigger batches, a rung each.")] = "4",
    requests: Requests = None,
    skip: Annotated[str | None, _skip(Kind.THROUGHPUT)] = None,
    cores: Cores = None,
    precision: Precision = None,
    duration: Duration = "3s",
    iterations: Iterations = IMAGES,
    max_duration: MaxDuration = "60s",
    processes: Processes = 3,
    interval: IntervalTarget = "0%",
    wait_quiet: WaitQuiet = None,
    shape: ShapeAsForRun = None,
    batch_axis: BatchAxis = None,
    inputs: Inputs = None,
    input_value: InputValue = None,
    seed: Seed = 0,
    trust: Trust = False,
    chart: Chart = None,
    json: Json = False,
) -> None:
    """Images a second: PyTorch, OpenVINO, bigger batch, asynchronous, THROUGHPUT, on GPU, on AUTO, CUMULATIVE."""
    wish = Wish(
        kind=Kind.THROUGHPUT,
        images=iterations,
        batches=_sizes(batches),
        skipped=tuple(split(skip) or ()),
        cores=cores,
        requests=requests,
        trusted=trust,
        fields=_fields(target, precision, duration, max_duration, processes, interval, shape, seed)
        | fed(inputs, input_value, batch_axis)
        | stated({"wait_quiet": wait_quiet}),
    )
    _climb(model, wish, chart, as_json=json)


@group.command("latency")
def latency(
    model: Model,
    target: Target = None,
    skip: Annotated[str | None, _skip(Kind.LATENCY)] = None,
    cores: Cores = None,
    precision: Precision = None,
    duration: Duration = "3s",
    iterations: Iterations = IMAGES,
    max_duration: MaxDuration = "60s",
    processes: Processes = 3,
    interval: IntervalTarget = "0%",
    wait_quiet: WaitQuiet = None,
    shape: ShapeAsForRun = None,
    batch_axis: BatchAxis = None,
    inputs: Inputs = None,
    input_value: InputValue = None,
    seed: Seed = 0,
    trust: Trust = False,
    chart: Chart = None,
    json: Json = False,
) -> None:
    """Milliseconds an inference: PyTorch, ONNX, IR, on GPU, more threads, LATENCY, shared memory."""
    wish = Wish(
        kind=Kind.LATENCY,
        images=iterations,
        skipped=tuple(split(skip) or ()),
        cores=cores,
        trusted=trust,
        fields=_fields(target, precision, duration, max_duration, processes, interval, shape, seed)
        | fed(inputs, input_value, batch_axis)
        | stated({"wait_quiet": wait_quiet}),
    )
    _climb(model, wish, chart, as_json=json)


@group.command("show")
def show(
    benchmark: Annotated[
        str, typer.Argument(metavar="ID", help="Id, start of an id, or name of a ladder's benchmark.")
    ],
    chart: Chart = None,
    json: Json = False,
) -> None:
    """Show a ladder that was measured before, or draw it."""
    if chart:
        check_chart_path(chart)
    home = default_home()
    _print(home, home.store.benchmark(benchmark), chart, as_json=json)


def _sizes(text: str) -> tuple[int, ...]:
    parts = split(text) or []
    if not all(part.isdecimal() and int(part) > 1 for part in parts):
        raise InputError(f"--batches {text!r} is not a list of batch sizes above 1, such as 4,8")
    return tuple(int(part) for part in parts)


def _fields(
    target: str | None,
    precision: str | None,
    duration: str,
    max_duration: str,
    processes: int,
    interval: str,
    shape: list[str] | None,
    seed: int,
) -> dict[str, Any]:
    """The fields of the plan that all rungs share."""
    return stated(
        {
            "targets": [target] if target else None,
            "precision": [precision] if precision else None,
            "duration": duration,
            "max_duration": max_duration,
            "processes": processes,
            "interval": interval,
            "shapes": shapes(shape),
            "seed": seed,
        }
    )


def _climb(model: str, wish: Wish, chart: Path | None, *, as_json: bool) -> None:
    if chart:
        check_chart_path(chart)
    home = default_home()
    source = home.library.resolve(model)
    base_plan(wish, source)
    benchmark = _run(home, source, wish)
    raise typer.Exit(_print(home, benchmark, chart, as_json=as_json))


def _run(home: Home, source: ModelVersion, wish: Wish) -> Benchmark:
    remind(home)
    with announcing() as announce:
        return asyncio.run(climb(home, source, wish, announce))


def _print(home: Home, benchmark: Benchmark, chart: Path | None, *, as_json: bool) -> int:
    models = home.store.models()
    ladder = ladder_of(benchmark, home.store.measurements(benchmark.id), models)
    if as_json:
        print_json(ladder_document(ladder, models))
    else:
        print_ladder(ladder)
    if chart:
        write_chart(ladder, chart)
        remark(f"wrote {chart}")
    return concluded(soundness(ladder.measurements, models))
