"""Whether the latency of a process still moved while it was measured, though its warm-up had found it steady."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from enginebench_controller.records import BlockSamples
from enginebench_controller.stats import welch
from enginebench_controller.stats.summary import Excluded

FEWEST_BLOCKS = 12
"""With fewer blocks their halves are too small to differ by more than chance."""

LARGEST_CHANGE = 0.03
"""Halves that differ by less are alike."""

SIGNIFICANCE = 0.01
"""And so are those that would differ as much by chance once in a hundred processes."""


@dataclass(frozen=True)
class Halves:
    """`change`: the median block of the second half ÷ that of the first, less 1; `p_value` that of equal halves."""

    change: float
    p_value: float

    @property
    def is_drift(self) -> bool:
        """Whether the change is too large, and too unlikely, to be passed over."""
        return abs(self.change) > LARGEST_CHANGE and self.p_value < SIGNIFICANCE


def drifts(samples: Iterable[BlockSamples], excluded: Excluded = ()) -> dict[int, float]:
    """The change of each process that drifted, by its index; processes that stayed as they were are left out.

    `samples` are iterated once. The halves are those of the blocks in their order.
    """
    medians: dict[int, dict[int, float]] = {}
    for one in samples:
        if one.latency_ns.size and (one.process, one.block) not in excluded:
            medians.setdefault(one.process, {})[one.block] = float(np.median(one.latency_ns))
    compared = {process: compare_halves([own[block] for block in sorted(own)]) for process, own in medians.items()}
    return {process: halves.change for process, halves in compared.items() if halves and halves.is_drift}


def compare_halves(medians_ns: list[float]) -> Halves | None:
    """Compare the two halves of a process's blocks, given their medians in order; None for too few blocks or zeros.

    The p-value is that of Welch's t test on the logarithms, with the blocks as observations.
    """
    values = np.asarray(medians_ns, dtype=np.float64)
    if values.size < FEWEST_BLOCKS or values.min() <= 0:
        return None
    first, second = values[: values.size // 2], values[values.size // 2 :]
    change = float(np.median(second) / np.median(first)) - 1
    return Halves(change, welch.p_value(*welch.difference(np.log(first), np.log(second))))
