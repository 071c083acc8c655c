"""The most requests a second that a configuration keeps up within its limits: at which rate to measure next.

A pure function of the steps so far, as search.py is. Pairs of processes look at rates, and how waits grow with them
leads from one rate to the next: in proportion to ϱ / (1 − ϱ), where ϱ is the rate as a share of what a closed loop
does (Kingman, "The Single Server Queue in Heavy Traffic", 1961). A rate counts as too high only where both processes
break a limit, since a spell of the machine makes latencies longer, never shorter. Fresh processes then confirm, lower
or higher by what they told, as long as there is time; only these say what is kept up.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import exp, inf, sqrt

import numpy as np

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.verdicts.recommend.candidates import (
    FRESH,
    LimitShare,
    RateTerms,
    Step,
    StepTaken,
    interval,
    shares_of_limit,
)

CLOSE = 1.05
"""Two rates that lie within this factor are not told apart further."""
PROBES = 2
"""Processes that look at a rate."""
FIRST_SHARE, LOWER, LEAST_SHARE, MOST_SHARE = 0.5, 0.5, 0.01, 0.99
"""Of what a closed loop does: where to begin, by what to go down as long as nothing holds, where to give up, and beyond
what nothing can be known."""
REACH = 1.25
"""A look tells enough of rates within this factor to have fresh processes confirm them."""
MARGIN = 0.15
"""By so much, as a logarithm, a limited figure is to lie below its limit, where fresh processes are to confirm that."""
BEYOND = 0.02
"""And by so much the end of its interval, after fresh processes have told how wide that is."""
LONGER = 4
"""So many times as long as needed do fresh processes take where a third of the time that is left allows that: what they
tell is half as wide then."""


@dataclass(frozen=True)
class RatedCandidate:
    """A candidate, how many inferences a second it does in a closed loop, and the logarithm of the limited latency
    there ÷ its limit.
    """

    candidate: int
    closed_per_s: float
    closed_excess: float = -inf


class Kept(StrEnum):
    """What is known of a rate: fresh processes held the limits; nobody can tell; or even the lowest broke them."""

    HELD = "held"
    CANNOT_TELL = "cannot_tell"
    NONE = "none"


@dataclass(frozen=True)
class RateRefused:
    """A candidate that cannot be had at a rate, and why; `held_per_s` is the most that it kept up all the same.

    Whose outputs were wrong at a rate kept up nothing: what several requests at once spoil, few may spoil, too.
    """

    candidate: int
    rate_per_s: float
    why: str
    held_per_s: float | None = None


@dataclass(frozen=True)
class RateFound:
    """The highest rate of a candidate, the lowest above it that broke a limit, and each limited figure ÷ its limit.

    An end of these that no number holds is None. `refused` are all those that failed at a rate, also in its stead.
    """

    kept: Kept
    candidate: int
    rate_per_s: float | None = None
    breaks_at_per_s: float | None = None
    of_limit: tuple[LimitShare, ...] = ()
    refused: tuple[RateRefused, ...] = ()


def least_rate_s(terms: RateTerms) -> float:
    """The seconds below which nothing can be confirmed: three looks, and fresh processes."""
    return (3 * PROBES + FRESH) * (terms.start_s + terms.least_s)


def next_rate(
    rivals: Sequence[RatedCandidate],
    terms: RateTerms,
    budget_s: float,
    taken: Sequence[StepTaken],
    substitutes: Sequence[RatedCandidate] = (),
) -> Step | RateFound:
    """The next step at a rate, or what was found once there is no time for another, or none is needed.

    Rivals come one after the other, and each only has to show a higher rate than those before it. What failed at a rate
    says nothing of the limits: where nothing better is known, the `substitutes` come, until one does not fail. Whose
    outputs are wrong is only named where all are.
    """
    best: RateFound | None = None
    wrong: list[RateFound] = []
    refused: list[RateRefused] = []
    waiting, others = deque(rivals), deque(substitutes)
    while waiting:
        rival = waiting.popleft()
        floor = best.rate_per_s if best is not None and best.kept is Kept.HELD else None
        tries = _Tries(rival, taken, floor or 0.0)
        step = tries.next(terms, budget_s - sum(one.seconds for one in taken), _start_s(terms, taken))
        if step is not None:
            return step
        found = tries.found()
        if tries.is_wrong:
            wrong.append(found)
        elif best is None or _rank(found) > _rank(best):
            best = found
        refused += found.refused
        if not waiting and others and (best is None or (best.refused and best.kept is not Kept.HELD)):
            waiting.append(others.popleft())
    best = best or next(iter(wrong), None)
    if best is None:
        raise ValueError("a rate is sought of one candidate at least")
    return replace(best, refused=tuple(refused))


def _rank(found: RateFound) -> tuple[int, bool, float]:
    """What failed may only be named before what surely breaks a limit, unless it held one."""
    order = (Kept.NONE, Kept.CANNOT_TELL, Kept.HELD)
    return order.index(found.kept), found.kept is Kept.HELD or not found.refused, found.rate_per_s or 0.0


def _start_s(terms: RateTerms, taken: Sequence[StepTaken]) -> float:
    """What a process takes beside what is timed in it: by those that there were, the guess counting like one."""
    processes = sum(one.step.rounds for one in taken)
    beside_s = sum(max(0.0, one.seconds - one.step.rounds * one.step.process_s) for one in taken)
    return (terms.start_s + beside_s) / (1 + processes)


class _Tries:
    """The rates that one rival was tried at: of each process there by how much it exceeded its limits."""

    def __init__(self, rival: RatedCandidate, every: Sequence[StepTaken], floor_per_s: float) -> None:
        self.rival, self.floor_per_s = rival, floor_per_s
        # A step may refuse others, too, whose outputs are as wrong.
        self.refusing = next((one for one in every if rival.candidate in one.refused), None)
        self.is_wrong = any(rival.candidate in one.wrong for one in every)
        taken = [one for one in every if one.step.candidates == (rival.candidate,)]
        fresh = _by_rate(rival, [one for one in taken if one.step.rounds >= FRESH])
        self.confirmed = {rate: seen for rate, seen in fresh.items() if len(seen) >= FRESH}
        # Of steps that were broken off too few are left to confirm anything: these look, as pairs do.
        self.looks = _by_rate(
            rival, [one for one in taken if one.step.rounds < FRESH or one.step.rate_per_s not in self.confirmed]
        )
        too_high = [rate for rate, seen in self.looks.items() if len(seen) >= PROBES and min(map(max, seen)) > 0]
        self.high_per_s = min(too_high, default=inf)
        self.low_per_s = max((rate for rate in self.looks if rate < self.high_per_s), default=None)
        held = [] if self.is_wrong else [rate for rate, seen in self.confirmed.items() if _is_held(seen)]
        self.held_per_s = max(held, default=None)

    def next(self, terms: RateTerms, left_s: float, start_s: float) -> Step | None:
        """What to measure next; None where all is said, or nothing that is left fits into the time."""
        if self.refusing is not None:
            return None

        def looking_s(rate: float) -> float:
            return PROBES * (start_s + terms.look_s(rate))

        def confirming_s(rate: float) -> float:
            return FRESH * (start_s + terms.fresh_s(rate, self.rival.closed_per_s))

        most = self._most(lambda rate: looking_s(rate) + confirming_s(rate) <= left_s)
        look = None if self.confirmed else self._look(most)
        # Where even the lowest rate broke a limit, a lower one says that none is kept, without being confirmed.
        is_last_hope = bool(self.looks) and self.low_per_s is None
        if look is not None and looking_s(look) + (0.0 if is_last_hope else confirming_s(look)) <= left_s:
            return self._step(look, PROBES, terms.look_s(look))
        confirm = self._confirm(self._most(lambda rate: confirming_s(rate) <= left_s))
        if confirm is None or confirming_s(confirm) > left_s:
            return None
        needed_s = terms.fresh_s(confirm, self.rival.closed_per_s)
        return self._step(confirm, FRESH, min(LONGER * needed_s, max(needed_s, left_s / 3 / FRESH - start_s)))

    def found(self) -> RateFound:
        """What is to be said of this rival."""
        broken = [self.high_per_s, *(rate for rate, seen in self.confirmed.items() if _is_broken(seen))]
        rate = self.held_per_s or min(self.confirmed, default=self.low_per_s)
        above = min((one for one in broken if one > (rate or 0.0)), default=inf)
        seen = self.confirmed.get(rate or 0.0, self.looks.get(rate or 0.0, []))
        of_limit = tuple(shares_of_limit(*interval(one)) for one in zip(*seen, strict=True))
        nothing_left = rate is None and self.refusing is None and self._look() is None
        kept = Kept.HELD if self.held_per_s else Kept.NONE if nothing_left else Kept.CANNOT_TELL
        breaks_at = None if above == inf else above
        return RateFound(kept, self.rival.candidate, rate, breaks_at, of_limit, tuple(self._refused()))

    def _refused(self) -> Iterator[RateRefused]:
        if self.refusing is not None:
            place, rate = self.rival.candidate, self.refusing.step.rate_per_s or 0.0
            yield RateRefused(place, rate, self.refusing.refused[place], self.held_per_s)

    def _step(self, rate: float, rounds: int, process_s: float) -> Step:
        return Step(StepPurpose.RATE, (self.rival.candidate,), rounds, process_s, rate)

    def _most(self, fits: Callable[[float], bool]) -> float:
        """The highest rate that there is time for: the nearer to what can be served, the longer it takes."""
        shares = np.arange(MOST_SHARE, 0.0, -LEAST_SHARE)
        return next((rate for rate in (_rounded(one * self.rival.closed_per_s) for one in shares) if fits(rate)), 0.0)

    def _look(self, most: float = inf) -> float | None:
        """The next rate to look at, none above `most`; None where enough is known to confirm one, or where even the
        lowest broke a limit."""
        closed, least = self.rival.closed_per_s, CLOSE * self.floor_per_s
        if not self.looks:
            first = _rounded(max(min(FIRST_SHARE * closed, most), least))
            return first if 0.0 < first < closed else None
        if self.low_per_s is None:
            lower = _rounded(max(LOWER * self.high_per_s, least))
            return lower if LEAST_SHARE * closed < lower < self.high_per_s else None
        between = sqrt(self.low_per_s * min(self.high_per_s, closed))
        higher = _rounded(min(self._aimed(self.low_per_s), between, most))
        return higher if higher > REACH * self.low_per_s else None

    def _confirm(self, most: float) -> float | None:
        """The next rate for fresh processes, none above `most`; None where none is left that would be worth it."""
        if held := self.held_per_s:
            higher = min(self._after(held), most, *(sqrt(held * one) for one in self.confirmed if one > held))
            return _rounded(higher) if higher > CLOSE * held else None
        if self.confirmed:
            rate = min(self.confirmed)
            lower = min(self._after(rate), rate / CLOSE)
        elif self.low_per_s is not None:
            lower = min(self._aimed(self.low_per_s), self.high_per_s / CLOSE)
        else:
            return None
        lower = _rounded(min(lower, most))
        return lower if lower > max(self.floor_per_s, LEAST_SHARE * self.rival.closed_per_s) else None

    def _aimed(self, looked_at: float) -> float:
        """Where fresh processes may confirm the limit, by what a look at a rate told."""
        middle, _, _ = _of_latency(self.looks[looked_at])
        return self._at(looked_at, middle, -MARGIN)

    def _after(self, rate: float) -> float:
        """Where the interval that fresh processes gave at a rate would end just below the limit."""
        middle, _, high = _of_latency(self.confirmed[rate])
        return self._at(rate, middle, middle - high - BEYOND)

    def _at(self, rate: float, excess: float, wanted: float) -> float:
        """The rate at which the limited latency exceeds its limit by as much as is wanted, where waits grow with
        ϱ / (1 − ϱ) and the rest is what it is in a closed loop; half the rate where that is no way to get there.
        """
        closed, alone = self.rival.closed_per_s, exp(self.rival.closed_excess)
        busy = min(rate / closed, MOST_SHARE)
        waited = max(exp(min(excess, 10.0)) - alone, 0.02 * alone)
        load = busy / (1 - busy) * (exp(wanted) - alone) / waited if waited else inf
        return LOWER * rate if load <= 0 else closed * min(load / (1 + load), MOST_SHARE)


def _by_rate(rival: RatedCandidate, taken: Sequence[StepTaken]) -> Mapping[float, list[tuple[float, ...]]]:
    found: dict[float, list[tuple[float, ...]]] = {}
    for one in taken:
        readings = [each[rival.candidate].excess for each in one.rounds if rival.candidate in each]
        if one.step.rate_per_s is not None and readings:
            found.setdefault(one.step.rate_per_s, []).extend(readings)
    return found


def _of_latency(seen: Sequence[tuple[float, ...]]) -> tuple[float, float, float]:
    """By how much the limited latency exceeds its limit, which is the first of all limits."""
    return interval([one[0] for one in seen])


def _is_held(seen: Sequence[tuple[float, ...]]) -> bool:
    return all(interval(one)[2] < 0 for one in zip(*seen, strict=True))


def _is_broken(seen: Sequence[tuple[float, ...]]) -> bool:
    return any(interval(one)[1] > 0 for one in zip(*seen, strict=True))


def _rounded(rate: float) -> float:
    """To three digits, as a person types it."""
    return float(f"{rate:.3g}")
