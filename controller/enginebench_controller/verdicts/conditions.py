"""The little language of `--fail-if`: `slower>3%`, `slower>3% or layer-slower>10%`."""

import re
from dataclasses import dataclass
from enum import StrEnum

from enginebench_controller.errors import InputError


class ConditionMetric(StrEnum):
    """What a condition is about; each is of the second side compared with the first."""

    SLOWER = "slower"
    LAYER_SLOWER = "layer-slower"
    MEMORY = "memory"
    COVERAGE = "coverage"


_SIGNS = {
    ConditionMetric.SLOWER: ">",
    ConditionMetric.LAYER_SLOWER: ">",
    ConditionMetric.MEMORY: ">",
    ConditionMetric.COVERAGE: "<",
}
_TERM = re.compile(r"\s*([a-z-]+)\s*([<>])\s*(\d+(?:\.\d+)?)\s*%\s*")
_OR = re.compile(r"\s+or\s+|,")
_GRAMMAR = "slower>P%, layer-slower>P%, memory>P% or coverage<P%, joined by `or`"


@dataclass(frozen=True)
class Condition:
    """A condition on which a comparison fails. `limit` is a share: 0.03 for 3 %."""

    metric: ConditionMetric
    limit: float

    def __str__(self) -> str:
        return f"{self.metric}{_SIGNS[self.metric]}{self.limit * 100:g}%"


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """Read what follows `--fail-if`: one condition or several joined by `or`. Raises `InputError` for anything else."""
    return tuple(_parse(term) for term in _OR.split(text))


def _parse(term: str) -> Condition:
    found = _TERM.fullmatch(term)
    if not found or found[1] not in set(ConditionMetric):
        raise InputError(f"--fail-if does not understand {term.strip()!r}: it takes {_GRAMMAR}")
    metric = ConditionMetric(found[1])
    if found[2] != _SIGNS[metric]:
        raise InputError(f"--fail-if: {metric} goes with {_SIGNS[metric]}, as in {metric}{_SIGNS[metric]}{found[3]}%")
    return Condition(metric, float(found[3]) / 100)
