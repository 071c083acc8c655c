"""What colour and marker an engine has: one, the same in every chart, on every page and in every report.

Eight hues that readers with any of the three colour blindnesses tell apart, on light and on dark ground; from the ninth
engine on hue and marker tell together. Five engines have theirs always, others in the order in which a store met
them. What one engine comes in (environments, versions, options) shares its hue, in another lightness and marker.
"""

import colorsys
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

HUES = ("#2794FB", "#853FD8", "#DD8736", "#356D73", "#AD215F", "#749E83", "#8A691B", "#A586A7")
"""Sought among 537 colours whose contrast to both grounds is 2.7 or more, for the largest least difference of any two
(CIEDE2000) under the three blindnesses, as Viénot 1999 and Brettel 1997 simulate them, and without one."""

MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "pentagon", "star", "hexagon")
"""Names of Plotly's symbols."""

OWN_ENGINES = ("onnxruntime", "openvino", "torch", "deepsparse", "tract")
"""The first of the hues, in this order."""

SIDES = ("#4F6478", "#A08C74")
"""Of A and B where both sides are one engine: a hue of its own would say that they are two."""

_LIGHTER = (1.0, 1.45, 0.62, 1.75)
_FORMS = ("", "-open", "-dot", "-open-dot")
_BLACK_ABOVE = 0.179
"""Relative luminance above which black letters have more contrast than white ones (WCAG 2.2, contrast ratio)."""


@dataclass(frozen=True)
class EngineLook:
    """A colour as #rrggbb, and the name of a Plotly symbol."""

    colour: str
    symbol: str


@dataclass(frozen=True)
class SideLook:
    """How a side of a comparison is drawn: its colour, the dash of its lines and the pattern of its bars."""

    colour: str
    dash: str
    pattern: str


@dataclass(frozen=True)
class EngineLooks:
    """The looks of all engines. `met` are the names that a store met, in that order; any other has a look as well."""

    met: Sequence[str] = field(default=())

    def of(self, engine: str) -> EngineLook:
        """Return the look of an engine."""
        names = list(dict.fromkeys((*OWN_ENGINES, *self.met)))
        place = names.index(engine) if engine in names else len(names) + hashlib.sha256(engine.encode()).digest()[0]
        return EngineLook(HUES[place % len(HUES)], MARKERS[(place + place // len(HUES)) % len(MARKERS)])

    def of_series(self, series: Iterable[tuple[str, str]]) -> Mapping[str, EngineLook]:
        """Return the look of each (key, engine); of several of one engine each after the first is a variant of it."""
        seen: Counter[str] = Counter()
        found: dict[str, EngineLook] = {}
        for key, engine in series:
            if key not in found:
                found[key] = variant(self.of(engine), seen[engine])
                seen[engine] += 1
        return found

    def of_sides(self, first: str, second: str) -> tuple[SideLook, SideLook]:
        """Return the looks of A and B, by their engines."""
        one, other = SIDES if first == second else (self.of(first).colour, self.of(second).colour)
        return SideLook(one, "solid", ""), SideLook(other, "dash", "/")


def variant(look: EngineLook, place: int) -> EngineLook:
    """Return the look of what is the same engine in another form: another lightness and marker for each place."""
    if not place:
        return look
    hue, lightness, saturation = colorsys.rgb_to_hls(*_rgb(look.colour))
    lightness = min(0.86, max(0.16, lightness * _LIGHTER[place % len(_LIGHTER)]))
    red, green, blue = (round(255 * part) for part in colorsys.hls_to_rgb(hue, lightness, saturation))
    form = _FORMS[place % len(_FORMS)]
    return EngineLook(f"#{red:02X}{green:02X}{blue:02X}", f"{look.symbol}{form}")


def letters_on(colour: str) -> str:
    """Return black or white, whichever is read better on a colour."""
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in _rgb(colour))
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > _BLACK_ABOVE else "#FFFFFF"


def _rgb(colour: str) -> tuple[float, float, float]:
    red, green, blue = (int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5))
    return red, green, blue
