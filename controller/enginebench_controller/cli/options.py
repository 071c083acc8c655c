"""Options and arguments that several commands share; those that are fields of a plan are a table in plan/options.py."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from enginebench_controller.cli import completion
from enginebench_controller.cli.console import check_stdout, remark
from enginebench_controller.errors import InputError
from enginebench_controller.files.exports.formats import ExportFormat
from enginebench_controller.home import default_home


def _to_be_read(asked: bool) -> bool:
    """Refuse a document that would be lost before anything is measured for it."""
    if asked:
        check_stdout()
    return asked


Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.", callback=_to_be_read)]
Notes = Annotated[
    bool, typer.Option("--notes", help="All remarks, each with whom it is of, instead of a line for each kind.")
]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="File, name, digest or zoo:NAME.", autocompletion=completion.models)
]
BenchmarkName = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="Id, start of an id, or name of a benchmark.", autocompletion=completion.benchmarks
    ),
]
TrustAgain = Annotated[
    bool,
    typer.Option("--trust", help="Permit its models to run code of their own on this machine, as for the first time."),
]
TrustModels = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Permit these models to run code of their own on this machine, as TorchScript and .pt2 files can when "
        "loaded.",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Permit MODEL to run code of its own on this machine, as TorchScript and .pt2 files can when loaded.",
    ),
]
ExportForm = Annotated[
    ExportFormat,
    typer.Option(
        "--format",
        help="json: everything. Of profiles csv, parquet (a row a layer), perfetto, model-explorer; of benchmarks gab "
        "(GitHub Action Benchmark), bmf (Bencher), otava, openmetrics.",
    ),
]
Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; stdout without it, but for Parquet.")
]
Stores = Annotated[
    list[str] | None,
    typer.Option(
        "--store",
        metavar="LAKE",
        help="Read from this lake, a folder or s3://BUCKET/FOLDER, and not the own store. Repeatable; `own` is that. "
        "ENGINEBENCH_STORE says the same.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")]
LogTo = Annotated[
    list[str] | None,
    typer.Option(
        "--log-to",
        metavar="WHERE",
        help="Send each result on, once it is stored, to mlflow:URI, otlp:URL or wandb. Repeatable.",
    ),
]
AnyOf = Annotated[
    int | None,
    typer.Option(
        "--any",
        metavar="N",
        min=1,
        help=r"So many of the targets: of those that answer, the idle and quiet ones first. \[default: all]",
    ),
]


def targets_meant(words: Sequence[str] | None) -> list[str] | None:
    """The names of the targets that were typed, by their labels too; None where nothing was typed.

    Raises `InputError`.
    """
    from enginebench_controller.targets.choosing import meant  # noqa: PLC0415  # gRPC, which most commands do without

    return None if words is None else list(meant(default_home(), words))


def targets_to_measure(words: Sequence[str] | None, any_of: int | None = None) -> list[str] | None:
    """The same without those that labels chose and that are noisy or do not answer, which is told; or any of these.

    Raises `InputError`, and `UnreachableError` where fewer answer than were asked for.
    """
    from enginebench_controller.targets.choosing import to_measure  # noqa: PLC0415  # as above

    if words:
        return list(to_measure(default_home(), words, any_of, remark))
    if any_of is not None:
        raise InputError("--any chooses among targets: say among which, with --target")
    return None if words is None else []
