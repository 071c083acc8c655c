"""The plan: what a person asks for, as a versioned document; its TOML file, and the command line that stands for it."""

import hashlib
import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import tomli_w
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from enginebench_controller.errors import InputError
from enginebench_controller.models.inputs.arrays import ImageOptions
from enginebench_controller.models.inputs.shapes import NO_BATCH
from enginebench_controller.models.inputs.values import check_values
from enginebench_controller.plan.options import option_of, words_of
from enginebench_controller.records import ArrivalProcess, Hint, Load, StopRule
from enginebench_controller.typed_values import (
    NANOSECONDS,
    NUMBER,
    TIME_UNIT,
    plain_whole,
    pointed,
    undivided,
    wrong_value,
)
from enginebench_proto.agreed.typed import typed_text

BASE, HEAD, CONTROL = ROLES = ("base", "head", "control")
"""The sides of a gate, and the control that is base once more."""
LONGEST_BUDGET_NS = 3_600_000_000_000
"""A gate is to answer while somebody waits for it."""

DURATION = re.compile(rf"({NUMBER})\s*({TIME_UNIT})?")
LONGEST_NS = 30 * 24 * 3600e9
ALL_CORES = "all"
MOST_CORES = 1_000_000
CORES = re.compile(r"([a-z]+[0-9]*)(?::([1-9][0-9]{0,5}))?")
"""A kind of cores, and how many of it; a target's facts have the names."""
PERCENT = re.compile(rf"({NUMBER})\s*%")
DEFAULT_MAX_FACTOR = 5
PROCESSES = {False: 3, True: 5}
"""How many processes a measurement is made of that runs alone, or takes turns.

Half the interval of a ratio is 2.2 SD of three process pairs, 1.15 of five, 1.0 of seven, 0.8 of nine, as simulated.
Each process costs seconds to start, four engines with ResNet-50 some ten together: seven take a third longer than five.
"""
INTERVAL = {False: "1%", True: "0%"}
"""How close a median is to be known. In turns what is asked for is the ratio, of which one process knows nothing."""

_COMMANDS = frozenset({"run", "gate", "profile", "ladder", "prospects pruning", "models quantize"})
"""Origins whose fields were typed as options."""


