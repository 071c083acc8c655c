"""The options that are fields of a plan, one each, and how what is typed behind them is taken apart.

So the texts name the defaults, as typer would write them; the backslash keeps Rich from reading the bracket as markup.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from enginebench_controller.errors import InputError
from enginebench_controller.models.inputs.shapes import GivenShape, parse_shapes, split_by_input, split_shapes
from enginebench_controller.plan.plan import make_plan

Models = Annotated[
    list[str],
    typer.Argument(metavar="MODEL… | PLAN.toml", help="Files, names, digests, zoo:NAME; or one plan file."),
]
Engine = Annotated[
    str | None,
    typer.Option(
        metavar="A,B,…",
        help=r"Engines: NAME, NAME@ENVIRONMENT, NAME@* for every environment, or all. \[default: all]",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(metavar="A,B,…", help=r"Targets by name or HOST:PORT. \[default: an agent on this machine]"),
]
Device = Annotated[str | None, typer.Option(metavar="A,B,…", help=r"Devices, or all. \[default: each engine's CPU]")]
Batch = Annotated[str | None, typer.Option(metavar="N,M,…", help=r"Items in one inference. \[default: 1]")]
Cores = Annotated[str | None, typer.Option(metavar="N,M,…", help=r"Physical cores. \[default: all of the target's]")]
Streams = Annotated[str | None, typer.Option(metavar="N,M,…", help=r"Parallel streams. \[default: 1]")]
Precision = Annotated[
    str | None,
    typer.Option(metavar="P,Q,…", help=r"f32, bf16, f16, or default: the engine's own choice. \[default: f32]"),
]
Load = Annotated[
    str | None,
    typer.Option(
        metavar="L,…",
        help=r"sync: one by one; async: several in flight; open-loop: as arrivals are scheduled. \[default: sync]",
    ),
]
Requests = Annotated[
    str | None,
    typer.Option(
        metavar="N,M,…",
        help=r"Requests in flight, at most, under async and open-loop. \[default: as many as streams, and at least 2]",
    ),
]
Rate = Annotated[
    str | None, typer.Option(metavar="R,…", help="Arrivals a second of an open loop, each of a whole batch.")
]
Arrivals = Annotated[
    str | None,
    typer.Option(metavar="constant|poisson", help=r"Spacing of an open loop's arrivals. \[default: poisson]"),
]
Hint = Annotated[
    str | None,
    typer.Option(
        metavar="H,…",
        help=r"What the engine is told to optimize for: none, latency, throughput, cumulative. \[default: none]",
    ),
]
Processes = Annotated[
    int | None,
    typer.Option(
        metavar="N", help=r"Fresh processes a measurement is made of; 1 for a quick look. \[default: 3, and 5 in turns]"
    ),
]
Duration = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help=r"Shortest steady state of all processes together, such as 500ms, 5s, 2m. \[default: 6s]",
    ),
]
Iterations = Annotated[
    int | None, typer.Option(metavar="N", help=r"Fewest iterations of all processes together. \[default: 30]")
]
MaxDuration = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help=r"Longest steady state of all processes together. \[default: five times --duration]",
    ),
]
Interval = Annotated[
    str | None,
    typer.Option(
        metavar="PERCENT",
        help=r"Measure until half the median's 95 % interval is at most this share of the median; "
        r"0% does not wait for it. \[default: 1%, and 0% in turns]",
    ),
]
Warmup = Annotated[
    str | None, typer.Option(metavar="DURATION", help=r"Shortest warm-up of each process. \[default: 500ms]")
]
Block = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help=r"Length of a block; between blocks the worker notes what the machine did. "
        r"\[default: what fits the model]",
    ),
]
RetryNoisy = Annotated[
    bool | None,
    typer.Option(
        "--retry-noisy/--keep-noisy",
        help="Blocks in which other processes, the hypervisor or a quota took processor time are measured again and "
        "count for nothing, which is what happens anyway; or they count like all others.",
        show_default=False,
    ),
]
WaitQuiet = Annotated[
    str | None,
    typer.Option(
        metavar="DURATION",
        help="Before it measures, a target waits so long at most for others to leave its processors alone; "
        r"0s does not wait. \[default: 10s]",
    ),
]
Interleave = Annotated[
    bool | None,
    typer.Option(
        "--interleave/--no-interleave",
        help="What one answer compares (engines, versions, precisions, options on the same work) is alive together and "
        "takes turns, block by block, where it can. --interleave: all configurations of a device do, or are refused; "
        "--no-interleave: one after the other.",
    ),
]
OrderSeed = Annotated[
    int | None,
    typer.Option(metavar="N", help=r"Seed of the order of the configurations. \[default: it follows from the plan]"),
]
Option = Annotated[
    list[str] | None,
    typer.Option(metavar="ENGINE.NAME=VALUE", help="An engine's own option; may be repeated."),
]
Seed = Annotated[int | None, typer.Option(metavar="N", help=r"Seed of random inputs and arrivals. \[default: 0]")]
ImageResize = Annotated[
    str | None,
    typer.Option(metavar="stretch|crop", help=r"Images: crop keeps the aspect ratio. \[default: stretch]"),
]
ImageLayout = Annotated[
    str | None,
    typer.Option(
        metavar="nchw|nhwc", help=r"Images: where the channels are. \[default: as the model's shape suggests]"
    ),
]
ImageScale = Annotated[
    float | None,
    typer.Option(
        metavar="FACTOR", help=r"Images: pixels are multiplied by this. \[default: 1/255, or 1 for whole numbers]"
    ),
]
ImageMean = Annotated[
    str | None,
    typer.Option(metavar="A,B,C", help=r"Images: subtracted after scaling, one number or one a channel. \[default: 0]"),
]
ImageStd = Annotated[
    str | None,
    typer.Option(metavar="A,B,C", help=r"Images: divided by at last, one number or one a channel. \[default: 1]"),
]
Timeout = Annotated[
    str | None, typer.Option(metavar="DURATION", help=r"A target kills a run after this long. \[default: 30m]")
]
Name = Annotated[
    str | None, typer.Option(metavar="NAME", help=r"Name of the benchmark. \[default: those of its models]")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List the configurations and run nothing.")]
PrintPlan = Annotated[bool, typer.Option("--print-plan", help="Print the plan as TOML and run nothing.")]


def split(text: str | None) -> list[str] | None:
    """The parts of "A,B"; None for None."""
    return None if text is None else [part.strip() for part in text.split(",") if part.strip()]


def stated(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that were given; for the others the plan has its defaults."""
    return {key: value for key, value in fields.items() if value is not None}


