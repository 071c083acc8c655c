"""What a person asks for who wants a configuration recommended: limits, a goal, and the axes to choose on."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from enginebench_controller.errors import InputError
from enginebench_controller.plan.options import option_of, split
from enginebench_controller.plan.plan import (
    PERCENT,
    AtLeastOne,
    Duration,
    Plan,
    Whole,
    make_plan,
    parse_duration_ns,
    parse_percent,
)
from enginebench_controller.typed_values import (
    NANOSECONDS,
    NUMBER,
    TIME_UNIT,
    plain_whole,
    pointed,
    undivided,
    wrong_value,
)

AXES = ("batch", "cores", "streams", "precision", "load", "hint", "requests")
"""The fields of a plan that can be fixed, or chosen among."""
_COUNTED = frozenset({"batch", "streams", "requests"})

WARMUP_MS, INPUTS = 100, 2
"""Of each process: many short ones, since it is from process to process that luck is drawn anew."""

_LIMIT = re.compile(
    r"(?:(?P<what>(?i:latency|median|p(?P<percent>[0-9]{1,2}(?:\.[0-9]+)?)))\s*(?:<=?|≤)\s*)?"
    rf"(?P<number>{NUMBER})\s*(?P<unit>{TIME_UNIT})?"
)
_MEMORY = re.compile(rf"(?P<number>{NUMBER})\s*(?P<unit>[kKMGT]i?B|B)?")
_BYTES: Mapping[str, int] = {"B": 1, "kB": 10**3, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12} | {
    f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", start=1)
}


class Goal(StrEnum):
    """What is to be as much, or as little, as possible."""

    THROUGHPUT = "throughput"
    LATENCY = "latency"
    MEMORY = "memory"
    RATE = "rate"
    """Requests a second that arrive whether or not earlier ones are done."""


@dataclass(frozen=True)
class LatencyLimit:
    """A percentile of latency that is to stay below so many nanoseconds."""

    percent: float
    limit_ns: float

    def __str__(self) -> str:
        """As a person reads it: "p95 < 20 ms"."""
        return f"p{self.percent:g} < {self.limit_ns / 1e6:g} ms"


def parse_latency_limit(text: str) -> LatencyLimit:
    """The limit of 'p95<20ms', or 'latency<5ms', which is of the median. Raises `InputError`."""
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        told = pointed(text, _LIMIT.pattern) or "write p95<20ms, p99<1s, or latency<5ms for the median"
        raise InputError(f"--max-latency {text!r} is no limit: {told}")
    if found["unit"] is None:
        raise InputError(f"--max-latency {text!r} has no unit: write {text.strip()}ms, or another of ns, us, ms, s, m")
    percent = float(found["percent"] or 50)
    if percent < 50:
        raise InputError(f"--max-latency {text!r}: percentiles from p50 to below p100 are known, not p{percent:g}")
    limit_ns = float(found["number"]) * NANOSECONDS[found["unit"]]
    if limit_ns <= 0:
        raise InputError(f"--max-latency {text!r}: nothing takes less than no time; give a limit above 0")
    return LatencyLimit(percent, limit_ns)


def parse_memory(text: str) -> int:
    """The bytes of '500MB' or '1.5 GiB'. Raises `InputError`."""
    found = _MEMORY.fullmatch(text.strip())
    if found is None:
        told = pointed(text, _MEMORY.pattern) or "write 500MB or 1.5GiB"
        raise InputError(f"--max-memory {text!r} is no amount of memory: {told}")
    if found["unit"] is None:
        raise InputError(f"--max-memory {text!r} has no unit: write {text.strip()}MB, or another of kB, GB, MiB, GiB")
    amount = round(float(found["number"]) * _BYTES[str(found["unit"])])
    if amount <= 0:
        raise InputError(f"--max-memory {text!r}: no process gets along without memory; give a limit above 0")
    return amount


def parse_output_difference(text: str) -> float:
    """The share of '1%', of an output's largest value. Raises `InputError`."""
    try:
        return parse_percent(text)
    except ValueError:
        lacks_unit = re.fullmatch(NUMBER, text.strip())
        told = f"is no share: {pointed(text, PERCENT.pattern) or 'write 1% or 0.5%'}"
        told = f"has no unit: write {text.strip()}%" if lacks_unit else told
        raise InputError(f"--max-output-difference {text!r} {told}") from None


