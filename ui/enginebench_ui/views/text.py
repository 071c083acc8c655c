"""How values read on a page. Times are stored in nanoseconds and shown in milliseconds; unknown is never shown as 0."""

import re
from datetime import UTC, datetime
from typing import Any

from enginebench_controller.exports.csv_table import BEGINS_A_FORMULA
from enginebench_controller.records import Arrivals, Readback, ReadbackSource
from enginebench_controller.trust.parity import engine_label

REMOVED = "removed_benchmark"
"""Under what the name of a benchmark that was just removed is told to the list."""

__all__ = [
    "UNKNOWN",
    "Row",
    "cells",
    "count_of",
    "engine_label",
    "inert",
    "instant",
    "milliseconds",
    "percent",
    "readback",
]

Row = dict[str, Any]

UNKNOWN = "unknown"

_SOURCES = {ReadbackSource.ENGINE_API: "engine", ReadbackSource.OBSERVED: "observed", ReadbackSource.ASSUMED: "assumed"}
_WORD_JOINER = "\u2060"
_MARKDOWN = re.compile(r"([!-/:-@\[-`{-~])")
_LINK_LIKE = re.compile(r"(:|@|www(?=\\?\.))", re.IGNORECASE)


def inert(text: str) -> str:
    r"""Make text from elsewhere safe for Streamlit's Markdown: it reads the same and does nothing.

    All ASCII punctuation is escaped with a backslash (CommonMark 2.4). Bare addresses and emoji codes are recognized
    after escapes were resolved, so an invisible word joiner (U+2060) breaks them up.
    """
    one_line = " ".join(text.split())
    return _LINK_LIKE.sub(rf"\1{_WORD_JOINER}", _MARKDOWN.sub(r"\\\1", one_line))


def cells(row: Row) -> Row:
    """Quote texts that a spreadsheet would compute: tables can be downloaded as CSV, and names come from elsewhere."""
    return {
        heading: f"'{value}" if isinstance(value, str) and value.startswith(BEGINS_A_FORMULA) else value
        for heading, value in row.items()
    }


def instant(unix_ns: int) -> str:
    """Show an instant, given in nanoseconds since the Unix epoch, in this machine's time zone."""
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).astimezone().strftime("%Y-%m-%d %H:%M")


def milliseconds(value_ns: float | None) -> float | None:
    """Convert nanoseconds to the milliseconds that are shown."""
    return None if value_ns is None else value_ns / 1e6


def percent(share: float | None) -> float | None:
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
