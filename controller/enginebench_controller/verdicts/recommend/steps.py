"""What the stored steps of a search tell: the figures of each process, and what makes a candidate none."""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from math import ceil, log
from typing import Any

import numpy as np

from enginebench_controller.plan.plan import StepPurpose, parse_duration_ns
from enginebench_controller.plan.points import Point, at_rate, compared, identity, identity_of, samples_of_limit
from enginebench_controller.plan.recommend import Goal, RecommendOrder
from enginebench_controller.records import (
    OUT_OF_TIME,
    Benchmark,
    BlockSamples,
    EngineRef,
    FailureKind,
    MachineUse,
    Measurement,
    ModelVersion,
    OutputCheck,
    Process,
    Status,
)
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.disturbances import meanwhile
from enginebench_controller.verdicts.doubts import least_share
from enginebench_controller.verdicts.output_check import check_outputs, checks_against
from enginebench_controller.verdicts.recommend.candidates import Reading, Step, StepTaken
from enginebench_controller.verdicts.words import failure_sentence
from enginebench_proto.agreed.overload import is_overload

_MEDIAN = 50.0
_OVERLOADED = log(2)
"""By so much at least a process exceeds a limit of latency that does not keep up."""


@dataclass(frozen=True)
class Figures:
    """What one process showed; `limited_ns` is the percentile that is limited, None where none is.

    `overloaded` where it did not keep up with the requests that arrived, and `enough` unless it had fewer inferences
    than the percentile needs.
    """

    throughput_items_per_s: float
    median_ns: float
    limited_ns: float | None
    peak_rss_bytes: int | None
    overloaded: bool = False
    enough: bool = True


@dataclass(frozen=True)
class StoredStep:
    """A step that was carried out: its benchmark, and the figures of each candidate's processes, in their order.

    `differences`: how far a candidate's outputs were from those of the model as given, as a share of the largest value.
    `others` is what other processes used of the machine meanwhile, None where nobody could tell, and `engines` what was
    measured, in its versions.
    """

    benchmark_id: str
    taken: StepTaken
    figures: Mapping[int, Sequence[Figures]]
    differences: Mapping[int, float] = field(default_factory=dict)
    others: MachineUse | None = None
    engines: frozenset[EngineRef] = frozenset()


def stored_step(
    store: Store,
    order: RecommendOrder,
    points: Sequence[Point],
    step: Step,
    benchmark: Benchmark,
    earlier: Iterable[StoredStep] = (),
    ended_at_unix_ns: int | None = None,
) -> StoredStep:
    """What a step came to. Refused is whose outputs differ from those of others, in this step or an `earlier` one, and
    with it all of its variant where they are farther from those of the model as given than was allowed.

    Where nobody says when it ended, that is the end of its last process.
    """
    place_of = {identity(one.case): place for place, one in enumerate(points)}
    every = store.measurements(benchmark.id)
    found_ones = [one for one in every if not _tells_nothing(one)]  # the others may run once more
    if any(one.failure is not None and one.failure.kind is FailureKind.SHORTAGE for one in every):
        ended_at_unix_ns = None  # such a failure ends the command: until the next step the search stood still
    # At a rate a step has one candidate, whose case is another than that of its point.
    at_a_rate = step.rate_per_s is not None
    measured = dict(zip(step.candidates, found_ones, strict=False)) if at_a_rate else _by_place(place_of, found_ones)
    earlier = tuple(earlier)
    known = {place for one in earlier for place in one.figures}
    refused, differences = _judged(store, order, points, place_of, measured, earlier)
    wrong = frozenset(refused)
    figures: dict[int, Sequence[Figures]] = {}
    for place in step.candidates:
        seen = measured.get(place)
        if seen is None:
            continue  # the step was interrupted
        if seen.failure == OUT_OF_TIME and place in known:
            continue
        if not seen.status.has_numbers:
            refused.setdefault(place, _why_not(seen))
        elif place not in refused:
            found = figures_of(order, seen, store.block_samples(seen.id) if _needs_samples(order) else ())
            if isinstance(found, str):
                refused[place] = found
            else:
                figures[place] = found
    count = min((len(one) for one in figures.values()), default=0)
    rounds = tuple({place: reading_of(order, one[number]) for place, one in figures.items()} for number in range(count))
    return StoredStep(
        benchmark.id,
        StepTaken(step, rounds, refused, seconds_of(benchmark, measured.values(), ended_at_unix_ns), wrong),
        figures,
        differences,
        MachineUse.together(use for one in measured.values() if (use := meanwhile(one)) is not None),
        frozenset(one.engine for one in measured.values()),
    )


