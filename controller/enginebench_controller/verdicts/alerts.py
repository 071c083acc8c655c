"""Alerts: where a history changes level, whose doing it was as far as that can be told, and what gates say of it.

A history alone never blames an engine: with another version after the change than before it is a candidate, which a
gate of the two versions confirms, or does not (`runs.gate`).
"""

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice, pairwise
from math import exp, log, log1p
from statistics import median
from typing import Any

from enginebench_controller.home import Home
from enginebench_controller.plan.options import words_of
from enginebench_controller.plan.plan import BASE, GateMetric, parse_percent
from enginebench_controller.records import LOCAL_TARGET, Configuration, Load, Measurement
from enginebench_controller.records.target import in_environment
from enginebench_controller.stats.change_points import FEWEST_POINTS, change_points, is_other_level, may_be_other_level
from enginebench_controller.stats.paired import RatioInterval
from enginebench_controller.store.benchmarks import BenchmarkEntry
from enginebench_controller.store.trends import TrendHistory, TrendPoint
from enginebench_controller.verdicts.gate.results import GateResult
from enginebench_controller.verdicts.gate.rule import GateOutcome, GateRule
from enginebench_controller.verdicts.gate.stored import gate_of
from enginebench_controller.verdicts.gate.words import headline
from enginebench_controller.verdicts.machines import disturbed_since, other_machine, reference_change, reference_words
from enginebench_proto.agreed.processor import processor_name

EXPLAINED = 0.5
"""What is that much of a change, in logarithms, caused it where the engine cannot have."""

LEFT_OVER, LEFT_OVER_SHARE = 0.02, 0.25
"""What may remain beside the machine's part, and of the change, where the engine may have caused it too."""

MENDED_SHARE = 0.5
"""Of a change no more than this may be left, where chance may be the rest of it, for it to count as undone."""


class Cause(StrEnum):
    """What a change is put down to. A candidate may be the engine: only a gate can tell."""

    MACHINE = "machine"
    CANDIDATE = "candidate"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Alert:
    """A change of level between the points `before` and `after`, which follow one another.

    `ratio` is the median time after it ÷ before it, `reference_ratio` the same of the reference work, None where that
    is not known of both. `beside_reference` is the ratio of the time as a multiple of the reference work, where nothing
    else shows the change: a machine that got faster hides an engine that got slower. `sentence` says why the cause is
    what it is.
    """

    history: TrendHistory
    before: TrendPoint
    after: TrendPoint
    points: tuple[int, int]
    ratio: float
    reference_ratio: float | None
    cause: Cause
    sentence: str
    beside_reference: float | None = None
    lasts: bool = True

    @property
    def change(self) -> float:
        """The ratio by which the change was seen: of times, or of their multiples of the reference work."""
        return self.beside_reference or self.ratio

    @property
    def is_slower(self) -> bool:
        """Whether things take longer since."""
        return self.change > 1

    @property
    def versions(self) -> tuple[str | None, str | None]:
        """The engine's before and after."""
        return self.before.engine.version, self.after.engine.version


@dataclass(frozen=True)
class HistoryAlerts:
    """The alerts of one history. `shortage` says how many points there are and are needed, where these are too few.

    Where nobody has looked for any, it is not `is_searched`: that there are none would be read as "no change".
    """

    history: TrendHistory
    usable: int
    alerts: tuple[Alert, ...]
    shortage: str = ""
    is_searched: bool = True


def alerts(history: TrendHistory) -> HistoryAlerts:
    """Look for changes of level in the latencies of a history, of its throughput where requests overlap.

    Where the version changes, those count too that only show beside the reference work, which is done between blocks:
    on a machine whose speed changes from day to day, times scatter two to ten times less as multiples of it. Raises
    `InputError` without the library for it.
    """
    points = _usable(history)
    if shortage := _shortage(points):
        return HistoryAlerts(history, len(points), (), shortage)
    seen = _at_versions(points, change_points([_time(history, point) or 0.0 for point in points]))
    hidden = _hidden(history, points, seen)
    edges = [0, *sorted({*seen, *hidden}), len(points)]
    parts = [points[begin:end] for begin, end in pairwise(edges)]
    told = [
        _alert(history, *pair, is_hidden=end in hidden) for pair, end in zip(pairwise(parts), edges[1:], strict=False)
    ]
    lasting = (replace(one, lasts=_lasts(told[place:], parts[place:])) for place, one in enumerate(told))
    return HistoryAlerts(history, len(points), tuple(lasting))


