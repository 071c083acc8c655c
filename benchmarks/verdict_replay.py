"""Recorded process pairs put before the gate's own rule: how often it is right, and how long that takes.

A gate is replayed on rounds that are drawn in stretches of neighbours, since what follows one another shares its luck
(the circular block bootstrap: Politis and Romano, "A Circular Block-Resampling Procedure for Stationary Data", 1992).
It is charged the time that each round took, and stops by its own rule. Draws come from the same rounds, so that
intervals over draws say how well a figure is known of these recordings, not of others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import exp, expm1, log, log1p
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from benchmarks.verdict_recordings import BASE, CONTROL, HEAD, Round
from enginebench_controller.stats.paired import FEWEST_PAIRS, interval, log_ratio, sequential_interval
from enginebench_controller.verdicts.gate.rule import GateOutcome, GateRule, decide

STRETCH = 6
"""How many neighbouring rounds are drawn together."""

LEVEL = 0.95

Within = Callable[[Sequence[float], Sequence[float]], float | None]
"""The log ratio of one process pair from its blocks' medians."""


@dataclass(frozen=True)
class Observed:
    """Rounds as the gate sees them, arrays of shape (rounds,): the log ratio of head to both processes of base, that of
    these two, and the seconds it took; and the log median of one process of each for rivals.
    """

    ratios: NDArray[np.float64]
    controls: NDArray[np.float64]
    wall_s: NDArray[np.float64]
    base: NDArray[np.float64]
    head: NDArray[np.float64]

    def slower(self, share: float) -> "Observed":
        """The same with head's times made longer by a share."""
        shift = log1p(share)
        return Observed(self.ratios + shift, self.controls, self.wall_s, self.base, self.head + shift)


def observe(rounds: Sequence[Round], within: Within = log_ratio) -> Observed:
    """What a gate sees of rounds. Raises ValueError when one has no times."""
    rows = [_row(one, within) for one in rounds]
    return Observed(*(np.array(column, dtype=np.float64) for column in zip(*rows, strict=True)))


def _row(one: Round, within: Within) -> tuple[float, ...]:
    to_base, to_control, apart = (
        within(*one.medians(*sides)) for sides in ((BASE, HEAD), (CONTROL, HEAD), (BASE, CONTROL))
    )
    if to_base is None or to_control is None or apart is None:
        raise ValueError(f"round {one.pair} of {', '.join(one.series)} has no times")
    logs = [log(median(one.sides[side].medians_ns)) for side in (BASE, HEAD)]
    return (to_base + to_control) / 2, apart, one.wall_ns / 1e9, *logs


@dataclass(frozen=True)
class Replayed:
    """What one gate came to."""

    outcome: GateOutcome
    is_better: bool
    covered: bool
    seconds: float
    pairs: int


def gate(seen: Observed, order: Sequence[int], budget_s: float, rule: GateRule, true: float) -> Replayed:
    """Take rounds in this order until the rule can tell, or a further one would not end within the budget."""
    walls, ratios, controls = (
        [float(each[place]) for place in order] for each in (seen.wall_s, seen.ratios, seen.controls)
    )
    spent, taken = 0.0, 0
    found = decide(None, rule)
    covered = False
    for taken in range(1, len(order) + 1):
        usual = median(walls[:taken])
        spent += walls[taken - 1]
        most = max(taken, int(budget_s / usual))
        ratio = sequential_interval(ratios[:taken], most)
        found = decide(ratio, rule, sequential_interval(controls[:taken], most))
        covered = ratio is not None and ratio.low <= true <= ratio.high
        if found.stands or spent + usual > budget_s:
            break
    return Replayed(found.outcome, found.is_better, covered, spent, taken)


def orders(seen: Observed, budget_s: float, draws: int, seed: int) -> Iterator[list[int]]:
    """Rounds for so many gates, each of stretches of neighbours that last as long as the budget or longer."""
    generator = np.random.default_rng(seed)
    count = seen.wall_s.size
    for _ in range(draws):
        order: list[int] = []
        while sum(seen.wall_s[order]) < budget_s or len(order) < FEWEST_PAIRS:
            begin = int(generator.integers(count))
            order += [(begin + step) % count for step in range(min(STRETCH, count))]
        yield order