def output_differences(
    points: Sequence[Point], differences: Iterable[Mapping[int, float]]
) -> dict[tuple[str, ...], float]:
    """How far the outputs of each variant are from those of the model as given, at the most that was seen."""
    found: dict[tuple[str, ...], float] = {}
    for step in differences:
        for place, one in step.items():
            variant = points[place].variant
            found[variant] = max(one, found.get(variant, 0.0))
    return found


def step_of(points: Sequence[Point], benchmark: Benchmark, look_s: float) -> Step:
    """The step that a stored benchmark is, of its own plan; points that are no more are left out."""
    place_of = {_written(one.fields): place for place, one in enumerate(points)}
    rounds = benchmark.plan["processes"]
    process_s = parse_duration_ns(benchmark.plan["duration"]) / 1e9 / rounds
    rungs = [rung["fields"] for rung in benchmark.plan["rungs"]]
    said = benchmark.plan["search"].get("purpose")
    if said == StepPurpose.RATE:
        rate_of = {_written(at_rate(one, rungs[0]["rate"][0])): place for place, one in enumerate(points)}
        place = rate_of.get(_written(rungs[0]))
        return Step(StepPurpose.RATE, () if place is None else (place,), rounds, process_s, rungs[0]["rate"][0])
    places = [place_of.get(_written(one)) for one in rungs]
    told_by_time = StepPurpose.LOOK if process_s <= look_s else StepPurpose.CONFIRM  # of steps that do not say it
    purpose = StepPurpose(said) if said else told_by_time
    return Step(purpose, tuple(place for place in places if place is not None), rounds, process_s)


def _written(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True)


def figures_of(order: RecommendOrder, one: Measurement, samples: Iterable[BlockSamples]) -> list[Figures] | str:
    """The figures of each process of a measurement; or why they do not say what is asked."""
    limited = _limited(order, one, samples)
    found = []
    for process in one.processes:
        peak = _peak_rss_bytes(process)
        if process.median_ns is None or not process.throughput_items_per_s:
            return f"process {process.index + 1} has no numbers"
        if peak is None and (order.goal is Goal.MEMORY or order.memory_limit_bytes is not None):
            return "its target does not tell how much memory it takes"
        own = limited.get(process.index)
        is_enough = not _needs_samples(order) or (process.iterations or 0) >= samples_of_limit(order.latency_limit)
        overloaded = _is_overloaded(one, process)
        found.append(
            Figures(process.throughput_items_per_s, process.median_ns, own, peak, overloaded, enough=is_enough)
        )
    return found


def reading_of(order: RecommendOrder, one: Figures) -> Reading:
    """What the search is to know of a process."""
    cost = {
        Goal.THROUGHPUT: -log(one.throughput_items_per_s),
        Goal.RATE: -log(one.throughput_items_per_s),
        Goal.LATENCY: log(one.median_ns),
        Goal.MEMORY: log(one.peak_rss_bytes or 1),
    }[order.goal]
    excess = []
    if order.latency_limit is not None and one.limited_ns is not None:
        own = log(one.limited_ns / order.latency_limit.limit_ns)
        # Its queue grows for as long as it is measured: what a short process saw of it is too little.
        excess.append(max(own, _OVERLOADED) if one.overloaded else own)
    if order.memory_limit_bytes is not None and one.peak_rss_bytes is not None:
        excess.append(log(one.peak_rss_bytes / order.memory_limit_bytes))
    return Reading(cost, tuple(excess), one.enough)


