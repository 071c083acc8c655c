"""Alerts: where the history of a configuration changes level, and who it was as far as a history can tell.

A history alone never blames an engine: with another version after the change than before it is a candidate, which a
gate of the two versions confirms, or does not (`gating.confirming`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from math import exp, log
from statistics import median

from enginebench_controller.planning.configurations import describe_load
from enginebench_controller.records import Load
from enginebench_controller.stats.change_points import FEWEST_POINTS, change_points, is_other_level
from enginebench_controller.store.trends import TrendHistory, TrendPoint

EXPLAINED = 0.5
"""What is that much of a change, in logarithms, caused it where the engine cannot have."""

LEFT_OVER, LEFT_OVER_SHARE = 0.02, 0.25
"""What may remain beside the machine's part, and of the change, where the engine may have caused it too."""

MORE_DISTURBED = 0.25
"""So many more of the blocks must have been disturbed after a change than before."""


class Cause(StrEnum):
    """What a change is put down to. A candidate may be the engine: only a gate can tell."""

    MACHINE = "machine"
    CANDIDATE = "candidate"
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True)
class Alert:
    """A change of level between the points `before` and `after`, which follow one another.

    `ratio` is the median time after it ÷ before it, `reference_ratio` the same of the reference work, None where that
    is not known of both. `sentence` says why the cause is what it is.
    """

    history: TrendHistory
    before: TrendPoint
    after: TrendPoint
    points: tuple[int, int]
    ratio: float
    reference_ratio: float | None
    cause: Cause
    sentence: str

    @property
    def is_slower(self) -> bool:
        """Whether things take longer since."""
        return self.ratio > 1

    @property
    def versions(self) -> tuple[str | None, str | None]:
        """The engine's before and after."""
        return self.before.engine.version, self.after.engine.version


@dataclass(frozen=True)
class HistoryAlerts:
    """The alerts of one history. `shortage` says how many points there are and are needed, where these are too few."""

    history: TrendHistory
    usable: int
    alerts: tuple[Alert, ...]
    shortage: str = ""


def alerts(history: TrendHistory) -> HistoryAlerts:
    """Look for changes of level in the latencies of a history, of its throughput where requests overlap.

    Raises `InputError` without the library for it.
    """
    points = [point for point in history.points if _time(history, point)]
    if len(points) < FEWEST_POINTS:
        shortage = f"{len(points)} points with numbers, and {FEWEST_POINTS} are needed to tell a change from chance"
        return HistoryAlerts(history, len(points), (), shortage)
    found = _at_versions(points, change_points([_time(history, point) or 0.0 for point in points]))
    edges = [0, *found, len(points)]
    parts = [points[begin:end] for begin, end in pairwise(edges)]
    told = (_alert(history, first, second) for first, second in pairwise(parts))
    return HistoryAlerts(history, len(points), tuple(told))


def history_words(history: TrendHistory) -> str:
    """Which history it is: "resnet50 on onnxruntime (local, CPU, batch 1, 2 cores, sync)"."""
    chosen = history.configuration
    engine = history.engine if history.environment in ("", "default") else f"{history.engine}@{history.environment}"
    options = "".join(f", {name}={value}" for name, value in sorted(chosen.options.items()))
    where = f"{history.target}, {chosen.device}, {chosen.size}, {describe_load(chosen)}, {chosen.precision}{options}"
    return f"{history.model_name} on {engine} ({where})"


def _time(history: TrendHistory, point: TrendPoint) -> float | None:
    """What stands for a point: the time of an inference, or, of many at a time, an item's share of the time."""
    if history.configuration.load is Load.ASYNC:
        return 1 / point.throughput_items_per_s if point.throughput_items_per_s else None
    return point.median_ns or None


def _at_versions(points: Sequence[TrendPoint], places: Sequence[int]) -> list[int]:
    """The places, moved by one where the version changed there: a single odd point hides which side it is of."""
    changed = {
        place for place in range(1, len(points)) if points[place].engine.version != points[place - 1].engine.version
    }
    moved = [next((near for near in (one, one - 1, one + 1) if near in changed), one) for one in places]
    return sorted({one for one in moved if 0 < one < len(points)})


