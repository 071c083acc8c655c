"""The fields of a plan as options of a command: one table, read in both directions, and by who explains a mistake.

The texts name the defaults, as typer would write them; the backslash keeps Rich from reading the bracket as markup.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from pathlib import Path
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.models.inputs.shapes import split_by_input
from enginebench_controller.typed_paths import typed_path
from enginebench_proto.agreed.typed import WHOLE


class OptionForm(Enum):
    """What is typed behind an option, and how it stands for a value."""

    TEXT = auto()
    INTEGER = auto()
    NUMBER = auto()
    LIST = auto()
    """Parts with commas between them, once or more."""
    PAIRS = auto()
    """KEY=VALUE, once or more."""
    BY_INPUT = auto()
    """INPUT=VALUE, with commas between them, once or more."""
    INPUTS = auto()
    """How many random inputs, or a folder."""
    SWITCH = auto()
    """Nothing; another name says the opposite."""


class OptionGroup(StrEnum):
    """What an option is about, as the help groups them."""

    WHAT = "What"
    WHERE = "Where"
    HOW_LONG = "How long, and how"
    LOADS = "Loads"
    INPUTS = "Inputs"
    OUTPUT = "Output"


@dataclass(frozen=True)
class PlanOption:
    """An option that is a field of a plan, or with a point in `field` a part of one; `name` is without dashes.

    `opposite` names the option for false, and `stands_for` is what a switch sets where that is not simply true.
    """

    name: str
    field: str
    group: OptionGroup
    metavar: str
    help: str
    form: OptionForm = OptionForm.TEXT
    opposite: str = ""
    stands_for: Any = True


_DURATION = "DURATION"
_ALL = (
    PlanOption(
        "engine",
        "engines",
        OptionGroup.WHAT,
        "A,B,…",
        r"Engines: NAME, NAME@ENVIRONMENT, NAME@* for every environment, or all. \[default: all]",
        OptionForm.LIST,
    ),
    PlanOption(
        "target",
        "targets",
        OptionGroup.WHERE,
        "A,B,…",
        r"Targets by name, label:KEY=VALUE,… or HOST:PORT. \[default: an agent on this machine]",
        OptionForm.LIST,
    ),
    PlanOption(
        "executor",
        "executor",
        OptionGroup.WHERE,
        "dask://HOST:PORT",
        "Instead of targets, the machines of a Dask cluster: each group of what is compared on one of them.",
    ),
    PlanOption(
        "device",
        "devices",
        OptionGroup.WHERE,
        "A,B,…",
        r"Devices, or all. \[default: each engine's CPU]",
        OptionForm.LIST,
    ),
    PlanOption("batch", "batch", OptionGroup.WHAT, "N,M,…", r"Items in one inference. \[default: 1]", OptionForm.LIST),
    PlanOption(
        "cores",
        "cores",
        OptionGroup.WHERE,
        "N,M,…",
        r"Physical cores; big:N or little:N where a target has kinds, or all. \[default: all of the fastest kind]",
        OptionForm.LIST,
    ),
    PlanOption("streams", "streams", OptionGroup.LOADS, "N,M,…", r"Parallel streams. \[default: 1]", OptionForm.LIST),
    PlanOption(
        "precision",
        "precision",
        OptionGroup.WHAT,
        "P,Q,…",
        r"f32, bf16, f16, or default: the engine's own choice. \[default: f32]",
        OptionForm.LIST,
    ),
    PlanOption(
        "load",
        "load",
        OptionGroup.LOADS,
        "L,…",
        r"sync: one by one; async: several in flight; open-loop: as arrivals are scheduled. \[default: sync]",
        OptionForm.LIST,
    ),
    PlanOption(
        "requests",
        "requests",
        OptionGroup.LOADS,
        "N,M,…",
        r"Requests in flight, at most, under async and open-loop. \[default: as many as streams, as cores under a hint "
        r"for throughput, and at least 2]",
        OptionForm.LIST,
    ),
    PlanOption(
        "rate",
        "rate",
        OptionGroup.LOADS,
        "R,…",
        "Arrivals a second of an open loop, each of a whole batch.",
        OptionForm.LIST,
    ),
    PlanOption(
        "arrivals",
        "arrivals",
        OptionGroup.LOADS,
        "constant|poisson",
        r"Spacing of an open loop's arrivals. \[default: poisson]",
    ),
    PlanOption(
        "hint",
        "hint",
        OptionGroup.LOADS,
        "H,…",
        r"What the engine is told to optimize for: none, latency, throughput, cumulative. \[default: none]",
        OptionForm.LIST,
    ),
    PlanOption(
        "processes",
        "processes",
        OptionGroup.HOW_LONG,
        "N",
        r"Fresh processes a measurement is made of; 1 for a quick look. \[default: 3, and 5 in turns]",
        OptionForm.INTEGER,
    ),
    PlanOption(
        "duration",
        "duration",
        OptionGroup.HOW_LONG,
        _DURATION,
        r"Shortest steady state of all processes together, such as 500ms, 5s, 2m. \[default: 6s]",
    ),
    PlanOption(
        "iterations",
        "iterations",
        OptionGroup.HOW_LONG,
        "N",
        r"Fewest iterations of all processes together. \[default: 30]",
        OptionForm.INTEGER,
    ),
    PlanOption(
        "max-duration",
        "max_duration",
        OptionGroup.HOW_LONG,
        _DURATION,
        r"Longest steady state of all processes together. \[default: five times --duration]",
    ),
    PlanOption(
        "interval",
        "interval",
        OptionGroup.HOW_LONG,
        "PERCENT",
        r"Measure until half the median's 95 % interval is at most this share of the median; "
        r"0% does not wait for it. \[default: 1%, and 0% in turns]",
    ),
    PlanOption(
        "warmup", "warmup", OptionGroup.HOW_LONG, _DURATION, r"Shortest warm-up of each process. \[default: 500ms]"
    ),
    PlanOption(
        "block",
        "block",
        OptionGroup.HOW_LONG,
        _DURATION,
        r"Length of a block; between blocks the worker notes what the machine did. \[default: what fits the model]",
    ),
    PlanOption(
        "retry-noisy",
        "retry_noisy",
        OptionGroup.HOW_LONG,
        "",
        "Blocks in which other processes, the hypervisor or a quota took processor time are measured again and "
        "count for nothing, which is what happens anyway; or they count like all others.",
        OptionForm.SWITCH,
        opposite="keep-noisy",
    ),
    PlanOption(
        "wait-quiet",
        "wait_quiet",
        OptionGroup.HOW_LONG,
        _DURATION,
        "Before it measures, a target waits so long at most for others to leave its processors alone; "
        r"0s does not wait. \[default: 10s]",
    ),
    PlanOption(
        "interleave",
        "interleave",
        OptionGroup.HOW_LONG,
        "",
        "What one answer compares (engines, versions, precisions, options on the same work) is alive together and "
        "takes turns, block by block, where it can. --interleave: all configurations of a device do, or are refused; "
        "--no-interleave: one after the other.",
        OptionForm.SWITCH,
        opposite="no-interleave",
        stands_for="device",
    ),
    PlanOption(
        "order-seed",
        "order_seed",
        OptionGroup.HOW_LONG,
        "N",
        r"Seed of the order of the configurations. \[default: it follows from the plan]",
        OptionForm.INTEGER,
    ),
    PlanOption(
        "shape",
        "shapes",
        OptionGroup.INPUTS,
        "INPUT=AxBxC",
        "Shape of an input with open dimensions; may be repeated.",
        OptionForm.BY_INPUT,
    ),
    PlanOption(
        "batch-axis",
        "batch_axis",
        OptionGroup.INPUTS,
        "INPUT=N",
        "Which dimension of an input is the batch, counted from 0, or none; for models whose names do not tell, "
        "such as time-major ones. May be repeated.",
        OptionForm.BY_INPUT,
    ),
    PlanOption(
        "option",
        "options",
        OptionGroup.WHAT,
        "ENGINE.NAME=VALUE",
        "An engine's own option; may be repeated.",
        OptionForm.PAIRS,
    ),
    PlanOption(
        "seed",
        "seed",
        OptionGroup.INPUTS,
        "N",
        r"Seed of random inputs and arrivals. \[default: 0]",
        OptionForm.INTEGER,
    ),
    PlanOption(
        "inputs",
        "inputs",
        OptionGroup.INPUTS,
        "N|FOLDER",
        r"How many random inputs to rotate through, or a folder of .npy, .npz or images. \[default: 8]",
        OptionForm.INPUTS,
    ),
    PlanOption(
        "input",
        "input_values",
        OptionGroup.INPUTS,
        "INPUT=VALUE",
        "Fill one input: a number, ones, zeros, true, false, or a range such as ids=0..30521; may be repeated.",
        OptionForm.BY_INPUT,
    ),
    PlanOption(
        "image-resize",
        "image.resize",
        OptionGroup.INPUTS,
        "stretch|crop",
        r"Images: crop keeps the aspect ratio. \[default: stretch]",
    ),
    PlanOption(
        "image-layout",
        "image.layout",
        OptionGroup.INPUTS,
        "nchw|nhwc",
        r"Images: where the channels are. \[default: as the model's shape suggests]",
    ),
    PlanOption(
        "image-scale",
        "image.scale",
        OptionGroup.INPUTS,
        "FACTOR",
        r"Images: pixels are multiplied by this. \[default: 1/255, or 1 for whole numbers]",
        OptionForm.NUMBER,
    ),
    PlanOption(
        "image-mean",
        "image.mean",
        OptionGroup.INPUTS,
        "A,B,C",
        r"Images: subtracted after scaling, one number or one a channel. \[default: 0]",
        OptionForm.LIST,
    ),
    PlanOption(
        "image-std",
        "image.std",
        OptionGroup.INPUTS,
        "A,B,C",
        r"Images: divided by at last, one number or one a channel. \[default: 1]",
        OptionForm.LIST,
    ),
    PlanOption(
        "timeout",
        "timeout",
        OptionGroup.HOW_LONG,
        _DURATION,
        r"A target kills a process after this long. \[default: 30m, and more where it may measure for so long]",
    ),
    PlanOption("name", "name", OptionGroup.OUTPUT, "NAME", r"Name of the benchmark. \[default: those of its models]"),
)
OPTIONS: Mapping[str, PlanOption] = {one.name: one for one in _ALL}

_EXAMPLES = {
    "shape": "INPUT=SIZES, such as input=1x3x224x224",
    "batch-axis": "INPUT=AXIS, such as input=1",
    "input": "INPUT=VALUE, such as sr=16000 or mask=ones",
}


_NO_OPTIONS = {"models": "MODEL", "input_folder": "--inputs"}
"""What is typed for fields that have no option of their own."""


def fields_of(typed: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a plan that were given, of what was typed by the option's name; None where nothing was.

    Raises `InputError`, and `ModelError` for what names no input.
    """
    found: dict[str, Any] = {}
    for name, value in typed.items():
        if value is None:
            continue
        option = OPTIONS[name]
        whole, _, part = option.field.partition(".")
        if option.form is OptionForm.INPUTS:
            found |= _inputs(value)
        elif part:
            found[whole] = found.get(whole, {}) | {part: _read(option, value)}
        else:
            found[whole] = _read(option, value)
    return found


