"""Many remarks of one kind in a line: whom it is of where that is one, else how many, and the worst of them."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?")
_WHERE_A_REASON_BEGINS = re.compile(r": | \(|; ")

_WHICH_PROCESS = re.compile(r" \(process \d+ of \d+\)")
"""Of many remarks the number of a process tells nothing, and it is no measure of which is the worst."""

MOST_NAMED = 2


@dataclass(frozen=True)
class Remark:
    """A sentence on something, such as "resnet50 on torch (local, batch 1)"; `names` in it do not tell kinds apart."""

    about: str
    sentence: str
    names: tuple[str, ...] = ()

    def __str__(self) -> str:
        """As it stands alone."""
        return f"{self.about}: {self.sentence}"

    @property
    def kind(self) -> str:
        """The sentence without its numbers, and without what follows as the reason."""
        sentence = self.sentence
        for name in self.names:
            sentence = sentence.replace(name, "one")
        return _NUMBER.sub("#", _WHERE_A_REASON_BEGINS.split(sentence, maxsplit=1)[0])


def condensed(remarks: Iterable[Remark], total: int, *, names: bool = False) -> list[str]:
    """A line for each kind, in the order they came up; `total` is of how many things there might be one.

    With `names` the first of those that it is said of are named, as it must not be missed of whom.
    """
    kinds: dict[str, list[Remark]] = {}
    for one in dict.fromkeys(remarks):
        kinds.setdefault(one.kind, []).append(one)
    return [_line(alike, total, names=names) for alike in kinds.values()]


def _line(alike: Sequence[Remark], total: int, *, names: bool) -> str:
    whom = list(dict.fromkeys(one.about for one in alike))
    if len(whom) == 1 and len(alike) == 1:
        return str(alike[0])
    sentences = {_WHICH_PROCESS.sub("", one.sentence): None for one in alike}
    worst = max(sentences, key=_largest)
    at_worst = ", at worst" if len(sentences) > 1 else ""
    if names:
        named = ", ".join(whom[:MOST_NAMED]) + (f" and {len(whom) - MOST_NAMED} more" if len(whom) > MOST_NAMED else "")
        return f"{named}{at_worst}: {worst}"
    return f"{len(whom)} of {total}{at_worst}: {worst}"


def _largest(sentence: str) -> float:
    """The first number of a sentence, by which those of a kind are compared."""
    found = _NUMBER.search(sentence)
    return float(found[0].replace(",", "")) if found else 0.0
