"""What people type, read the same way at both ends: whole numbers, and files that any editor wrote."""

import re
from pathlib import Path

WHOLE = re.compile("0|[1-9][0-9]*")
"""ASCII alone, without a sign, a point or a zero in front, of which some mean another number to others."""


def whole_number(text: str) -> int:
    """The number of a text of plain digits. Raises `ValueError`, also for what `int` takes besides: "1_000", "+1"."""
    if not WHOLE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is not a whole number")
    return int(text)


def typed_text(path: Path) -> str:
    """The text of a file that a person wrote: some editors put a mark in front, some save in another encoding.

    Raises `OSError`, and `ValueError` for text that is not UTF-8.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:  # which UTF-16 without a mark is full of, and no text has
        raise ValueError("it is not UTF-8: save it as UTF-8")
    return text
