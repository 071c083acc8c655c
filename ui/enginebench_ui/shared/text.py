"""How values read on a page: times, counts, durations, names cut to what fits. Unknown is never shown as 0."""

import html
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from enginebench_controller.files.csv_cells import harmless
from enginebench_controller.instants import local_instant
from enginebench_controller.records import (
    Arrivals,
    ProfileEntry,
    Readback,
    ReadbackSource,
    SearchKind,
    Status,
)
from enginebench_controller.verdicts.parity import engine_label
from enginebench_proto.agreed.durations import duration_words
from enginebench_proto.agreed.words import DEFAULT_ENVIRONMENT

REMOVED = "removed_benchmark"
"""Under what the name of a benchmark that was just removed is told to the list."""

__all__ = [
    "UNKNOWN",
    "Row",
    "cells",
    "choice_labels",
    "count_of",
    "drawn_text",
    "engine_label",
    "in_milliseconds",
    "in_percent",
    "inert",
    "instant",
    "isolated",
    "readback",
]

Row = dict[str, Any]

UNKNOWN = "unknown"

SEARCH_NOUNS: Mapping[SearchKind, str] = {SearchKind.RECOMMEND: "recommendation", SearchKind.BISECT: "bisect"}

_SOURCES = {ReadbackSource.ENGINE_API: "engine", ReadbackSource.OBSERVED: "observed", ReadbackSource.ASSUMED: "assumed"}
_WORD_JOINER = "\u2060"
_MARKDOWN = re.compile(r"([!-/:-@\[-`{-~])")
_CODE = re.compile(r"((?<!`)`[\w ./=:,+%@'()-]+`(?!`))")
_LINK_LIKE = re.compile(r"(:|@|www(?=\\?\.))", re.IGNORECASE)


def inert(text: str) -> str:
    r"""Make text from elsewhere safe for Streamlit's Markdown: it reads the same and does nothing.

    All ASCII punctuation is escaped with a backslash (CommonMark 2.4). Bare addresses and emoji codes are recognized
    after escapes were resolved, so an invisible word joiner (U+2060) breaks them up. Plain words between backticks, as
    commands stand in our sentences, stay code, in which nothing does anything either (CommonMark 6.1); no others do,
    as a bracket would end what some of Streamlit's own marks hold. What is written from right to left is `isolated`.
    """
    parts = _CODE.split(" ".join(_DIRECTING.sub("", text).split()))
    return "".join(_set_apart(part) if place % 2 else _escaped(part) for place, part in enumerate(parts))


def drawn_text(text: str) -> str:
    """Make text from elsewhere safe for Plotly, which reads a few tags of HTML everywhere, and no `&quot;`."""
    return html.escape(text, quote=False)


def _escaped(text: str) -> str:
    return _LINK_LIKE.sub(rf"\1{_WORD_JOINER}", _MARKDOWN.sub(r"\\\1", isolated(text)))


_BETWEEN = " · "
_ISOLATE, _POP = "\u2068", "\u2069"
_TURNING = re.compile(  # the blocks of scripts that are written from right to left, and what directs a text
    "[\u0590-\u08ff\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]"
)
_DIRECTING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_CLASSES = {"R": "R", "AL": "R", "L": "L", "NSM": "M", "BN": "M"}
_STRETCH = re.compile("R(?:[^LB]*R)?M*")


def isolated(text: str) -> str:
    """Keep right-to-left letters to themselves: digits beside them, as of an id, would change places with them.

    A fact without other letters, mostly a name, is isolated whole, as far as it goes (first strong isolate, UAX 9 of
    Unicode); of others, the stretches of such letters, which no bracket parts. Embeddings, overrides and isolates that
    come with a text are left out: one that is never ended would turn round whatever follows.
    """
    if not turns(text):
        return text
    return _BETWEEN.join(map(_isolated_fact, _DIRECTING.sub("", text).split(_BETWEEN)))


