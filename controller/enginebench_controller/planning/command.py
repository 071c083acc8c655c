"""A plan as the command line of `enginebench run` that stands for it."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from enginebench_controller.planning.plan import Plan

_LISTS = {"engines": "engine", "targets": "target", "devices": "device"}
"""Options that are not called as their fields are."""

_NAMES = (
    *("engines", "targets", "devices", "batch", "cores", "streams", "precision", "load", "requests", "rate"),
    *("arrivals", "hint", "processes", "duration", "iterations", "max_duration", "interval", "warmup", "block"),
    *("inputs", "seed", "timeout"),
)
_PAIRS = {"shapes": "shape", "batch_axis": "batch-axis", "options": "option", "input_values": "input"}


def run_command(plan: Plan) -> str:
    """The command that carries out a plan without rungs, to be typed into a shell; what is left out are defaults."""
    words = [*plan.models, *_options(plan)]
    return shlex.join(["enginebench", "run", *words])


def _options(plan: Plan) -> Iterator[str]:
    said = {name: value for name, value in plan if value != Plan.model_fields[name].default}
    for name in _NAMES:
        if name in said:
            yield from (f"--{_LISTS.get(name, name).replace('_', '-')}", _text(said[name]))
    for name, option in _PAIRS.items():
        pairs: Mapping[str, Any] = said.get(name, {})
        for key, value in pairs.items():
            yield from (f"--{option}", f"{key}={value}")
    if plan.input_folder is not None:
        yield from ("--inputs", plan.input_folder)
    default = Plan.model_fields["image"].default
    for name, value in vars(plan.image).items():
        if value != getattr(default, name):
            yield from (f"--image-{name}", _text(value))


def _text(value: Any) -> str:
    many = value if isinstance(value, tuple | list) else (value,)
    return ",".join(f"{one:.15g}" if isinstance(one, float) else str(one) for one in many)
