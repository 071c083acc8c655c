"""The conditions of `compare --fail-if`, such as `slower>3% or layer-slower>10%`, and whether they hold."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, log

from enginebench_controller.errors import InputError
from enginebench_controller.graph.matching.matched import ADDED
from enginebench_controller.records import Configuration, LayerState, Measurement, Profile
from enginebench_controller.stats.layers import counters_ns, profiled_to_unprofiled, ratio
from enginebench_controller.stats.paired import RatioInterval
from enginebench_controller.typed_values import NUMBER, pointed
from enginebench_controller.verdicts.gate.rule import GateOutcome, GateRule, decide
from enginebench_controller.verdicts.layers.profiles import ProfileComparison, ProfilePair
from enginebench_controller.verdicts.layers.rows import LayerRow
from enginebench_controller.verdicts.layers.summary import letter
from enginebench_controller.verdicts.pairing import Compared, Unmatched
from enginebench_controller.verdicts.parity import engine_label
from enginebench_controller.verdicts.words import asked_words, milliseconds, model_words

NOTABLE = 0.01
"""`layer-slower` looks at rows that take at least this share of the time on either side."""

_WHOLE = "whole model"
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
_TERM = re.compile(rf"\s*([a-z-]+)\s*([<>])\s*({NUMBER})\s*%\s*")
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
    if told := pointed(text):  # else the comma would part two conditions
        raise InputError(f"--fail-if does not understand {text!r}: {told}")
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
    of them together, less all that only the first has. `slower` holds when both the unprofiled medians and the
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


_STRANGERS = "they are two different models, so that the one is not the other made slower or larger"


def _of_profiles(pair: str, found: ProfilePair, condition: Condition, told: tuple[str, ...]) -> Iterator[Check]:
    if found.are_strangers and condition.metric is not ConditionMetric.COVERAGE:
        yield Check(pair, _WHOLE, condition, ConditionOutcome.INCONCLUSIVE, _STRANGERS, told)
        return
    match condition.metric:
        case ConditionMetric.SLOWER:
            yield Check(pair, _WHOLE, condition, *_whole_profile(found, condition.limit), told)
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
    return f"{asked.device}, batch {asked.batch}, cores {asked.place}, {asked.load_in_words}, {asked.precision}"


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
    """A check each joined row, each one of which one side is not known, and one for all that B's engine added."""
    counters, are_known = _Counters.of(found), all(side.nodes for side in found.sides)
    added = [row for row in found.rows if row.is_of_second and row.category in ADDED] if are_known else []
    for row in filter(_is_notable, found.rows):
        subject = f"{row.name} ({row.operator})"
        if row.is_joined:
            told = _slower(row.ratio, row.ratio_low, row.ratio_high, condition.limit, counters.spoiled(row))
            yield Check(pair, subject, condition, *told)
        elif row.second.ran and row not in added:
            yield Check(pair, subject, condition, ConditionOutcome.INCONCLUSIVE, _unknown(row, found))
    if sum(row.second.share or 0.0 for row in added) >= NOTABLE:
        yield Check(pair, "reorders and converts", condition, *_added(added, found, condition.limit))


def _unknown(row: LayerRow, found: ProfilePair) -> str:
    nobody_knows = not row.first.layers and row.first.state in (LayerState.ABSENT, LayerState.NO_DATA)
    share = ratio(row.second.time_ns, found.coverage.total_ns[0])
    takes = "" if share is None else f"; it takes {share:.1%} of A's time"
    return ("not known to be one of A's" if nobody_knows else row.outcome) + takes


def _added(added: Sequence[LayerRow], found: ProfilePair, limit: float) -> tuple[ConditionOutcome, str]:
    """What only the second has makes the whole slower, less what only the first has.

    It fails or cannot be told: only where the whole is slower, also without counters, nothing else of the first's can
    have been in its place; and where nothing is slower by it, it still may be another's that took longer.
    """
    gone_ns = sum(row.first.time_ns or 0 for row in found.rows if row.is_of_first)
    added_ns = sum(row.second.time_ns or 0 for row in added)
    words = f"{milliseconds(added_ns)} ms that A is not known to have, for {milliseconds(gone_ns)} ms that A alone has"
    if (one := found.added) is None:
        return ConditionOutcome.INCONCLUSIVE, f"{words}; how certain that is, is not known"
    if any(row.first.ran and row.first.time_ns is None for row in found.rows):
        return ConditionOutcome.INCONCLUSIVE, f"{words}, which has told no time of others"
    outcome, sentence = _slower(one.ratio, one.low, one.high, limit)
    words = f"{words}; with all else equal {sentence}"
    if _whole_profile(found, limit)[0] is not ConditionOutcome.FAILED:
        return ConditionOutcome.INCONCLUSIVE, f"{words}, but the model as a whole is not known to be slower"
    return (outcome if outcome is ConditionOutcome.FAILED else ConditionOutcome.INCONCLUSIVE), words