def turns(text: str) -> bool:
    """Whether a text has anything that is written from right to left, or that turns round what follows."""
    return _TURNING.search(text) is not None


def _isolated_fact(text: str) -> str:
    classes = "".join(map(_class, text))
    if "L" not in classes:
        return text.replace(text.strip(), _set_apart(text.strip()), 1)
    parts, end = [], 0
    for found in _STRETCH.finditer(classes):
        parts += [text[end : found.start()], _ISOLATE, text[found.start() : found.end()], _POP]
        end = found.end()
    return "".join([*parts, text[end:]])


def _class(character: str) -> str:
    """R or L for a letter of that direction, M for a mark that belongs to the one before, B for a bracket."""
    found = _CLASSES.get(unicodedata.bidirectional(character))
    return found or ("B" if unicodedata.mirrored(character) else "N")


def _set_apart(text: str) -> str:
    return f"{_ISOLATE}{text}{_POP}" if "R" in map(_class, text) else text


def choice_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Return what each option is called in a choice, by its id, no two alike: where they are, the id follows.

    Of what is labelled alike Streamlit can choose the first only. The start of an id will do where that is its own.
    """
    shown = {key: isolated(label) for key, label in labels.items()}
    counts, starts = Counter(shown.values()), Counter(key[:_ID_CHARACTERS] for key in shown)
    return {
        key: label
        if counts[label] == 1
        else f"{label}{_BETWEEN}{key[:_ID_CHARACTERS] if starts[key[:_ID_CHARACTERS]] == 1 else key}"
        for key, label in shown.items()
    }


_ID_CHARACTERS = 12


def cells(row: Row) -> Row:
    """Quote texts that a spreadsheet would compute: tables can be downloaded as CSV, and names come from elsewhere."""
    return {heading: harmless(value) if isinstance(value, str) else value for heading, value in row.items()}


def instant(unix_ns: int) -> str:
    """Show an instant, given in nanoseconds since the Unix epoch, in this machine's time zone."""
    return local_instant(unix_ns, "%Y-%m-%d %H:%M")


def in_milliseconds(value_ns: float | None) -> float | None:
    """Convert nanoseconds to the milliseconds that are shown."""
    return None if value_ns is None else value_ns / 1e6


def in_percent(share: float | None) -> float | None:
    """Convert a share to the percents that are shown."""
    return None if share is None else 100 * share


def readback(value: Readback | None) -> str:
    """Show what an engine really used together with how that is known: "f32 (engine)"."""
    return UNKNOWN if value is None else f"{value.value} ({_SOURCES[value.source]})"


def count_of(number: int, noun: str) -> str:
    """Count things in English: "1 target", "2 targets"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def arrivals_text(arrivals: Arrivals | None) -> str:
    """Name the schedule of an open loop: "250/s poisson"."""
    return "" if arrivals is None else f"{arrivals.rate_per_s:g}/s {arrivals.process}"


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
    place = "" if engine.environment == DEFAULT_ENVIRONMENT else f"({engine.environment})"
    return " ".join(filter(None, (engine.name, engine.version, place)))


_ALIKE = 1.3
"""A range whose ends differ by less is told as one number."""


def range_words(shortest_ns: int, longest_ns: int) -> str:
    """Say an estimated range: "2 to 9 min", or one duration where its ends are alike."""
    shortest, longest = duration_words(shortest_ns / 1e9), duration_words(longest_ns / 1e9)
    if shortest == longest or longest_ns < _ALIKE * shortest_ns:
        return longest
    number, _, unit = shortest.partition(" ")
    return f"{number} to {longest}" if longest.endswith(f" {unit}") and " " not in unit else f"{shortest} to {longest}"


def left_words(seconds: float | None) -> str:
    """Say how long a job will go on: "about 3 min left (estimated)"; "" where nobody can tell."""
    if seconds is None:
        return ""
    is_over = seconds < 1
    return "nearly done, or longer than estimated" if is_over else f"about {duration_words(seconds)} left (estimated)"
