"""A point of the space, and what is known of it after the steps of a search."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log

from enginebench_controller.plan.plan import StepPurpose
from enginebench_controller.plan.points import Point
from enginebench_controller.plan.recommend import Goal, RecommendOrder
from enginebench_controller.records import Configuration
from enginebench_controller.verdicts.recommend.candidates import LAST, LimitShare
from enginebench_controller.verdicts.recommend.search import CandidateTold, Fate
from enginebench_controller.verdicts.recommend.steps import Figures, StoredStep

Bounds = tuple[float, float, float]
"""A middle between the ends of its interval."""


@dataclass(frozen=True)
class TriedPoint:
    """A point, and what is known of it; figures are None of one that was never measured.

    `ratio`: the best is so many times as good; `limit_share` is each limited figure ÷ its limit, with an end that no
    number holds as None. Both are what others like it say of a point without processes. What is sought, and
    `limited_ns`, agree with these: points are measured at different times, and what the machine made of that is taken
    out. `on_front`: nothing else that was measured is faster and does more.
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


def tried_point(
    order: RecommendOrder, point: Point, told: Sequence[CandidateTold], place: int, steps: Sequence[StoredStep]
) -> TriedPoint:
    """The point at a place, with what the search told of it and what its newest processes showed."""
    one = next((each for each in told if each.candidate == place), CandidateTold(place, Fate.NOT_TRIED))
    case = point.case
    found = TriedPoint(
        title=case.title,
        engine=case.engine.name,
        environment=case.engine.environment,
        version=case.engine.version,
        model=case.model.name,
        configuration=case.configuration,
        fate=one.fate,
        processes=one.processes,
        ratio=one.ratio,
        limit_share=one.of_limit,
        why=one.why,
        is_default=point.is_default,
    )
    figures = _newest(steps, place)
    if not figures or one.fate is Fate.REFUSED:
        return found
    peaks = [each.peak_rss_bytes for each in figures if each.peak_rss_bytes is not None]
    limited = [each.limited_ns for each in figures if each.limited_ns is not None]
    return replace(
        found,
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
    if order.goal in (Goal.THROUGHPUT, Goal.RATE) and best.throughput_items_per_s is not None:
        return replace(one, limited_ns=limited_ns, throughput_items_per_s=best.throughput_items_per_s / ratio)
    if order.goal is Goal.LATENCY and best.median_ns is not None:
        return replace(one, limited_ns=limited_ns, median_ns=best.median_ns * ratio)
    return replace(one, limited_ns=limited_ns)


def _newest(steps: Sequence[StoredStep], place: int) -> list[Figures]:
    """The fresh processes of the last stage, where there are some, else all."""
    of_stage = {
        is_last: [
            figures
            for step in steps
            if (step.taken.step.purpose in LAST) is is_last and step.taken.step.purpose is not StepPurpose.RATE
            for figures in step.figures.get(place, ())
        ]
        for is_last in (True, False)
    }
    return of_stage[True] or of_stage[False]


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
