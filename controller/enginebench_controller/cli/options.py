"""Options and arguments that several commands share; those that are fields of a plan are a table in plan/options.py."""

from pathlib import Path
from typing import Annotated

import typer

from enginebench_controller.cli import completion
from enginebench_controller.files.exports.formats import ExportFormat

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
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