def words_of(fields: Mapping[str, Any]) -> Iterator[str]:
    """The options that stand for fields of a plan, as words of a command. What is no option is left out."""
    for option in OPTIONS.values():
        whole, _, part = option.field.partition(".")
        value = fields.get(whole)
        if part and isinstance(value, Mapping):
            value = value.get(part)
        if option.form is OptionForm.INPUTS and (folder := fields.get("input_folder")) is not None:
            yield from (f"--{option.name}", folder)
        elif value is not None:
            yield from _written(option, value)


_OF_GATE = {"metrics": "--metric"}
"""What a person typed for a field of `GateTerms`, where that is not its name."""


def option_of(field: str, *within: str) -> str:
    """What a person typed for a field of a plan, such as "--image-scale"; `within` leads further into the field."""
    if field in _NO_OPTIONS:
        return " ".join([_NO_OPTIONS[field], *within])
    if field == "gate" and within:
        return _OF_GATE.get(within[0], f"--{within[0]}")
    names = {one.field: f"--{one.name}" for one in OPTIONS.values()}
    whole = names.get(field)
    return " ".join([whole, *within]) if whole else "--" + "-".join([field, *within]).replace("_", "-")


def split(text: str | None) -> list[str] | None:
    """The parts of "A,B"; None for None."""
    return None if text is None else list(_parts(text))


