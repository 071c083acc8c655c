"""The plan: what a person asks for, as a versioned document that is read from TOML and kept with the benchmark."""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from enginebench_controller.errors import InputError
from enginebench_controller.records import Hint, Load, StopRule

DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
DEFAULT_MAX_FACTOR = 12


def parse_duration_ns(text: str) -> int:
    """Nanoseconds of "500ms", "5s", "2m" or "1h"; a bare number is seconds. Raises `ValueError`."""
    match = DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a duration: write 500ms, 5s, 2m or 1h")
    return round(float(match[1]) * SECONDS[match[2] or "s"] * 1e9)


def _duration(text: str) -> str:
    if parse_duration_ns(text) <= 0:
        raise ValueError(f"{text!r} is not longer than zero")
    return text


def _as_text(value: Any) -> Any:
    return f"{value}s" if isinstance(value, int | float) and not isinstance(value, bool) else value


Duration = Annotated[str, BeforeValidator(_as_text), AfterValidator(_duration)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]


class Plan(BaseModel):
    """Model versions × engines × targets × configurations. Lists multiply out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    name: str | None = None
    models: Names
    engines: Names = ("all",)
    targets: tuple[str, ...] = ()
    """Names of targets; empty for a local agent that lives as long as the benchmark."""
    devices: tuple[str, ...] = ()
    """Devices by the engines' names; empty for each engine's CPU, or else its first device."""
    batch: tuple[Count, ...] = (1,)
    cores: tuple[Count, ...] = ()
    """Physical cores; empty for all the target has."""
    streams: tuple[Count, ...] = (1,)
    precision: tuple[Literal["default", "f32", "bf16", "f16"], ...] = ("f32",)
    load: tuple[Load, ...] = (Load.SYNC,)
    hint: tuple[Hint, ...] = (Hint.NONE,)
    requests: tuple[Count, ...] = ()
    """Requests in flight under an asynchronous load; empty for as many as streams, and at least two."""
    shapes: Mapping[str, str] = {}
    """Shapes of inputs by name, such as {"input": "1x3x224x224"}."""
    options: Mapping[str, str] = {}
    """Engine options by "engine.option"."""
    duration: Duration = "5s"
    """Shortest steady state."""
    iterations: Count = 10
    """Fewest iterations."""
    max_duration: Duration | None = None
    """Longest steady state; None for twelve times the shortest, and at least a minute."""
    warmup: Duration = "1s"
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Seed of the input set."""
    inputs: Annotated[int, Field(ge=1, le=1024)] = 8
    """How many different inputs the requests rotate through."""
    timeout: Duration = "30m"
    """The target kills a run after this long."""

    def stop_rule(self) -> StopRule:
        """When each measurement ends."""
        shortest_ns = parse_duration_ns(self.duration)
        fallback_ns = max(shortest_ns * DEFAULT_MAX_FACTOR, 60_000_000_000)
        longest_ns = parse_duration_ns(self.max_duration) if self.max_duration else fallback_ns
        if longest_ns < shortest_ns:
            raise InputError(f"max_duration {self.max_duration} is shorter than duration {self.duration}: raise it")
        return StopRule(shortest_ns, self.iterations, longest_ns, parse_duration_ns(self.warmup))

    def document(self) -> dict[str, Any]:
        """The plan as JSON-able data, as the store keeps it."""
        return self.model_dump(mode="json")


def make_plan(fields: Mapping[str, Any], origin: str) -> Plan:
    """Check the fields of a plan. Raises `InputError` with one line a mistake; `origin` says where they came from."""
    try:
        return Plan.model_validate(dict(fields))
    except ValidationError as error:
        raise InputError("\n".join(_sentence(origin, problem) for problem in error.errors())) from None


def read_plan(path: Path) -> Plan:
    """A plan from a TOML file. Raises `InputError`."""
    try:
        return make_plan(tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise InputError(f"cannot read the plan {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not a TOML file: {error}") from None


def plan_toml(plan: Plan) -> str:
    """The plan as the text of a plan file that `enginebench run FILE` accepts."""
    fields = {key: value for key, value in plan.document().items() if value is not None and value != {}}
    tables = {key: value for key, value in fields.items() if isinstance(value, dict)}
    lines = [f"{key} = {_toml(value)}" for key, value in fields.items() if key not in tables]
    for name, table in tables.items():
        lines += ["", f"[{name}]", *(f"{_toml(key)} = {_toml(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml, value)) + "]"
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sentence(origin: str, problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"]) or "plan"
    message = problem["msg"].removeprefix("Value error, ")
    given = "" if problem["type"] in {"missing", "value_error"} else f" (given: {problem['input']!r})"
    return f"{origin}: {where}: {message}{given}"
