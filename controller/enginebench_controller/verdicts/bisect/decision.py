"""Bisecting: which gate comes next, and what the gates so far amount to. A pure function of what they have said.

Between a good and a bad candidate each gate compares one with the good one, halving what is left; the culprit is named
only where a last gate finds it worse than the candidate before it. What noise has led astray ends there: then those
gates are carried out again, longer, that led to it, and where nothing changes, nothing is named.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil, expm1, hypot, log1p, log2

from enginebench_controller.stats.paired import RatioInterval
from enginebench_controller.verdicts.gate.rule import GateOutcome

PATIENCE = 3
"""So many budgets has a gate that is carried out again."""


ASKED = 0.75
"""Of the difference between the ends, what a step has to tell from none."""
MOST_ASKED = 1.0
"""Of a difference, as a share: what takes twice as long is told from what does not soon enough."""


class GatePurpose(StrEnum):
    """What a gate is to tell."""

    ENDS = "ends"
    """Whether bad is worse than good at all."""
    STEP = "step"
    """Whether a candidate between them is as good, or as bad."""
    NEIGHBOURS = "neighbours"
    """Whether the culprit is worse than the candidate before it."""


@dataclass(frozen=True)
class Question:
    """Whether candidate `head` is worse than `base`, both by their place in the order, from good to bad.

    A `difference`, as a share, is to be told from none, within so many budgets as `patience` says. `left` is how many
    gates it takes with this one, where none of them is in doubt and none is skipped.
    """

    base: int
    head: int
    difference: float
    purpose: GatePurpose
    left: int
    patience: int = 1

    @property
    def tolerance(self) -> float:
        """What is nearer to the difference than to none is worse; as a share."""
        return expm1(log1p(self.difference) / 2)


@dataclass(frozen=True)
class GateSeen:
    """What a gate said; `ratio` is the log ratio head ÷ base.

    `reason` is why head came to nothing, as it cannot be installed or cannot run the model; `base_reason` is the same
    of base.
    """

    outcome: GateOutcome
    is_better: bool = False
    ratio: RatioInterval | None = None
    reason: str = ""
    base_reason: str = ""

    @property
    def is_doubtful(self) -> bool:
        """Whether it was measured, and tells nothing."""
        return self.outcome is GateOutcome.CANNOT_TELL and not self.reason and not self.base_reason


class BisectFinding(StrEnum):
    """What a bisect ends with."""

    CULPRIT = "culprit"
    ONE_OF = "one_of"
    """Worse than the last that is not, and those between the two came to nothing."""
    NOT_APART = "not_apart"
    """Bad is not worse than good, as far as can be told."""
    EXCHANGED = "exchanged"
    """Bad is better than good."""
    CANNOT_TELL = "cannot_tell"
    """It is one of the suspects, and noise hides which."""
    CANNOT_RUN = "cannot_run"
    """Good or bad came to nothing."""

    @property
    def names(self) -> bool:
        """Whether it names one, or one of several."""
        return self in (BisectFinding.CULPRIT, BisectFinding.ONE_OF)


@dataclass(frozen=True)
class Decided:
    """The end. `suspects` are places, of which one has made it worse; the candidate `before` them is not worse.

    `whole` is bad ÷ good, and `step` the culprit ÷ the candidate before it. `reason` says why nothing is named.
    """

    finding: BisectFinding
    suspects: tuple[int, ...] = ()
    before: int | None = None
    whole: RatioInterval | None = None
    step: RatioInterval | None = None
    reason: str = ""

    @property
    def share(self) -> float | None:
        """The part of the whole difference that the step explains, of logarithms; at most all of it."""
        if self.whole is None or self.step is None:
            return None
        return min(1.0, self.step.middle / self.whole.middle)

    @property
    def has_further_steps(self) -> bool:
        """Whether what the step leaves is more than noise."""
        if self.whole is None or self.step is None:
            return False
        return self.whole.middle - self.step.middle > hypot(self.whole.half, self.step.half)


Search = Generator[Question, GateSeen, Decided]


def decide(candidates: int, worse: float, looks: Sequence[GateSeen]) -> Question | Decided:
    """What follows from the gates so far, of so many candidates: the next gate, or the answer.

    `worse` is the share from which on a difference counts. The same looks lead to the same question.
    """
    search = _search(candidates - 1, worse)
    question = next(search)
    try:
        for look in looks:
            question = search.send(look)
    except StopIteration as end:
        return _answer(end.value)
    return question


def _answer(value: object) -> Decided:
    assert isinstance(value, Decided)  # noqa: S101  # what the generator returns
    return value


def _search(last: int, worse: float) -> Search:
    ends, patience = yield from _patiently(Question(0, last, worse, GatePurpose.ENDS, 1 + _left(0, last)))
    if (end := _of_ends(ends)) is not None or ends.ratio is None:
        return end or Decided(BisectFinding.NOT_APART)
    between = _Between(last, ends.ratio.middle, worse, patience)
    while True:
        while (place := between.middle()) is not None:
            look, patience = yield from _patiently(between.question(place))
            if look.is_doubtful or look.base_reason:
                return between.doubt(ends, _why(look, "a gate between them", "good", "the one between"))
            between.take(place, look, patience)
        low, high = between.low, between.high
        look, _ = yield from _patiently(between.neighbours())
        if look.outcome is GateOutcome.WORSE:
            finding = BisectFinding.CULPRIT if high - low == 1 else BisectFinding.ONE_OF
            return Decided(finding, between.suspects, low, ends.ratio, look.ratio)
        yield from between.look_again()
        if between.high > last:
            return Decided(BisectFinding.NOT_APART, reason="a longer gate did not find bad worse again")
        if (low, high) == (between.low, between.high):
            what = "the gate of the last against the one before it"
            return between.doubt(ends, _why(look, what, "the one before", "the last"))


def _difference(level: float, worse: float) -> float:
    """What is to be told from none, as a share, where a log ratio was seen: most of it, or what counts.

    A gate ends as soon as there is a difference, and takes it for larger than it is as often as for smaller: where all
    of it had to be told, bad ones would pass for good; where half of it, budgets that can just tell the whole would
    leave many in doubt. Of simulated bisects with such budgets, of changes of 5 to 30 %, these named the right one in
    94 to 100 % (all of it) and 96 to 100 % (three quarters) of 800 each, and 80 to 100 % (half) of 60 each.
    """
    seen = expm1(level)
    return max(worse / 2, min(seen, max(worse, ASKED * seen), MOST_ASKED))


def _of_ends(look: GateSeen) -> Decided | None:
    """The answer where the first gate is the last."""
    if look.reason or look.base_reason:
        who = "good" if look.base_reason else "bad"
        return Decided(BisectFinding.CANNOT_RUN, reason=f"{who} came to nothing: {look.base_reason or look.reason}")
    if look.outcome is GateOutcome.WORSE:
        return None
    finding = BisectFinding.EXCHANGED if look.is_better else BisectFinding.NOT_APART
    reason = "noise hides whether there is a difference" if look.is_doubtful else ""
    return Decided(finding, whole=look.ratio, reason=reason)


def _patiently(question: Question) -> Generator[Question, GateSeen, tuple[GateSeen, int]]:
    """Ask; what is in doubt once more, with a longer budget. With the look comes the patience that it took.

    Neighbours that began with the longer one are asked again, too: nothing is named without them, and a doubt may be of
    who else used the machine then.
    """
    look = yield question
    may_ask = question.patience < PATIENCE or question.purpose is GatePurpose.NEIGHBOURS
    if (look.is_doubtful and may_ask) or (look.base_reason and question.purpose is not GatePurpose.ENDS):
        question = replace(question, patience=PATIENCE)
        look = yield question
    return look, question.patience


def _why(look: GateSeen, what: str, base: str, head: str) -> str:
    if told := [f"{who}: {why}" for who, why in ((base, look.base_reason), (head, look.reason)) if why]:
        return f"{what} came to nothing: {'; '.join(told)}"
    if look.is_doubtful:
        return f"{what} cannot tell, not with {PATIENCE} budgets, an hour at most, either"
    return "each was told from good by its side, and the two not from each other"


def _left(low: int, high: int) -> int:
    """The gates that halving takes at most, and the one of the neighbours."""
    return ceil(log2(high - low)) + 1 if high - low > 1 else 1


class _Between:
    """The candidates between the last that is as good and the first that is as bad, as far as gates have told.

    With each its level, the log ratio to the good one: of several steps the first ones are smaller than the whole; and
    the patience that it took to tell.
    """

    def __init__(self, last: int, whole: float, worse: float, patience: int) -> None:
        self._worse = worse
        self._last = last
        self._levels = {0: 0.0, last: whole}
        self._is_bad = {0: False, last: True}
        self._patience = {last: patience}
        self._skipped: set[int] = set()
        self._again = {0}

    @property
    def low(self) -> int:
        return max(place for place, is_bad in self._is_bad.items() if not is_bad)

    @property
    def high(self) -> int:
        """Beyond the last where none is bad."""
        return min((place for place, is_bad in self._is_bad.items() if is_bad), default=self._last + 1)

    @property
    def _least_bad(self) -> float:
        """The smallest level of the bad ones: what is worse stays so, and a larger one further down is noise."""
        return min(self._levels[place] for place, is_bad in self._is_bad.items() if is_bad)

    @property
    def suspects(self) -> tuple[int, ...]:
        return tuple(range(self.low + 1, self.high + 1))

    def middle(self) -> int | None:
        """The candidate nearest to the middle that may yet be asked about."""
        open_ones = [one for one in range(self.low + 1, self.high) if one not in self._skipped]
        return min(open_ones, key=lambda one: abs(2 * one - self.low - self.high), default=None)

    def question(self, place: int, patience: int = 1) -> Question:
        difference = _difference(self._least_bad, self._worse)
        return Question(0, place, difference, GatePurpose.STEP, _left(self.low, self.high), patience)

    def neighbours(self) -> Question:
        """Of good and the one behind it, the gate was carried out before: what was too short then would be so now."""
        step = self._least_bad - max(0.0, self._levels[self.low])
        patience = self._patience[self.high] if self.low == 0 else 1
        return Question(self.low, self.high, _difference(step, self._worse), GatePurpose.NEIGHBOURS, 1, patience)

    def take(self, place: int, look: GateSeen, patience: int) -> None:
        """Count a candidate among the good or the bad; one that came to nothing is passed over."""
        if look.reason:
            self._skipped.add(place)
        elif look.outcome is not GateOutcome.CANNOT_TELL:
            self._is_bad[place] = look.outcome is GateOutcome.WORSE
            self._levels[place] = 0.0 if look.ratio is None else look.ratio.middle
            self._patience[place] = patience

    def look_again(self) -> Generator[Question, GateSeen, None]:
        """Gate those once more, longer, between which there is no difference; until one turns out to be otherwise."""
        low, high = self.low, self.high
        for place in (high, low):
            if place not in self._again:
                self._again.add(place)
                self.take(place, (yield self.question(place, PATIENCE)), PATIENCE)
            if (low, high) != (self.low, self.high):
                return

    def doubt(self, ends: GateSeen, reason: str) -> Decided:
        return Decided(BisectFinding.CANNOT_TELL, self.suspects, self.low, ends.ratio, reason=reason)
