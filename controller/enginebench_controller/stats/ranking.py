"""Which of several is fastest, and how much sooner it is done than each of the others: what one answer says.

Each of the others is compared with the fastest, and who is fastest came out of the same numbers. So all pairs are
corrected for, step by step (Holm): the clearest difference of m has to show at a level of 1 − 5 % ÷ m, the next at
1 − 5 % ÷ (m − 1), and those from the first that does not show on at the level of that one. The intervals are of these
levels. Of six that are all alike one was called slower than the fastest in 18 of 300 simulated rounds so, and in 17 of
100 where only the pairs of the fastest were counted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from math import exp, log, log1p

from enginebench_controller.stats import intervals, paired
from enginebench_controller.stats.comparison import PRACTICAL, ComparisonMethod, Side, compare
from enginebench_controller.stats.intervals import LEVEL
from enginebench_proto.agreed import student_t

ALIKE = 0.05
"""Two that are known to be apart by no more than this are called the same, within what is known."""

MOST_PROCESSES = 100
"""More are never advised."""

_MANY = 1e6
"""Degrees of freedom of what is as good as normal."""

_WIDEST = 300.0
"""Half of a log ratio's interval at most, which is everything; few processes of many members would ask for more."""

_SURE_ENOUGH = 1.25
"""So much more than the spread that was seen asks for is advised, as that is known from few processes."""


Pair = tuple[int, int]
"""The places of two, the lower first."""


class Standing(StrEnum):
    """What is known of a member against the fastest."""

    FASTEST = "fastest"
    SAME = "same"
    SLOWER = "slower"
    UNSURE = "unsure"


@dataclass(frozen=True)
class Rank:
    """A member, by its place among those given: it takes `ratio` times as long as the fastest, from `low` to `high`.

    None where nothing is known; `note` says why, or what limits the interval.
    """

    place: int
    standing: Standing
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    is_paired: bool = False
    note: str = ""


@dataclass(frozen=True)
class Ranking:
    """Members, the fastest first. All of those that are the same are so within `bound`, such as 0.02.

    `divided`: whether not only the fastest, but all that may be, are known to be faster than all that are slower.
    `processes` are about as many as it takes to tell those apart that are unsure; None where that cannot be said.
    """

    ranks: tuple[Rank, ...]
    bound: float | None = None
    processes: int | None = None
    divided: bool = True


@dataclass(frozen=True)
class _Estimate:
    """A log ratio with its standard error, the error's degrees of freedom, and of how many processes a side it is.

    `level` is that of the interval it is judged by, among all the pairs; `off` how far that one's centre is from the
    middle, as ranks of blocks may have it.
    """

    middle: float
    error: float
    degrees: float
    processes: int
    is_paired: bool
    note: str = ""
    level: float = LEVEL
    off: float = 0.0

    @property
    def p_value(self) -> float:
        return intervals.welch_p_value(self.middle, self.error, min(self.degrees, _MANY))

    @property
    def reversed(self) -> "_Estimate":
        return replace(self, middle=-self.middle, off=-self.off)

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the interval it is judged by."""
        half = min(_quantile(self.level, self.degrees) * self.error, _WIDEST) if self.error else 0.0
        centre = self.middle + self.off
        return centre - half, centre + half


@dataclass(frozen=True)
class _Known:
    """Every pair's estimate, second ÷ first, by their places; or why there is none."""

    pairs: Mapping[Pair, _Estimate | str]

    def between(self, first: int, second: int) -> _Estimate | str:
        found = self.pairs[min(first, second), max(first, second)]
        return found.reversed if first > second and isinstance(found, _Estimate) else found


def rank(sides: Sequence[Side], turns: Sequence[str | None], practical: float = PRACTICAL) -> Ranking:
    """Rank two or more by what they take. `turns` has the name of the group in which each took turns, or None.

    A difference counts from `practical` on. Sides need at least one process with a median above 0 each.
    """
    pairs = combinations(range(len(sides)), 2)
    known = _Known(_corrected({pair: _estimate(*_of(sides, pair), together=_together(turns, pair)) for pair in pairs}))
    order = _order(sides, known, practical)
    fastest, others = order[0], order[1:]
    ranks = [Rank(fastest, Standing.FASTEST, 1.0, 1.0, 1.0)]
    for place in others:
        one = known.between(fastest, place)
        if isinstance(one, str):
            ratio = _middle(sides[place]) / _middle(sides[fastest])
            ranks.append(Rank(place, Standing.UNSURE, ratio, note=one))
        else:
            ranks.append(_rank(place, one, practical))
    unsure = [known.between(fastest, one.place) for one in ranks if one.standing is Standing.UNSURE]
    slower = [one.place for one in ranks if one.standing is Standing.SLOWER]
    first = [one.place for one in ranks if one.standing is not Standing.SLOWER]
    divided = all(_is_slower(known.between(one, other), practical) for one in first for other in slower)
    return Ranking(tuple(ranks), _bound(ranks, known), _processes(unsure, practical), divided)


