"""Options and arguments that several commands share; those of `run` are in run_options.py."""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Notes = Annotated[
    bool, typer.Option("--notes", help="All remarks, each with whom it is of, instead of a line for each kind.")
]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="File, name, digest or zoo:NAME.")]
BenchmarkName = Annotated[str, typer.Argument(metavar="ID", help="Id, start of an id, or name of a benchmark.")]
ShapeAsForRun = Annotated[
    list[str] | None,
    typer.Option(metavar="INPUT=AxBxC", help="Shape of an input with open dimensions; may be repeated."),
]
BatchAxis = Annotated[
    list[str] | None,
    typer.Option(
        metavar="INPUT=N",
        help="Which dimension of an input is the batch, counted from 0, or none; for models whose names do not tell, "
        "such as time-major ones. May be repeated.",
    ),
]
InputValue = Annotated[
    list[str] | None,
    typer.Option(
        "--input",
        metavar="INPUT=VALUE",
        help="Fill one input: a number, ones, zeros, true, false, or a range such as ids=0..30521; may be repeated.",
    ),
]
Inputs = Annotated[
    str | None,
    typer.Option(
        metavar="N|FOLDER",
        help=r"How many random inputs to rotate through, or a folder of .npy, .npz or images. \[default: 8]",
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
