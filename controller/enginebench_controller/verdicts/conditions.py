"""The conditions of `compare --fail-if`, such as `slower>3% or layer-slower>10%`, and whether they hold."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, log

from enginebench_controller.errors import InputError
from enginebench_controller.plan.configurations import describe_load
from enginebench_controller.records import Configuration, Measurement, Profile
from enginebench_controller.stats.layers import profiled_to_unprofiled
from enginebench_controller.stats.paired import RatioInterval
from enginebench_controller.verdicts.gate.rule import GateOutcome, GateRule, decide
from enginebench_controller.verdicts.layers.profiles import ProfileComparison, ProfilePair
from enginebench_controller.verdicts.layers.rows import LayerRow
from enginebench_controller.verdicts.layers.summary import letter
from enginebench_controller.verdicts.pairing import Compared, Unmatched
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.words import asked_words, model_words

NOTABLE = 0.01
"""`layer-slower` looks at rows that take at least this share of the time on either side."""
COUNTERS_DIFFER = 0.2
"""What counters cost is a ratio of two medians: of equal sides it differs by less."""

_NO_ROW = f"no layer that takes {NOTABLE:.0%} of the time is known to be one of the other's"


class ConditionMetric(StrEnum):
    """What a condition is about; each is of the second side compared with the first."""

    SLOWER = "slower"
    LAYER_SLOWER = "layer-slower"
    MEMORY = "memory"
    COVERAGE = "coverage"


_SIGNS = {
    ConditionMetric.SLOWER: ">",
    ConditionMetric.LAYER_SLOWER: ">",
    ConditionMetric.MEMORY: ">",
    ConditionMetric.COVERAGE: "<",
}
_TERM = re.compile(r"\s*([a-z-]+)\s*([<>])\s*(\d+(?:\.\d+)?)\s*%\s*")
_OR = re.compile(r"\s+or\s+|,")
_GRAMMAR = "slower>P%, layer-slower>P%, memory>P% or coverage<P%, joined by `or`"


@dataclass(frozen=True)
class Condition:
    """A condition on which a comparison fails. `limit` is a share: 0.03 for 3 %."""

    metric: ConditionMetric
    limit: float

    def __str__(self) -> str:
        return f"{self.metric}{_SIGNS[self.metric]}{self.limit * 100:g}%"


def parse_conditions(text: str) -> tuple[Condition, ...]:
    """Read what follows `--fail-if`: one condition or several joined by `or`. Raises `InputError` for anything else."""
    return tuple(_parse(term) for term in _OR.split(text))


def _parse(term: str) -> Condition:
    found = _TERM.fullmatch(term)
    if not found or found[1] not in set(ConditionMetric):
        raise InputError(f"--fail-if does not understand {term.strip()!r}: it takes {_GRAMMAR}")
    metric = ConditionMetric(found[1])
    if found[2] != _SIGNS[metric]:
        raise InputError(f"--fail-if: {metric} goes with {_SIGNS[metric]}, as in {metric}{_SIGNS[metric]}{found[3]}%")
    return Condition(metric, float(found[3]) / 100)


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
    """A condition applied to one pair, or to one row of it. `subject` says to which; `sentence` what was found.

    `remarks` are those on the pair, where the check is on the whole of it.
    """

    pair: str
    subject: str
    condition: Condition
    outcome: ConditionOutcome
    sentence: str
    remarks: tuple[str, ...] = ()


def check_profiles(comparison: ProfileComparison, conditions: Sequence[Condition]) -> tuple[Check, ...]:
    """Apply the conditions to each pair; `layer-slower` gives a check a row, or one that cannot tell.

    `slower` holds when both the unprofiled medians and the interval of Σ layers are beyond the limit. Intervals are
    over the inferences of one pass each; those of rows are corrected for the number of rows.
    """
    return tuple(
        check
        for place, pair in enumerate(comparison.pairs, start=1)
        for condition in conditions
        for check in _of_profiles(
            f"{_label(pair.second, place)} against {_label(pair.first, 0)}",
            pair,
            condition,
            (*comparison.remarks, *pair.remarks),
        )
    )


def check_measurements(
    compared: Iterable[Compared], conditions: Sequence[Condition], unmatched: Iterable[Unmatched] = ()
) -> tuple[Check, ...]:
    """Apply the conditions to each pair of measurements; of one that has no like it cannot be told whether they hold.

    Raises `InputError` for a condition that only profiles can meet.
    """
    for condition in conditions:
        if condition.metric in (ConditionMetric.LAYER_SLOWER, ConditionMetric.COVERAGE):
            raise InputError(f"--fail-if: {condition.metric} is about layers; compare two profiles for that")
    return (
        *(_of_measurements(one, condition) for one in compared for condition in conditions),
        *(_without_like(one, condition) for one in unmatched for condition in conditions),
    )


def _label(profile: Profile, place: int) -> str:
    return f"{letter(place)} {profile.name} ({profile.model_name}, {engine_label(profile)})"


def _of_profiles(pair: str, found: ProfilePair, condition: Condition, told: tuple[str, ...]) -> Iterator[Check]:
    match condition.metric:
        case ConditionMetric.SLOWER:
            yield Check(pair, "whole model", condition, *_whole_profile(found, condition.limit), told)
        case ConditionMetric.LAYER_SLOWER:
            rows = [row for row in found.rows if _is_notable(row) and (row.is_joined or row.is_of_second)]
            total_ns = sum(row.first.time_ns or 0 for row in found.rows)
            for row in rows:
                check = _row(pair, row, condition) if row.is_joined else _new_row(pair, row, condition, total_ns)
                yield _unless_counters_differ(check, found)
            if not rows:
                yield Check(pair, "all layers", condition, ConditionOutcome.INCONCLUSIVE, _NO_ROW, told)
        case ConditionMetric.MEMORY:
            first, second = ([one.peak_rss_bytes] if one.peak_rss_bytes else [] for one in (found.first, found.second))
            yield Check(pair, "peak memory", condition, *_memory(first, second, condition.limit), told)
        case ConditionMetric.COVERAGE:
            yield Check(pair, "joined time", condition, *_coverage(found, condition.limit), told)


def _of_measurements(compared: Compared, condition: Condition) -> Check:
    pair = f"{engine_label(compared.second)} against {engine_label(compared.first)}"
    if condition.metric is ConditionMetric.MEMORY:
        outcome, sentence = _memory(_peaks(compared.first), _peaks(compared.second), condition.limit)
    else:
        found = compared.comparison
        outcome, sentence = _slower(found.ratio, found.low, found.high, condition.limit)
        sentence += f"; {found.note}" if found.note else ""
    subject = f"{model_words(compared)}, {asked_words(compared, _work)}"
    return Check(pair, subject, condition, outcome, sentence, compared.remarks)


def _without_like(unmatched: Unmatched, condition: Condition) -> Check:
    one = unmatched.measurement
    pair, subject = f"{unmatched.called} against {engine_label(one)}", f"{one.model_name}, {_work(one.configuration)}"
    sentence = f"{unmatched.called} has nothing to compare with it"
    return Check(pair, subject, condition, ConditionOutcome.INCONCLUSIVE, sentence)


def _work(asked: Configuration) -> str:
    return f"{asked.device}, batch {asked.batch}, cores {asked.place}, {describe_load(asked)}, {asked.precision}"


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


def _unless_counters_differ(check: Check, pair: ProfilePair) -> Check:
    """The check, which cannot tell where counters cost one side more than the other, by more than its limit."""
    costs = [cost for cost in map(profiled_to_unprofiled, pair.sides) if cost]
    limit = 1 + max(check.condition.limit, COUNTERS_DIFFER)
    if len(costs) < 2 or 1 / limit <= costs[1] / costs[0] <= limit:
        return check
    told = f"counters cost A {costs[0]:.2f} times its latency and the other {costs[1]:.2f} times, which may be why"
    return replace(check, outcome=ConditionOutcome.INCONCLUSIVE, sentence=f"{check.sentence}; {told}")


def _new_row(pair: str, row: LayerRow, condition: Condition, total_ns: int) -> Check:
    """What only the second has is slower by all of its time, which is held against all of the first's."""
    share = (row.second.time_ns or 0) / total_ns if total_ns else 0.0
    fails = share > condition.limit
    outcome = ConditionOutcome.FAILED if fails else ConditionOutcome.INCONCLUSIVE
    sentence = f"only the second has it, and it takes {share:.1%} of the first's time" if total_ns else _NO_ROW
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
