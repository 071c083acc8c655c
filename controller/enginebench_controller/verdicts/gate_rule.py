"""Whether what is new is worse: the one rule of `enginebench gate`, and the conditions of `compare --fail-if`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import expm1, hypot, inf, log, log1p

from enginebench_controller.errors import ExitCode, InputError
from enginebench_controller.plan.configurations import describe_load
from enginebench_controller.records import Measurement, Profile
from enginebench_controller.stats.paired import RatioInterval, detectable
from enginebench_controller.verdicts.conditions import Condition, ConditionMetric
from enginebench_controller.verdicts.layers.profiles import ProfileComparison, ProfilePair
from enginebench_controller.verdicts.layers.rows import LayerRow
from enginebench_controller.verdicts.layers.summary import letter
from enginebench_controller.verdicts.pairing import Compared
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.words import model_words

NOTABLE = 0.01
"""`layer-slower` looks at rows that take at least this share of the time on either side."""

_ANYTHING = 1000.0
"""Of very few pairs the interval may have no end that is worth telling."""


class GateOutcome(StrEnum):
    """What is found of head compared with base."""

    WORSE = "worse"
    PASSES = "pass"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class GateRule:
    """When head is worse than base; all are shares of base.

    `tolerance` is accepted, and `difference` is the smallest that was promised to be told within the budget. An
    interval that lies above 1 + `beyond` is beyond noise.
    """

    tolerance: float = 0.01
    difference: float = 0.03
    beyond: float = 0.0

    @property
    def bound(self) -> float:
        """D: what passes is not worse by more than this."""
        return max(self.tolerance, self.difference)


@dataclass(frozen=True)
class GateVerdict:
    """What the rule says, and in a sentence why. Better passes, and `is_better` tells it.

    `ratio` is the interval that was judged, with the width that the control adds. The verdict `stands` where further
    pairs are not needed: not where nothing can be told yet, nor where what passes seems better by more than D and may
    not be.
    """

    outcome: GateOutcome
    is_better: bool
    sentence: str
    ratio: RatioInterval | None = None
    stands: bool = True


def decide(ratio: RatioInterval | None, rule: GateRule, control: RatioInterval | None = None) -> GateVerdict:
    """Apply the rule to the log ratio head ÷ base of something of which less is better.

    *Worse* when the interval lies above 1 and its middle above 1 + tolerance. *Pass* when not worse and the interval
    ends below 1 + D. Else *cannot tell*. `control` is the same of base ÷ base, measured along: by how much it is off,
    head may be, so that the interval is widened to √(half² + control²); where it reads different, nothing can be told.
    """
    if ratio is None:
        return GateVerdict(GateOutcome.CANNOT_TELL, False, "too few pairs of processes to tell", stands=False)
    if control is not None:
        ratio = _widened(ratio, control)
    words, margin = f"head ÷ base is {_words(ratio)}", log1p(rule.tolerance)
    if control is not None and _is_different(control, margin):
        reason = f"base ÷ base is {_words(control)} here and now"
        sentence = f"{words}: cannot tell, since {reason}"
        return GateVerdict(GateOutcome.CANNOT_TELL, False, sentence, ratio, stands=False)
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
    return expm1(min(detectable(spread_of_pairs, pairs, log1p(tolerance)), log(_ANYTHING)))


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
    return f"{middle:.3f} ({low:.3f}–{f'{high:.3f}' if high < _ANYTHING else '∞'})"


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %"


class ConditionOutcome(StrEnum):
    """What is known of a condition of `--fail-if`."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


_OF_CONDITION = {
    GateOutcome.WORSE: ConditionOutcome.FAILED,
    GateOutcome.PASSES: ConditionOutcome.PASSED,
    GateOutcome.CANNOT_TELL: ConditionOutcome.INCONCLUSIVE,
}


@dataclass(frozen=True)
class Check:
    """A condition applied to one pair, or to one row of it. `subject` says to which; `sentence` what was found."""

    pair: str
    subject: str
    condition: Condition
    outcome: ConditionOutcome
    sentence: str


def check_profiles(comparison: ProfileComparison, conditions: Sequence[Condition]) -> tuple[Check, ...]:
    """Apply the conditions to each pair; `layer-slower` gives a check a row.

    `slower` holds when both the unprofiled medians and the interval of Σ layers are beyond the limit. Intervals are
    over the inferences of one pass each; those of rows are corrected for the number of rows.
    """
    return tuple(
        check
        for place, pair in enumerate(comparison.pairs, start=1)
        for condition in conditions
        for check in _of_profiles(f"{_label(pair.second, place)} against {_label(pair.first, 0)}", pair, condition)
    )


def check_measurements(compared: Iterable[Compared], conditions: Sequence[Condition]) -> tuple[Check, ...]:
    """Apply the conditions to each pair of measurements. Raises `InputError` for one that only profiles can meet."""
    for condition in conditions:
        if condition.metric in (ConditionMetric.LAYER_SLOWER, ConditionMetric.COVERAGE):
            raise InputError(f"--fail-if: {condition.metric} is about layers; compare two profiles for that")
    return tuple(_of_measurements(one, condition) for one in compared for condition in conditions)


