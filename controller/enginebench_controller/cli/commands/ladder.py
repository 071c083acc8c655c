"""`enginebench ladder …`: the notebooks' performance tricks as one command each."""

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import concluded, print_json, print_table, remark
from enginebench_controller.cli.options import Json, Model, Trust, targets_to_measure
from enginebench_controller.cli.plan_options import plan_options
from enginebench_controller.cli.progress import announcing, remind
from enginebench_controller.errors import InputError
from enginebench_controller.files.ladders import check_chart_path, gain_words, ladder_document, write_chart
from enginebench_controller.home import Home, default_home
from enginebench_controller.models.bounded import in_thread
from enginebench_controller.plan.binding import Binder
from enginebench_controller.plan.ladder import LadderOrder, base_plan, plan_ladder, steps, with_sizes
from enginebench_controller.plan.options import split
from enginebench_controller.plan.plan import LadderKind
from enginebench_controller.records import Benchmark, Interval, ModelVersion
from enginebench_controller.runs.benchmarking import BenchmarkOrder, run_in_session
from enginebench_controller.runs.remote_run import Announce
from enginebench_controller.targets.session import open_session
from enginebench_controller.verdicts.doubts import flags
from enginebench_controller.verdicts.ladder import Gain, Ladder, RungResult, ladder_of
from enginebench_controller.verdicts.soundness import soundness
from enginebench_controller.verdicts.words import UNKNOWN
from enginebench_proto.agreed.typed import WHOLE


def print_ladder(ladder: Ladder) -> None:
    """A row a rung; reasons and remarks below, and which rung is the best."""
    columns = [("rung", False), ("", False), ("first inference s", True), ("s per image", True), ("FPS", True)]
    columns += [("median ms", True), ("on the one before", True), ("on the first", True), ("status", False)]
    rows = [_row(rung) for rung in ladder.rungs]
    print_table(f"{ladder.benchmark.name} ({ladder.benchmark.id})", columns, rows)
    cells = "".join(str(cell) for row in rows for cell in row)
    legend = {"±": "± is half of the 95 % interval", "≈": "≈ a gain within the noise of both rungs"}
    if told := "; ".join(meaning for mark, meaning in legend.items() if mark in cells):
        remark(told)
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
    return [
        *(rung.name, rung.title),
        UNKNOWN if rung.first_inference_ns is None else f"{rung.first_inference_ns / 1e9:.4f}",
        UNKNOWN if rung.seconds_per_image is None else f"{rung.seconds_per_image:.5f}",
        _with_interval(rung.fps, rung.fps_interval, 1.0, 1 if (rung.fps or 0) >= 10 else 4),
        _with_interval(rung.latency_ns, rung.latency_interval, 1e-6, 3),
        *(_gain(rung.gain_over_previous), _gain(rung.gain_over_first), rung.status_words),
    ]


def _with_interval(value: float | None, interval: Interval | None, factor: float, digits: int) -> str:
    if value is None:
        return UNKNOWN
    number = f"{value * factor:.{digits}f}"
    return number if interval is None else f"{number} ± {(interval.high - interval.low) / 2 * factor:.{digits}f}"


def _gain(gain: Gain | None) -> str:
    return UNKNOWN if gain is None else gain_words(gain)


async def climb(home: Home, source: ModelVersion, wish: LadderOrder, announce: Announce) -> Benchmark:
    """Plan, run and store a ladder; returns its benchmark once every outcome is in the store.

    Raises `InputError` before anything runs where not one rung can be, `UnreachableError` when the target does not
    answer at the start. A rung that fails does so alone.
    """
    base = base_plan(wish, source)
    binder = Binder(home.library, home.inputs, base)
    trusted = [source.digest] if wish.trusted else []
    async with open_session(home, base.targets, trusted_models=trusted) as session:
        (snapshot,) = session.snapshots
        plan = await in_thread(plan_ladder, home.library, snapshot, binder, source, wish)
        return await run_in_session(home, BenchmarkOrder(plan), session, binder, announce)


IMAGES = 1024
"""As in the notebooks."""


def _skip(kind: LadderKind) -> typer.models.OptionInfo:
    names = [step.name for step in steps(kind, batches=(), skipped=())]
    also = ["batch (all of --batches)"] if kind is LadderKind.THROUGHPUT else []
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

