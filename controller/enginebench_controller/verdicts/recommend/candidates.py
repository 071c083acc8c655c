"""What the steps of a search so far tell of its candidates: how good each is, and whether it holds the limits.

Without a decision of what to do next, which is search.py's.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from math import exp, inf, log, sqrt

import numpy as np
from numpy.typing import NDArray

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.stats.response import Axes, ProcessSeen, Response, respond
from enginebench_proto.agreed import student_t

FRESH = 5
"""So many fresh processes at least say whether a limit is held."""
WORTH = log(1.01)
"""What is better by less is not looked for."""
SURE = 2.6
"""By so many standard errors a candidate is out: 1 % of each, since it is looked at many times."""
LAST = (StepPurpose.CONFIRM, StepPurpose.FOR_ALL)
"""What steps are for whose processes are fresh, and say whether a limit is held."""
LIMIT_CONFIDENCE = 0.975
"""Of one end of the interval of a limited figure."""
FAR = log(1.5)
"""What is farther beyond its limit than this is no matter of a slower machine."""
LimitShare = tuple[float, float, float | None]
"""A limited figure ÷ its limit, between the ends of its interval. An end that no number holds is None: a single process
does not tell how far others are from it."""
IN_VAIN = 3
"""After so many points of an engine that cannot be had, and none that can, the others are not tried."""
_LARGEST = 700.0
"""Of a logarithm: the exponential of a larger one is no number any more."""


@dataclass(frozen=True)
class RateTerms:
    """What starting a process takes as guessed, and what is timed in it: so many seconds at least, and so many
    inferences. Processes that only look take no longer than `longest_look_s`.
    """

    start_s: float = 2.5
    least_s: float = 3.0
    samples: int = 100
    longest_look_s: float = 10.0

    def look_s(self, rate_per_s: float) -> float:
        """What is timed in a process that looks at a rate."""
        return min(self.longest_look_s, max(self.least_s, self.samples / rate_per_s))

    def fresh_s(self, rate_per_s: float, closed_per_s: float) -> float:
        """What is timed in a process that is to say whether a limit is held at a rate, of so many in a closed loop.

        The nearer to what can be served, the longer a queue remembers, and the longer one that begins empty takes to
        fill: requests that wait behind each other tell of less than those that do not, by ϱ / (1 − ϱ)², where ϱ is the
        rate as a share of the closed loop's. That lengths grow with 1 / (1 − ϱ)² is of Whitt, "Planning Queueing
        Simulations", Management Science 35, 1989; how often limits are called held wrongly then is in
        docs/evidence/recommend.md.
        """
        busy = min(rate_per_s / closed_per_s, 0.99)
        return max(self.least_s, self.samples * max(1.0, busy / (1 - busy) ** 2) / rate_per_s)


@dataclass(frozen=True)
class SearchTerms:
    """How a search is to go. Each process takes `start_s`, as guessed before any was started, and what is timed in it:
    `look_s`, or `confirm_s` in the last stage. `limits` are as many as each reading has; at most `together` are alive.
    The first look has those at the places `first` in any case, and of the others rather those with little `work`, which
    is told in relation to each other, if at all. Those `compared` run before anything else is decided: their outputs
    say of which others the outputs are too far from those of the model as given. With `rate` the most requests a second
    are sought that the best keeps up.
    """

    budget_s: float
    limits: int = 0
    together: int = 12
    start_s: float = 2.5
    look_s: float = 0.5
    confirm_s: float = 1.0
    first: tuple[int, ...] = ()
    work: tuple[float, ...] = ()
    compared: tuple[int, ...] = ()
    rate: RateTerms | None = None


@dataclass(frozen=True)
class Reading:
    """One process, as logarithms: what is to be small, and of each limited figure by how much it exceeds its limit.

    One with fewer inferences than `enough` may show that a limit is broken, but not that it is held: the largest of
    200 lies below the 99.9th percentile more often than not.
    """

    cost: float
    excess: tuple[float, ...] = ()
    enough: bool = True


@dataclass(frozen=True)
class Step:
    """Candidates, by their places, to be alive together for so many rounds; `process_s` is timed in each process.

    At a rate it is one candidate, in an open loop of so many inferences a second.
    """

    purpose: StepPurpose
    candidates: tuple[int, ...]
    rounds: int
    process_s: float
    rate_per_s: float | None = None


@dataclass(frozen=True)
class StepTaken:
    """What came of a step: in each of its rounds the readings by candidate, and by candidate why it cannot be had.

    Of those refused these are `wrong`: they run, and put out what they should not.
    """

    step: Step
    rounds: tuple[Mapping[int, Reading], ...]
    refused: Mapping[int, str]
    seconds: float
    wrong: frozenset[int] = frozenset()


def _gone(space: Sequence[Axes], refused: Set[int], ran: Set[int]) -> frozenset[int]:
    """Those refused, and those not to be tried: of the same engine, model, device and precision several were refused,
    and none was not. Only the one that asks least of a machine is tried then: what is too much for it, is for all.
    """
    likes = [tuple(one.get(axis) for axis in ("engine", "model", "device", "precision")) for one in space]
    counts = Counter(likes[place] for place in refused)
    in_vain = {one for one, count in counts.items() if count >= IN_VAIN} - {likes[place] for place in ran - refused}
    alike = {one: [place for place, like in enumerate(likes) if like == one] for one in in_vain}
    last_hopes = {min(places, key=lambda place: _asked(space[place])) for places in alike.values()}
    return frozenset(refused).union(*alike.values()) - (last_hopes - refused)


def _asked(point: Axes) -> tuple[float, ...]:
    """What a point asks of a machine, the most telling first; cores give it more time."""
    batch, streams, requests = (float(point.get(axis) or 0.0) for axis in ("batch", "streams", "requests"))
    return batch, streams, requests, -float(point.get("cores") or 0.0)


class Limits(StrEnum):
    """What is known of a candidate's limits."""

    HELD = "held"
    BROKEN = "broken"
    CANNOT_TELL = "cannot_tell"