def _coverage(pair: ProfilePair, limit: float) -> tuple[ConditionOutcome, str]:
    known = [share for share in pair.coverage.shares if share is not None]
    if len(known) < 2:
        return ConditionOutcome.INCONCLUSIVE, "no layer time is known on one side"
    sentence = f"{known[0]:.1%} of A's time and {known[1]:.1%} of the other's stand in joined rows"
    return ConditionOutcome.FAILED if min(known) < limit else ConditionOutcome.PASSED, sentence


@dataclass(frozen=True)
class _Spoiled:
    """By what factors counters may have made a ratio too large, and too small; and how that is told."""

    too_large: float = 1.0
    too_small: float = 1.0
    words: str = ""


_ANY = 1e6
"""As good as any factor."""


@dataclass(frozen=True)
class _Counters:
    """What counters cost each side: a factor of its latency, None where unknown, and nanoseconds a layer.

    They may cost a layer nothing, the same share of its time as the whole, or as much as every other layer.
    """

    factors: tuple[float | None, float | None]
    layer_ns: tuple[float, float]

    @classmethod
    def of(cls, found: ProfilePair) -> "_Counters":
        first, second = found.sides
        factors = profiled_to_unprofiled(first), profiled_to_unprofiled(second)
        return cls(factors, (counters_ns(first) or 0.0, counters_ns(second) or 0.0))

    def spoiled(self, row: LayerRow) -> _Spoiled:
        """What counters may have done to a row's ratio."""
        if not row.first.time_ns or not row.second.time_ns:
            return _Spoiled()
        measured = row.second.time_ns / row.first.time_ns
        ours, theirs = (factor or 1.0 for factor in self.factors)
        first, second = (
            max(0.0, (side.time_ns or 0) - cost_ns * side.timed_layers)
            for side, cost_ns in zip((row.first, row.second), self.layer_ns, strict=True)
        )
        may_be = [measured * ours / theirs, second / first if first else inf, *([] if first or second else [0.0])]
        return _Spoiled(
            min(_ANY, max(1.0, *(measured / one if one else inf for one in may_be))),
            min(_ANY, max(1.0, *(one / measured for one in may_be))),
            f"counters cost A {self._told(0)} and the other {self._told(1)}",
        )

    def _told(self, side: int) -> str:
        factor = self.factors[side]
        if factor is None:
            return "nobody knows how much"
        return f"{factor:.2f} times its latency, {self.layer_ns[side] / 1000:.1f} µs a layer,"


def _slower(
    ratio: float | None, low: float | None, high: float | None, limit: float, spoiled: _Spoiled = _Spoiled()
) -> tuple[ConditionOutcome, str]:
    """Beyond the limit with its whole interval, within it with its whole interval, or not to be told.

    Both also where counters made it as much too large, or too small, as they may have.
    """
    if ratio is None:
        return ConditionOutcome.INCONCLUSIVE, "the ratio is not known"
    if low is None or high is None:
        return ConditionOutcome.INCONCLUSIVE, f"ratio {ratio:.3f}, its interval is not known"
    logs = RatioInterval(*(log(one) if one > 0 else -inf for one in (ratio, low, high)))
    sentence = f"ratio {ratio:.3f}, 95 % interval {low:.3f} to {high:.3f}"
    if _decided(logs, (1 + limit) * spoiled.too_large) is ConditionOutcome.FAILED:
        return ConditionOutcome.FAILED, sentence
    if _decided(logs, (1 + limit) / spoiled.too_small) is ConditionOutcome.PASSED:
        return ConditionOutcome.PASSED, sentence
    would_be_told = _decided(logs, 1 + limit) is not ConditionOutcome.INCONCLUSIVE
    return ConditionOutcome.INCONCLUSIVE, sentence + (f"; {spoiled.words} which may be why" if would_be_told else "")


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
