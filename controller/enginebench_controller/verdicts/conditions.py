"""The conditions of `compare --fail-if`, such as `slower>3% or layer-slower>10%`, and whether they hold."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, log

from enginebench_controller.errors import InputError
from enginebench_controller.graph.matching.matched import LayerCategory
from enginebench_controller.plan.configurations import describe_load
from enginebench_controller.records import Configuration, LayerState, Measurement, Profile
from enginebench_controller.stats.layers import profiled_to_unprofiled, ratio
from enginebench_controller.stats.paired import RatioInterval
from enginebench_controller.verdicts.gate.rule import GateOutcome, GateRule, decide
from enginebench_controller.verdicts.layers.profiles import ProfileComparison, ProfilePair
from enginebench_controller.verdicts.layers.rows import LayerRow
from enginebench_controller.verdicts.layers.summary import letter
from enginebench_controller.verdicts.pairing import Compared, Unmatched
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.words import asked_words, milliseconds, model_words

NOTABLE = 0.01
"""`layer-slower` looks at rows that take at least this share of the time on either side."""
_ADDED = {LayerCategory.REORDER: "reorders", LayerCategory.CONVERT: "converts"}
"""What an engine adds to a model: more of it makes the model slower, whichever of them are each other's."""

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

    What only the second has fails only as a reorder or a conversion, where both sides have a graph to be joined by: all
    of a category together, less what only the first has of it. `slower` holds when both the unprofiled medians and the
    interval of Σ layers are beyond the limit. Intervals are over the inferences of one pass each; those of rows are
    corrected for the number of rows.
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
            checks = list(_of_layers(pair, found, condition))
            yield from checks or [Check(pair, "all layers", condition, ConditionOutcome.INCONCLUSIVE, _NO_ROW, told)]
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


def _of_layers(pair: str, found: ProfilePair, condition: Condition) -> Iterator[Check]:
    """A check each joined row, each one that may be another's, and one for all that engines added of each category."""
    are_known = all(side.nodes for side in found.sides)
    costs = _Costs(*map(profiled_to_unprofiled, found.sides))
    for row in filter(_is_notable, found.rows):
        subject = f"{row.name} ({row.operator})"
        if row.is_joined:
            found_out = _slower(row.ratio, row.ratio_low, row.ratio_high, condition.limit, costs)
            yield Check(pair, subject, condition, *found_out)
        elif row.is_of_second and not (are_known and row.category in _ADDED):
            yield Check(pair, subject, condition, ConditionOutcome.INCONCLUSIVE, _unknown(row, found))
    for category, subject in _ADDED.items() if are_known else ():
        rows = [row for row in found.rows if row.category is category]
        if sum(row.second.share or 0.0 for row in rows if row.is_of_second) >= NOTABLE:
            yield Check(pair, subject, condition, *_added(rows, found, condition.limit, costs))


def _unknown(row: LayerRow, found: ProfilePair) -> str:
    nobody_knows = not row.first.layers and row.first.state in (LayerState.ABSENT, LayerState.NO_DATA)
    share = ratio(row.second.time_ns, found.coverage.total_ns[0])
    takes = "" if share is None else f"; it takes {share:.1%} of A's time"
    return ("not known to be one of A's" if nobody_knows else row.outcome) + takes


def _added(rows: Sequence[LayerRow], found: ProfilePair, limit: float, costs: "_Costs") -> tuple[ConditionOutcome, str]:
    """What only the second has makes the whole slower, less what only the first has.

    It fails or cannot be told: that the whole is not slower says nothing of one that may be another's.
    """
    first, second = [row.first for row in rows if row.is_of_first], [row.second for row in rows if row.is_of_second]
    only = [sum(side.time_ns or 0 for side in sides) for sides in (first, second)]
    words = (
        f"of those not known to be each other's A takes {milliseconds(only[0])} ms and the other "
        f"{milliseconds(only[1])} ms; with all else equal "
    )
    if not (total := found.coverage.total_ns[0]):
        return ConditionOutcome.INCONCLUSIVE, words + "the ratio is not known"
    whole, widths = 1 + (only[1] - only[0]) / total, [side.half_width_ns for side in (*first, *second)]
    low = high = None
    if None not in widths:
        # Layers share the luck of their pass, so that their widths add up.
        width = sum(one or 0.0 for one in widths) / total
        low, high = whole - width, whole + width
    outcome, sentence = _slower(whole, low, high, limit, costs)
    fails = outcome is ConditionOutcome.FAILED
    return outcome if fails else ConditionOutcome.INCONCLUSIVE, words + sentence


def _coverage(pair: ProfilePair, limit: float) -> tuple[ConditionOutcome, str]:
    known = [share for share in pair.coverage.shares if share is not None]
    if len(known) < 2:
        return ConditionOutcome.INCONCLUSIVE, "no layer time is known on one side"
    sentence = f"{known[0]:.1%} of A's time and {known[1]:.1%} of the other's stand in joined rows"
    return ConditionOutcome.FAILED if min(known) < limit else ConditionOutcome.PASSED, sentence


@dataclass(frozen=True)
class _Costs:
    """What counters cost each side, as a factor of its latency; None where unknown."""

    first: float | None = None
    second: float | None = None

    @property
    def factor(self) -> float:
        """By so much counters alone may change the ratio of a layer: nobody knows which layers pay for them."""
        return self.second / self.first if self.first and self.second else 1.0

    def __str__(self) -> str:
        return f"counters cost A {self.first:.2f} times its latency and the other {self.second:.2f} times"


def _slower(
    ratio: float | None, low: float | None, high: float | None, limit: float, costs: _Costs = _Costs()
) -> tuple[ConditionOutcome, str]:
    """Beyond the limit with its whole interval, within it with its whole interval, or not to be told.

    Both whatever counters did to it: it may be too large by the factor of their costs, or too small.
    """
    if ratio is None:
        return ConditionOutcome.INCONCLUSIVE, "the ratio is not known"
    if low is None or high is None:
        return ConditionOutcome.INCONCLUSIVE, f"ratio {ratio:.3f}, its interval is not known"
    logs = RatioInterval(*(log(one) if one > 0 else -inf for one in (ratio, low, high)))
    sentence = f"ratio {ratio:.3f}, 95 % interval {low:.3f} to {high:.3f}"
    within, beyond = (_decided(logs, (1 + limit) * one) for one in sorted((1.0, costs.factor)))
    if beyond is ConditionOutcome.FAILED or within is ConditionOutcome.PASSED:
        return (beyond if beyond is ConditionOutcome.FAILED else within), sentence
    would_be_told = _decided(logs, 1 + limit) is not ConditionOutcome.INCONCLUSIVE
    return ConditionOutcome.INCONCLUSIVE, sentence + (f"; {costs}, which may be why" if would_be_told else "")


def _decided(logs: RatioInterval, bound: float) -> ConditionOutcome:
    over = bound - 1
    return _OF_CONDITION[decide(logs, GateRule(tolerance=over, difference=over, beyond=over)).outcome]


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
