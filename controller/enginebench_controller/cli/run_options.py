"""The options of `enginebench run`, one a field of the plan. Where nothing is given the plan's own default holds.

So the texts name the defaults, as typer would write them; the backslash keeps Rich from reading the bracket as markup.
"""

from typing import Annotated

import typer

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
