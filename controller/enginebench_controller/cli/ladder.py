"""`enginebench ladder …`: the notebooks' performance tricks as one command each."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.cli.arguments import shapes, split
from enginebench_controller.cli.console import print_json, print_table, remark
from enginebench_controller.cli.progress import LiveReporter
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.expand import Expansion
from enginebench_controller.home import Home, default_home
from enginebench_controller.ladder.chart import check_chart_path, percent, write_chart
from enginebench_controller.ladder.climbing import climb
from enginebench_controller.ladder.document import ladder_document
from enginebench_controller.ladder.planning import Wish, base_plan
from enginebench_controller.ladder.results import Gain, Ladder, RungResult, ladder_of
from enginebench_controller.ladder.steps import Kind
from enginebench_controller.parity import flags
from enginebench_controller.records import Benchmark, Interval, ModelVersion, Status

IMAGES = 1024
"""As in the notebooks."""
UNKNOWN = "–"

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="File, name, digest or zoo:NAME.")]
Target = Annotated[
    str | None, typer.Option(metavar="NAME", help="Target by name or HOST:PORT; by default an agent on this machine.")
]
Skip = Annotated[str | None, typer.Option(metavar="RUNG,…", help="Rungs to leave out.")]
Cores = Annotated[int | None, typer.Option(min=1, help="Physical cores; by default all of the target's.")]
Precision = Annotated[
    str | None, typer.Option(help="f32 (the default), bf16, f16, or default: the engine's own choice.")
]
Duration = Annotated[str, typer.Option(help="Shortest steady state of a rung, all processes together.")]
Iterations = Annotated[int, typer.Option(min=1, help="Fewest images of a rung, all processes together.")]
MaxDuration = Annotated[str, typer.Option(help="Longest steady state of a rung, all processes together.")]
Processes = Annotated[int, typer.Option(min=1, help="Fresh processes a rung is measured in; 1 for a quick look.")]
IntervalTarget = Annotated[
    str,
    typer.Option("--interval", metavar="PERCENT", help="Measure on until the 95 % interval is as narrow; 0% for any."),
]
Shape = Annotated[list[str] | None, typer.Option(metavar="INPUT=AxBxC", help="As for run; may be repeated.")]
Inputs = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Folder of .npy, .npz or images instead of random inputs.")
]
Seed = Annotated[int, typer.Option(help="Seed of random inputs.")]
Trust = Annotated[
    bool, typer.Option("--trust", help="MODEL may run code of its own here: TorchScript and .pt2 files can.")
]
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
    requests: Annotated[
        int | None, typer.Option(min=1, help="Requests in flight; by default twice the cores, and at least 4.")
    ] = None,
    skip: Skip = None,
    cores: Cores = None,
    precision: Precision = None,
    duration: Duration = "3s",
    iterations: Iterations = IMAGES,
    max_duration: MaxDuration = "60s",
    processes: Processes = 3,
    interval: IntervalTarget = "0%",
    shape: Shape = None,
    inputs: Inputs = None,
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
        fields=_fields(target, precision, duration, max_duration, processes, interval, shape, inputs, seed),
    )
    _climb(model, wish, chart, as_json=json)


@group.command("latency")
def latency(
    model: Model,
    target: Target = None,
    skip: Skip = None,
    cores: Cores = None,
    precision: Precision = None,
    duration: Duration = "3s",
    iterations: Iterations = IMAGES,
    max_duration: MaxDuration = "60s",
    processes: Processes = 3,
    interval: IntervalTarget = "0%",
    shape: Shape = None,
    inputs: Inputs = None,
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
        fields=_fields(target, precision, duration, max_duration, processes, interval, shape, inputs, seed),
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
    inputs: Path | None,
    seed: int,
) -> dict[str, Any]:
    """The fields of the plan that all rungs share."""
    given = {
        "targets": [target] if target else None,
        "precision": [precision] if precision else None,
        "duration": duration,
        "max_duration": max_duration,
        "processes": processes,
        "interval": interval,
        "shapes": shapes(shape),
        "input_folder": str(inputs) if inputs else None,
        "seed": seed,
    }
    return {key: value for key, value in given.items() if value is not None}


def _climb(model: str, wish: Wish, chart: Path | None, *, as_json: bool) -> None:
    if chart:
        check_chart_path(chart)
    home = default_home()
    source = home.library.resolve(model)
    base_plan(wish, source)
    benchmark = _run(home, source, wish)
    raise typer.Exit(_print(home, benchmark, chart, as_json=as_json))


def _run(home: Home, source: ModelVersion, wish: Wish) -> Benchmark:
    with LiveReporter() as reporter:

        def announce(expansion: Expansion) -> LiveReporter:
            for note in expansion.notes:
                remark(f"note: {note}")
            reporter.begin(expansion.jobs)
            return reporter

        return asyncio.run(climb(home, source, wish, announce))


def _print(home: Home, benchmark: Benchmark, chart: Path | None, *, as_json: bool) -> int:
    ladder = ladder_of(benchmark, home.store.measurements(benchmark.id), home.store.models())
    if as_json:
        print_json(ladder_document(ladder))
    else:
        _print_table(ladder)
    if chart:
        write_chart(ladder, chart)
        remark(f"wrote {chart}")
    done = all(one.status in {Status.OK, Status.INCONCLUSIVE} for one in ladder.measurements)
    return int(ExitCode.OK if done else ExitCode.SOME_FAILED)


def _print_table(ladder: Ladder) -> None:
    columns = [("rung", False), ("", False), ("first inference s", True), ("s per image", True), ("FPS", True)]
    columns += [("median ms", True), ("on the one before", True), ("on the first", True), ("status", False)]
    print_table(f"{ladder.benchmark.name} ({ladder.benchmark.id})", columns, [_row(rung) for rung in ladder.rungs])
    remark("± is half of the 95 % interval; ≈ a gain within the noise of both rungs")
    for rung in ladder.rungs:
        if rung.reason:
            remark(f"  {rung.title}: {'not available' if rung.measurement is None else 'failed'}: {rung.reason}")
        for flag in _flags(rung):
            remark(f"  note: {rung.title}: {flag}")
    for line in ladder.remarks:
        remark(line)
    if best := ladder.best:
        remark(f"best: {best.title}")


def _flags(rung: RungResult) -> list[str]:
    """What to know before trusting a rung's numbers; a fast wrong answer is no result."""
    wrong = rung.output_check.problem if rung.output_check else ""
    return [*(flags(rung.measurement) if rung.measurement else ()), *([f"outputs: {wrong}"] if wrong else [])]


def _row(rung: RungResult) -> list[object]:
    status = str(rung.measurement.status) if rung.measurement else "not available"
    return [
        *(rung.name, rung.title),
        UNKNOWN if rung.first_inference_ns is None else f"{rung.first_inference_ns / 1e9:.4f}",
        UNKNOWN if rung.seconds_per_image is None else f"{rung.seconds_per_image:.5f}",
        _with_interval(rung.fps, rung.fps_interval, 1.0, 1),
        _with_interval(rung.latency_ns, rung.latency_interval, 1e-6, 3),
        *(_gain(rung.gain_over_previous), _gain(rung.gain_over_first), status),
    ]


def _with_interval(value: float | None, interval: Interval | None, factor: float, digits: int) -> str:
    if value is None:
        return UNKNOWN
    number = f"{value * factor:.{digits}f}"
    return number if interval is None else f"{number} ± {(interval.high - interval.low) / 2 * factor:.{digits}f}"


def _gain(gain: Gain | None) -> str:
    return UNKNOWN if gain is None else percent(gain)