def unsearched(history: TrendHistory) -> HistoryAlerts:
    """The history as it is, in which nobody has looked for alerts."""
    points = _usable(history)
    return HistoryAlerts(history, len(points), (), _shortage(points), is_searched=False)


def _usable(history: TrendHistory) -> list[TrendPoint]:
    return [point for point in history.points if _time(history, point)]


def _shortage(points: Sequence[TrendPoint]) -> str:
    if len(points) >= FEWEST_POINTS:
        return ""
    count = f"{len(points)} point{'' if len(points) == 1 else 's'}"
    return f"{count} with numbers, and {FEWEST_POINTS} are needed to tell a change from chance"


def history_words(history: TrendHistory) -> str:
    """Which history it is: "resnet50 on onnxruntime (local, CPU, batch 1, 2 cores, sync)"; of others, "local, imported
    from Neoverse-N1".
    """
    chosen = history.configuration
    origin = [origin_words(history.points[-1])] if history.imported else []
    engine = in_environment(history.engine, history.environment)
    asked = (chosen.device, chosen.size, chosen.load_in_words, chosen.precision, *chosen.settings_in_words)
    return f"{history.model_name} on {engine} ({', '.join((history.target, *origin, *asked))})"


def origin_words(point: TrendPoint) -> str:
    """That a point is none of one's own, and of which processor: names of targets are given by everybody."""
    return f"imported from {point.cpu_model or 'an unknown processor'}" if point.imported else ""


def _time(history: TrendHistory, point: TrendPoint) -> float | None:
    """What stands for a point: the time of an inference, or, of many at a time, an item's share of the time."""
    if history.configuration.load is Load.ASYNC:
        return 1 / point.throughput_items_per_s if point.throughput_items_per_s else None
    return point.median_ns or None


def _at_versions(points: Sequence[TrendPoint], places: Sequence[int]) -> list[int]:
    """The places, moved by one where the version changed there: a single odd point hides which side it is of."""
    changed = _new_versions(points)
    moved = [next((near for near in (one, one - 1, one + 1) if near in changed), one) for one in places]
    return sorted({one for one in moved if 0 < one < len(points)})


def _new_versions(points: Sequence[TrendPoint]) -> set[int]:
    return {
        place for place in range(1, len(points)) if points[place].engine.version != points[place - 1].engine.version
    }


def _hidden(history: TrendHistory, points: Sequence[TrendPoint], seen: Sequence[int]) -> set[int]:
    """Where a new version begins, and with it a level of the times as multiples of the reference work only."""
    places = _new_versions(points) - set(seen)
    multiples = [one for one in (_multiple(history, point) for point in points) if one]
    if not places or len(multiples) < len(points):
        return set()
    return places & set(_at_versions(points, change_points(multiples)))


def _multiple(history: TrendHistory, point: TrendPoint) -> float | None:
    """The time as a multiple of the reference work that computes, as most engines do for most of the time."""
    time = _time(history, point)
    return time / point.reference_product_ns if time and point.reference_product_ns else None


def _alert(
    history: TrendHistory, first: Sequence[TrendPoint], second: Sequence[TrendPoint], *, is_hidden: bool
) -> Alert:
    ratio = _ratio([_time(history, one) for one in first], [_time(history, one) for one in second]) or 1.0
    reference = reference_change(first, second)
    beside = _ratio(*([_multiple(history, one) for one in each] for each in (first, second))) if is_hidden else None
    cause, sentence = _cause(first, second, log(ratio), reference)
    if beside is not None:
        sentence += f"; measured by that, an inference takes {beside:.2f}× as long"
    sizes = (len(first), len(second))
    slower = None if reference is None else exp(reference)
    return Alert(history, first[-1], second[0], sizes, ratio, slower, cause, sentence, beside)


