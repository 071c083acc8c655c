"""`enginebench run`, `rerun` and `demo`: carrying benchmarks out."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import typer

from enginebench_controller.cli import run_options as options
from enginebench_controller.cli.answering import print_answers
from enginebench_controller.cli.arguments import fed, image_options, pairs, shapes, split, stated
from enginebench_controller.cli.console import print_json, remark
from enginebench_controller.cli.exit_codes import concluded
from enginebench_controller.cli.expansions import show_expansion
from enginebench_controller.cli.gate import carry_out_again
from enginebench_controller.cli.options import (
    BatchAxis,
    BenchmarkName,
    Inputs,
    InputValue,
    Json,
    Notes,
    ShapeAsForRun,
    TrustAgain,
    TrustModels,
)
from enginebench_controller.cli.progress import announcing, remind
from enginebench_controller.cli.tables import print_measurements
from enginebench_controller.comparing.answers import answers_document, answers_of
from enginebench_controller.documents.benchmarks import benchmark_document
from enginebench_controller.errors import InputError
from enginebench_controller.home import HOME_VARIABLE, Home, default_home
from enginebench_controller.planning.plan import Plan, make_plan, plan_toml, read_plan
from enginebench_controller.records import Benchmark
from enginebench_controller.running.benchmarking import Order, order_again, plan_only, run_benchmark
from enginebench_controller.trust.soundness import Soundness, of_benchmark

DEMO = {
    "name": "demo",
    "models": ["zoo:resnet50", "zoo:squeezenet"],
    "batch": [1, 4],
    "duration": "2s",
    "max_duration": "3s",
    "processes": 3,
    "iterations": 12,
    "warmup": "300ms",
    "inputs": 2,
}
"""Three processes of two thirds of a second, and few inputs to run before and after: sixteen configurations in three
minutes.

As estimated, a process takes 1 s more with SqueezeNet and 2 to 3 with ResNet-50: to import, compile, warm up and check.
"""


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("demo")(demo)
    app.command("run")(run)
    app.command("rerun")(rerun)


def run(
    models: options.Models,
    engine: options.Engine = None,
    target: options.Target = None,
    device: options.Device = None,
    batch: options.Batch = None,
    cores: options.Cores = None,
    streams: options.Streams = None,
    precision: options.Precision = None,
    load: options.Load = None,
    requests: options.Requests = None,
    rate: options.Rate = None,
    arrivals: options.Arrivals = None,
    hint: options.Hint = None,
    processes: options.Processes = None,
    duration: options.Duration = None,
    iterations: options.Iterations = None,
    max_duration: options.MaxDuration = None,
    interval: options.Interval = None,
    warmup: options.Warmup = None,
    block: options.Block = None,
    retry_noisy: options.RetryNoisy = None,
    wait_quiet: options.WaitQuiet = None,
    interleave: options.Interleave = None,
    order_seed: options.OrderSeed = None,
    shape: ShapeAsForRun = None,
    batch_axis: BatchAxis = None,
    option: options.Option = None,
    seed: options.Seed = None,
    inputs: Inputs = None,
    input_value: InputValue = None,
    image_resize: options.ImageResize = None,
    image_layout: options.ImageLayout = None,
    image_scale: options.ImageScale = None,
    image_mean: options.ImageMean = None,
    image_std: options.ImageStd = None,
    timeout: options.Timeout = None,
    name: options.Name = None,
    trust: TrustModels = False,
    dry_run: options.DryRun = False,
    print_plan: options.PrintPlan = False,
    json: Json = False,
    notes: Notes = False,
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
        "wait_quiet": wait_quiet,
        "interleave": "device" if interleave else interleave,
        "order_seed": order_seed,
        "shapes": shapes(shape),
        "options": pairs(option, "--option ENGINE.NAME=VALUE"),
        "seed": seed,
        "image": image_options(image_resize, image_layout, image_scale, split(image_mean), split(image_std)),
        "timeout": timeout,
        "name": name,
    }
    plan = _plan(models, stated(given) | fed(inputs, input_value, batch_axis))
    plan.stop_rule()
    if print_plan:
        sys.stdout.write(plan_toml(plan))
    elif dry_run:
        show_expansion(asyncio.run(plan_only(default_home(), Order(plan))), as_json=json)
    else:
        _carry_out(default_home(), Order(plan, trusted=trust), as_json=json, notes=notes)


def rerun(
    benchmark: BenchmarkName,
    trust: TrustAgain = False,
    json: Json = False,
    notes: Notes = False,
) -> None:
    """Run a benchmark again: a new one, linked to the old, with the very same model versions."""
    home = default_home()
    _carry_out(home, order_again(home.store.benchmark(benchmark), trusted=trust), as_json=json, notes=notes)


def demo(json: Json = False, notes: Notes = False) -> None:
    """Measure two real networks on every engine of this machine, and say where to look."""
    benchmark = _run(default_home(), Order(make_plan(DEMO, "demo")))
    found = _print_outcome(default_home(), benchmark, as_json=json, notes=notes)
    remark("")
    remark(f"look at it again with `enginebench show {benchmark.id}`, or on a page with `enginebench ui`{_where()}")
    raise typer.Exit(concluded(found))


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


def _carry_out(home: Home, order: Order, *, as_json: bool, notes: bool) -> None:
    if order.plan.gate is not None:
        carry_out_again(home, order, as_json=as_json)
    raise typer.Exit(concluded(_print_outcome(home, _run(home, order), as_json=as_json, notes=notes)))


def _run(home: Home, order: Order) -> Benchmark:
    remind(home)
    with announcing() as announce:
        return asyncio.run(run_benchmark(home, order, announce))


def _print_outcome(home: Home, benchmark: Benchmark, *, as_json: bool, notes: bool) -> Soundness:
    measurements, models = home.store.measurements(benchmark.id), home.store.models()
    answers = answers_of(home.store, benchmark, measurements, models)
    if as_json:
        snapshots = home.store.benchmark_snapshots(benchmark.id)
        told = answers_document(answers)
        print_json(benchmark_document(benchmark, measurements, snapshots, models, answers=told))
    else:
        print_measurements(f"{benchmark.name} ({benchmark.id})", measurements, models, notes=notes)
        print_answers(answers)
    return of_benchmark(benchmark, measurements, models)