def _label(profile: Profile, place: int) -> str:
    return f"{letter(place)} {profile.name} ({profile.model_name}, {engine_label(profile)})"


def _of_profiles(pair: str, found: ProfilePair, condition: Condition) -> Iterator[Check]:
    match condition.metric:
        case ConditionMetric.SLOWER:
            yield Check(pair, "whole model", condition, *_whole_profile(found, condition.limit))
        case ConditionMetric.LAYER_SLOWER:
            yield from (_row(pair, row, condition) for row in found.rows if row.is_joined and _is_notable(row))
        case ConditionMetric.MEMORY:
            first, second = ([one.peak_rss_bytes] if one.peak_rss_bytes else [] for one in (found.first, found.second))
            yield Check(pair, "peak memory", condition, *_memory(first, second, condition.limit))
        case ConditionMetric.COVERAGE:
            yield Check(pair, "joined time", condition, *_coverage(found, condition.limit))


def _of_measurements(compared: Compared, condition: Condition) -> Check:
    chosen = compared.first.configuration
    work = f"{model_words(compared)}, {chosen.device}, batch {chosen.batch}, cores {chosen.cores}"
    pair = f"{engine_label(compared.second)} against {engine_label(compared.first)}"
    if condition.metric is ConditionMetric.MEMORY:
        outcome, sentence = _memory(_peaks(compared.first), _peaks(compared.second), condition.limit)
    else:
        found = compared.comparison
        outcome, sentence = _slower(found.ratio, found.low, found.high, condition.limit)
        sentence += f"; {found.note}" if found.note else ""
    return Check(pair, f"{work}, {describe_load(chosen)}, {chosen.precision}", condition, outcome, sentence)


def _whole_profile(pair: ProfilePair, limit: float) -> tuple[ConditionOutcome, str]:
    sums = pair.layers
    outcome, sentence = _slower(sums.ratio, sums.low, sums.high, limit) if sums else _slower(None, None, None, limit)
    if pair.latency_ratio is None:
        return ConditionOutcome.INCONCLUSIVE, f"Σ layers: {sentence}; the unprofiled latency is not known on both sides"
    agrees = (pair.latency_ratio > 1 + limit) == (outcome is ConditionOutcome.FAILED)
    if outcome is not ConditionOutcome.INCONCLUSIVE and not agrees:
        outcome = ConditionOutcome.INCONCLUSIVE
    return outcome, f"Σ layers: {sentence}; unprofiled median: {pair.latency_ratio:.3f}"


def _is_notable(row: LayerRow) -> bool:
    return max(row.first.share or 0.0, row.second.share or 0.0) >= NOTABLE


def _row(pair: str, row: LayerRow, condition: Condition) -> Check:
    outcome, sentence = _slower(row.ratio, row.ratio_low, row.ratio_high, condition.limit)
    return Check(pair, f"{row.name} ({row.operator})", condition, outcome, sentence)


def _coverage(pair: ProfilePair, limit: float) -> tuple[ConditionOutcome, str]:
    known = [share for share in pair.coverage.shares if share is not None]
    if len(known) < 2:
        return ConditionOutcome.INCONCLUSIVE, "no layer time is known on one side"
    sentence = f"{known[0]:.1%} of A's time and {known[1]:.1%} of the other's stand in joined rows"
    return ConditionOutcome.FAILED if min(known) < limit else ConditionOutcome.PASSED, sentence


def _slower(ratio: float | None, low: float | None, high: float | None, limit: float) -> tuple[ConditionOutcome, str]:
    """Beyond the limit with its whole interval, within it with its whole interval, or not to be told."""
    if ratio is None:
        return ConditionOutcome.INCONCLUSIVE, "the ratio is not known"
    if low is None or high is None:
        return ConditionOutcome.INCONCLUSIVE, f"ratio {ratio:.3f}, its interval is not known"
    logs = RatioInterval(*(log(one) if one > 0 else -inf for one in (ratio, low, high)))
    found = decide(logs, GateRule(tolerance=limit, difference=limit, beyond=limit))
    return _OF_CONDITION[found.outcome], f"ratio {ratio:.3f}, 95 % interval {low:.3f} to {high:.3f}"


def _memory(first: Sequence[int], second: Sequence[int], limit: float) -> tuple[ConditionOutcome, str]:
    """Of several processes each: all of the second's above the limit over all of the first's, or none, or neither."""
    if not first or not second:
        return ConditionOutcome.INCONCLUSIVE, "the peak memory is not known on both sides"
    sentence = f"peak memory {max(first) / 1e6:.1f} MB, then {max(second) / 1e6:.1f} MB"
    if min(second) > max(first) * (1 + limit):
        return ConditionOutcome.FAILED, sentence
    return ConditionOutcome.PASSED if max(second) <= min(first) * (
        1 + limit
    ) else ConditionOutcome.INCONCLUSIVE, sentence


def _peaks(measurement: Measurement) -> list[int]:
    """The peak of each process that tells."""
    phases = [process.phases for process in measurement.processes] or [measurement.phases]
    peaks = [[phase.peak_rss_bytes for phase in one if phase.peak_rss_bytes is not None] for one in phases]
    return [max(one) for one in peaks if one]
