"""What lines, series and tracks are called: by all that they differ in, short, and no two alike.

What differs is told by texts in full. Only then are these made short: cut alike, two long ones would be one.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

from enginebench_controller.records import Measurement
from enginebench_ui.shared.text import shortened

Reader = Callable[[Measurement], str]

_LONGEST_NAME = 48
_KEY_CHARACTERS = 8
_WORDS = (r"\S*", r"[^\W_]*")
"""What is kept whole around a difference: an option with its value; of a name, which has no spaces, a part."""


def short_key(identity: object) -> str:
    """Return a short name for addresses, always the same for the same identity."""
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:_KEY_CHARACTERS]


def inputs_in_full(measurement: Measurement) -> str:
    """Name what was fed to the model: "inputs random"."""
    return f"inputs {measurement.configuration.input_set.name}"


def options_in_full(options: Mapping[str, str]) -> str:
    """Name an engine's own options: "level=low, spin=false"; empty without any."""
    return ", ".join(f"{name}={value}" for name, value in sorted(options.items()))


def differing(axes: Mapping[str, Reader], measurements: Iterable[Measurement]) -> dict[str, Reader]:
    """Return the axes on which measurements differ, each with what a measurement is called there.

    The given axes read texts in full; what they are called is short, and alike only where these are.
    """
    listed = list(measurements)
    texts = {axis: {read(one) for one in listed} for axis, read in axes.items()}
    return {axis: _short(axes[axis], short_names(found)) for axis, found in texts.items() if len(found) > 1}


def told_apart(names: Mapping[str, str]) -> dict[str, str]:
    """Return names, by key, of which no two are alike: those that are have their keys beside them."""
    counts = Counter(names.values())
    return {key: name if counts[name] == 1 else f"{name} · {key}" for key, name in names.items()}


def short_names(texts: Iterable[str], most: int = _LONGEST_NAME) -> dict[str, str]:
    """Return what each text is called, no two alike: so many characters, and a key where they differ in more."""
    alike: dict[str, list[str]] = defaultdict(list)
    for text in dict.fromkeys(texts):
        alike[shortened(text, most)].append(text)
    found: dict[str, str] = {}
    for short, group in alike.items():
        found |= {group[0]: short} if len(group) == 1 else _around_their_difference(group, most)
    counts = Counter(found.values())
    return {text: short if counts[short] == 1 else f"{short} · {short_key(text)}" for text, short in found.items()}


def _short(read: Reader, names: Mapping[str, str]) -> Reader:
    return lambda measurement: names[read(measurement)]


def _around_their_difference(group: Sequence[str], most: int) -> dict[str, str]:
    begin = _begin_alike(group)
    end = _begin_alike([text[begin:][::-1] for text in group])
    return {text: _around(text, begin, len(text) - end, most) for text in group}


def _begin_alike(texts: Sequence[str]) -> int:
    """With how many characters all of them begin alike."""
    letters = enumerate(zip(*texts, strict=False))
    return next((place for place, found in letters if len(set(found)) > 1), min(map(len, texts)))


def _around(text: str, begin: int, end: int, most: int) -> str:
    """The words from `begin` to `end`, with as much of both ends of the text as there is room for."""
    for word in _WORDS:
        before, after = re.search(f"{word}$", text[:begin]), re.match(word, text[end:])
        start, stop = begin - len(before[0] if before else ""), end + len(after[0] if after else "")
        room = most - (stop - start) - len("……")
        if room >= 0:
            tail = min(len(text) - stop, room // 3)
            head = min(start, room - tail)
            left = "…" if head < start else ""
            right = "…" if tail < len(text) - stop else ""
            return f"{text[:head]}{left}{text[start:stop]}{right}{text[len(text) - tail :]}"
    return shortened(text, most)
