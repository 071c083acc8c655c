"""The time of layers that stand in one row, with what is known of its noise."""

from collections.abc import Sequence

import numpy as np

from enginebench_controller.records import Layer
from enginebench_controller.stats.mean_ratio import Mean, mean_of, sum_of


def mean_time(layers: Sequence[Layer]) -> Mean | None:
    """The mean time in nanoseconds of all these layers in one inference; None without any time or with a single one.

    They are added inference by inference, since they share its luck, where each has a time for every inference.
    """
    timed = [np.asarray(layer.time_ns, dtype=np.float64) for layer in layers if layer.time_ns]
    if not timed:
        return None
    if len(timed) == 1:
        return mean_of(timed[0])
    if len({times.size for times in timed}) == 1:
        return mean_of(np.sum(timed, axis=0))
    means = [mean for mean in map(mean_of, timed) if mean is not None]
    return sum_of(means) if len(means) == len(timed) else None