def _lasts(alerts: Sequence[Alert], parts: Sequence[Sequence[TrendPoint]]) -> bool:
    """Whether the first of these alerts, the rest of which came after it, is not undone; `parts` are their levels.

    It is where the newest level is back within what a gate tolerates, or most of the way and not told apart from the
    level before, where there are points enough to tell. What the engine did not do since undoes nothing of it.
    """
    first, *later = alerts
    if not later:
        return True
    value = _time if first.beside_reference is None else _multiple
    values = [[found for one in part if (found := value(first.history, one))] for part in parts]
    steps = zip(later, pairwise(values[1:]), strict=True)
    others = sum(_not_the_engine(one, log(median(end) / median(begin)), value) for one, (begin, end) in steps)
    # A change that is the machine's says nothing of an engine's part in it.
    own = 0.0 if first.cause is Cause.MACHINE else _of_the_machine(first, value)
    change = log(first.change) - own
    was, now = values[0], [one / exp(others + own) for one in values[-1]]
    left = log(median(now) / median(was)) * (1 if change > 0 else -1)
    if left <= log1p(GateRule.tolerance):
        return False
    can_be_chance = may_be_other_level(len(was), len(now)) and not is_other_level(was, now)
    return left > MENDED_SHARE * abs(change) or not can_be_chance


def _not_the_engine(alert: Alert, step: float, value: Callable[..., float | None]) -> float:
    """The part of a step, in logarithms, that no engine made: all where it is the same, else what the machine did.

    In multiples of the reference work that is left out already.
    """
    before, after = alert.versions
    if before and before == after:
        return step
    if value is _time and alert.reference_ratio is None and alert.cause is Cause.MACHINE:
        return step
    return _of_the_machine(alert, value)


def _of_the_machine(alert: Alert, value: Callable[..., float | None]) -> float:
    """The part of a change, in logarithms, that the reference work shows, too; 0 where that is not known."""
    return 0.0 if value is _multiple else log(alert.reference_ratio or 1.0)


def _ratio(first: Sequence[float | None], second: Sequence[float | None]) -> float | None:
    known = [[one for one in each if one] for each in (first, second)]
    return median(known[1]) / median(known[0]) if all(known) else None


def _cause(
    first: Sequence[TrendPoint], second: Sequence[TrendPoint], change: float, reference: float | None
) -> tuple[Cause, str]:
    before, after = first[-1].engine.version, second[0].engine.version
    if machine := other_machine(first, second):
        return Cause.MACHINE, machine
    told = reference_words(reference)
    explained = reference is not None and reference * change > 0 and abs(reference) >= EXPLAINED * abs(change)
    if before == after:
        same = "the engine's version is the same" if before else "no version of the engine is known"
        if explained:
            return Cause.MACHINE, f"{same}, and {told}"
        if disturbed := disturbed_since(first, second, change):
            return Cause.MACHINE, f"{same}, and {disturbed}"
        return Cause.UNEXPLAINED, f"{same}, but {told}"
    versions = f"the engine's version was {before or 'unknown'} and is {after or 'unknown'}"
    left_over = abs(change - (reference or 0.0))
    if explained and left_over <= max(LEFT_OVER, LEFT_OVER_SHARE * abs(change)):
        return Cause.MACHINE, f"{versions}, but {told}"
    besides = "; ".join(filter(None, (told, disturbed_since(first, second, change))))
    return Cause.CANDIDATE, f"{versions}; {besides}"


class Finding(StrEnum):
    """What is known of a candidate; only what is confirmed is a regression or an improvement."""

    REGRESSION = "regression"
    IMPROVEMENT = "improvement"
    NOT_CONFIRMED = "not confirmed"
    CANNOT_TELL = "cannot tell"
    UNCONFIRMED = "unconfirmed"


@dataclass(frozen=True)
class Confirmation:
    """What a gate said of an alert, and in a sentence why; `benchmark_id` is that gate, where there was one.

    Where the gate was too coarse for a change of this size, `coarse_within` is its budget: a longer one may tell.
    """

    finding: Finding
    sentence: str
    benchmark_id: str | None = None
    coarse_within: str | None = None


