"""The most requests a second that a configuration keeps up within its limits: at which rate to measure next.

A pure function of the steps so far, as search.py is. What a closed loop does is more than can be sent in an open one,
where requests come in bunches: so the rates below it are halved, by pairs of processes, until two lie within 5 %. A
rate counts as too high only where both processes break a limit, since a spell of the machine makes latencies longer,
never shorter. Fresh processes then confirm, from the highest rate that is left downwards; only these say what is kept
up.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import exp, inf, sqrt

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.verdicts.recommend.candidates import FRESH, RateTerms, Step, StepTaken, interval

CLOSE = 1.05
"""Two rates that lie within this factor are not told apart further."""
PROBES = 2
"""Processes that look at a rate."""
FIRST_SHARE, LOWER, LEAST_SHARE = 0.7, 0.5, 0.01
"""Of what a closed loop does: where to begin, by what to go down as long as nothing holds, and where to give up."""
STEP_DOWN, FAR_DOWN = 0.95, 0.9
"""From a rate that fresh processes did not confirm to the next: where it may hold, and where it surely does not."""


@dataclass(frozen=True)
class RatedCandidate:
    """A candidate, and how many inferences a second it does in a closed loop."""

    candidate: int
    closed_per_s: float


class Kept(StrEnum):
    """What is known of a rate: fresh processes held the limits; nobody can tell; or even the lowest broke them."""

    HELD = "held"
    CANNOT_TELL = "cannot_tell"
    NONE = "none"


@dataclass(frozen=True)
class RateFound:
    """The highest rate of a candidate, the lowest above it that broke a limit, and each limited figure ÷ its limit."""

    kept: Kept
    candidate: int
    rate_per_s: float | None = None
    breaks_at_per_s: float | None = None
    of_limit: tuple[tuple[float, float, float], ...] = ()


def least_rate_s(terms: RateTerms) -> float:
    """The seconds below which nothing can be confirmed: three looks, and fresh processes."""
    return (3 * PROBES + FRESH) * (terms.start_s + terms.least_s)


def next_rate(
    rivals: Sequence[RatedCandidate], terms: RateTerms, budget_s: float, taken: Sequence[StepTaken]
) -> Step | RateFound:
    """The next step at a rate, or what was found once there is no time for another, or none is needed.

    Rivals come one after the other, and each only has to show a higher rate than those before it.
    """
    best: RateFound | None = None
    for rival in rivals:
        own = [one for one in taken if one.step.candidates == (rival.candidate,)]
        floor = best.rate_per_s if best is not None and best.kept is Kept.HELD else None
        tries = _Tries(rival, own, floor or 0.0)
        step = tries.next(terms, budget_s - sum(one.seconds for one in taken), _start_s(terms, taken))
        if step is not None:
            return step
        found = tries.found()
        if best is None or _rank(found) > _rank(best):
            best = found
    if best is None:
        raise ValueError("a rate is sought of one candidate at least")
    return best


def _rank(found: RateFound) -> tuple[int, float]:
    order = (Kept.NONE, Kept.CANNOT_TELL, Kept.HELD)
    return order.index(found.kept), found.rate_per_s or 0.0


def _start_s(terms: RateTerms, taken: Sequence[StepTaken]) -> float:
    """What a process takes beside what is timed in it: by those that there were, the guess counting like one."""
    processes = sum(one.step.rounds for one in taken)
    beside_s = sum(max(0.0, one.seconds - one.step.rounds * one.step.process_s) for one in taken)
    return (terms.start_s + beside_s) / (1 + processes)


class _Tries:
    """The rates that one rival was tried at: of each process there by how much it exceeded its limits."""

    def __init__(self, rival: RatedCandidate, taken: Sequence[StepTaken], floor_per_s: float) -> None:
        self.rival, self.floor_per_s = rival, floor_per_s
        self.refused = any(rival.candidate in one.refused for one in taken)
        self.looks = _by_rate(rival, [one for one in taken if one.step.rounds < FRESH])
        self.confirmed = _by_rate(rival, [one for one in taken if one.step.rounds >= FRESH])
        too_high = [rate for rate, seen in self.looks.items() if min(map(max, seen)) > 0]
        self.high_per_s = min(too_high, default=inf)
        self.low_per_s = max((rate for rate in self.looks if rate < self.high_per_s), default=None)

    def next(self, terms: RateTerms, left_s: float, start_s: float) -> Step | None:
        """What to measure next; None where all is said, or nothing that is left fits into the time."""
        if self.refused:
            return None

        def seconds(rate: float, rounds: int) -> float:
            return rounds * (start_s + terms.process_s(rate))

        look = None if self.confirmed else self._look()
        if look is not None and seconds(look, PROBES) + seconds(look, FRESH) <= left_s:
            return self._step(terms, look, PROBES)
        confirm = self._confirm()
        if confirm is not None and seconds(confirm, FRESH) <= left_s:
            return self._step(terms, confirm, FRESH)
        return None

    def found(self) -> RateFound:
        """What is to be said of this rival."""
        held = [rate for rate, seen in self.confirmed.items() if _is_held(seen)]
        broken = [self.high_per_s, *(rate for rate, seen in self.confirmed.items() if _is_broken(seen))]
        rate = max(held, default=None) or min(self.confirmed, default=self.low_per_s)
        above = min((one for one in broken if one > (rate or 0.0)), default=inf)
        seen = self.confirmed.get(rate or 0.0, self.looks.get(rate or 0.0, []))
        of_limit = tuple(_exponentials(interval(one)) for one in zip(*seen, strict=True))
        nothing_left = rate is None and (self.refused or self._look() is None)
        kept = Kept.HELD if held else Kept.NONE if nothing_left else Kept.CANNOT_TELL
        return RateFound(kept, self.rival.candidate, rate, None if above == inf else above, of_limit)

    def _step(self, terms: RateTerms, rate: float, rounds: int) -> Step:
        return Step(StepPurpose.RATE, (self.rival.candidate,), rounds, terms.process_s(rate), rate)

    def _look(self) -> float | None:
        """The next rate to look at; None where the highest that may hold is known, or there is none worth knowing."""
        closed = self.rival.closed_per_s
        ceiling = min(self.high_per_s, closed)
        if self.low_per_s is not None:
            between = _rounded(sqrt(self.low_per_s * ceiling))
            return between if ceiling > self.low_per_s * CLOSE and between not in self.looks else None
        if not self.looks:
            first = _rounded(max(FIRST_SHARE * closed, CLOSE * self.floor_per_s))
            return first if first < closed else None
        lower = _rounded(max(LOWER * ceiling, CLOSE * self.floor_per_s))
        return lower if LEAST_SHARE * closed < lower < ceiling and lower not in self.looks else None

    def _confirm(self) -> float | None:
        """The next rate for fresh processes; None where one held, or none is left that would be worth it."""
        if not self.confirmed:
            return self.low_per_s
        if any(map(_is_held, self.confirmed.values())):
            return None
        lowest = min(self.confirmed)
        lower = _rounded(lowest * (FAR_DOWN if _is_broken(self.confirmed[lowest]) else STEP_DOWN))
        return lower if lower > max(self.floor_per_s, LEAST_SHARE * self.rival.closed_per_s) else None


def _by_rate(rival: RatedCandidate, taken: Sequence[StepTaken]) -> Mapping[float, list[tuple[float, ...]]]:
    found: dict[float, list[tuple[float, ...]]] = {}
    for one in taken:
        readings = [each[rival.candidate].excess for each in one.rounds if rival.candidate in each]
        if one.step.rate_per_s is not None and readings:
            found.setdefault(one.step.rate_per_s, []).extend(readings)
    return found


def _is_held(seen: Sequence[tuple[float, ...]]) -> bool:
    return all(interval(one)[2] < 0 for one in zip(*seen, strict=True))


def _is_broken(seen: Sequence[tuple[float, ...]]) -> bool:
    return any(interval(one)[1] > 0 for one in zip(*seen, strict=True))


def _exponentials(bounds: tuple[float, float, float]) -> tuple[float, float, float]:
    middle, low, high = (exp(min(one, 700.0)) for one in bounds)
    return middle, low, high


def _rounded(rate: float) -> float:
    """To three digits, as a person types it."""
    return float(f"{rate:.3g}")