@dataclass(frozen=True)
class Share:
    """How many of so many, with the exact interval of Clopper and Pearson (Biometrika 26, 1934)."""

    found: int
    of: int

    @classmethod
    def of_all(cls, shares: Sequence["Share"]) -> "Share":
        """Several together."""
        return cls(sum(one.found for one in shares), sum(one.of for one in shares))

    @property
    def value(self) -> float:
        """The share."""
        return self.found / self.of

    @property
    def ends(self) -> tuple[float, float]:
        """The interval's."""
        ends = stats.binomtest(self.found, self.of).proportion_ci(LEVEL, "exact")
        return float(ends.low), float(ends.high)

    def __str__(self) -> str:
        low, high = self.ends
        return f"{100 * self.value:.1f} % ({100 * low:.1f}–{100 * high:.1f})"


@dataclass(frozen=True)
class Figures:
    """What many gates of one thing came to; `true` is head ÷ base less 1."""

    true: float
    worse: Share
    better: Share
    cannot_tell: Share
    covered: Share
    median_s: float
    median_pairs: float


def replay(
    seen: Observed, budget_s: float, draws: int, *, rule: GateRule, true: float | None = None, seed: int = 1
) -> Figures:
    """Replay many gates. Without a `true` log ratio it is taken to be that of all rounds together."""
    if true is None:
        true = long_run(seen)
    gates = [gate(seen, order, budget_s, rule, true) for order in orders(seen, budget_s, draws, seed)]
    return Figures(
        true=expm1(true),
        worse=Share(sum(one.outcome is GateOutcome.WORSE for one in gates), draws),
        better=Share(sum(one.is_better for one in gates), draws),
        cannot_tell=Share(sum(one.outcome is GateOutcome.CANNOT_TELL for one in gates), draws),
        covered=Share(sum(one.covered for one in gates), draws),
        median_s=median(one.seconds for one in gates),
        median_pairs=median(one.pairs for one in gates),
    )


def together(series: Sequence[Figures]) -> Figures:
    """Gates of several series as one; of sizes, times and pairs the medians."""
    return Figures(
        true=median(one.true for one in series),
        worse=Share.of_all([one.worse for one in series]),
        better=Share.of_all([one.better for one in series]),
        cannot_tell=Share.of_all([one.cannot_tell for one in series]),
        covered=Share.of_all([one.covered for one in series]),
        median_s=median(one.median_s for one in series),
        median_pairs=median(one.median_pairs for one in series),
    )


def long_run(seen: Observed) -> float:
    """The log ratio of all rounds together. Raises ValueError for fewer than two."""
    found = interval(seen.ratios)
    if found is None:
        raise ValueError("fewer than two rounds tell no size")
    return found.middle


def rivals(seen: Observed, budget_s: float, draws: int, *, rule: GateRule, seed: int = 1) -> dict[str, Share]:
    """How often tests that know no pairs call head worse: p below 5 %, and more than tolerated.

    Both have the medians of all processes that the budget allows, and one process of base a round.
    """
    taken = [_within(seen, order, budget_s) for order in orders(seen, budget_s, draws, seed)]
    sides = [(seen.base[order], seen.head[order]) for order in taken]
    return {
        "Welch": Share(sum(_rival(*one, rule, stats.ttest_ind(*one, equal_var=False).pvalue) for one in sides), draws),
        "Mann–Whitney": Share(sum(_rival(*one, rule, stats.mannwhitneyu(*one).pvalue) for one in sides), draws),
    }


def _within(seen: Observed, order: Sequence[int], budget_s: float) -> list[int]:
    ends = np.cumsum(seen.wall_s[list(order)])
    return list(order[: max(FEWEST_PAIRS, int(np.searchsorted(ends, budget_s, side="right")))])


def _rival(base: NDArray[np.float64], head: NDArray[np.float64], rule: GateRule, p_value: float) -> bool:
    return bool(p_value < 1 - LEVEL and exp(np.median(head) - np.median(base)) > 1 + rule.tolerance)