Findings = tuple[tuple[HistoryAlerts, tuple[Confirmation | None, ...]], ...]
"""The alerts of histories, and of each what a gate said; None for what needs none."""


def known(home: Home, alerts: Sequence[Alert]) -> tuple[Confirmation | None, ...]:
    """What the newest stored gates that can tell say of candidates; None for what cannot be the engine."""
    if not any(alert.cause is Cause.CANDIDATE for alert in alerts):
        return (None,) * len(alerts)
    entries = [one for one in home.store.benchmarks() if one.benchmark.plan.get("gate")]
    return tuple(_known(home, alert, entries) if alert.cause is Cause.CANDIDATE else None for alert in alerts)


def findings(home: Home, histories: Iterable[TrendHistory]) -> Findings:
    """The `alerts` of histories with what is `known` of each, for which the gates are looked through once.

    Raises as `alerts` does.
    """
    found = [alerts(one) for one in histories]
    told = iter(known(home, [alert for one in found for alert in one.alerts]))
    return tuple((one, tuple(islice(told, len(one.alerts)))) for one in found)


def _command(alert: Alert) -> str:
    usual = {"streams": [1], "hint": ["none"], "load": ["sync"], "requests": []}
    fields = {name: value for name, value in plan_fields(alert).items() if value != usual.get(name)}
    before, after = (side_words(alert, version) for version in alert.versions)
    sides = ("--base", before, "--head", after)
    metric = metric_of(alert.history.configuration)
    asked = () if metric is GateMetric.LATENCY else ("--metric", str(metric))
    return shlex.join(["enginebench", "gate", alert.history.model_digest[:12], *sides, *words_of(fields), *asked])


def obstacle(home: Home, alert: Alert) -> str:
    """Why there can be no gate."""
    if alert.after.imported and not _is_known(home, alert):
        return "it was measured elsewhere and imported: a gate here would be of another machine"
    if None in alert.versions:
        return "the engine's version is not known on one side, so no gate can be run of it"
    if len({side_words(alert, version) for version in alert.versions}) == 1:
        return "both are builds of one release, which no gate here can tell apart"
    if alert.history.configuration.load is Load.OPEN_LOOP:
        return "a gate has no open loop: what is slower in it needs a closed load to confirm"
    return ""


def _is_known(home: Home, alert: Alert) -> bool:
    """Whether the target is one that is known here as well. Another machine may have its name, as all have "local"."""
    if alert.history.target == LOCAL_TARGET:
        processor = processor_name()
    else:
        seen = (one.host.cpu_model for one in home.store.snapshots() if one.target == alert.history.target)
        processor = next(seen, None)
    return processor is not None and processor == alert.after.cpu_model


def side_words(alert: Alert, version: str | None) -> str:
    """One side of the gate, as a person types it."""
    return f"{alert.history.engine}=={(version or '').partition('+')[0]}"


def plan_fields(alert: Alert) -> Mapping[str, Any]:
    """The plan's fields that make the gate measure what the history is of."""
    chosen, target = alert.history.configuration, alert.history.target
    return {
        **({} if target == LOCAL_TARGET else {"targets": [target]}),
        "devices": [chosen.device],
        "batch": [chosen.batch],
        "cores": [chosen.place],
        "streams": [chosen.streams],
        "precision": [chosen.precision],
        "hint": [str(chosen.hint)],
        "load": [str(chosen.load)],
        "requests": [chosen.requests] if chosen.load is Load.ASYNC else [],
        "shapes": {one.name: "x".join(map(str, one.shape)) for one in chosen.inputs if one.shape},
        "input_values": dict(str(one).split("=", 1) for one in chosen.input_set.values),
        "options": {f"{alert.history.engine}.{name}": value for name, value in chosen.options.items()},
    }


