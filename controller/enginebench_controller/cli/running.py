"""`enginebench run`, `rerun` and `demo`: carrying benchmarks out."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.benchmarking import Order, order_again, plan_only, run_benchmark
from enginebench_controller.cli.arguments import inputs as given_inputs
from enginebench_controller.cli.arguments import pairs, shapes, split
from enginebench_controller.cli.console import print_json, print_table, remark
from enginebench_controller.cli.progress import LiveReporter
from enginebench_controller.cli.tables import print_measurements
from enginebench_controller.configurations import describe_load
from enginebench_controller.document import benchmark_document
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.expand import Expansion
from enginebench_controller.home import HOME_VARIABLE, Home, default_home
from enginebench_controller.plan import Plan, make_plan, plan_toml, read_plan
from enginebench_controller.records import Benchmark, Measurement, Status

DEMO = {
    "name": "demo",
    "models": ["zoo:resnet50", "zoo:squeezenet"],
    "batch": [1, 4],
    "duration": "2s",
    "processes": 1,
    "interval": "2%",
    "max_duration": "4s",
}

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("demo")(demo)
    app.command("run")(run)
    app.command("rerun")(rerun)


def run(
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL… | PLAN.toml", help="Files, names, digests, zoo:NAME; or one plan file."),
    ],
    engine: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Engines: NAME, NAME@ENVIRONMENT, NAME@*, or all (the default)."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(metavar="A,B,…", help="Targets by name or HOST:PORT; by default an agent on this machine."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="A,B,…", help="Devices, or all; by default each engine's CPU.")
    ] = None,
    batch: Annotated[str | None, typer.Option(metavar="N,M,…", help="Items in one inference (1).")] = None,
    cores: Annotated[
        str | None, typer.Option(metavar="N,M,…", help="Physical cores; by default all of the target's.")
    ] = None,
    streams: Annotated[str | None, typer.Option(metavar="N,M,…", help="Parallel streams (1).")] = None,
    precision: Annotated[
        str | None,
        typer.Option(metavar="P,Q,…", help="f32 (the default), bf16, f16, or default: the engine's own choice."),
    ] = None,
    load: Annotated[
        str | None,
        typer.Option(
            metavar="L,…",
            help="sync (the default): one by one; async: several in flight; open-loop: as arrivals are scheduled.",
        ),
    ] = None,
    requests: Annotated[
        str | None, typer.Option(metavar="N,M,…", help="Requests in flight, at most, under async and open-loop.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="R,…", help="Arrivals a second of an open loop, each of a whole batch.")
    ] = None,
    arrivals: Annotated[
        str | None,
        typer.Option(metavar="A", help="Spacing of an open loop's arrivals: poisson (the default), constant."),
    ] = None,
    hint: Annotated[
        str | None, typer.Option(metavar="H,…", help="none (the default), latency, throughput, cumulative.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(help="Fresh processes a measurement is made of (3); 1 for a quick look.")
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="Shortest steady state of all processes together, such as 500ms, 5s, 2m (6s).")
    ] = None,
    iterations: Annotated[int | None, typer.Option(help="Fewest iterations of all processes together (30).")] = None,
    max_duration: Annotated[
        str | None, typer.Option(help="Longest steady state of all processes together (5 × the shortest).")
    ] = None,
    interval: Annotated[
        str | None,
        typer.Option(
            metavar="PERCENT",
            help="Measure until half the median's 95 % interval is at most this much of the median (1%); 0% for any.",
        ),
    ] = None,
    warmup: Annotated[str | None, typer.Option(help="Shortest warm-up of each process (500ms).")] = None,
    block: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Length of a block; by default the worker chooses.")
    ] = None,
    retry_noisy: Annotated[
        bool | None,
        typer.Option("--retry-noisy", help="Measure disturbed blocks again; they are kept, but count for nothing."),
    ] = None,
    interleave: Annotated[
        bool | None,
        typer.Option(
            "--interleave", help="All configurations of a device are loaded at once and take turns, block by block."
        ),
    ] = None,
    order_seed: Annotated[
        int | None, typer.Option(help="Seed of the order of the configurations; by default it follows from the plan.")
    ] = None,
    shape: Annotated[
        list[str] | None,
        typer.Option(metavar="INPUT=AxBxC", help="Shape of an input with open dimensions; may be repeated."),
    ] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="ENGINE.NAME=VALUE", help="An engine's own option; may be repeated."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of random inputs and arrivals (0).")] = None,
    inputs: Annotated[
        str | None,
        typer.Option(
            metavar="N|FOLDER",
            help="How many random inputs to rotate through (8), or a folder of .npy, .npz or images.",
        ),
    ] = None,
    image_resize: Annotated[
        str | None, typer.Option(metavar="HOW", help="Images: stretch (the default), or crop to keep the aspect ratio.")
    ] = None,
    image_layout: Annotated[
        str | None,
        typer.Option(metavar="LAYOUT", help="Images: nchw or nhwc; by default as the model's shape suggests."),
    ] = None,
    image_scale: Annotated[
        float | None, typer.Option(metavar="FACTOR", help="Images: pixels are multiplied by this (1/255 for floats).")
    ] = None,
    image_mean: Annotated[
        str | None,
        typer.Option(metavar="A,B,C", help="Images: subtracted after scaling, one number or one a channel (0)."),
    ] = None,
    image_std: Annotated[
        str | None, typer.Option(metavar="A,B,C", help="Images: divided by at last, one number or one a channel (1).")
    ] = None,
    timeout: Annotated[str | None, typer.Option(help="A target kills a run after this long (30m).")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the benchmark.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the configurations and run nothing.")] = False,
    print_plan: Annotated[bool, typer.Option("--print-plan", help="Print the plan as TOML and run nothing.")] = False,
    json: Json = False,
) -> None:
    """Measure models on engines. Lists multiply out; an impossible combination is refused before anything runs."""
    given = {
        "engines": split(engine),
        "targets": split(target),
        "devices": split(device),
        "batch": split(batch),
        "cores": split(cores),
        "streams": split(streams),
        "precision": split(precision),
        "load": split(load),
        "requests": split(requests),
        "rate": split(rate),
        "arrivals": arrivals,
        "hint": split(hint),
        "processes": processes,
        "duration": duration,
        "iterations": iterations,
        "max_duration": max_duration,
        "interval": interval,
        "warmup": warmup,
        "block": block,
        "retry_noisy": retry_noisy,
        "interleave": interleave,
        "order_seed": order_seed,
        "shapes": shapes(shape),
        "options": pairs(option, "--option ENGINE.NAME=VALUE"),
        "seed": seed,
        "image": _image(image_resize, image_layout, image_scale, split(image_mean), split(image_std)),
        "timeout": timeout,
        "name": name,
    }
    plan = _plan(models, {key: value for key, value in given.items() if value is not None} | given_inputs(inputs))
    plan.stop_rule()
    if print_plan:
        sys.stdout.write(plan_toml(plan))
    elif dry_run:
        _print_expansion(asyncio.run(plan_only(default_home(), Order(plan))))
    else:
        _carry_out(default_home(), Order(plan), as_json=json)


def rerun(
    benchmark: Annotated[str, typer.Argument(metavar="ID", help="Id, start of an id, or name of a benchmark.")],
    json: Json = False,
) -> None:
    """Run a benchmark again: a new one, linked to the old, with the very same model versions."""
    home = default_home()
    _carry_out(home, order_again(home.store.benchmark(benchmark)), as_json=json)


def demo(json: Json = False) -> None:
    """Measure two real networks on every engine of this machine, and say where to look."""
    benchmark = _run(default_home(), Order(make_plan(DEMO, "demo")))
    code = _print_outcome(default_home(), benchmark, as_json=json)
    remark("")
    remark(f"look at it again with `enginebench show {benchmark.id}`, or on a page with `enginebench ui`{_where()}")
    raise typer.Exit(code)


def _where() -> str:
    named = os.environ.get(HOME_VARIABLE)
    return f" (with {HOME_VARIABLE}={named}, or `make ui`)" if named else ""


def _plan(models: list[str], fields: dict[str, Any]) -> Plan:
    plans = [model for model in models if model.endswith(".toml")]
    if not plans:
        return make_plan({"models": models, **fields}, "run")
    if len(models) > 1:
        raise InputError(f"give one plan file or models, not both: {' '.join(models)}")
    document = read_plan(Path(plans[0])).document()
    image = document["image"] | fields.get("image", {})
    return make_plan(document | fields | {"image": image}, plans[0])


def _image(
    resize: str | None, layout: str | None, scale: float | None, mean: list[str] | None, std: list[str] | None
) -> dict[str, Any] | None:
    options = {"resize": resize, "layout": layout, "scale": scale, "mean": mean, "std": std}
    return {key: value for key, value in options.items() if value is not None} or None


def _carry_out(home: Home, order: Order, *, as_json: bool) -> None:
    raise typer.Exit(_print_outcome(home, _run(home, order), as_json=as_json))


def _run(home: Home, order: Order) -> Benchmark:
    with LiveReporter() as reporter:

        def announce(expansion: Expansion) -> LiveReporter:
            for note in expansion.notes:
                remark(f"note: {note}")
            reporter.begin(expansion.jobs)
            return reporter

        return asyncio.run(run_benchmark(home, order, announce))


def _print_outcome(home: Home, benchmark: Benchmark, *, as_json: bool) -> int:
    measurements = home.store.measurements(benchmark.id)
    if as_json:
        snapshots = home.store.benchmark_snapshots(benchmark.id)
        print_json(benchmark_document(benchmark, measurements, snapshots, home.store.models()))
    else:
        print_measurements(f"{benchmark.name} ({benchmark.id})", measurements, home.store.models())
    return exit_code(measurements)


def exit_code(measurements: Sequence[Measurement]) -> int:
    """0 when every configuration has numbers, 1 otherwise."""
    done = all(m.status in (Status.OK, Status.INCONCLUSIVE) for m in measurements)
    return int(ExitCode.OK if done else ExitCode.SOME_FAILED)


def _print_expansion(expansion: Expansion) -> None:
    rows: list[list[object]] = []
    for job in expansion.jobs:
        c = job.configuration
        axes = [c.device, c.batch, c.cores, c.streams, c.precision, describe_load(c), c.hint]
        rows.append([job.target, job.model.name, job.engine.name, job.engine.version, job.engine.environment, *axes])
    headings = ("target", "model", "engine", "version", "environment", "device")
    axes_headings = ("batch", "cores", "streams", "precision", "load", "hint")
    print_table("Would run", [(heading, False) for heading in headings + axes_headings], rows)
    remark(f"{len(expansion.jobs)} configurations in random order, {_seconds_of_measuring(expansion)} s of measuring")
    for note in expansion.notes:
        remark(f"note: {note}")


def _seconds_of_measuring(expansion: Expansion) -> str:
    """From the shortest to the longest the stop rules allow, in seconds."""
    rules = [job.configuration.stop for job in expansion.jobs]
    warm_up_ns = sum(rule.processes * rule.warmup_ns for rule in rules)
    shortest_ns, longest_ns = sum(r.min_duration_ns for r in rules), sum(r.max_duration_ns for r in rules)
    return f"{(shortest_ns + warm_up_ns) / 1e9:.0f} to {(longest_ns + warm_up_ns) / 1e9:.0f}"
