"""Which columns of a table a terminal has room for, how wide each is, and what of a cell its two lines hold.

Widths are in terminal cells: one for most characters, two for those of East Asian scripts.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

SAID_ONCE = ("threads", "hint", "precision", "environment", "device", "load", "streams", "target", "model")
"""Settings whose column goes before all others where every row has the same: a line below says which."""

GO_FIRST = (
    *("threads", "hint", "p99 ms", "spread", "p95 ms", "serial", "best at", "p", "command", "format", "added"),
    *("matched", "kernel", "Σ layers ÷", "profiled ÷", "matched %", "zeros imposed", "rerun of", "started", "since"),
    *("weight bytes", "activation bytes", "non-zero", "parameters", "first inference s", "s per image", "precisions"),
    *("bound by", "FLOPs", "full name", "state", "created", "precision", "environment", "device", "load", "streams"),
    *("target", "95 % interval", "model", "items/s", "cores", "batch"),
)
"""The columns of all tables in the order in which they go where there is no room; then others do, from the right."""

WHOLE = frozenset({"id", "rerun of", "digest"})
"""What is typed again, or copied: like numbers it stands on one line, and is never cut."""

LEAST_TEXT = 10
"""A column of text is this wide at least, unless it needs less."""

_BORDERS = 3
"""What a column takes besides its text: a space on either side, and a line."""


@dataclass(frozen=True)
class Column:
    """A column to fit in: its heading, its cells as text, and whether these stay on one line."""

    heading: str
    cells: Sequence[str]
    is_whole: bool

    @property
    def is_alike(self) -> bool:
        """Whether all rows have the same."""
        return len(set(self.cells)) == 1


@dataclass(frozen=True)
class _Need:
    """Widths of a column: with cells cut or parted anywhere, parted between words, and on one line."""

    least: int
    parted: int
    natural: int


def fitted(columns: Sequence[Column], room: int) -> dict[int, int]:
    """By the place of each column that there is room for, in order, its width; there is at least one."""
    needs = [_need(column) for column in columns]
    kept = list(range(len(columns)))
    gone: list[int] = []
    for place in _going(columns):
        if len(kept) == 1 or _width(needs[one].least for one in kept) <= room:
            break
        kept.remove(place)
        gone.append(place)
    for place in reversed(gone):  # a narrow one may still fit where a wide one did not
        if _width(needs[one].least for one in (*kept, place)) <= room:
            kept.append(place)
    widths = {place: needs[place].least for place in sorted(kept)}
    _hand_out(room - _width(widths.values()), widths, needs)
    return widths


def two_lines(text: str, width: int) -> str:
    """The text on two lines of this width at most, parted between words where it can be; what is too much of it is cut
    out of the middle, since names differ at their ends.
    """
    if cell_len(text) <= width:
        return text
    first = _start(text, width)
    gap = text.rfind(" ", 1, len(first) + 1)
    if gap > 0 and cell_len(text[gap + 1 :]) <= width:
        return f"{text[:gap]}\n{text[gap + 1 :]}"
    rest = text[len(first) :]
    return f"{first}\n{rest if cell_len(rest) <= width else '…' + _end(rest, width - 1)}"


def shortened(text: str, width: int) -> str:
    """The text, or its beginning, with this width at most."""
    return text if cell_len(text) <= width else _start(text, width - 1) + "…"


def _going(columns: Sequence[Column]) -> Iterator[int]:
    """The places of the columns in the order in which they go."""
    places = range(len(columns))
    once = [one for one in places if columns[one].is_alike and columns[one].heading in SAID_ONCE]
    ranked = [one for one in places if columns[one].heading in GO_FIRST and one not in once]
    yield from sorted(once, key=lambda one: SAID_ONCE.index(columns[one].heading))
    yield from sorted(ranked, key=lambda one: GO_FIRST.index(columns[one].heading))
    yield from (one for one in reversed(places) if columns[one].heading not in GO_FIRST and one not in once)


def _need(column: Column) -> _Need:
    texts = set(column.cells)
    heading = max(_parted_width(column.heading), 1)
    natural = max(cell_len(column.heading), 1, *map(cell_len, texts))
    if column.is_whole:
        least = max(heading, *map(cell_len, texts), 0)
        return _Need(least, least, natural)
    parted = max(heading, *map(_parted_width, texts), 0)
    return _Need(max(heading, min(parted, LEAST_TEXT)), parted, natural)


def _parted_width(text: str) -> int:
    """The smallest width that holds a text on two lines without parting a word: they part near the middle."""
    middle = len(text) // 2
    gaps = (text.rfind(" ", 0, middle), text.find(" ", middle))
    sides = [max(cell_len(text[:gap]), cell_len(text[gap + 1 :])) for gap in gaps if gap >= 0]
    return min(sides, default=cell_len(text))


def _width(widths: Iterable[int]) -> int:
    """The width of a table of columns of these widths."""
    return sum(width + _BORDERS for width in widths) + 1


def _hand_out(spare: int, widths: dict[int, int], needs: Sequence[_Need]) -> None:
    """Widen columns by what is left: first so that words are whole, then so that cells are of one line."""
    if spare < 0:  # a single column
        for place in widths:
            widths[place] += spare
    for goals in ([need.parted for need in needs], [need.natural for need in needs]):
        while spare > 0 and (short := [place for place in widths if widths[place] < goals[place]]):
            widths[max(short, key=lambda place: goals[place] / widths[place])] += 1
            spare -= 1


def _start(text: str, width: int) -> str:
    """As much of the beginning as has this width."""
    return (chop_cells(text[:width], width) or [""])[0]


def _end(text: str, width: int) -> str:
    """As much of the end as has this width."""
    return (chop_cells(text[-width:][::-1], width) or [""])[0][::-1]