def _estimate(a: Side, b: Side, *, together: bool) -> _Estimate | str:
    """The log ratio of b ÷ a, or why there is none."""
    if together and not (a.planned or b.planned):
        ratios = [one for process in sorted(a.processes) if (one := _of_pair(a, b, process)) is not None]
        if (found := paired.estimate(ratios)) is not None:
            return _Estimate(found.middle, found.error, found.degrees, len(ratios), is_paired=True)
    told = compare(a, b, paired=together)
    if told.ratio is None or told.low is None or told.high is None:
        return told.note
    count = min(len(a.processes), len(b.processes))
    degrees = _MANY if told.method is ComparisonMethod.PAIRED_BLOCKS else max(1, count - 1)
    error = log(told.high / told.low) / 2 / _quantile(LEVEL, degrees)
    middle, centre = log(told.ratio), (log(told.low) + log(told.high)) / 2
    return _Estimate(middle, error, degrees, count, together, told.note, off=centre - middle)


def _of(sides: Sequence[Side], pair: Pair) -> tuple[Side, Side]:
    return sides[pair[0]], sides[pair[1]]


def _together(turns: Sequence[str | None], pair: Pair) -> bool:
    return turns[pair[0]] is not None and turns[pair[0]] == turns[pair[1]]


def _of_pair(a: Side, b: Side, process: int) -> float | None:
    common = sorted(key for key in a.blocks.keys() & b.blocks.keys() if key[0] == process)
    return paired.log_ratio([a.blocks[key] for key in common], [b.blocks[key] for key in common])


def _order(sides: Sequence[Side], known: _Known, practical: float) -> list[int]:
    """The places, the fastest first: by the mean of the log ratios to all the others, which are of what was shared.

    First is one that none of the others is known to be faster than: those that ran alone tell less, and may err.
    """

    def lag(place: int) -> float:
        return sum(_log_ratio(sides, known, other, place) for other in range(len(sides)) if other != place)

    order = sorted(range(len(sides)), key=lag)
    unbeaten = [
        place
        for place in order
        if not any(_is_slower(known.between(one, place), practical) for one in order if one != place)
    ]
    return sorted(order, key=lambda place: place not in unbeaten[:1])


def _is_slower(one: _Estimate | str, practical: float) -> bool:
    """Whether the second of a pair is known to take longer than the first."""
    return not isinstance(one, str) and one.ends[0] > 0 and one.middle > log1p(practical)


def _log_ratio(sides: Sequence[Side], known: _Known, first: int, second: int) -> float:
    found = known.between(first, second)
    return log(_middle(sides[second]) / _middle(sides[first])) if isinstance(found, str) else found.middle


def _middle(side: Side) -> float:
    """The geometric mean of the processes' medians; the smallest there is instead of 0."""
    logs = [log(max(one, 1e-9)) for one in side.processes.values()]
    return exp(sum(logs) / len(logs))


def _corrected(pairs: Mapping[Pair, _Estimate | str]) -> Mapping[Pair, _Estimate | str]:
    """Each estimate with the level it is judged by, as it is one of many."""
    clearest_first = sorted(
        ((pair, one) for pair, one in pairs.items() if isinstance(one, _Estimate)), key=lambda item: item[1].p_value
    )
    found, left, shows = dict(pairs), len(clearest_first), True
    for pair, one in clearest_first:
        level = 1 - (1 - LEVEL) / left
        found[pair] = replace(one, level=level)
        shows = shows and one.p_value <= 1 - level
        left -= shows
    return found


def _rank(place: int, one: _Estimate, practical: float) -> Rank:
    low, high = one.ends
    if _is_slower(one, practical):
        standing = Standing.SLOWER
    else:
        standing = Standing.SAME if max(abs(low), abs(high)) <= _alike(practical) else Standing.UNSURE
    return Rank(place, standing, exp(one.middle), exp(low), exp(high), one.is_paired, one.note)


def _alike(practical: float) -> float:
    """The log ratio within which two are the same: whatever does not count is."""
    return log1p(max(ALIKE, practical))


def _bound(ranks: Sequence[Rank], known: _Known) -> float | None:
    """Within what those that are the same as the fastest are so, each with each; None where there are none."""
    alike = [one.place for one in ranks if one.standing in (Standing.FASTEST, Standing.SAME)]
    pairs = [known.between(*pair) for pair in combinations(alike, 2)]
    ends = [abs(end) for one in pairs if isinstance(one, _Estimate) for end in one.ends]
    return exp(max(ends)) - 1 if ends else None


def _processes(unsure: Sequence[_Estimate | str], practical: float) -> int | None:
    """How many it takes until each is known to be slower, or the same: whichever of the two comes first."""
    estimates = [one for one in unsure if isinstance(one, _Estimate)]
    if len(estimates) < len(unsure):
        return None
    return max((_needed(one, practical) for one in estimates), default=None)


def _needed(one: _Estimate, practical: float) -> int:
    spread = _SURE_ENOUGH * one.error * max(1, one.processes) ** 0.5
    apart, to_be_alike = abs(one.middle), _alike(practical) - abs(one.middle)
    wanted = max(apart, to_be_alike) if apart > log1p(practical) else to_be_alike  # what does not count is never slower
    for count in range(max(3, one.processes + 1), MOST_PROCESSES):
        if _quantile(one.level, count - 1) * spread / count**0.5 <= wanted:
            return count
    return MOST_PROCESSES


def _quantile(level: float, degrees: float) -> float:
    return student_t.quantile((1 + level) / 2, degrees)