def _alert(history: TrendHistory, first: Sequence[TrendPoint], second: Sequence[TrendPoint]) -> Alert:
    ratio = _ratio([_time(history, one) for one in first], [_time(history, one) for one in second]) or 1.0
    reference = _reference(first, second)
    cause, sentence = _cause(first, second, log(ratio), reference)
    sizes = (len(first), len(second))
    slower = None if reference is None else exp(reference)
    return Alert(history, first[-1], second[0], sizes, ratio, slower, cause, sentence)


def _ratio(first: Sequence[float | None], second: Sequence[float | None]) -> float | None:
    known = [[one for one in each if one] for each in (first, second)]
    return median(known[1]) / median(known[0]) if all(known) else None


def _reference(first: Sequence[TrendPoint], second: Sequence[TrendPoint]) -> float | None:
    """The logarithm of how much longer the reference work takes: of that part of it which changed most.

    A part that differs by chance has not changed: streams scatter by tens of per cent where others use the memory.
    """
    products = _part([[one.reference_product_ns for one in each] for each in (first, second)])
    streams = _part([[one.reference_stream_ns for one in each] for each in (first, second)])
    return max((one for one in (products, streams) if one is not None), key=abs, default=None)


def _part(times: Sequence[Sequence[float | None]]) -> float | None:
    known = [[one for one in each if one] for each in times]
    if not all(known):
        return None
    return log(median(known[1]) / median(known[0])) if is_other_level(*known) else 0.0


def _cause(
    first: Sequence[TrendPoint], second: Sequence[TrendPoint], change: float, reference: float | None
) -> tuple[Cause, str]:
    before, after = first[-1].engine.version, second[0].engine.version
    if machine := _other_machine(first, second):
        return Cause.MACHINE, machine
    told = _reference_words(reference)
    explained = reference is not None and reference * change > 0 and abs(reference) >= EXPLAINED * abs(change)
    if before == after:
        same = "the engine's version is the same" if before else "no version of the engine is known"
        if explained:
            return Cause.MACHINE, f"{same}, and {told}"
        if disturbed := _disturbed(first, second, change):
            return Cause.MACHINE, f"{same}, and {disturbed}"
        return Cause.UNEXPLAINED, f"{same}, but {told}"
    versions = f"the engine's version was {before or 'unknown'} and is {after or 'unknown'}"
    left_over = abs(change - (reference or 0.0))
    if explained and left_over <= max(LEFT_OVER, LEFT_OVER_SHARE * abs(change)):
        return Cause.MACHINE, f"{versions}, but {told}"
    besides = "; ".join(filter(None, (told, _disturbed(first, second, change))))
    return Cause.CANDIDATE, f"{versions}; {besides}"


def _other_machine(first: Sequence[TrendPoint], second: Sequence[TrendPoint]) -> str:
    models = [one.cpu_model for one in (first[-1], second[0])]
    return f"the processor was {models[0]} and is {models[1]}" if all(models) and models[0] != models[1] else ""


def _reference_words(reference: float | None) -> str:
    if reference is None:
        return "how fast the machine was is not known, as no reference work was done on one side"
    if abs(reference) < LEFT_OVER:
        return "the reference work between blocks takes as long as before"
    return f"the reference work between blocks takes {exp(reference):.2f}× as long"


def _disturbed(first: Sequence[TrendPoint], second: Sequence[TrendPoint], change: float) -> str:
    """That others disturbed more of the blocks on the slower side."""
    shares = [[one.disturbed for one in each if one.disturbed is not None] for each in (first, second)]
    if not all(shares):
        return ""
    before, after = (sum(each) / len(each) for each in shares)
    if (after - before) * change <= 0 or abs(after - before) < MORE_DISTURBED:
        return ""
    return f"{after:.0%} of the blocks were disturbed since, {before:.0%} before"