def parse_duration_ns(text: str) -> int:
    """Nanoseconds of "500us", "500ms", "5s", "2m" or "1h"; a bare number is seconds. Raises `ValueError`."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        told = pointed(text, DURATION.pattern) or "write 500us, 500ms, 5s, 2m or 1h"
        raise ValueError(f"{text!r} is not a duration: {told}")
    duration_ns = float(match[1]) * NANOSECONDS[match[2] or "s"]
    if duration_ns > LONGEST_NS:
        raise ValueError(f"{text if len(text) < 40 else text[:40] + '…'} is longer than 30 days")
    return round(duration_ns)


def parse_percent(text: str) -> float:
    """The share that "1%" or "0.5 %" is of the whole, such as 0.01. Raises `ValueError`."""
    match = PERCENT.fullmatch(text.strip())
    if match is None:
        told = pointed(text, rf"{NUMBER}\s*%?") or "write 1% or 0.5%, or 0% for none"
        raise ValueError(f"{text!r} is not a percentage: {told}")
    return float(match[1]) / 100


def _duration(text: str) -> str:
    if parse_duration_ns(text) <= 0:
        raise ValueError(f"{text!r} is not longer than zero")
    return text


def _wait(text: str) -> str:
    parse_duration_ns(text)
    return text


def _percent(text: str) -> str:
    if parse_percent(text) > 1:
        raise ValueError(f"{text!r} is more than the whole")
    return text


def _in_unit(unit: str) -> BeforeValidator:
    """A bare number, or the text of one, is taken in this unit."""

    def as_text(value: Any) -> Any:
        bare = isinstance(value, str) and re.fullmatch(rf"\s*{NUMBER}\s*", value)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return f"{value}{unit}" if bare or is_number else value

    return BeforeValidator(as_text)


def _known_image_options(value: Any) -> Any:
    """Data classes take whatever they are given; a misspelt option is to be told."""
    known = {one.name for one in fields(ImageOptions)}
    if isinstance(value, Mapping) and (unknown := [str(key) for key in value if key not in known]):
        raise ValueError(f"there is no {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    return value


def _as_text(value: Any) -> Any:
    """TOML has numbers and bools of its own."""
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, int | float) else value


def _axis(value: Any) -> Any:
    if value == NO_BATCH or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    if isinstance(value, str) and value.isdecimal() and value.isascii() and len(value) < 4:
        return int(value)
    raise ValueError(f"{value!r} is no dimension: count them from 0, or write {NO_BATCH}")


def _cores(value: Any) -> Any:
    if isinstance(value, str):
        value = value.strip().lower()
        value = int(value) if re.fullmatch(r"[1-9][0-9]{0,6}", value) else value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MOST_CORES:
        return value
    if isinstance(value, str) and CORES.fullmatch(value) and not value.startswith(f"{ALL_CORES}:"):
        return value
    raise ValueError(f"{value!r} is no number of cores: write 2, big:2 or little for a kind of cores, or {ALL_CORES}")


def _precision(value: object) -> object:
    if value == "int8":
        raise ValueError("int8 is in a model's file and no setting: measure int8:MODEL, which is made where it is not")
    return value


BatchAxis = Annotated[int | str, BeforeValidator(_axis)]
Value = Annotated[str, BeforeValidator(_as_text), AfterValidator(check_values)]
Duration = Annotated[str, _in_unit("s"), AfterValidator(_duration)]
Wait = Annotated[str, _in_unit("s"), AfterValidator(_wait)]
Percent = Annotated[str, _in_unit("%"), AfterValidator(_percent)]
Whole = Annotated[int, BeforeValidator(plain_whole)]
Count = Annotated[Whole, Field(ge=1, le=1_000_000)]
Cores = Annotated[int | str, BeforeValidator(_cores)]
OfPrecision = Annotated[Literal["default", "f32", "bf16", "f16"], BeforeValidator(_precision)]
Rate = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)]
Seed = Annotated[Whole, Field(ge=0, lt=2**63)]
Image = Annotated[ImageOptions, BeforeValidator(_known_image_options)]
T = TypeVar("T")
AtLeastOne = Annotated[tuple[T, ...], Field(min_length=1)]
"""Of what multiplies out: with none there would be nothing to measure."""
Numbers = Annotated[tuple[T, ...], BeforeValidator(undivided)]
AtLeastOneNumber = Annotated[tuple[T, ...], Field(min_length=1), BeforeValidator(undivided)]


class Rung(BaseModel):
    """A step of a ladder: the plan's own fields with other values, or why this step cannot be run."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str
    title: str
    fields: Mapping[str, Any] = {}
    unavailable: str | None = None


class GateMetric(StrEnum):
    """What a gate looks at; of each, more is worse, but of throughput."""

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    FIRST_INFERENCE = "first-inference"
    COMPILE = "compile"
    MEMORY = "memory"
    SIZE = "size"
    ENERGY = "energy"


class GateTerms(BaseModel):
    """What a gate was asked for, and what it promised: by metric, the difference it is to tell within the budget."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    budget: Duration = "2m"
    """How long process pairs are measured, at most."""
    tolerate: Percent = "1%"
    """How much worse head may be."""
    metrics: AtLeastOne[GateMetric] = (GateMetric.LATENCY,)
    """Those that may fail the gate."""
    promised: Mapping[GateMetric, float] = {}
    """Shares; nothing for a metric of which the machine had no earlier process pairs."""
    strict: bool = False
    """Whether the command fails where it cannot be told."""
    base: str = "base"
    head: str = "head"
    """What the two are called."""


class StepPurpose(StrEnum):
    """What a step of a recommendation is to learn."""

    LOOK = "look"
    RACE = "race"
    CONFIRM = "confirm"
    RATE = "rate"
    FOR_ALL = "for_all"


class SearchStep(BaseModel):
    """Which step of which search a benchmark is, counted from 0, and what it is to tell."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    id: str
    step: Annotated[int, Field(ge=0)]
    title: str
    purpose: StepPurpose | None = None
    """Of a recommendation."""