def parse_axes(fixed: Sequence[str], among: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The values of `--fix axis=value` and `--among axis=a,b`, by axis. Raises `InputError`."""
    found: dict[str, tuple[str, ...]] = {}
    for option, text in [*(("--fix", one) for one in fixed), *(("--among", one) for one in among)]:
        axis, is_said, said = text.partition("=")
        values = tuple(split(said) or ())
        if not is_said or not values:
            form = "axis=value" if option == "--fix" else "axis=a,b,c"
            raise InputError(f"{option} {text!r} is not of the form {form}")
        if axis not in AXES:
            raise InputError(f"{option} {text!r}: there is no axis {axis!r} to choose; there are {', '.join(AXES)}")
        _check_numbers(f"{option} {text!r}", axis, values)
        if axis in found:
            raise InputError(f"{option} {text!r}: {axis} was given before; give all its values in one --among")
        if option == "--fix" and len(values) > 1:
            raise InputError(f"--fix {text!r} gives several values: write --among {text}")
        found[axis] = values
    return found


def _check_numbers(where: str, axis: str, values: Sequence[str]) -> None:
    try:
        undivided(values)
        for one in values:
            if axis in _COUNTED or one[:1].isdecimal():  # cores may have a kind, and other axes are words
                plain_whole(one)
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None


class RecommendOrder(BaseModel):
    """What a person asks for, as a document. `axes` are those fixed or narrowed; `fields` the plan's own, of inputs."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    models: AtLeastOne[str]
    engines: AtLeastOne[str] = ("all",)
    target: str | None = None
    targets: tuple[str, ...] = ()
    """Several, each of which is searched; `target` is None then."""
    goal: Goal = Goal.THROUGHPUT
    max_latency: str | None = None
    max_memory: str | None = None
    max_output_difference: str | None = None
    leave_cores: Annotated[Whole, Field(ge=0)] = 0
    axes: Mapping[str, tuple[str, ...]] = {}
    versions: bool = False
    """Whether all versions of the models that are here take part."""
    budget: Duration = "5m"
    fields: Mapping[str, Any] = {}
    trusted: bool = False
    """Whether a local agent may run the models although their format can execute code."""

    @property
    def latency_limit(self) -> LatencyLimit | None:
        """The limit of latency."""
        return None if self.max_latency is None else parse_latency_limit(self.max_latency)

    @property
    def memory_limit_bytes(self) -> int | None:
        """The limit of memory."""
        return None if self.max_memory is None else parse_memory(self.max_memory)

    @property
    def output_limit(self) -> float | None:
        """The limit of how far outputs may be from those of the model as given, as a share of their largest value."""
        return None if self.max_output_difference is None else parse_output_difference(self.max_output_difference)

    @property
    def budget_s(self) -> float:
        """The budget in seconds."""
        return parse_duration_ns(self.budget) / 1e9

    def of_each_target(self) -> tuple["RecommendOrder", ...]:
        """The order for each target alone."""
        if not self.targets:
            return (self,)
        return tuple(self.model_copy(update={"target": one, "targets": ()}) for one in self.targets)

    def document(self) -> dict[str, Any]:
        """The order as JSON-able data, as the store keeps it."""
        return self.model_dump(mode="json")


def make_order(fields: Mapping[str, Any]) -> RecommendOrder:
    """Check an order. Raises `InputError` with one line a mistake."""
    try:
        order = RecommendOrder.model_validate(dict(fields))
    except ValidationError as error:
        told = (f"{option_of(str(one['loc'][0]))}: {wrong_value(one)}" for one in error.errors())
        raise InputError("\n".join(told)) from None
    _ = order.latency_limit, order.memory_limit_bytes, order.output_limit
    if order.goal is Goal.RATE and order.latency_limit is None:
        raise InputError(
            "--maximize rate needs a limit that tells when a rate is too high: add --max-latency, such as 'p99<50ms'"
        )
    if order.goal is Goal.RATE and order.targets:
        raise InputError("--maximize rate is for one target at a time: a rate for all would be that of the slowest")
    if order.goal is Goal.RATE and (load := order.axes.get("load")):
        raise InputError(f"--maximize rate is of an open loop: leave load={','.join(load)} out")
    common_plan(order)
    return order


def common_plan(order: RecommendOrder) -> Plan:
    """The plan that all steps have in common, but for their points. Raises `InputError`."""
    return make_plan(
        {
            "models": list(order.models),
            "targets": [] if order.target is None else [order.target],
            "interleave": "device",
            "interval": "0%",
            "wait_quiet": "0s",
            "retry_noisy": False,
            "warmup": f"{WARMUP_MS}ms",
            "inputs": INPUTS,  # each is run before and after, which takes longer than the timing of a large batch
            **order.fields,
        },
        "recommend",
    )


def limit_words(order: RecommendOrder) -> Iterator[str]:
    """The limits of each process as a person reads them, in the order in which readings have them."""
    if order.latency_limit is not None:
        yield str(order.latency_limit)
    if order.memory_limit_bytes is not None:
        yield f"memory < {order.memory_limit_bytes / 1e6:g} MB"


def output_limit_words(order: RecommendOrder) -> Iterator[str]:
    """The limit of how far outputs may differ, likewise; it is of a model version, not of a process."""
    if order.output_limit is not None:
        yield f"output difference < {100 * order.output_limit:g} %"