class Known:
    """What the steps so far tell of all candidates."""

    def __init__(self, space: Sequence[Axes], terms: SearchTerms, taken: Sequence[StepTaken]) -> None:
        self.space, self.terms, self.taken = space, terms, taken
        self.refused = {place: why for one in taken for place, why in one.refused.items()}
        ran = {place for step in taken for one in step.rounds for place in one}
        self.gone = _gone(space, self.refused.keys(), ran)
        numbered = [(step.step.purpose, one) for step in taken for one in step.rounds]
        self.round_count = len(numbered)
        self.seen = [
            (number, purpose, place, reading)
            for number, (purpose, one) in enumerate(numbered)
            for place, reading in one.items()
            if place not in self.refused
        ]
        self.measured = sorted({place for _, _, place, _ in self.seen})
        self.living = [place for place in range(len(space)) if place not in self.gone]
        self.left_s = terms.budget_s - sum(one.seconds for one in taken)

    @cached_property
    def cost(self) -> Response:
        """What is known of what is to be small."""
        return respond(self.space, [ProcessSeen(place, number, one.cost) for number, _, place, one in self.seen])

    @cached_property
    def excess(self) -> tuple[Response, ...]:
        """And of each limited figure."""
        return tuple(
            respond(self.space, [ProcessSeen(place, number, one.excess[limit]) for number, _, place, one in self.seen])
            for limit in range(self.terms.limits)
        )

    @cached_property
    def slow(self) -> frozenset[int]:
        """The rounds that found the machine in a slower state."""
        return frozenset(self.cost.slow)

    @cached_property
    def slow_for_all(self) -> frozenset[int]:
        """Those of them in which several were alive: of one alone nobody knows whether it was the machine."""
        alive = Counter(number for number, _, _, _ in self.seen)
        return frozenset(number for number in self.slow if alive[number] > 1)

    def each_s(self, purpose: StepPurpose) -> float:
        """What a process takes, by those that there were and by the guess, which counts like four of them."""
        # What took no time came to nothing.
        begun = [(one, one.step.rounds * len(one.step.candidates)) for one in self.taken if one.seconds]
        processes = sum(count for _, count in begun)
        starting_s = sum(one.seconds - count * one.step.process_s for one, count in begun)
        weight = 4 if not processes else 1
        start_s = (weight * self.terms.start_s + max(starting_s, 0.0)) / (weight + processes)
        return start_s + (self.terms.confirm_s if purpose in LAST else self.terms.look_s)

    def fresh(self, place: int, *, with_slow: bool = False) -> list[Reading]:
        """Its processes of the last stage, without those of rounds in which the machine was slower."""
        return [
            one
            for number, purpose, candidate, one in self.seen
            if candidate == place and purpose in LAST and (with_slow or number not in self.slow)
        ]

    def telling(self, place: int) -> list[Reading]:
        """The fresh processes that tell of its limits: all, where a machine that was slower at times holds them too."""
        every = self.fresh(place, with_slow=True)
        return every if self._is_below(every) else self.fresh(place)

    def limits(self, place: int) -> Limits:
        """What is known of its limits: by fresh processes where there are enough, else only beyond doubt."""
        return self._limits[place]

    @cached_property
    def _limits(self) -> list[Limits]:
        return [self._limits_of(place) for place in range(len(self.space))]

    def _limits_of(self, place: int) -> Limits:
        if not self.terms.limits:
            return Limits.HELD
        telling = self.telling(place)
        if len(telling) >= FRESH:
            if self._is_below(telling):
                return Limits.HELD
            ends = [interval([one.excess[limit] for one in telling]) for limit in range(self.terms.limits)]
            return Limits.BROKEN if any(low > 0 for _, low, _ in ends) else Limits.CANNOT_TELL
        broken = any(one.middle[place] - SURE * one.errors[place] > 0 for one in self.excess)
        return Limits.BROKEN if broken else Limits.CANNOT_TELL

    def _is_below(self, readings: Sequence[Reading]) -> bool:
        """Whether so many processes, and such, say that all limits are held."""
        if len(readings) < FRESH or not all(one.enough for one in readings):
            return False
        return all(interval([one.excess[limit] for one in readings])[2] < 0 for limit in range(self.terms.limits))

    @cached_property
    def chance(self) -> NDArray[np.float64]:
        """How likely each holds its limits, as far as it is known; of shape (n,)."""
        found = np.ones(len(self.space))
        for one in self.excess:
            found *= _below(-one.middle / np.maximum(one.errors, 1e-9))
        for place in range(len(self.space)):
            if place in self.gone or self.limits(place) is Limits.BROKEN:
                found[place] = 0.0
            elif self.limits(place) is Limits.HELD:
                found[place] = 1.0
        return found

    def cheapest(self, places: Sequence[int]) -> int:
        """The one of the smallest cost."""
        return min(places, key=lambda place: (self.cost.middle[place], place))

    def by_cost(self) -> list[int]:
        """Those measured that may hold their limits, the cheapest first."""
        able = [one for one in self.measured if self.chance[one] > 0]
        return sorted(able, key=lambda one: (self.cost.middle[one], one))

    def nearest(self) -> list[int]:
        """Those that are left, the one first that exceeds its limits by least."""
        worst = np.max([one.middle for one in self.excess], axis=0) if self.excess else self.cost.middle
        return sorted(self.measured, key=lambda place: (float(worst[place]), place))

    def least_excess(self, place: int) -> float:
        """By how much it exceeds its limits at the least, as far as it is known."""
        return max((float(one.middle[place] - SURE * one.errors[place]) for one in self.excess), default=0.0)

    def doubted(self) -> list[int]:
        """Those that would be better than what holds the limits, and break them by no more than spells account for."""
        leader = self.leader()
        most = inf if leader is None else float(self.cost.middle[leader]) - WORTH
        broken = [one for one in self.nearest() if self.limits(one) is Limits.BROKEN and self.cost.middle[one] < most]
        return [one for one in broken if self.least_excess(one) < FAR]

    def leader(self) -> int | None:
        """The best of those measured that rather hold their limits than not; None where none does."""
        likely = [one for one in self.measured if self.chance[one] > 0.5]
        return self.cheapest(likely) if likely else None

    def safe(self) -> int | None:
        """The best of those that surely hold their limits."""
        surely = self.surely()
        return self.cheapest(surely) if surely else None

    def surely(self) -> list[int]:
        """Those that surely hold their limits, by all that is known and not by fresh processes alone."""
        return [one for one in self.measured if self.chance[one] > 0.99]

    def contenders(self) -> list[int]:
        """Who may still be the best: not known to break a limit, nor beaten by what surely holds them."""
        safe = self.safe()
        if safe is None:
            return [one for one in self.living if self.chance[one] > 0]
        above, errors = self.cost.against(safe)
        unbeaten = (above - SURE * errors < -WORTH) & (self.chance > 0)
        return [one for one in self.living if one == safe or unbeaten[one]]

    def promising(self) -> list[int]:
        """The contenders, the one first of which most is to be expected: by how much it may undercut the best, times
        the chance that it may win (Gardner and others, "Bayesian Optimization with Inequality Constraints", 2014).
        """
        contenders = self.contenders()
        reference = self.leader()
        if reference is None:
            return sorted(contenders or self.living, key=lambda one: (self.least_excess(one), one))
        above, errors = self.cost.against(reference)
        errors = np.maximum(errors, 1e-9)
        reached = -above / errors
        density = np.exp(-(reached**2) / 2) / sqrt(2 * np.pi)
        expected = errors * (reached * _below(reached) + density) * self.chance
        others = sorted((one for one in contenders if one != reference), key=lambda one: (-expected[one], one))
        return [reference, *others]


def _below(deviates: NDArray[np.float64]) -> NDArray[np.float64]:
    """The chance of a normal deviate below each."""
    from scipy.special import ndtr  # noqa: PLC0415  # it takes a quarter of the start of every command

    found: NDArray[np.float64] = ndtr(deviates)
    return found


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The mean of one value a process between the ends of its interval."""
    array = np.asarray(values, dtype=np.float64)
    middle = float(array.mean())
    if array.size < 2:
        return middle, -inf, inf
    half = student_t.quantile(LIMIT_CONFIDENCE, array.size - 1) * float(array.std(ddof=1)) / sqrt(array.size)
    return middle, middle - half, middle + half


def exponentials(middle: float, low: float, high: float) -> tuple[float, float, float]:
    """The ratios whose logarithms these are; in place of those that no number holds stands the largest."""
    middle, low, high = (exp(min(one, _LARGEST)) for one in (middle, low, high))
    return middle, low, high


def shares_of_limit(middle: float, low: float, high: float) -> LimitShare:
    """The same of a limited figure ÷ its limit."""
    share, least, _ = exponentials(middle, low, high)
    return share, least, exp(high) if high <= _LARGEST else None