def pairs(texts: list[str] | None, form: str) -> dict[str, str] | None:
    """The pairs of several "KEY=VALUE"; None for None. Raises `InputError` naming the `form` expected."""
    if texts is None:
        return None
    for text in texts:
        if "=" not in text:
            raise InputError(f"{text!r} is not of the form {form}")
    return dict(text.split("=", 1) for text in texts)


def shapes(texts: list[str] | None) -> dict[str, str] | None:
    """The shapes of several "INPUT=AxBxC", by input; None for None. Raises `ModelError`."""
    return None if texts is None else split_shapes(texts)


def given_shapes(shape: list[str] | None, batch_axis: list[str] | None) -> dict[str, GivenShape]:
    """What was said of the shapes and batch axes of inputs. Raises `InputError`."""
    axes = make_plan({"models": ("any",)} | stated({"batch_axis": _batch_axes(batch_axis)}), "run").batch_axis
    return parse_shapes(shapes(shape) or {}, axes)


def fed(inputs: str | None, values: list[str] | None, batch_axis: list[str] | None) -> dict[str, Any]:
    """The plan's fields for what a model is fed; nothing for what was not given. Raises `ModelError`."""
    filled = None if values is None else split_by_input(values, "--input", "INPUT=VALUE, such as sr=16000 or mask=ones")
    return _inputs(inputs) | stated({"input_values": filled, "batch_axis": _batch_axes(batch_axis)})


def _batch_axes(texts: list[str] | None) -> dict[str, str] | None:
    return None if texts is None else split_by_input(texts, "--batch-axis", "INPUT=AXIS, such as input=1")


def _inputs(text: str | None) -> dict[str, Any]:
    """For "8" random inputs, or a folder of files."""
    if text is None:
        return {}
    if text.isdecimal():
        return {"inputs": int(text), "input_folder": None}
    return {"input_folder": input_folder(Path(text))}


def image_options(
    resize: str | None, layout: str | None, scale: float | None, mean: list[str] | None, std: list[str] | None
) -> dict[str, Any] | None:
    """The plan's fields for how images become tensors; None where nothing was given."""
    return stated({"resize": resize, "layout": layout, "scale": scale, "mean": mean, "std": std}) or None


def input_folder(folder: Path) -> str:
    """The plan's field for a folder of inputs: absolute, so that a rerun finds it from anywhere."""
    return str(folder.expanduser().absolute())
