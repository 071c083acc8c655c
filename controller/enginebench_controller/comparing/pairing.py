"""Which measurements of one or two benchmarks can be compared, and what comes of it: engine against engine within one
benchmark, version against version across two.
"""

import itertools
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from enginebench_controller.documents.reading_order import in_reading_order
from enginebench_controller.records import BlockSamples, Measurement, ModelVersion
from enginebench_controller.stats.comparison import PRACTICAL, Comparison, Side, compare, corrected
from enginebench_controller.trust.output_check import check_outputs
from enginebench_controller.trust.parity import unequal

Pair = tuple[Measurement, Measurement]

ReadSamples = Callable[[str], Iterable[BlockSamples]]
"""The raw samples of a measurement, by its id."""


@dataclass(frozen=True)
class Compared:
    """Two measurements of the same work, the second compared with the first; `remarks` say where they are unlike."""

    first: Measurement
    second: Measurement
    is_paired: bool
    comparison: Comparison
    remarks: tuple[str, ...]


def pairs_within(measurements: Iterable[Measurement]) -> Iterator[Pair]:
    """Every two measurements of the same work in one benchmark: other engines, versions or precisions."""
    for group in _by_work(measurements, _work_and_target).values():
        yield from itertools.combinations(group, 2)


def pairs_across(first: Collection[Measurement], second: Collection[Measurement]) -> Iterator[Pair]:
    """Every measurement of the first benchmark with its like in the second: the same work, engine and precision.

    Targets must agree only where a benchmark has several. Among several environments of an engine the one of the same
    name is its like.
    """
    one_target_each = all(len({one.target for one in side}) == 1 for side in (first, second))
    key = _work if one_target_each else _work_and_target
    left, right = (_by_work(side, lambda one: (key(one), *_engine(one))) for side in (first, second))
    for work, group in left.items():
        for one in group:
            like = right.get(work, [])
            same = [other for other in like if other.engine.environment == one.engine.environment]
            yield from ((one, other) for other in same or like)


def compare_pairs(
    pairs: Iterable[Pair], read: ReadSamples, models: Collection[ModelVersion] = (), practical: float = PRACTICAL
) -> tuple[Compared, ...]:
    """Compare each pair; p-values are corrected for their number. The measurements must have been read with blocks.

    `models`, all those of the store, tell which versions are to compute the same.
    """
    sides: dict[str, Side] = {}
    compared = [_compare(first, second, sides, read, models, practical) for first, second in pairs]
    final = corrected([one.comparison for one in compared])
    return tuple(replace(one, comparison=comparison) for one, comparison in zip(compared, final, strict=True))


def _compare(
    first: Measurement,
    second: Measurement,
    sides: dict[str, Side],
    read: ReadSamples,
    models: Collection[ModelVersion],
    practical: float,
) -> Compared:
    for one in (first, second):
        if one.id not in sides:
            sides[one.id] = Side.of(read(one.id), excluded_blocks(one))
    is_paired = first.interleaving_group is not None and first.interleaving_group == second.interleaving_group
    comparison = compare(sides[first.id], sides[second.id], paired=is_paired, practical=practical)
    return Compared(first, second, is_paired, comparison, tuple(remarks(first, second, models)))


def excluded_blocks(measurement: Measurement) -> frozenset[tuple[int, int]]:
    """The blocks that count for nothing in the measurement's own statistics."""
    if measurement.latency is None or not measurement.latency.excluded:
        return frozenset()
    return frozenset((block.process, block.index) for block in measurement.blocks if block.disturbances)


def remarks(first: Measurement, second: Measurement, models: Collection[ModelVersion]) -> Iterator[str]:
    """A sentence for each way in which two measurements that are compared are unlike, or compute unlike outputs."""
    if first.target != second.target:
        yield f"targets differ: {first.target} and {second.target}"
    if first.model_digest != second.model_digest:
        yield f"model files differ: {first.model_digest[:12]} and {second.model_digest[:12]}"
    yield from unequal([first, second])
    checks = check_outputs([first, second], models)
    yield from dict.fromkeys(check.problem for check in checks.values() if check.problem)


def _by_work(
    measurements: Iterable[Measurement], key: Callable[[Measurement], object]
) -> dict[object, list[Measurement]]:
    groups: dict[object, list[Measurement]] = defaultdict(list)
    for measurement in in_reading_order(measurements):
        if measurement.latency is not None:
            groups[key(measurement)].append(measurement)
    return groups


def _work(measurement: Measurement) -> tuple[object, ...]:
    asked = measurement.configuration
    axes = (asked.batch, asked.cores, asked.streams, asked.hint, asked.load, asked.requests, asked.arrivals)
    return (measurement.model_name, asked.device, *axes)


def _work_and_target(measurement: Measurement) -> tuple[object, ...]:
    return (measurement.target, *_work(measurement))


def _engine(measurement: Measurement) -> tuple[str, str]:
    return measurement.engine.name, measurement.configuration.precision
