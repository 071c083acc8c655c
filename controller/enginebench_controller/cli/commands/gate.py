"""`enginebench gate`: whether head is worse than base, within a budget."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import print_json, remark, write_asked
from enginebench_controller.cli.options import Json, LogTo, TrustModels
from enginebench_controller.cli.plan_options import OF_ONE, plan_options
from enginebench_controller.cli.progress import remind, watching
from enginebench_controller.cli.tables import print_gate
from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.files.exports.log_to import live_log
from enginebench_controller.files.new_file import check_new_files
from enginebench_controller.files.verdicts.gates import gate_document, gate_markdown
from enginebench_controller.files.verdicts.junit import gate_junit
from enginebench_controller.home import Home, default_home
from enginebench_controller.plan.gate import GateOrder
from enginebench_controller.plan.options import split
from enginebench_controller.plan.plan import GateMetric
from enginebench_controller.records import Benchmark
from enginebench_controller.runs.benchmarking import BenchmarkOrder
from enginebench_controller.runs.gate import again
from enginebench_controller.runs.gate import gate as run_gate
from enginebench_controller.verdicts.gate.results import GateResult
from enginebench_controller.verdicts.gate.rule import GateOutcome, exit_code
from enginebench_controller.verdicts.gate.stored import gate_of
from enginebench_controller.verdicts.gate.words import headline


def register(app: typer.Typer) -> None:
    """Add the command of this module."""
    app.command("gate")(gate)


@plan_options(*OF_ONE, one_each=True)
def gate(
    model: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODEL]",
            help="File, name, digest or zoo:NAME; none where base and head are models.",
            autocompletion=completion.models,
        ),
    ] = None,
    base: Annotated[
        str | None, typer.Option(metavar="SIDE", help="What is there: a model, E==VERSION, E@ENVIRONMENT, …")
    ] = None,
    head: Annotated[str | None, typer.Option(metavar="SIDE", help="What is new, in the same forms.")] = None,
    engine: Annotated[str | None, typer.Option(metavar="E", help="The engine, where both have it in common.")] = None,
    tolerate: Annotated[str, typer.Option(metavar="PERCENT", help="How much worse head may be.")] = "1%",
    metric: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help=rf"What may fail the gate: {', '.join(GateMetric)}. All are told. \[default: latency]",
        ),
    ] = None,
    layers: Annotated[
        bool, typer.Option("--layers/--no-layers", help="Profile both sides where they differ, after the budget.")
    ] = True,
    trust: TrustModels = False,
    *,
    fields: dict[str, Any],
    budget: Annotated[str, typer.Option(metavar="TIME", help="How long to measure, at most 1h; 30s or more.")] = "2m",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 5 where it cannot be told.")] = False,
    markdown: Annotated[Path | None, typer.Option(metavar="FILE", help="Write a comment for a pull request.")] = None,
    junit_file: Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write JUnit XML.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there.")] = False,
    log_to: LogTo = None,
    json: Json = False,
) -> None:
    """Say whether head is worse than base, within a budget: worse, pass or cannot tell.

    \b
    Two models:    gate --base main.onnx --head new.onnx --engine onnxruntime
    Two versions:  gate MODEL --base onnxruntime==1.24.1 --head onnxruntime
    Environments:  gate MODEL --base onnxruntime@old --head onnxruntime@new
    An option:     gate MODEL --base onnxruntime --head onnxruntime:OPTION=VALUE
    Two plugins:   gate MODEL --base plugin:main/plugin --head plugin:plugin

    What both have in common is said once: gate MODEL --engine onnxruntime --base ==1.24.1 --head ==1.31.1

    Versions and plugins are installed on this machine, before the budget runs, and kept. The exit code is 4 for worse,
    0 for pass; cannot tell is 5 with --strict, else 0.
    """  # typer keeps lines after a backspace
    if base is None or head is None:
        raise InputError(f"--{'base' if base is None else 'head'} is missing: a gate compares --head with --base")
    check_new_files(markdown, junit_file, force=force)
    order = GateOrder(
        base=base,
        head=head,
        model=model,
        engine=engine,
        budget=budget,
        tolerate=tolerate,
        metrics=tuple(split(metric) or [GateMetric.LATENCY]),
        fields=fields,
        explain=layers,
        trusted=trust,
    )
    home = default_home()
    remind(home)
    send_on = asyncio.run(live_log(home.store, log_to, remark))
    with watching() as watcher:
        result = run_gate(home, order, watcher, send_on)
    # Before anything is printed: that may fail, and minutes of measuring are in these.
    write_asked(markdown, partial(gate_markdown, result), force=force)
    write_asked(junit_file, partial(gate_junit, result, strict=strict), force=force)
    _conclude(result, as_json=json, strict=strict)


def carry_out_again(home: Home, order: BenchmarkOrder, *, as_json: bool) -> NoReturn:
    """Carry out the plan of a gate, as `rerun` and `run PLAN.toml` do. Ends the command."""
    remind(home)
    with watching() as watcher:
        result = asyncio.run(again(home, order, watcher))
    _conclude(result, as_json=as_json, strict=False)


def _conclude(result: GateResult, *, as_json: bool, strict: bool) -> NoReturn:
    if as_json:
        print_json(gate_document(result))
    else:
        print_gate(result)
    raise typer.Exit(_exit_code(result, strict=strict))


def tell_taken_up(home: Home, benchmark: Benchmark, *, as_json: bool) -> int:
    """The verdict of a gate that `resume` took up, beside a document only its sentence. Returns the exit code."""
    result = gate_of(home, benchmark)
    if result is None:
        return int(ExitCode.OK)
    if as_json:
        remark(headline(result))
    else:
        print_gate(result)
    return _exit_code(result, strict=False)


def _exit_code(result: GateResult, *, strict: bool) -> int:
    worse, cannot_tell = (result.outcome is one for one in (GateOutcome.WORSE, GateOutcome.CANNOT_TELL))
    failed = bool(result.problems or result.failures)
    return int(exit_code(worse=worse, failed=failed, cannot_tell=cannot_tell, strict=strict))