def percentile_ns(samples: Sequence[float], percent: float) -> float:
    """The order statistic above which, on average, no more than the rest of all inferences lie; else the largest."""
    ordered = np.sort(np.asarray(samples, dtype=np.float64))
    return float(ordered[min(ordered.size, ceil(percent / 100 * (ordered.size + 1))) - 1])


def _needs_samples(order: RecommendOrder) -> bool:
    return order.latency_limit is not None and order.latency_limit.percent != _MEDIAN


def _limited(order: RecommendOrder, one: Measurement, samples: Iterable[BlockSamples]) -> dict[int, float | None]:
    """The limited percentile of each process."""
    if order.latency_limit is None:
        return {}
    if not _needs_samples(order):
        return {process.index: process.median_ns for process in one.processes}
    left_out = one.excluded_blocks
    of_process: dict[int, list[float]] = {}
    for block in samples:
        if (block.process, block.block) not in left_out:
            of_process.setdefault(block.process, []).extend(block.latency_ns.tolist())
    percent = order.latency_limit.percent
    return {process: percentile_ns(values, percent) for process, values in of_process.items() if values}


_WRONG = "its outputs are wrong"


def _wrong(
    measured: Mapping[int, Measurement], others: Sequence[Measurement], models: Sequence[ModelVersion]
) -> Iterable[tuple[int, str]]:
    checks = check_outputs([*others, *measured.values()], models)
    for place, one in measured.items():
        if (check := checks.get(one.id)) is not None and check.problem:
            yield place, f"{_WRONG}: {check.problem}"


def _by_place(place_of: Mapping[tuple[object, ...], int], found: Iterable[Measurement]) -> dict[int, Measurement]:
    keys = [
        (identity_of(one.engine.name, one.engine.environment, one.model_digest, one.configuration), one)
        for one in found
    ]
    return {place_of[key]: one for key, one in keys if key in place_of}


def _judged(
    store: Store,
    order: RecommendOrder,
    points: Sequence[Point],
    place_of: Mapping[tuple[object, ...], int],
    measured: Mapping[int, Measurement],
    earlier: Sequence[StoredStep],
) -> tuple[dict[int, str], dict[int, float]]:
    """Who is refused for its outputs, with the reason; and how far outputs are from those of the model as given."""
    before = [store.measurements(one.benchmark_id, with_blocks=False) for one in earlier]
    models = store.models()
    wrong = dict(_wrong(measured, [one for others in before for one in others], models))
    given = [
        (points[place].family, one)
        for gone, found in [
            *((step.taken.refused, _by_place(place_of, others)) for step, others in zip(earlier, before, strict=True)),
            (wrong, measured),
        ]
        for place, one in found.items()
        if points[place].is_given and place not in gone
    ]
    checks = _against_given(measured, given, points, models)
    right = {place for place, one in checks.items() if one is not None and not one.problem}
    right |= {place for one in earlier for place in one.differences if place not in one.taken.refused}
    wrong = _of_variants(points, wrong, right - wrong.keys()) | wrong
    known = {place: one.largest_relative_error for place, one in checks.items() if one is not None}
    differences = {place: one for place, one in known.items() if one is not None}
    too_far = _too_far(order, points, checks, [*(one.differences for one in earlier), differences])
    return too_far | wrong, differences


def _of_variants(points: Sequence[Point], wrong: Mapping[int, str], right: Set[int]) -> dict[int, str]:
    """All points of the variants whose plainest point is `wrong`, but for those seen to be right.

    What is wrong of the weights is so at every size, and at others there may be nothing to compare with. A larger
    batch, or another way to ask, may be wrong for itself alone.
    """
    why = {points[place].variant: wrong[place] for place in compared(points) if place in wrong}
    found = {place: why.get(one.variant, "") for place, one in enumerate(points)}
    return {place: reason for place, reason in found.items() if reason and place not in right}