_SHARED = ("warmup", "wait-quiet", "shape", "batch-axis", "inputs", "input")

group = typer.Typer(no_args_is_help=True, help="One model made faster step by step, after OpenVINO's notebooks.")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.add_typer(group, name="ladder")


@group.command("throughput")
@plan_options(*_SHARED)
def throughput(
    model: Model,
    target: Target = None,
    batches: Annotated[str, typer.Option(metavar="N,M,…", help="Bigger batches, a rung each.")] = "4",
    requests: Requests = None,
    skip: Annotated[str | None, _skip(LadderKind.THROUGHPUT)] = None,
    cores: Cores = None,
    precision: Precision = None,
    duration: Duration = "3s",
    iterations: Iterations = IMAGES,
    max_duration: MaxDuration = "60s",
    processes: Processes = 3,
    interval: IntervalTarget = "0%",
    *,
    fields: dict[str, Any],
    seed: Seed = 0,
    trust: Trust = False,
    chart: Chart = None,
    json: Json = False,
) -> None:
    """Images a second: PyTorch, OpenVINO, bigger batch, asynchronous, THROUGHPUT, on GPU, on AUTO, CUMULATIVE."""
    wish = LadderOrder(
        kind=LadderKind.THROUGHPUT,
        images=iterations,
        batches=_sizes(batches),
        skipped=tuple(split(skip) or ()),
        cores=cores,
        requests=requests,
        trusted=trust,
        fields=_fields(target, precision, duration, max_duration, processes, interval, seed) | fields,
    )
    _climb(model, wish, chart, as_json=json)


@group.command("latency")
@plan_options(*_SHARED)
def latency(
    model: Model,
    target: Target = None,
    skip: Annotated[str | None, _skip(LadderKind.LATENCY)] = None,
    cores: Cores = None,
    precision: Precision = None,
    duration: Duration = "3s",
    iterations: Iterations = IMAGES,
    max_duration: MaxDuration = "60s",
    processes: Processes = 3,
    interval: IntervalTarget = "0%",
    *,
    fields: dict[str, Any],
    seed: Seed = 0,
    trust: Trust = False,
    chart: Chart = None,
    json: Json = False,
) -> None:
    """Milliseconds an inference: PyTorch, ONNX, IR, on GPU, more threads, LATENCY, shared memory."""
    wish = LadderOrder(
        kind=LadderKind.LATENCY,
        images=iterations,
        skipped=tuple(split(skip) or ()),
        cores=cores,
        trusted=trust,
        fields=_fields(target, precision, duration, max_duration, processes, interval, seed) | fields,
    )
    _climb(model, wish, chart, as_json=json)


@group.command("show")
def show(
    benchmark: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="Id, start of an id, or name of a ladder's benchmark.",
            autocompletion=completion.benchmarks,
        ),
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
    if not all(WHOLE.fullmatch(part) and int(part) > 1 for part in parts):
        raise InputError(f"--batches {text!r} is not a list of batch sizes above 1, such as 4,8")
    return tuple(int(part) for part in parts)


def _fields(
    target: str | None,
    precision: str | None,
    duration: str,
    max_duration: str,
    processes: int,
    interval: str,
    seed: int,
) -> dict[str, Any]:
    """The fields of the plan that all rungs share."""
    lists = {
        "targets": targets_to_measure([target] if target else None),
        "precision": [precision] if precision else None,
    }
    return {name: value for name, value in lists.items() if value} | {
        "duration": duration,
        "max_duration": max_duration,
        "processes": processes,
        "interval": interval,
        "seed": seed,
    }


def _climb(model: str, wish: LadderOrder, chart: Path | None, *, as_json: bool) -> None:
    if chart:
        check_chart_path(chart)
    home = default_home()
    source = home.library.resolve(model)
    sized, assumptions = with_sizes(home.library, source, wish)
    for sentence in assumptions:
        remark(f"note: {source.name}: {sentence}")
    benchmark = _run(home, source, sized)
    raise typer.Exit(_print(home, benchmark, chart, as_json=as_json))


def _run(home: Home, source: ModelVersion, wish: LadderOrder) -> Benchmark:
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
