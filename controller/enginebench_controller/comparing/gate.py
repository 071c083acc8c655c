"""Whether what is new is worse: the one rule of `enginebench gate`, and the conditions of `compare --fail-if`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import expm1, log1p

from enginebench_controller.comparing.conditions import Condition, Metric
from enginebench_controller.comparing.layer_rows import LayerRow
from enginebench_controller.comparing.pairing import Compared
from enginebench_controller.comparing.profiles import ProfileComparison, ProfilePair
from enginebench_controller.comparing.settings import letter
from enginebench_controller.comparing.words import model_words
from enginebench_controller.errors import InputError
from enginebench_controller.planning.configurations import describe_load
from enginebench_controller.records import Measurement, Profile
from enginebench_controller.stats.paired import FEWEST_PAIRS, Interval, detectable
from enginebench_controller.trust.parity import engine_label

NOTABLE = 0.01
"""`layer-slower` looks at rows that take at least this share of the time on either side."""


class GateOutcome(StrEnum):
    """What a gate finds of head compared with base."""

    WORSE = "worse"
    PASSES = "pass"
    CANNOT_TELL = "cannot_tell"


@dataclass(frozen=True)
class GateRule:
    """When head is worse than base. `tolerance` is accepted; `difference` was promised to be told within the budget."""

    tolerance: float = 0.01
    difference: float = 0.03

    @property
    def bound(self) -> float:
        """D of the rule: what passes is less than this worse."""
        return max(self.tolerance, self.difference)


@dataclass(frozen=True)
class GateVerdict:
    """What the rule says of an interval, and a sentence that says why. Better passes, and `is_better` tells it."""

    outcome: GateOutcome
    is_better: bool
    sentence: str


def decide(ratio: Interval | None, rule: GateRule, control: Interval | None = None) -> GateVerdict:
    """Apply the rule to the log ratio head ÷ base of something of which less is better.

    *Worse* when the interval lies above 1 and its middle above 1 + tolerance. *Pass* when not worse and the interval
    ends below 1 + D. Else *cannot tell*. `control` is the interval of base ÷ base, measured along: where that reads
    different, nothing can be told.
    """
    if ratio is None:
        return GateVerdict(GateOutcome.CANNOT_TELL, False, "there are too few pairs of processes to tell")
    margin = log1p(rule.tolerance)
    words = "head ÷ base {:.3f} (95 % interval {:.3f} to {:.3f})".format(*ratio.ratios)
    if control is not None and _differs(control, margin):
        off = "{:.3f} ({:.3f} to {:.3f})".format(*control.ratios)
        sentence = f"{words}, but base ÷ base reads {off} on this machine at this hour"
        return GateVerdict(GateOutcome.CANNOT_TELL, False, sentence)
    if ratio.low > 0 and ratio.middle > margin:
        return GateVerdict(GateOutcome.WORSE, False, f"{words}: worse, {rule.tolerance:.3g} tolerated")
    if ratio.high < log1p(rule.bound):
        is_better = ratio.high < 0 and ratio.middle < -margin
        sentence = f"{words}: {'better' if is_better else f'not worse by {rule.bound:.1%} or more'}"
        return GateVerdict(GateOutcome.PASSES, is_better, sentence)
    return GateVerdict(GateOutcome.CANNOT_TELL, False, f"{words}: it may be worse by {rule.bound:.1%} or more, or not")


def promised_difference(spread_of_pairs: float, pairs: int) -> float:
    """The difference, as a share, that a gate finds with 90 % power, given the spread of the pairs' log ratios."""
    return expm1(detectable(spread_of_pairs, max(pairs, FEWEST_PAIRS)))


def _differs(ratio: Interval, margin: float) -> bool:
    return abs(ratio.middle) > margin and (ratio.low > 0 or ratio.high < 0)


class Outcome(StrEnum):
    """What is known of a condition."""

    PASSED = "passed"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Check:
    """A condition applied to one pair, or to one row of it. `subject` says to which; `sentence` what was found."""

    pair: str
    subject: str
    condition: Condition
    outcome: Outcome
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
        if condition.metric in (Metric.LAYER_SLOWER, Metric.COVERAGE):
            raise InputError(f"--fail-if: {condition.metric} is about layers; compare two profiles for that")
    return tuple(_of_measurements(one, condition) for one in compared for condition in conditions)


def _label(profile: Profile, place: int) -> str:
    return f"{letter(place)} {profile.name} ({profile.model_name}, {engine_label(profile)})"