def _against_given(
    measured: Mapping[int, Measurement],
    given: Sequence[tuple[str, Measurement]],
    points: Sequence[Point],
    models: Sequence[ModelVersion],
) -> dict[int, OutputCheck | None]:
    """How far the outputs are that were measured, by place, of all that are not of the model as `given`, which is by
    family; None where nothing was there to compare them with.
    """
    found: dict[int, OutputCheck | None] = {}
    for place, one in measured.items():
        if not points[place].is_given and one.status.has_numbers:
            of_family = [other for family, other in given if family == points[place].family]
            found[place] = checks_against(of_family, [one], models).get(one.id)
    return found


def _too_far(
    order: RecommendOrder,
    points: Sequence[Point],
    checks: Mapping[int, OutputCheck | None],
    differences: Iterable[Mapping[int, float]],
) -> dict[int, str]:
    """All of the variants whose outputs are farther from the model as given than is allowed, or nobody can tell."""
    limit = order.output_limit
    if limit is None:
        return {}
    known = output_differences(points, differences)
    why: dict[tuple[str, ...], str] = {}
    for place, check in checks.items():
        variant = points[place].variant
        if variant not in known:
            said = "" if check is None else check.problem or check.remark
            why[variant] = f"its outputs cannot be compared with those of the model as given{said and ': '}{said}"
        elif known[variant] > limit:
            allowed = f"{100 * limit:.3g} % is allowed"
            why[variant] = f"its outputs are {share_words(known[variant])} off those of the model as given; {allowed}"
    return {place: why[one.variant] for place, one in enumerate(points) if one.variant in why}


def share_words(share: float) -> str:
    """A share as a person reads it: "0.81 %", "101 %"."""
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def _is_overloaded(one: Measurement, process: Process) -> bool:
    """Whether more requests that were due were not sent, or fewer completed, than chance explains."""
    arrivals = one.configuration.arrivals
    if arrivals is None:
        return False
    done_per_s = (process.throughput_items_per_s or 0.0) / one.configuration.batch
    return is_overload(process.unsent_arrivals or 0, process.scheduled_arrivals or 0) or (
        done_per_s < arrivals.rate_per_s * least_share(arrivals, process.iterations or 1)
    )


def _tells_nothing(one: Measurement) -> bool:
    """Whether it says nothing of its point."""
    return one.status is Status.CANCELLED or (one.failure is not None and one.failure.kind.tells_nothing)


def _why_not(one: Measurement) -> str:
    if one.failure is None:
        return "it has no numbers, and no reason was kept"
    return failure_sentence(one.failure).removeprefix(f"{one.failure.kind}: ")


def _peak_rss_bytes(process: Process) -> int | None:
    return max((phase.peak_rss_bytes for phase in process.phases if phase.peak_rss_bytes is not None), default=None)


LONGEST_GAP_NS = 60_000_000_000
"""Between two processes of a step, while engines start; where it is longer, the search stood still."""


def seconds_of(benchmark: Benchmark, measured: Iterable[Measurement], ended_at_unix_ns: int | None) -> float:
    """From the beginning of a benchmark to its end, without the time in which nobody carried it out.

    A target's clock may be ahead of the one that told the end: nothing of a step is after that. And the clock may have
    been set back in the middle of it: it took as long at least as the longest of what was measured.
    """
    measured = tuple(measured)
    spans = sorted(
        (process.started_at_unix_ns, process.started_at_unix_ns + _duration_ns(process))
        for one in measured
        for process in one.processes
        if process.started_at_unix_ns is not None
    )
    ended = ended_at_unix_ns or max((end for _, end in spans), default=benchmark.created_at_unix_ns)
    within = ((min(start, ended), min(end, ended)) for start, end in spans)
    spent, reached = 0, benchmark.created_at_unix_ns
    for start, end in [*within, (ended, ended)]:
        spent += min(max(0, start - reached), LONGEST_GAP_NS) + max(0, end - max(start, reached))
        reached = max(reached, end)
    longest = max((sum(map(_duration_ns, one.processes)) for one in measured), default=0)
    return max(spent, longest) / 1e9


def _duration_ns(process: Process) -> int:
    return sum(phase.duration_ns for phase in process.phases)
