"""The one line of an engine's own words that holds the cause: engines nest messages and say first where they stood.

The rules are of forms, not of engines: places in source code, announcements that end in a colon, tracebacks and stack
frames say where it happened; what remains says what. The whole text is kept beside it.
"""

import re
from collections.abc import Iterable, Sequence

_LONGEST_CAUSE = 400
_LONGEST_PART, _LONGEST_CONTEXT = 160, 240
_LONGEST_PATH = 60
_MOST_LINES, _LONGEST_LINE = 200, 2000
"""From either end, so that what is somebody else's text costs no time to read."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_STACK = re.compile(
    r"most recent call first|^\s*(?:frame #\d+:|#\d+\s+0x|\*{3} Signal |\[\d+\] 0x|(?:stack ?trace|backtrace)\b.*:$)",
    re.IGNORECASE,
)
_TRACEBACK = re.compile(r"Traceback\b.*\(most recent call last\):?\s*$|^\s+File \".*\", line \d+")
_RAISED = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)(?::|$)|[A-Za-z_][\w.]*: \S")
_SOURCE = r"[\w./\\<>+~-]*[\w>]\.(?:c|cc|cpp|cxx|cu|cuh|h|hpp|inl|py|rs):\d+(?::\d+)?"
_SIGNATURE = r"(?:[\w:~<>,*& ]+ )?[\w~]+::[\w:~<>,*& ]+\((?:[^()]|\([^()]*\))*\)(?: const)?(?: \[with [^\]]*\])?"
_CHECK = re.compile(rf"(?P<check>Check '.*?') failed at {_SOURCE}:?\s*")
_PLACE = re.compile(rf"(?:Exception from |\bat |\()?{_SOURCE}\)?:?(?:\s+{_SIGNATURE})?\s*")
_TAGS = re.compile(
    r"^(?:\d{4}-\d\d-\d\d[ T][\d:.,]+\S*\s+|\[[^\]\s]*Error\]\s*:\s*\d+\s*:\s*\w+\s*:\s*|"  # when; a code and its name
    r"\[[^\]]*\]\s+(?=\S)|(?:[\w.-]{1,20}: )?error: |--\s+)+"  # who logs; a compiler's word; a list's mark
)
_NAMED = re.compile(r"(?<!\w)['\"<(\[][^\s'\"]")
_LONG_PATH = re.compile(rf"(?<![\w.])/[^\s:'\"]{{{_LONGEST_PATH},}}/(?=[^\s/:'\"]+)")


def cause(text: str) -> str:
    """The cause in one line: what was said, then in brackets of what, where that was announced; "" for no words.

    A check that failed is told by its own expression only where nothing else is said.
    """
    lines = list(dict.fromkeys(_told(_lines(text))))
    checks = [found["check"] for line in lines for found in _CHECK.finditer(line)]
    plain = [one for one in dict.fromkeys(map(_without_place, lines)) if any(map(str.isalnum, one))]
    said = [one for one in plain if not one.endswith(":")]
    announced = [one.rstrip(": ") for one in plain if one.endswith(":")]
    if not said:
        said, announced = (announced[-1:] or [f"{one} failed" for one in checks[-1:]]), announced[:-1]
    context = [one for one in announced if _NAMED.search(one)] or announced[:1]
    where = f" ({_fitting(context)})" if context else ""
    return _short(_sentences(said), _LONGEST_CAUSE) + where


def last_words(text: str) -> str:
    """The cause in what a process wrote before it ended: what it raised, else the last line that is no stack frame."""
    told = [line for line in _told(_lines(text)) if any(map(str.isalnum, line))]
    return cause(told[-1]) if told else ""


def _lines(text: str) -> list[str]:
    lines = _COLOURS.sub("", text).splitlines()
    ends = lines if len(lines) <= 2 * _MOST_LINES else [*lines[:_MOST_LINES], *lines[-_MOST_LINES:]]
    return [_short(line, _LONGEST_LINE) for line in ends]


def _told(lines: Iterable[str]) -> list[str]:
    """The lines up to a stack of frames; of a traceback what was raised last."""
    kept: list[str] = []
    in_traceback = False
    for line in lines:
        if _STACK.search(line) and any(map(str.strip, kept)):
            break
        if _TRACEBACK.search(line):
            kept, in_traceback = [], True
        elif not in_traceback:
            kept.append(line)
        elif not line.startswith((" ", "\t")) and _RAISED.match(line):
            kept, in_traceback = [line], False
    return kept


def _without_place(line: str) -> str:
    """The line without marks of a log, places in source code and the folders of long paths.

    Of "Assertion at planner.hpp:120" the place is all there is to go by.
    """
    words = " ".join(_TAGS.sub("", line.strip()).split())
    bare = " ".join(_PLACE.sub("", _CHECK.sub("", words)).split())
    return _LONG_PATH.sub("…/", words if bare.isalpha() else bare)


def _fitting(context: Sequence[str]) -> str:
    """The first announcement, and the next as long as there is room: names are not cut for the sake of more of them."""
    kept, *others = [_short(one, _LONGEST_PART) for one in context]
    for one in others:
        if len(kept) + len(one) > _LONGEST_CONTEXT:
            break
        kept = f"{kept}; {one}"
    return kept


def _sentences(said: Sequence[str]) -> str:
    """Lines one after the other, with a stop where a line has none."""
    *others, last = said or [""]
    return " ".join([*(one if one[-1] in ".;,:!?" else f"{one}." for one in others), last])


def _short(text: str, longest: int) -> str:
    """Both ends of a long text: names stand at the one, and what is wrong with them often at the other."""
    if len(text) <= longest:
        return text
    head = longest * 2 // 3
    return f"{text[:head].rstrip()} … {text[head + 3 - longest :].lstrip()}"
