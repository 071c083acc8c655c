"""A point of the space, and what is known of it after the steps of a search."""

from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from math import exp, log

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.plan.points import Point
from enginebench_controller.plan.recommend import Goal, RecommendOrder
from enginebench_controller.records import Configuration
from enginebench_controller.verdicts.recommend.candidates import LAST, LimitShare
from enginebench_controller.verdicts.recommend.search import CandidateTold, Fate, SearchAnswer
from enginebench_controller.verdicts.recommend.steps import Figures, StoredStep

Bounds = tuple[float, float, float]
"""A middle between the ends of its interval."""


@dataclass(frozen=True)
class TriedPoint:
    """A point, and what is known of it; figures are None of one that was never measured.

    `ratio`: the best is so many times as good; `limit_share` is each limited figure ÷ its limit, with an end that no
    number holds as None. Both are what others like it say of a point without processes. Throughput, median and
    `limited_ns` agree with these: points are measured at different times, and what the machine made of that is taken
    out of all of them alike. `on_front`: nothing else that was measured is faster and does more.
    `model` has the beginning of its digest, and what it was calibrated on, where others are called so, too.
    `output_difference`: how far outputs of its version and precision are from those of the model as given on its
    engine, as a share of the largest value; None of the model as given, and where nothing was compared.
    """

    title: str
    engine: str
    environment: str
    version: str | None
    model: str
    configuration: Configuration
    fate: Fate
    processes: int
    throughput_items_per_s: float | None = None
    median_ns: float | None = None
    limited_ns: float | None = None
    peak_rss_bytes: int | None = None
    ratio: Bounds | None = None
    limit_share: tuple[LimitShare, ...] = ()
    why: str = ""
    is_default: bool = False
    on_front: bool = False
    output_difference: float | None = None
    model_digest: str = ""


def tried_point(point: Point, found: SearchAnswer, place: int, steps: Sequence[StoredStep], name: str) -> TriedPoint:
    """The point at a place, with what the search told of it and what its newest processes showed, and its model's name.

    The rounds are left out in which the whole machine was slower, where there are others.
    """
    one = next((each for each in found.told if each.candidate == place), CandidateTold(place, Fate.NOT_TRIED))
    case = point.case
    tried = TriedPoint(
        title=case.title,
        engine=case.engine.name,
        environment=case.engine.environment,
        version=case.engine.version,
        model=name,
        model_digest=case.model.original_digest,
        configuration=case.configuration,
        fate=one.fate,
        processes=one.processes,
        ratio=one.ratio,
        limit_share=one.of_limit,
        why=one.why,
        is_default=point.is_default,
    )
    figures = _newest(steps, place, found.slow_rounds)
    if not figures or one.fate is Fate.REFUSED:
        return tried
    peaks = [each.peak_rss_bytes for each in figures if each.peak_rss_bytes is not None]
    limited = [each.limited_ns for each in figures if each.limited_ns is not None]
    return replace(
        tried,
        throughput_items_per_s=_mean([each.throughput_items_per_s for each in figures]),
        median_ns=_mean([each.median_ns for each in figures]),
        limited_ns=_mean(limited) if limited else None,
        peak_rss_bytes=max(peaks, default=None),
    )


def beside(order: RecommendOrder, best: TriedPoint | None, one: TriedPoint) -> TriedPoint:
    """A point whose figures agree with what is said of it: by its ratio to the best, and its share of the limit."""
    if best is None or one.throughput_items_per_s is None or one.ratio is None:
        return one
    ratio, limit = one.ratio[0], order.latency_limit
    limited_ns = one.limit_share[0][0] * limit.limit_ns if limit is not None and one.limit_share else one.limited_ns
    slower = 1.0
    if order.goal in (Goal.THROUGHPUT, Goal.RATE) and best.throughput_items_per_s is not None:
        slower = one.throughput_items_per_s * ratio / best.throughput_items_per_s
    if order.goal is Goal.LATENCY and best.median_ns is not None and one.median_ns:
        slower = best.median_ns * ratio / one.median_ns
    return replace(
        one,
        limited_ns=limited_ns,
        throughput_items_per_s=one.throughput_items_per_s / slower,
        median_ns=None if one.median_ns is None else one.median_ns * slower,
    )


def _newest(steps: Sequence[StoredStep], place: int, slow: Set[int]) -> list[Figures]:
    """The fresh processes of the last stage, where there are some, else all; of these the ones of no `slow` round."""
    of_stage: dict[bool, list[tuple[int, Figures]]] = {True: [], False: []}
    begun = 0
    for step in steps:
        if step.taken.step.purpose is StepPurpose.RATE:
            continue
        of_stage[step.taken.step.purpose in LAST] += enumerate(step.figures.get(place, ()), begun)
        begun += len(step.taken.rounds)
    newest = of_stage[True] or of_stage[False]
    return [one for number, one in newest if number not in slow] or [one for _, one in newest]


def _mean(values: Sequence[float]) -> float:
    """The geometric mean."""
    return exp(sum(map(log, values)) / len(values))


def with_front(tried: Sequence[TriedPoint]) -> tuple[TriedPoint, ...]:
    """The points with those told that nothing measured beats in both latency and throughput."""
    known = [one for one in tried if one.median_ns is not None and one.throughput_items_per_s is not None]

    def is_beaten(one: TriedPoint) -> bool:
        return any(
            other is not one
            and (_latency(other), -_rate(other)) != (_latency(one), -_rate(one))
            and _latency(other) <= _latency(one)
            and _rate(other) >= _rate(one)
            for other in known
        )

    return tuple(replace(one, on_front=one in known and not is_beaten(one)) for one in tried)


def _latency(one: TriedPoint) -> float:
    return one.limited_ns or one.median_ns or 0.0


def _rate(one: TriedPoint) -> float:
    return one.throughput_items_per_s or 0.0
