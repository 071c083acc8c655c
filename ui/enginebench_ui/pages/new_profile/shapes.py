"""From the form of a new profile to its command line and to the plan that it stands for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from enginebench_controller.errors import InputError
from enginebench_controller.plan.plan import Plan, make_plan
from enginebench_ui.shared.text import count_of

SPARSITIES = (0.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.95, 0.99)
"""Shares of zeros that are offered, as in Sparsify's sensitivity analysis, of which 0.85 was the usual target."""

_OPTIONS = {
    "engines": "--engine",
    "targets": "--target",
    "devices": "--device",
    "batch": "--batch",
    "cores": "--cores",
    "precision": "--precision",
}


@dataclass(frozen=True)
class ProfileFields:
    """What a person wants profiled: fields of a plan, shares of zeros, and how many inferences to time."""

    model: str
    name: str
    fields: Mapping[str, Any]
    sparsities: tuple[float, ...] = ()
    iterations: int = 20
    shapes: Mapping[str, str] = field(default_factory=dict)

    def plan(self) -> Plan:
        """Return the plan it stands for. Raises `InputError`."""
        said = dict(self.fields) | {"shapes": dict(self.shapes), "iterations": self.iterations}
        plan = make_plan(said | {"models": [self.model], "name": self.name}, "this form")
        return plan.model_copy(update={"processes": 1})

    def arguments(self) -> list[str]:
        """Return the command line behind `enginebench`."""
        # A name may begin with a dash: it is given in one piece with its option.
        said = ["profile", f"--name={self.name}", f"--iterations={self.iterations}"]
        for name, option in _OPTIONS.items():
            if values := self.fields.get(name):
                said.append(f"{option}={','.join(map(str, values))}")
        if self.sparsities:
            said.append(f"--sparsity={','.join(f'{share:g}' for share in self.sparsities)}")
        for name, dims in self.shapes.items():
            said.append(f"--shape={name}={dims}")
        return [*said, "--", self.model]


def shares(texts: Sequence[float | str]) -> tuple[float, ...]:
    """Return shares of zeros from what was chosen or typed: 0.9, or 90 %. Raises `InputError`."""
    return tuple(sorted({_share(text) for text in texts}))


def passes_words(cells: int, sparsities: Sequence[float]) -> str:
    """Say how many passes there will be, and why: "6 passes: 2 configurations × 3 sparsities"."""
    passes = "1 pass" if cells == 1 else f"{cells} passes"
    if not sparsities:
        return passes
    each = len(sparsities)
    return f"{passes}: {count_of(cells // each, 'configuration')} × {count_of(each, 'share')} of zeros"


def _share(text: float | str) -> float:
    said = str(text).strip()
    try:
        found = float(said.removesuffix("%")) / (100 if said.endswith("%") else 1)
    except ValueError:
        raise InputError(f"{said!r} is no share of zeros: write 0.9 or 90%") from None
    if not 0 <= found < 1:
        raise InputError(f"{said!r} is no share of zeros: write 0 for none up to 0.99 for nearly all")
    return found
