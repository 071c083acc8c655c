"""How much of what an engine says of itself is taken over: what a sound agent lets pass, whatever this one does."""

from collections.abc import Sequence
from itertools import islice

MAX_NAME_CHARS = 100
MAX_REASON_CHARS = 500
MAX_MESSAGE_CHARS = 1_000
MAX_DETAIL_CHARS = 16_384
MAX_LISTED = 64


def short(text: str, most: int = MAX_NAME_CHARS) -> str:
    """`text`, its end left out where it is longer than `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def shorts(texts: Sequence[str]) -> list[str]:
    """The first of some names."""
    return list(map(short, islice(texts, MAX_LISTED)))
