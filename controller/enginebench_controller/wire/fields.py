"""What is taken over of a message: bounded words, and None where the sender left a field out."""

import sys
from collections.abc import Sequence
from itertools import islice
from typing import Any

from google.protobuf.message import Message

from enginebench_controller.records.figures import figures


def told_figures(message: Message, record: type) -> dict[str, Any]:
    """The figures of a record that its message has under the same name; None where the sender left one out.

    A number without presence on the wire is left out as 0. Enums have numbers of their own there and are not taken.
    """
    there = message.DESCRIPTOR.fields_by_name
    known = [there[name] for name in figures(record) if name in there and there[name].enum_type is None]
    return {
        one.name: optional(message, one.name) if one.has_presence else getattr(message, one.name) or None
        for one in known
    }


def optional(message: Message, name: str) -> Any:
    """The value of a field, or None where the sender left it out."""
    return getattr(message, name) if message.HasField(name) else None


MAX_NAME_CHARS = 100
MAX_REASON_CHARS = 500
MAX_MESSAGE_CHARS = 1_000
MAX_DETAIL_CHARS = 16_384
MAX_LISTED = 64
MAX_BATCHES = 4096
"""Who compiles for a size says "up to 128" by 128 numbers."""


def short(text: str, most: int = MAX_NAME_CHARS) -> str:
    """`text`, its end left out where it is longer than `most` characters; the same object for equal texts.

    A thousand targets tell of themselves, and of their results, mostly the same.
    """
    return sys.intern(text if len(text) <= most else text[: most - 1] + "…")


def shorts(texts: Sequence[str]) -> list[str]:
    """The first of some names."""
    return list(map(short, islice(texts, MAX_LISTED)))