class Plan(BaseModel):
    """Model versions × engines × targets × configurations. Lists multiply out."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    schema_version: Literal[1] = 1
    name: str | None = None
    models: AtLeastOne[str]
    engines: AtLeastOne[str] = ("all",)
    targets: tuple[str, ...] = ()
    """Names of targets; empty for a local agent that lives as long as the benchmark."""
    executor: str | None = None
    """What else has machines to measure on: a scheduler of Dask, as dask://HOST:PORT."""
    devices: tuple[str, ...] = ()
    """Devices by the engines' names; empty for each engine's CPU, or else its first device."""
    batch: AtLeastOneNumber[Count] = (1,)
    cores: Numbers[Cores] = ()
    """Physical cores: so many of the fastest, "big:2" or "little" of a kind, or "all"; empty for all of the fastest."""
    streams: AtLeastOneNumber[Count] = (1,)
    precision: AtLeastOne[OfPrecision] = ("f32",)
    load: AtLeastOne[Load] = (Load.SYNC,)
    hint: AtLeastOne[Hint] = (Hint.NONE,)
    requests: Numbers[Count] = ()
    """Requests in flight, at most, under a load that overlaps them; empty for as many as streams, and at least two,
    or as cores under a hint for throughput."""
    rate: Numbers[Rate] = ()
    """Arrivals a second under an open loop, each of a whole batch."""
    arrivals: ArrivalProcess = ArrivalProcess.POISSON
    """How the arrivals of an open loop are spaced."""
    shapes: Mapping[str, str] = {}
    """Shapes of inputs by name, such as {"input": "1x3x224x224"}."""
    batch_axis: Mapping[str, BatchAxis] = {}
    """Which dimension of an input is the batch, counted from 0, or "none"; for those whose names do not tell."""
    options: Mapping[str, str] = {}
    """Engine options by "engine.option"."""
    processes: Annotated[Whole, Field(ge=1, le=1000)] | None = None
    """Fresh processes that a measurement is made of, one after the other; None for `PROCESSES`."""
    duration: Duration = "6s"
    """Shortest steady state, of all processes together."""
    iterations: Annotated[Whole, Field(ge=1, le=1_000_000_000)] = 30
    """Fewest iterations, of all processes together."""
    max_duration: Duration | None = None
    """Longest steady state, of all processes together; None for five times the shortest."""
    interval: Percent | None = None
    """What half the width of the median's 95 % confidence interval is to come down to, of the median; 0% for none, and
    None for `INTERVAL`."""
    warmup: Duration = "500ms"
    """Shortest warm-up, of each process."""
    block: Duration | None = None
    """Length of a block; None leaves it to the worker."""
    retry_noisy: bool = True
    """Whether disturbed blocks are measured again and count for nothing."""
    wait_quiet: Wait = "10s"
    """How long a target waits, before it measures, for others to leave its processors alone; 0s not at all."""
    interleave: bool | Literal["device"] = True
    """Whether what one answer compares is alive together and takes turns, block by block, as far as it can; "device"
    for all configurations of a device, which are refused where they cannot."""
    order_seed: Seed | None = None
    """Seed of the order in which configurations are run; None for one that follows from the plan."""
    seed: Seed = 0
    """Seed of random inputs and arrivals."""
    inputs: Annotated[Whole, Field(ge=1, le=1024)] = 8
    """How many different random inputs the requests rotate through."""
    input_folder: str | None = None
    """Folder of .npy, .npz or image files to take instead of random inputs."""
    input_values: Mapping[str, Value] = {}
    """What single inputs are filled with, such as {"sr": "16000", "mask": "ones", "ids": "0..30521"}."""
    image: Image = ImageOptions()
    """How the images of such a folder become tensors."""
    timeout: Duration | None = None
    """After how long the target kills a process; None for what `time_limit_ns` finds."""
    ladder: Literal["throughput", "latency"] | None = None
    """Which ladder the rungs are of."""
    rungs: tuple[Rung, ...] = ()
    """Steps to multiply out each for itself, instead of the plan as a whole."""
    gate: GateTerms | None = None
    """For a gate, whose rungs are base, head, and base once more as a control."""
    search: SearchStep | None = None
    """For a step of a search; what repeats the step alone is none."""

    def stop_rule(self, *, in_turns: bool = False) -> StopRule:
        """When each measurement ends that runs alone, or takes turns with those that it is compared with."""
        shortest_ns = parse_duration_ns(self.duration)
        longest_ns = parse_duration_ns(self.max_duration) if self.max_duration else shortest_ns * DEFAULT_MAX_FACTOR
        if longest_ns < shortest_ns:
            raise InputError(f"max_duration {self.max_duration} is shorter than duration {self.duration}: raise it")
        return StopRule(
            min_duration_ns=shortest_ns,
            min_iterations=self.iterations,
            max_duration_ns=longest_ns,
            warmup_ns=parse_duration_ns(self.warmup),
            target_relative_half_width=parse_percent(self.interval or INTERVAL[in_turns]),
            processes=self.processes or PROCESSES[in_turns],
            block_ns=parse_duration_ns(self.block) if self.block else 0,
            retry_noisy=self.retry_noisy,
        )

    @property
    def device_takes_turns(self) -> bool:
        """Whether all of a device do: where that was said, and of rungs that are no ladder, which are all rivals."""
        return self.interleave == "device" or bool(self.interleave and self.rungs and not self.ladder)

    def seed_of_order(self) -> int:
        """The seed of the order of runs: the one asked for, or one that is the same for the same plan."""
        if self.order_seed is not None:
            return self.order_seed
        canonical = json.dumps(self.document(), sort_keys=True).encode()
        return int.from_bytes(hashlib.sha256(canonical).digest()[:4], "little")

    def grids(self) -> tuple["Plan", ...]:
        """What to multiply out: the plan itself, or a plan for each rung that can be run. Raises `InputError`."""
        if not self.rungs:
            return (self,)
        alone = self.document() | {"rungs": ()}
        return tuple(
            make_plan(alone | dict(rung.fields), f"rung {rung.name!r}") for rung in self.rungs if not rung.unavailable
        )

    def document(self) -> dict[str, Any]:
        """The plan as JSON-able data, as the store keeps it."""
        return self.model_dump(mode="json")


