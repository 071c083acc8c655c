"""Options and arguments that several commands share; those that are fields of a plan are a table in plan/options.py."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Notes = Annotated[
    bool, typer.Option("--notes", help="All remarks, each with whom it is of, instead of a line for each kind.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="File, name, digest or zoo:NAME.")]
BenchmarkName = Annotated[str, typer.Argument(metavar="ID", help="Id, start of an id, or name of a benchmark.")]
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
