"""Tables in GitHub's Markdown, with names that cannot break out of their cells."""

from collections.abc import Iterable, Sequence

_MARKUP = frozenset("\\`*_{}[]<>#|~!&@")


def cell(text: object) -> str:
    """Text as it is: markup escaped, and on one line."""
    plain = "".join(one if one.isprintable() else " " for one in str(text))
    return "".join(f"&#{ord(one)};" if one in _MARKUP else one for one in plain)


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], numbers: Sequence[int] = ()) -> str:
    """A table; the columns at the places `numbers` are aligned to the right. Headings are ours, cells anybody's."""
    rule = ["--:" if place in numbers else "---" for place in range(len(headings))]
    lines = [headings, rule, *([cell(one) for one in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