def make_plan(fields: Mapping[str, Any], origin: str) -> Plan:
    """Check the fields of a plan. Raises `InputError` with one line a mistake.

    `origin` says where the fields came from: a document, or the command whose options they are.
    """
    try:
        plan = Plan.model_validate(dict(fields))
    except ValidationError as error:
        raise InputError("\n".join(_sentence(origin, problem) for problem in _causes(error))) from None
    if plan.executor and plan.targets:
        raise InputError("an executor brings the machines that it measures on: leave the targets out, or the executor")
    if plan.executor and plan.gate:
        raise InputError("a gate asks after each round whether it knows enough: measure it on a target, not elsewhere")
    return plan


def read_plan(path: Path) -> Plan:
    """A plan from a TOML file. Raises `InputError`."""
    try:
        return make_plan(tomllib.loads(typed_text(path)), str(path))
    except OSError as error:
        raise InputError(f"cannot read the plan {path}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not a TOML file: {error}") from None
    except ValueError as error:
        raise InputError(f"cannot read the plan {path}: {error}") from None


def plan_toml(plan: Plan) -> str:
    """The plan as the text of a plan file that `enginebench run FILE` accepts."""
    alone = plan.model_copy(update={"search": None})
    return tomli_w.dumps({key: value for key, value in _without_null(alone.document()).items() if value != {}})


def _without_null(value: Any) -> Any:
    """TOML has no null: what is not said is left out."""
    if isinstance(value, Mapping):
        return {key: _without_null(one) for key, one in value.items() if one is not None}
    return [_without_null(one) for one in value] if isinstance(value, list) else value


def _causes(error: ValidationError) -> list[Any]:
    """The mistakes, but for lists that are too short for want of the values that are mistaken."""
    found = error.errors()
    have_mistakes = {one["loc"][:-1] for one in found}
    return [one for one in found if one["type"] != "too_short" or one["loc"] not in have_mistakes]


def _sentence(origin: str, problem: Any) -> str:
    field, *within = [str(part) for part in problem["loc"]] or ["plan"]
    entries = [part for part in within if not part.isdecimal()]  # a value names itself; counted from 0 it would mislead
    where = option_of(field, *entries) if origin in _COMMANDS else f"{origin}: {'.'.join([field, *entries])}"
    return f"{where}: {wrong_value(problem)}"


def run_command(plan: Plan) -> str:
    """The command that carries out a plan without rungs, to be typed into a shell; what is left out are defaults.

    Digests, of which the pages make their orders, are cut to what names them.
    """
    default = Plan(models=plan.models).document()
    said = {name: value for name, value in plan.document().items() if value != default[name] and name != "search"}
    image = {name: value for name, value in said.get("image", {}).items() if value != default["image"][name]}
    models = [one[:_DIGITS] if _DIGEST.fullmatch(one) else one for one in plan.models]
    return shlex.join(["enginebench", "run", *models, *words_of(said | {"image": image})])


_DIGEST = re.compile("[0-9a-f]{64}")
_DIGITS = 12


def command_of(document: Mapping[str, Any]) -> str | None:
    """The command that a stored plan was carried out by, its order drawn anew; None for one that is not ours, or of
    more than a run.
    """
    try:
        known = {name: value for name, value in document.items() if name in Plan.model_fields and name != "order_seed"}
        plan = make_plan(known, "the plan")
    except InputError:
        return None
    return None if plan.rungs or plan.gate is not None or plan.search is not None else run_command(plan)


class LadderKind(StrEnum):
    """What a ladder is to improve."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
