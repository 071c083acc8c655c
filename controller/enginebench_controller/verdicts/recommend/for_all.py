"""One configuration for several targets, each of which was searched: what is still to be measured, and which it is.

A pure function of what the targets' steps say. It is the one that holds the limits on each of them and whose worst loss
against a target's own best is least; what seems to be that runs in fresh processes on each target, beside its own best.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.stats.response import Axes
from enginebench_controller.verdicts.recommend.candidates import FRESH, Known, Limits, SearchTerms, Step, StepTaken
from enginebench_controller.verdicts.recommend.search import SearchAnswer, SearchOutcome, answer

OWN_SHARE = 0.7
"""Of the budget, for the search of each target on its own."""
AT_A_TIME = 2
"""Configurations that are confirmed in one step, beside the target's own best."""


@dataclass(frozen=True)
class OnTarget:
    """What is known of one target: its points, what makes each the same elsewhere, the terms, and the steps so far."""

    space: Sequence[Axes]
    keys: Sequence[Hashable]
    terms: SearchTerms
    taken: Sequence[StepTaken]


@dataclass(frozen=True)
class ForAll:
    """The configuration for all, by its place on each target, with how many times as good each target's own best is.

    On those `lacking` it had too few fresh processes. Where nothing is limited, it is the best of what ran on all.
    """

    outcome: SearchOutcome
    places: tuple[int, ...] = ()
    ratios: tuple[tuple[float, float, float], ...] = ()
    lacking: tuple[int, ...] = ()


def next_for_all(targets: Sequence[OnTarget], *, has_time: bool = True) -> Mapping[int, Step] | ForAll:
    """The next step of each target that has one, by its number, or the answer."""
    known = [_Target(one) for one in targets]
    common = [key for key in known[0].place_of if all(key in one.place_of for one in known[1:])]
    if any(one.told.best is None or one.told.outcome is SearchOutcome.NOTHING for one in known):
        return ForAll(SearchOutcome.NOTHING)
    able = [key for key in common if all(one.may_hold(key) for one in known)]
    able.sort(key=lambda key: (max(one.loss(key) for one in known), common.index(key)))
    if not able:
        return ForAll(SearchOutcome.NOTHING)
    sure = [key for key in able if all(one.is_held(key) for one in known)]
    better = able[: able.index(sure[0])] if sure else able
    open_ = [key for key in better if not all(one.is_fresh(key) for one in known)][:AT_A_TIME]
    if has_time and open_ and (steps := _steps(known, open_)):
        return steps
    ran = [key for key in able if all(one.has_run(key) for one in known)]
    chosen = (sure or ran or able)[0]
    is_open = not sure and (not ran or any(one.known.terms.limits for one in known))
    outcome = SearchOutcome.CANNOT_TELL if is_open else SearchOutcome.FOUND
    places = tuple(one.place_of[chosen] for one in known)
    lacking = tuple(number for number, one in enumerate(known) if not one.is_fresh(chosen))
    return ForAll(outcome, places, tuple(one.ratio(chosen) for one in known), lacking)


def _steps(known: Sequence["_Target"], wanted: Sequence[Hashable]) -> dict[int, Step]:
    """Nothing where there is no time left on one of those that lack processes: the others alone would tell nothing."""
    while wanted:
        found = {number: one.step(wanted) for number, one in enumerate(known) if one.lacks(wanted)}
        steps = {number: step for number, step in found.items() if step is not None}
        if len(steps) == len(found):
            return steps
        wanted = wanted[:-1]
    return {}


class _Target:
    """What the steps of one target tell of its points, by their keys."""

    def __init__(self, target: OnTarget) -> None:
        self.known = Known(target.space, target.terms, target.taken)
        self.told: SearchAnswer = answer(target.space, target.terms, target.taken)
        self.place_of = {key: place for place, key in enumerate(target.keys)}

    def may_hold(self, key: Hashable) -> bool:
        place = self.place_of[key]
        return place not in self.known.gone and self.known.limits(place) is not Limits.BROKEN

    def is_fresh(self, key: Hashable) -> bool:
        return len(self.known.fresh(self.place_of[key])) >= FRESH

    def has_run(self, key: Hashable) -> bool:
        return self.place_of[key] in self.known.measured

    def is_held(self, key: Hashable) -> bool:
        return self.is_fresh(key) and self.known.limits(self.place_of[key]) is Limits.HELD

    def loss(self, key: Hashable) -> float:
        """The logarithm of how many times as good the target's own best is."""
        assert self.told.best is not None  # noqa: S101  # asked for before
        return float(self.known.cost.against(self.told.best)[0][self.place_of[key]])

    def ratio(self, key: Hashable) -> tuple[float, float, float]:
        """The same with its 95 % interval, as a factor."""
        assert self.told.best is not None  # noqa: S101  # asked for before
        above, errors = self.known.cost.against(self.told.best)
        place = self.place_of[key]
        middle, half = float(above[place]), 1.96 * float(errors[place])
        return float(np.exp(middle)), float(np.exp(middle - half)), float(np.exp(middle + half))

    def lacks(self, keys: Sequence[Hashable]) -> bool:
        return any(not self.is_fresh(key) for key in keys)

    def step(self, keys: Sequence[Hashable]) -> Step | None:
        """Fresh processes of these that lack some, beside the target's own best; None where there is no time."""
        lacking = [self.place_of[key] for key in keys if not self.is_fresh(key)]
        places = tuple(dict.fromkeys([*lacking, *([] if self.told.best is None else [self.told.best])]))
        places = places[: max(len(lacking), self.known.terms.together)]
        rounds = max(FRESH - len(self.known.fresh(one)) for one in lacking)
        if rounds * len(places) * self.known.each_s(StepPurpose.FOR_ALL) > self.known.left_s:
            return None
        return Step(StepPurpose.FOR_ALL, places, rounds, self.known.terms.confirm_s)