def _parts(*texts: str) -> Iterator[str]:
    return (part.strip() for text in texts for part in text.split(",") if part.strip())


def _read(option: PlanOption, typed: Any) -> Any:
    match option.form:
        case OptionForm.LIST:
            return list(_parts(*typed))
        case OptionForm.BY_INPUT:
            return split_by_input(typed, f"--{option.name}", _EXAMPLES[option.name])
        case OptionForm.PAIRS:
            return _pairs(typed, f"--{option.name} {option.metavar}")
        case OptionForm.SWITCH:
            return option.stands_for if typed else False
        case _:
            return typed


def _pairs(texts: list[str], form: str) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise InputError(f"{text!r} is not of the form {form}")
    return dict(text.split("=", 1) for text in texts)


_COUNT = re.compile(r"[+-]?\d[\d.,_ ]*")
"""What is meant for a number, though it may not be one as a plan reads them."""


def _inputs(text: str) -> dict[str, Any]:
    if WHOLE.fullmatch(text):
        return {"inputs": int(text), "input_folder": None}
    if _COUNT.fullmatch(text) and not Path(text).exists():
        return {"inputs": text, "input_folder": None}
    return {"input_folder": input_folder(Path(text))}


def input_folder(folder: Path) -> str:
    """The plan's field for a folder of inputs: absolute, so that a rerun finds it from anywhere."""
    return str(typed_path(folder).absolute())


def _written(option: PlanOption, value: Any) -> Iterator[str]:
    if option.form is OptionForm.SWITCH:
        yield f"--{option.name if value else option.opposite}"
    elif isinstance(value, Mapping):
        for key, said in value.items():
            yield from (f"--{option.name}", f"{key}={said}")
    else:
        yield from (f"--{option.name}", _text(value))


def _text(value: Any) -> str:
    many = value if isinstance(value, tuple | list) else (value,)
    return ",".join(f"{one:.15g}" if isinstance(one, float) else str(one) for one in many)
