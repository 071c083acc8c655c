"""Figures and large counts as a person reads them, and long names cut to what fits. Unknown is never shown as 0."""

from collections.abc import Iterable

from enginebench_controller.records import Status
from enginebench_controller.store.profile_entries import ProfileEntry
from enginebench_ui.views.text import UNKNOWN

STATUS_COLOURS = {Status.OK: "green", Status.INCONCLUSIVE: "orange", Status.FAILED: "red", Status.CANCELLED: "gray"}
"""How each status is coloured, here and on the page of one benchmark; the word always stands beside the colour."""
_LONGEST_TITLE = 90

_STEPS = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def magnitude(value: float | None, unit: str = "") -> str:
    """Three digits with a decimal prefix and the unit, small counts in full: "704 MFLOP", "1.24 M", "32"."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int) and abs(value) < _STEPS[-1][0]:
        return f"{value} {unit}".strip()
    size, prefix = next(((size, prefix) for size, prefix in _STEPS if abs(value) >= size), (1.0, ""))
    return f"{_three_digits(value / size)} {prefix}{unit}".strip()


def number(value: float | None) -> str:
    """Four digits, and all before the point: "0.8123", "12.34", "12,345"; a dash where unknown."""
    if value is None:
        return "–"
    size = abs(value)
    digits = next((digits for least, digits in ((1000, 0), (100, 1), (10, 2), (1, 3), (0.1, 4)) if size >= least), None)
    return f"{value:.3g}" if digits is None else f"{value:,.{digits}f}"


def milliseconds_text(value_ns: float | None) -> str:
    """Nanoseconds as milliseconds with their unit: "44.9 ms"."""
    return UNKNOWN if value_ns is None else f"{_three_digits(value_ns / 1e6)} ms"


def times_text(ratio: float | None) -> str:
    """How many times as fast: "2.21×"."""
    return UNKNOWN if ratio is None else f"{ratio:.2f}×"


def percent_text(share: float | None, digits: int = 1) -> str:
    """A share as per cent: "85.0 %"."""
    return UNKNOWN if share is None else f"{100 * share:.{digits}f} %"


def shortened(text: str, most: int = 40) -> str:
    """At most so many characters: the middle is left out, since names of layers often differ at their ends."""
    one_line = " ".join(text.split())
    if len(one_line) <= most:
        return one_line
    tail = (most - 1) // 3
    return f"{one_line[: most - 1 - tail]}…{one_line[-tail:]}"


def _three_digits(value: float) -> str:
    size = abs(value)
    if size >= 100:
        return f"{value:,.0f}"
    if size >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if size >= 0.1 or value == 0 else f"{value:.3g}"


def tallies(statuses: Iterable[Status]) -> tuple[tuple[str, str], ...]:
    """Count statuses, the good ones first: (("3 ok", "green"), ("1 failed", "red"))."""
    listed = list(statuses)
    return tuple((f"{listed.count(one)} {one.value}", STATUS_COLOURS[one]) for one in Status if one in listed)


def benchmark_title(name: str) -> str:
    """What a benchmark is called, however long its name is."""
    return shortened(name, _LONGEST_TITLE) or "Unnamed benchmark"


def items_per_s(batch: int, latency_ns: float | None) -> float | None:
    """Items a second of inferences one after the other; None where the latency is unknown."""
    return 1e9 * batch / latency_ns if latency_ns else None


def engine_text(entry: ProfileEntry) -> str:
    """The engine with its version, and its environment unless that is the default one."""
    engine = entry.engine
    place = "" if engine.environment == "default" else f"({engine.environment})"
    return " ".join(filter(None, (engine.name, engine.version, place)))
