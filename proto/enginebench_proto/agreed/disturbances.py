"""What disturbs a block, by kind and amount, and the phrase for it: an agent finds it, a controller says it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class DisturbanceKind(StrEnum):
    """What a machine did to a block beside it; on the wire by its name, to people in its words."""

    STEAL = "steal"
    """The hypervisor gave processor time to others."""
    OTHER_PROCESSES = "other processes"
    THROTTLED = "throttled"
    """A quota of the control group held it back."""
    MEMORY_PRESSURE = "memory pressure"
    FREQUENCY = "frequency"
    """The processor was slow."""
    PAUSED = "paused"
    """The process stood still."""
    HELD_BACK = "held back"
    """By the board's firmware, the kernel's cooling or a heat guard."""
    SOMETHING_ELSE = "something else"
    """What only another version knows; never on the wire."""


_NUMBER = r"\d{1,15}(?:\.\d{1,15})?(?:e[+-]\d\d)?"

_PHRASES: Mapping[DisturbanceKind, "re.Pattern[str]"] = {
    kind: re.compile(phrase)
    for kind, phrase in {
        DisturbanceKind.STEAL: rf"steal (?P<percent>{_NUMBER}) %",
        DisturbanceKind.OTHER_PROCESSES: rf"other processes (?P<percent>{_NUMBER}) %",
        DisturbanceKind.THROTTLED: rf"throttled for (?P<ms>{_NUMBER}) ms",
        DisturbanceKind.MEMORY_PRESSURE: rf"memory pressure (?P<percent>{_NUMBER}) %",
        DisturbanceKind.FREQUENCY: rf"frequency (?P<ghz>{_NUMBER}) GHz, (?P<percent>{_NUMBER}) % of the highest seen",
        DisturbanceKind.PAUSED: rf"paused for (?P<s>{_NUMBER}) s",
        DisturbanceKind.HELD_BACK: "held back",
    }.items()
}
"""How each kind was told when the phrase was all there was."""

_AMOUNTS: Mapping[str, tuple[str, Callable[[float], float]]] = {
    "percent": ("share", lambda number: number / 100),
    "ms": ("duration_ns", lambda number: round(number * 1e6)),
    "s": ("duration_ns", lambda number: round(number * 1e9)),
    "ghz": ("frequency_hz", lambda number: round(number * 1e9)),
}


@dataclass(frozen=True)
class Disturbance:
    """One thing that disturbed a block, with the amounts that its kind has; as text it is a short phrase.

    `share` is of the block's processor time (steal, other processes: may exceed 1), of its duration (memory pressure)
    or of the highest frequency seen; `duration_ns` how long it was throttled or paused. `said` is the phrase where that
    is all there is.
    """

    kind: DisturbanceKind
    share: float | None = None
    duration_ns: int | None = None
    frequency_hz: int | None = None
    said: str = ""

    def __str__(self) -> str:
        """The phrase for people: "other processes 12 %", "throttled for 3 ms"."""
        match self.kind:
            case DisturbanceKind.SOMETHING_ELSE:
                return self.said or self.kind.value
            case DisturbanceKind.HELD_BACK:
                return self.kind.value
            case DisturbanceKind.THROTTLED:
                return f"{self.kind} for {(self.duration_ns or 0) / 1e6:.3g} ms"
            case DisturbanceKind.PAUSED:
                return f"{self.kind} for {(self.duration_ns or 0) / 1e9:.3g} s"
            case DisturbanceKind.FREQUENCY:
                return f"{self.kind} {(self.frequency_hz or 0) / 1e9:.2f} GHz, {self._percent} of the highest seen"
            case _:
                return f"{self.kind} {self._percent}"

    @property
    def _percent(self) -> str:
        share = self.share or 0.0
        return f"{100 * share:.2g} %" if share < 1 else f"{100 * share:.0f} %"

    @classmethod
    def from_phrase(cls, phrase: str) -> "Disturbance":
        """Read what agents and files of before have in place of a disturbance; nothing else is to read a phrase."""
        for kind, told in _PHRASES.items():
            if found := told.fullmatch(phrase):
                amounts: dict[str, Any] = {}
                for unit, number in found.groupdict().items():
                    name, value = _AMOUNTS[unit]
                    amounts[name] = value(float(number))
                return cls(kind, **amounts)
        return cls(DisturbanceKind.SOMETHING_ELSE, said=phrase)
