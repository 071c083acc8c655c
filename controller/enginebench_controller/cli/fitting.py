"""Which columns of a table a terminal has room for, how wide each is, and what of a cell its two lines hold.

Widths are in terminal cells: one for most characters, two for those of East Asian scripts.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, chop_cells

SAID_ONCE = ("threads", "hint", "precision", "environment", "device", "load", "streams", "target", "model")
"""Settings whose column goes before all others where every row has the same."""

DETAILS = (
    *("threads", "hint", "p99 ms", "spread", "p95 ms", "serial", "best at", "p", "command", "format", "added"),
    *("matched", "kernel", "Σ means ÷", "profiled ÷", "matched %", "zeros imposed", "rerun of", "started", "since"),
    *("weight bytes", "activation bytes", "non-zero", "parameters", "first inference s", "s per image", "precisions"),
    *("bound by", "FLOPs", "state", "created", "precision", "layers", "environment", "device", "load", "streams"),
)
"""The columns of all tables that go first where there is no room, in this order: sooner than text is cut."""

GO_LAST = ("target", "95 % interval", "model", "items/s", "cores", "batch")
"""Those that go then, where cutting is not enough, first if all rows have the same; then others, from the right."""

ANSWERS = ("Δ ms", "is", "ratio", "layer")
"""What a comparison of layers is for, and goes at last."""

WHOLE = frozenset({"id", "rerun of", "digest", "address", "status", "state", "health", "the second is", "is"})
"""What is typed again, or is a verdict: like numbers it is parted between words at most, and never cut."""

GOOD_TEXT, LEAST_TEXT = 18, 10
"""A column of text is this wide at least, unless it needs less: as long as details can go, and then."""

_JOINTS = "-_/:.@+"
"""Behind these a name is parted rather than elsewhere: "mobilenet-v2-", "int8"."""

_POINT = re.compile(r"(?<!\D)\.(?=\d)")
"""Of a number, or of so much of one as is left at the beginning of a text."""

_BORDERS = 3
"""What a column takes besides its text: a space on either side, and a line."""


def kind_of(heading: str) -> str:
    """A heading without the side of a comparison, a letter."""
    side, _, rest = heading.partition(" ")
    return rest if rest and len(side) == 1 and "A" <= side <= "Z" else heading


@dataclass(frozen=True)
class TableColumn:
    """A column to fit in: its heading, its cells as text, and whether their words are to stay whole."""

    heading: str
    cells: Sequence[str]
    is_whole: bool

    @property
    def kind(self) -> str:
        """The heading without the side of a comparison: "precision" of "A precision"."""
        return kind_of(self.heading)

    @property
    def is_alike(self) -> bool:
        """Whether all rows have the same."""
        return len(set(self.cells)) == 1


@dataclass(frozen=True)
class _Need:
    """Widths of a column: with cells cut, hardly cut, parted between words, and on one line."""

    least: int
    good: int
    parted: int
    natural: int


def fitted(columns: Sequence[TableColumn], room: int) -> dict[int, int]:
    """By the place of each column that there is room for, in order, its width; there is at least one."""
    needs = [_need(column) for column in columns]
    good, least = [need.good for need in needs], [need.least for need in needs]
    kept = list(range(len(columns)))
    going = [*((place, good) for place in _details(columns)), *((place, least) for place in _last(columns))]
    for place, wanted in going:
        if len(kept) > 1 and _width(wanted[one] for one in kept) > room:
            kept.remove(place)
    for place, wanted in reversed(going):  # a narrow one may still fit where a wide one did not
        if place not in kept and _width(wanted[one] for one in (*kept, place)) <= room:
            kept.append(place)
    widths = {place: needs[place].least for place in sorted(kept)}
    _hand_out(room - _width(widths.values()), widths, needs)
    return widths


def told_apart(texts: Sequence[str], width: int) -> list[str]:
    """Each text of a column on two lines of this width at most; but whole, on up to `_MOST_LINES`, where it would read
    as another one does.
    """
    cut = {text: two_lines(text, width) for text in texts}
    times = Counter(cut.values())
    return [cut[one] if times[cut[one]] == 1 or cell_len(one) > _MOST_LINES * width else one for one in texts]


_MOST_LINES = 8


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
    joint = max(_joints(text, len(first)), default=-1) + 1
    if joint > 0 and cell_len(text[joint:]) <= width:
        return f"{text[:joint]}\n{text[joint:]}"
    rest = text[len(first) :]
    if cell_len(rest) <= width:
        return f"{first}\n{rest}"
    return f"{_up_to_joint(first)}\n…{_from_joint(_end(rest, width - 1))}"


def _up_to_joint(text: str) -> str:
    """Without a word that was parted at its end, unless that would take half of the text."""
    joint = max((text.rfind(" "), *_joints(text))) + 1
    return text[:joint].rstrip() if 2 * joint > len(text) else text


def _from_joint(text: str) -> str:
    """Without a word that was parted at its beginning, unless that would take half of the text."""
    found = [place for place in (text.find(" "), *_joints(text)) if 0 <= place < len(text) // 2]
    return text[min(found) :].lstrip() if found else text


def _joints(text: str, length: int | None = None) -> list[int]:
    """The places of joints in the text, or in so much of its beginning: not of the point in a number."""
    points = {found.start() for found in _POINT.finditer(text)}
    return [place for place, mark in enumerate(text[:length]) if mark in _JOINTS and place not in points]


def shortened(text: str, width: int) -> str:
    """The text, or its beginning, with this width at most."""
    return text if cell_len(text) <= width else _start(text, width - 1) + "…"


def _details(columns: Sequence[TableColumn]) -> list[int]:
    """The places of what can be missed, in the order in which it goes."""
    once = [place for place, one in enumerate(columns) if one.is_alike and one.kind in SAID_ONCE]
    others = [place for place, one in enumerate(columns) if one.kind in DETAILS and place not in once]
    once.sort(key=lambda place: SAID_ONCE.index(columns[place].kind))
    return once + sorted(others, key=lambda place: DETAILS.index(columns[place].kind))


def _last(columns: Sequence[TableColumn]) -> list[int]:
    """The places of the others, in the order in which they go."""
    details = _details(columns)
    places = [place for place in reversed(range(len(columns))) if place not in details]
    alike = [place for place in places if columns[place].is_alike and columns[place].heading in GO_LAST]
    ranks = {heading: rank for rank, heading in enumerate(GO_LAST)}
    at_last = {kind: len(ranks) + 1 + rank for rank, kind in enumerate(ANSWERS)}
    going = {place: ranks.get(one.heading, at_last.get(one.kind, len(ranks))) for place, one in enumerate(columns)}
    return sorted(places, key=lambda place: (place not in alike, going[place]))


def _need(column: TableColumn) -> _Need:
    texts = set(column.cells)
    heading = max(_parted_width(column.heading), 1)
    natural = max(cell_len(column.heading), 1, *map(cell_len, texts))
    parted = max(heading, *(_parted_width(text, is_whole=column.is_whole) for text in texts), 0)
    least, good = (parted if column.is_whole else max(heading, min(parted, one)) for one in (LEAST_TEXT, GOOD_TEXT))
    return _Need(least, good, parted, natural)


def _parted_width(text: str, *, is_whole: bool = True) -> int:
    """The smallest width that holds a text on two lines without parting a word, or a name elsewhere than behind joints:
    they part near the middle.
    """
    return min((max(map(cell_len, parts)) for parts in _parts(text, is_whole=is_whole)), default=cell_len(text))


def _parts(text: str, *, is_whole: bool) -> Iterator[tuple[str, str]]:
    """The text in two, at the spaces and joints that are nearest to its middle; a space is in neither part."""
    middle = len(text) // 2
    spaces = [place for place, mark in enumerate(text) if mark == " "]
    for places in (spaces, [] if is_whole else _joints(text)):
        before, behind = (one for one in places if one < middle), (one for one in places if one >= middle)
        for place in (max(before, default=None), min(behind, default=None)):
            if place is not None:
                yield text[: place + (text[place] != " ")], text[place + 1 :]


def _width(widths: Iterable[int]) -> int:
    """The width of a table of columns of these widths."""
    return sum(width + _BORDERS for width in widths) + 1


def _hand_out(spare: int, widths: dict[int, int], needs: Sequence[_Need]) -> None:
    """Widen columns by what is left: first so that words are whole, then so that cells are of one line; and first those
    that lack least, so that as many as can be come to it.
    """
    if spare < 0:  # a single column
        for place in widths:
            widths[place] += spare
    for goals in ([need.parted for need in needs], [need.natural for need in needs]):
        while spare > 0 and (short := [place for place in widths if widths[place] < goals[place]]):
            widths[min(short, key=lambda place: goals[place] - widths[place])] += 1
            spare -= 1


def _start(text: str, width: int) -> str:
    """As much of the beginning as has this width."""
    return (chop_cells(text[:width], width) or [""])[0]


def _end(text: str, width: int) -> str:
    """As much of the end as has this width."""
    return (chop_cells(text[-width:][::-1], width) or [""])[0][::-1]