def _of_profiles(pair: str, found: ProfilePair, condition: Condition) -> Iterator[Check]:
    match condition.metric:
        case Metric.SLOWER:
            yield Check(pair, "whole model", condition, *_whole_profile(found, condition.limit))
        case Metric.LAYER_SLOWER:
            yield from (_row(pair, row, condition) for row in found.rows if row.is_joined and _is_notable(row))
        case Metric.MEMORY:
            first, second = ([one.peak_rss_bytes] if one.peak_rss_bytes else [] for one in (found.first, found.second))
            yield Check(pair, "peak memory", condition, *_memory(first, second, condition.limit))
        case Metric.COVERAGE:
            yield Check(pair, "joined time", condition, *_coverage(found, condition.limit))


def _of_measurements(compared: Compared, condition: Condition) -> Check:
    chosen = compared.first.configuration
    work = f"{model_words(compared)}, {chosen.device}, batch {chosen.batch}, cores {chosen.cores}"
    pair = f"{engine_label(compared.second)} against {engine_label(compared.first)}"
    if condition.metric is Metric.MEMORY:
        outcome, sentence = _memory(_peaks(compared.first), _peaks(compared.second), condition.limit)
    else:
        found = compared.comparison
        outcome, sentence = _slower(found.ratio, found.low, found.high, condition.limit)
        sentence += f"; {found.note}" if found.note else ""
    return Check(pair, f"{work}, {describe_load(chosen)}, {chosen.precision}", condition, outcome, sentence)


def _whole_profile(pair: ProfilePair, limit: float) -> tuple[Outcome, str]:
    sums = pair.layers
    outcome, sentence = _slower(sums.ratio, sums.low, sums.high, limit) if sums else _slower(None, None, None, limit)
    if pair.latency_ratio is None:
        return Outcome.INCONCLUSIVE, f"Σ layers: {sentence}; the unprofiled latency is not known on both sides"
    agrees = (pair.latency_ratio > 1 + limit) == (outcome is Outcome.FAILED)
    if outcome is not Outcome.INCONCLUSIVE and not agrees:
        outcome = Outcome.INCONCLUSIVE
    return outcome, f"Σ layers: {sentence}; unprofiled median: {pair.latency_ratio:.3f}"


def _is_notable(row: LayerRow) -> bool:
    return max(row.first.share or 0.0, row.second.share or 0.0) >= NOTABLE


def _row(pair: str, row: LayerRow, condition: Condition) -> Check:
    outcome, sentence = _slower(row.ratio, row.ratio_low, row.ratio_high, condition.limit)
    return Check(pair, f"{row.name} ({row.operator})", condition, outcome, sentence)


def _coverage(pair: ProfilePair, limit: float) -> tuple[Outcome, str]:
    known = [share for share in pair.coverage.shares if share is not None]
    if len(known) < 2:
        return Outcome.INCONCLUSIVE, "no layer time is known on one side"
    sentence = f"{known[0]:.1%} of A's time and {known[1]:.1%} of the other's stand in joined rows"
    return Outcome.FAILED if min(known) < limit else Outcome.PASSED, sentence


def _slower(ratio: float | None, low: float | None, high: float | None, limit: float) -> tuple[Outcome, str]:
    """Beyond the limit with its whole interval, within it with its whole interval, or not to be told."""
    if ratio is None:
        return Outcome.INCONCLUSIVE, "the ratio is not known"
    if low is None or high is None:
        return Outcome.INCONCLUSIVE, f"ratio {ratio:.3f}, its interval is not known"
    sentence = f"ratio {ratio:.3f}, 95 % interval {low:.3f} to {high:.3f}"
    if low > 1 + limit:
        return Outcome.FAILED, sentence
    return Outcome.PASSED if high <= 1 + limit else Outcome.INCONCLUSIVE, sentence


def _memory(first: Sequence[int], second: Sequence[int], limit: float) -> tuple[Outcome, str]:
    """Of several processes each: all of the second's above the limit over all of the first's, or none, or neither."""
    if not first or not second:
        return Outcome.INCONCLUSIVE, "the peak memory is not known on both sides"
    sentence = f"peak memory {max(first) / 1e6:.1f} MB, then {max(second) / 1e6:.1f} MB"
    if min(second) > max(first) * (1 + limit):
        return Outcome.FAILED, sentence
    return Outcome.PASSED if max(second) <= min(first) * (1 + limit) else Outcome.INCONCLUSIVE, sentence


def _peaks(measurement: Measurement) -> list[int]:
    """The peak of each process that tells."""
    phases = [process.phases for process in measurement.processes] or [measurement.phases]
    peaks = [[phase.peak_rss_bytes for phase in one if phase.peak_rss_bytes is not None] for one in phases]
    return [max(one) for one in peaks if one]
