"""Whether what is new is worse: the one rule of `enginebench gate` and of `compare --fail-if`."""

from dataclasses import dataclass
from enum import StrEnum
from math import expm1, hypot, log, log1p

from enginebench_controller.errors import ExitCode
from enginebench_controller.stats.paired import RatioInterval, detectable

ANYTHING = 1000.0
"""Of very few pairs the interval may have no end that is worth telling."""

MOST_PROMISED = 0.1
"""Who can tell no less than this lets nothing pass: a difference of 30 % that passes would be no gate."""


class GateOutcome(StrEnum):
    """What is found of head compared with base."""

    WORSE = "worse"
    PASSES = "pass"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class GateRule:
    """When head is worse than base; all are shares of base.

    `tolerance` is accepted, and `difference` is the smallest that was promised to be told within the budget. An
    interval that lies above 1 + `beyond` is beyond noise. What is judged is above 1 where head is worse: head ÷ base,
    or base ÷ head of a figure of which `more_is_better`.
    """

    tolerance: float = 0.01
    difference: float = 0.03
    beyond: float = 0.0
    more_is_better: bool = False

    @property
    def bound(self) -> float:
        """D: what passes is not worse by more than this."""
        return max(self.tolerance, self.difference)

    def of_figures(self, ratio: RatioInterval) -> RatioInterval:
        """A ratio that is judged as it is told: head ÷ base of the figures themselves, or base ÷ base."""
        return ratio.inverse if self.more_is_better else ratio


@dataclass(frozen=True)
class GateVerdict:
    """What the rule says, and in a sentence why. Better passes, and `is_better` tells it.

    `ratio` is the interval that was judged, with the width that the control adds. The verdict `stands` where further
    pairs are not needed: not where nothing can be told yet, nor where what passes seems better by more than D and may
    not be. Where the `control_differs`, something else used the machine.
    """

    outcome: GateOutcome
    is_better: bool
    sentence: str
    ratio: RatioInterval | None = None
    stands: bool = True
    control_differs: bool = False


def decide(ratio: RatioInterval | None, rule: GateRule, control: RatioInterval | None = None) -> GateVerdict:
    """Apply the rule to the log ratio head ÷ base, or its negative where more is better: above 0 is worse.

    *Worse* when the interval lies above 1 and its middle above 1 + tolerance. *Pass* when not worse and the interval
    ends below 1 + D. Else *cannot tell*. `control` is the same of base ÷ base, measured along: by how much it is off,
    head may be, so that the interval is widened to √(half² + control²); where it reads different, nothing can be told.
    """
    if ratio is None:
        return GateVerdict(GateOutcome.CANNOT_TELL, False, "too few pairs of processes to tell", stands=False)
    if control is not None:
        ratio = _widened(ratio, control)
    words, margin = f"head ÷ base is {_words(rule.of_figures(ratio))}", log1p(rule.tolerance)
    if control is not None and _is_different(control, margin):
        reason = f"base ÷ base is {_words(rule.of_figures(control))} here and now"
        sentence = f"{words}: cannot tell, since {reason}"
        return GateVerdict(GateOutcome.CANNOT_TELL, False, sentence, ratio, stands=False, control_differs=True)
    if ratio.low > log1p(rule.beyond) and ratio.middle > margin:
        tolerated = f"worse by more than the {_percent(rule.tolerance)} tolerated"
        return GateVerdict(GateOutcome.WORSE, False, f"{words}: {tolerated}", ratio)
    if ratio.high <= log1p(rule.bound):
        is_better = ratio.high < 0 and ratio.middle < -margin
        found = "better" if is_better else f"not worse by more than {_percent(rule.bound)}"
        stands = is_better or ratio.middle >= -log1p(rule.bound)
        return GateVerdict(GateOutcome.PASSES, is_better, f"{words}: {found}", ratio, stands)
    sentence = f"{words}: cannot tell whether it is worse by more than {_percent(rule.bound)}"
    return GateVerdict(GateOutcome.CANNOT_TELL, False, sentence, ratio, stands=False)


def promised_difference(spread_of_pairs: float, pairs: int, tolerance: float = GateRule.tolerance) -> float:
    """The difference, as a share, that a gate finds in nine of ten cases within so many process pairs.

    `spread_of_pairs` is `paired.spread` of log ratios of like pairs. Found is *worse*; of equal things, nine of ten
    pass with this difference as D. Raises ValueError for fewer than two pairs.
    """
    return expm1(min(detectable(spread_of_pairs, pairs, log1p(tolerance)), log(ANYTHING)))


def exit_code(*, worse: bool, failed: bool, cannot_tell: bool, strict: bool) -> ExitCode:
    """What a gate, or conditions, leave with: worse before what failed, this before what cannot be told.

    The last counts when `strict`; `failed` are configurations without numbers, and wrong outputs.
    """
    if worse:
        return ExitCode.CONDITION_MET
    if failed:
        return ExitCode.SOME_FAILED
    return ExitCode.CANNOT_TELL if strict and cannot_tell else ExitCode.OK


def _widened(ratio: RatioInterval, control: RatioInterval) -> RatioInterval:
    half = hypot(ratio.half, control.middle)
    return RatioInterval(ratio.middle, ratio.middle - half, ratio.middle + half)


def _is_different(ratio: RatioInterval, margin: float) -> bool:
    return abs(ratio.middle) > margin and (ratio.low > 0 or ratio.high < 0)


def _words(ratio: RatioInterval) -> str:
    middle, low, high = ratio.ratios
    return f"{middle:.3f} ({low:.3f}–{f'{high:.3f}' if high < ANYTHING else '∞'})"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"
