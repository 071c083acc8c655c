"""What the stored steps of a search tell: the figures of each process, and what makes a candidate none."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from typing import Any

import numpy as np

from enginebench_controller.plan.plan import parse_duration_ns
from enginebench_controller.plan.points import Point, identity, identity_of
from enginebench_controller.plan.recommend import Goal, RecommendOrder
from enginebench_controller.records import Benchmark, BlockSamples, Measurement, ModelVersion, Process
from enginebench_controller.store.store import Store
from enginebench_controller.verdicts.output_check import check_outputs
from enginebench_controller.verdicts.pairing import excluded_blocks
from enginebench_controller.verdicts.recommend.candidates import Reading, Step, StepPurpose, StepTaken
from enginebench_controller.verdicts.words import failure_sentence

_MEDIAN = 50.0


@dataclass(frozen=True)
class Figures:
    """What one process showed; `limited_ns` is the percentile that is limited, None where none is."""

    throughput_items_per_s: float
    median_ns: float
    limited_ns: float | None
    peak_rss_bytes: int | None


@dataclass(frozen=True)
class StoredStep:
    """A step that was carried out: its benchmark, and the figures of each candidate's processes, in their order."""

    benchmark_id: str
    taken: StepTaken
    figures: Mapping[int, Sequence[Figures]]


def stored_step(
    store: Store,
    order: RecommendOrder,
    points: Sequence[Point],
    step: Step,
    benchmark: Benchmark,
    earlier: Iterable[StoredStep] = (),
    ended_at_unix_ns: int | None = None,
) -> StoredStep:
    """What a step came to. Refused is whose outputs differ from those of others, in this step or an `earlier` one.

    Where nobody says when it ended, that is the end of its last process.
    """
    place_of = {identity(one.case): place for place, one in enumerate(points)}
    measured = {}
    for one in store.measurements(benchmark.id):
        key = identity_of(one.engine.name, one.engine.environment, one.model_digest, one.configuration)
        if key in place_of:
            measured[place_of[key]] = one
    others = [one for step in earlier for one in store.measurements(step.benchmark_id, with_blocks=False)]
    refused = dict(_wrong(measured, others, store.models()))
    figures: dict[int, Sequence[Figures]] = {}
    for place in step.candidates:
        seen = measured.get(place)
        if seen is None:
            continue  # the step was interrupted
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
        StepTaken(step, rounds, refused, _seconds(benchmark, measured.values(), ended_at_unix_ns)),
        figures,
    )


def step_of(points: Sequence[Point], benchmark: Benchmark, look_s: float) -> Step:
    """The step that a stored benchmark is, of its own plan; points that are no more are left out."""
    place_of = {_written(one.fields): place for place, one in enumerate(points)}
    rounds = benchmark.plan["processes"]
    process_s = parse_duration_ns(benchmark.plan["duration"]) / 1e9 / rounds
    places = [place_of.get(_written(rung["fields"])) for rung in benchmark.plan["rungs"]]
    purpose = StepPurpose.LOOK if process_s <= look_s else StepPurpose.CONFIRM
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
        found.append(Figures(process.throughput_items_per_s, process.median_ns, limited.get(process.index), peak))
    return found


def reading_of(order: RecommendOrder, one: Figures) -> Reading:
    """What the search is to know of a process."""
    cost = {
        Goal.THROUGHPUT: -log(one.throughput_items_per_s),
        Goal.LATENCY: log(one.median_ns),
        Goal.MEMORY: log(one.peak_rss_bytes or 1),
    }[order.goal]
    excess = []
    if order.latency_limit is not None and one.limited_ns is not None:
        excess.append(log(one.limited_ns / order.latency_limit.limit_ns))
    if order.memory_limit_bytes is not None and one.peak_rss_bytes is not None:
        excess.append(log(one.peak_rss_bytes / order.memory_limit_bytes))
    return Reading(cost, tuple(excess))


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
    left_out = excluded_blocks(one)
    of_process: dict[int, list[float]] = {}
    for block in samples:
        if (block.process, block.block) not in left_out:
            of_process.setdefault(block.process, []).extend(block.latency_ns.tolist())
    percent = order.latency_limit.percent
    return {process: percentile_ns(values, percent) for process, values in of_process.items() if values}


def _wrong(
    measured: Mapping[int, Measurement], others: Sequence[Measurement], models: Sequence[ModelVersion]
) -> Iterable[tuple[int, str]]:
    checks = check_outputs([*others, *measured.values()], models)
    for place, one in measured.items():
        if (check := checks.get(one.id)) is not None and check.problem:
            yield place, f"its outputs are wrong: {check.problem}"


def _why_not(one: Measurement) -> str:
    return failure_sentence(one.failure) if one.failure else "it has no numbers, and no reason was kept"


def _peak_rss_bytes(process: Process) -> int | None:
    return max((phase.peak_rss_bytes for phase in process.phases if phase.peak_rss_bytes is not None), default=None)


def _seconds(benchmark: Benchmark, measured: Iterable[Measurement], ended_at_unix_ns: int | None) -> float:
    """From the beginning of a benchmark to its end."""
    ends = [
        process.started_at_unix_ns + sum(phase.duration_ns for phase in process.phases)
        for one in measured
        for process in one.processes
        if process.started_at_unix_ns is not None
    ]
    ended = ended_at_unix_ns or max(ends, default=benchmark.created_at_unix_ns)
    return max(0.0, (ended - benchmark.created_at_unix_ns) / 1e9)
