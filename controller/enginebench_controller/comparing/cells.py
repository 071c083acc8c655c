"""One measurement compared with others of a page, from what their blocks add up to: no raw sample is read."""

from collections.abc import Collection, Mapping, Sequence

from enginebench_controller.comparing.pairing import NOTHING_ENDED_EARLY, Compared, excluded_blocks, remarks
from enginebench_controller.records import Measurement, ModelVersion
from enginebench_controller.stats.comparison import Side, compare, corrected
from enginebench_controller.stats.mean_latency import BlockLatency

Blocks = Mapping[str, Sequence[BlockLatency]]
"""The blocks of each measurement, by its id."""


def compare_cells(
    first: Measurement,
    others: Sequence[Measurement],
    blocks: Blocks,
    models: Collection[ModelVersion] = (),
    planned: Mapping[str, int] = NOTHING_ENDED_EARLY,
) -> tuple[Compared, ...]:
    """Compare each of the others with the first; p-values are corrected for their number.

    All must have numbers. The same as `pairing.compare_pairs`, to the rounding of medians. `models`, all those of the
    store, tell which versions are to compute the same; `planned` is `pairing.planned_processes`.
    """
    paired = [_is_paired(first, other) for other in others]
    sides = [_side(one, blocks.get(one.id, ()), planned.get(one.benchmark_id)) for one in (first, *others)]
    found = [compare(sides[0], side, paired=is_paired) for side, is_paired in zip(sides[1:], paired, strict=True)]
    return tuple(
        Compared(first, other, is_paired, comparison, tuple(remarks(first, other, models)))
        for other, is_paired, comparison in zip(others, paired, corrected(found), strict=True)
    )


def _is_paired(first: Measurement, second: Measurement) -> bool:
    return first.interleaving_group is not None and first.interleaving_group == second.interleaving_group


def _side(measurement: Measurement, blocks: Sequence[BlockLatency], planned: int | None) -> Side:
    excluded = excluded_blocks(measurement)
    counted = {(one.process, one.block): one.median_ns for one in blocks if (one.process, one.block) not in excluded}
    medians = {one.index: one.median_ns for one in measurement.processes if one.median_ns is not None}
    return Side(counted, medians, planned)