def _known(home: Home, alert: Alert, entries: Sequence[BenchmarkEntry]) -> Confirmation:
    before, after = (side_words(alert, version) for version in alert.versions)
    undecided = None
    for entry in entries if before != after else ():  # a version against itself says nothing of its builds
        terms = entry.benchmark.plan["gate"]
        if not isinstance(terms, Mapping) or (terms.get("base"), terms.get("head")) != (before, after):
            continue
        if alert.history.target not in entry.targets:
            continue
        if entry.benchmark.imported and not alert.after.imported:
            continue  # `local` is another machine there
        result = gate_of(home, entry.benchmark)
        if result is None or not _is_of(alert, result.measurements[BASE]):
            continue
        found = confirmation_of(alert, result)
        if found.finding is not Finding.CANNOT_TELL:
            return found
        if undecided is None and _was_asked(alert, result):
            undecided = found
    if undecided is not None:
        return undecided
    sentence = obstacle(home, alert) or f"not confirmed by a gate yet: --confirm runs it, or {_command(alert)}"
    return Confirmation(Finding.UNCONFIRMED, sentence)


def _is_of(alert: Alert, base: Measurement) -> bool:
    return base.model_digest == alert.history.model_digest and _work(base.configuration) == _work(
        alert.history.configuration
    )


def _work(chosen: Configuration) -> Configuration:
    """What is done, whenever it stops and with which values."""
    bare = Configuration(chosen.device, chosen.batch, chosen.cores, cluster=chosen.cluster)
    return replace(chosen, stop=bare.stop, input_set=bare.input_set)


def _was_asked(alert: Alert, result: GateResult) -> bool:
    """Whether a gate that cannot tell was asked about the time, and to let no more pass than gates of alerts do."""
    metric = metric_of(alert.history.configuration)
    return metric in result.terms.metrics and parse_percent(result.terms.tolerate) <= GateRule.tolerance


def finding_words(alert: Alert, confirmation: Confirmation) -> str:
    """What was found, and whether it is over: "regression", "regression, since mended"."""
    is_over = confirmation.finding is Finding.REGRESSION and not alert.lasts
    return f"{confirmation.finding}, since mended" if is_over else str(confirmation.finding)


def confirmation_of(alert: Alert, result: GateResult) -> Confirmation:
    """What the result of a gate says of an alert, which is about the time: its other metrics count for nothing here.

    A difference counts in the alert's direction; else the interval tells whether the engine made most of the change.
    """
    told = _of_time(result)
    said = Confirmation(Finding.CANNOT_TELL, headline(told), result.benchmark.id)
    if told.outcome is GateOutcome.CANNOT_TELL:
        return said
    if told.outcome is GateOutcome.WORSE and alert.is_slower:
        return replace(said, finding=Finding.REGRESSION)
    if told.is_better and not alert.is_slower:
        return replace(said, finding=Finding.IMPROVEMENT)
    ratio = told.judged.decisive.ratio
    if ratio is not None and _is_ruled_out(alert, ratio):
        return replace(said, finding=Finding.NOT_CONFIRMED)
    coarse = f"{said.sentence}; that is too coarse for this change: give a longer --budget"
    return replace(said, sentence=coarse, coarse_within=result.terms.budget)


def _is_ruled_out(alert: Alert, ratio: RatioInterval) -> bool:
    """Whether the engine did not make the change, by the interval of a gate, which may tolerate much.

    It ends before the change, its middle says that the engine made less than half of it, and it finds no difference
    in the same direction.
    """
    size, towards = abs(log(alert.change)), ratio if alert.is_slower else ratio.inverse
    is_found = towards.low > 0 and towards.middle > log1p(GateRule.tolerance)
    return towards.high < size and towards.middle < EXPLAINED * size and not is_found


def metric_of(chosen: Configuration) -> GateMetric:
    """What a gate is asked about a time such as `_time` has it."""
    return GateMetric.THROUGHPUT if chosen.load is Load.ASYNC else GateMetric.LATENCY


def _of_time(result: GateResult) -> GateResult:
    """The same gate as if it had been asked about the time alone, which all gates measure."""
    wanted = metric_of(result.measurements[BASE].configuration)
    found = next(one for one in result.judged.metrics if one.metric is wanted)
    verdict = found.verdict
    alone = (replace(found, decides=True),)
    judged = replace(result.judged, metrics=alone, outcome=verdict.outcome, is_better=verdict.is_better)
    return replace(result, judged=judged)
