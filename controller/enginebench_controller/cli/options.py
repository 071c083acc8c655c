"""Options and arguments that several commands share; those of `run` are in run_options.py."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="File, name, digest or zoo:NAME.")]
BenchmarkName = Annotated[str, typer.Argument(metavar="ID", help="Id, start of an id, or name of a benchmark.")]
ShapeAsForRun = Annotated[
    list[str] | None,
    typer.Option(metavar="INPUT=AxBxC", help="Shape of an input with open dimensions; may be repeated."),
]
TrustAgain = Annotated[
    bool,
    typer.Option("--trust", help="Permit its models to run code of their own on this machine, as for the first time."),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="Permit MODEL to run code of its own on this machine, as TorchScript and .pt2 files can when loaded.",
    ),
]
