"""`enginebench gate`: whether head is worse than base, within a budget."""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import remark, write_asked
from enginebench_controller.cli.gates import conclude_gate
from enginebench_controller.cli.options import Json, LogTo, TrustModels
from enginebench_controller.cli.plan_options import OF_ONE, plan_options
from enginebench_controller.cli.progress import remind, watching
from enginebench_controller.errors import InputError
from enginebench_controller.files.exports.log_to import live_log
from enginebench_controller.files.new_file import check_new_files
from enginebench_controller.files.verdicts.gates import gate_markdown
from enginebench_controller.files.verdicts.junit import gate_junit
from enginebench_controller.home import default_home
from enginebench_controller.plan.gate import GateOrder
from enginebench_controller.plan.options import split
from enginebench_controller.plan.plan import GateMetric
from enginebench_controller.runs.gate import gate as run_gate


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
    _check_reports(markdown, junit_file, force=force)
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
        strict=strict,
        trusted=trust,
    )
    home = default_home()
    remind(home)
    send_on = asyncio.run(live_log(home.store, log_to, remark))
    with watching() as watcher:
        result = run_gate(home, order, watcher, send_on)
    # Before anything is printed: that may fail, and minutes of measuring are in these.
    reports = ((markdown, partial(gate_markdown, result)), (junit_file, partial(gate_junit, result, strict=strict)))
    conclude_gate(result, list(_unwritten(reports, force=force)), as_json=json)


def _check_reports(markdown: Path | None, junit_file: Path | None, *, force: bool) -> None:
    """Raise `InputError` for what cannot be written, or is given twice, before minutes are spent on it."""
    if markdown and junit_file and markdown.resolve() == junit_file.resolve():
        raise InputError(f"--markdown and --junit are both {markdown}: give each a file of its own")
    check_new_files(markdown, junit_file, force=force)


def _unwritten(reports: Iterable[tuple[Path | None, Callable[[], str]]], *, force: bool) -> Iterator[InputError]:
    """Write all reports, and give why those that cannot be written are not: the verdict is no less true without."""
    for path, text in reports:
        try:
            write_asked(path, text, force=force)
        except InputError as error:
            yield error
